"""What is to be checked: the cases of Runs, config lines and the operator catalogue, one after the other.

A source is one or more **parts**: a Run, a file, a pattern of operators. A part gives its items in order, each with a
mark from which on it can be read again later: a million lines are never in memory at once, and what was read once need
not be read again. An item is a case or, where a call or a line cannot be one, the reason; none is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import glob
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trueline.cases import Case, Target
from trueline.errors import UsageError
from trueline.replay.refusals import case_refusal
from trueline.replay.selection import Selection, split_source

if TYPE_CHECKING:
    from trueline.formats.configs import Config

Source = str | os.PathLike[str]
Mark = tuple[int, int]
"""How many items, or lines, of a part have been read, and the byte where the next one begins."""
START: Mark = (0, 0)

_STRIDE = 0x9E3779B97F4A7C15
"""Odd and large: other seeds give other numbers everywhere."""
_MOST_TOLD = 20
"""Of the lines of a file that cannot be read, so many are told one by one."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Skip:
    """``count`` calls, or one line, that became no case. ``place`` is where it stands, empty where there are many."""

    reason: str
    count: int = 1
    place: str = ""
    unread: bool = False
    """A line that is no config."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a part gives: a case, or why there is none; and from where on to read the next one."""

    content: Case | Skip
    mark: Mark


class Part(Protocol):
    """One source. ``identity`` tells it from others of the same name."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def items(self, start: Mark = START) -> Iterator[Item]:
        """What it holds, from a mark on."""

    def calls(self, start: Mark = START) -> int:
        """How many calls, or lines, there are from a mark on."""


def parts_of(sources: Sequence[Source], ops: Sequence[str], seed: int, target: Target) -> list[Part]:
    """The parts of all sources. What cannot be a source is an error now, not when it is read."""
    if not sources and not ops:
        raise UsageError("no source: give the folder of a Run, a file of config lines, or operators "
                         "(--ops 'torch.nn.functional.*')")  # fmt: skip
    parts: list[Part] = [part for source in sources for part in _parts_of_source(os.fspath(source), seed, target)]
    parts += [_part_of_operators(pattern, seed, target) for pattern in ops]
    return parts


def _parts_of_source(source: str, seed: int, target: Target) -> Iterator[Part]:
    text, only = split_source(source)
    for path in _paths_of(text):
        if only is not None and path.is_file():
            raise UsageError(f"{path} is a file: a call can be named of a Run only")
        yield ConfigPart.of(path, seed, target) if path.is_file() else _part_of_run(path, seed, target, only)


def _paths_of(text: str) -> list[Path]:
    """The paths of a source: itself, or what its pattern matches."""
    if os.path.exists(text) or not any(sign in text for sign in "*?["):
        return [Path(text)]
    found = sorted(Path(name) for name in glob(text, recursive=True))
    if not found:
        raise UsageError(f"nothing matches {text}")
    return found


@dataclass(frozen=True, slots=True)
class ListedPart:
    """Items that are few enough to be held: of a Run, whose calls were merged, or of the catalogue."""

    name: str
    identity: str
    contents: tuple[Case | Skip, ...]

    def items(self, start: Mark = START) -> Iterator[Item]:
        for position, content in enumerate(self.contents[start[0] :], start[0] + 1):
            yield Item(content, (position, 0))

    def calls(self, start: Mark = START) -> int:
        return sum(content.count for content in self.contents[start[0] :])


def _part_of_run(path: Path, seed: int, target: Target, only: Selection | None) -> Part:
    from trueline.replay.cases import cases_from_run
    from trueline.store import open_run

    with open_run(path) as run:
        created = f"{path.resolve()} of {run.info.created}"
    planned = cases_from_run(path, seed=seed, overridden=tuple(target.overrides), only=only)
    skipped = (Skip(reason, count) for reason, count in planned.skipped.items())
    named = "" if only is None else f"::{only}"
    return ListedPart(f"{path}{named}", f"{created}{named}", (*planned.cases, *skipped))


def _part_of_operators(pattern: str, seed: int, target: Target) -> Part:
    """Operators of the catalogue or, where Paddle's are meant, of the mapping, whose rows have examples."""
    known = pattern.partition(".")[0]
    if known == "paddle" or (known != "torch" and target.framework == "paddle"):
        cases = _examples(pattern, seed)
    else:
        from trueline.campaign.edges import with_edges
        from trueline.ops.catalogue import catalogue_cases

        made = with_edges(catalogue_cases(pattern, target.dtype or "float32"), target.overrides)
        cases = [replace(case, seed=(case.seed + seed * _STRIDE) % 2**63) for case in made]
    return ListedPart(f"ops {pattern}", f"ops {pattern}", tuple(cases))


def _examples(pattern: str, seed: int) -> list[Case]:
    from trueline.formats.configs import parse_config
    from trueline.ops.mapping import rows

    known = rows()
    chosen = [row for name, row in known.items() if fnmatchcase(name, pattern)]
    if not chosen:
        raise UsageError(f"no operator is called {pattern!r}; there are {len(known)} of Paddle's in the mapping, "
                         "for example paddle.nn.functional.gelu")  # fmt: skip
    lines = [line for row in chosen for line in row.examples]
    return [_case_of_config(parse_config(line), line, line, seed) for line in lines]


@dataclass(frozen=True, slots=True)
class ConfigPart:
    """The lines of a file, a case each. Empty lines and comments are none."""

    path: Path
    seed: int
    overridden: tuple[str, ...]
    identity: str

    @classmethod
    def of(cls, path: Path, seed: int, target: Target) -> ConfigPart:
        part = cls(path, seed, tuple(target.overrides), f"{path.resolve()} {_digest(path)}")
        unread = None
        for item in part.items():
            if not isinstance(item.content, Skip) or not item.content.unread:
                return part
            unread = unread or item.content
        if unread is not None:
            raise UsageError(f"{path} is neither a Run nor a file of config lines: there is no line that can be read; "
                             f"the first: {unread.reason}")  # fmt: skip
        return part

    @property
    def name(self) -> str:
        return str(self.path)

    def items(self, start: Mark = START) -> Iterator[Item]:
        for mark, raw in self._lines(start):
            yield Item(self._content(raw, mark[0]), mark)

    def calls(self, start: Mark = START) -> int:
        return sum(1 for _ in self._lines(start))

    def _lines(self, start: Mark) -> Iterator[tuple[Mark, bytes]]:
        from trueline.formats.configs import MOST_LINE

        number, offset = start
        with open(self.path, "rb") as file:
            file.seek(offset)
            while raw := file.readline(MOST_LINE + 1):
                number += 1
                offset += len(raw)
                while len(raw) > MOST_LINE and not raw.endswith(b"\n") and (rest := file.readline(MOST_LINE)):
                    offset += len(rest)  # it is refused anyway: no file is one line of any length in memory
                    if rest.endswith(b"\n"):
                        break
                bare = raw.strip()
                if bare and not bare.startswith(b"#"):
                    yield (number, offset), bare

    def _content(self, raw: bytes, number: int) -> Case | Skip:
        from trueline.formats.configs import ConfigError, parse_config

        place = f"{self.path}:{number}"
        try:
            line = raw.decode("utf-8")
            case = _case_of_config(parse_config(line, number), line, place, self.seed)
        except UnicodeDecodeError:
            return Skip(f"{place} cannot be read: it is not UTF-8", place=place, unread=True)
        except ConfigError as error:
            return Skip(f"{place} cannot be read: {error}", place=place, unread=True)
        reason = case_refusal(case, self.overridden)
        return Skip(reason, place=place) if reason else case


def _case_of_config(config: Config, line: str, place: str, seed: int) -> Case:
    from trueline.formats.configs import config_to_case
    from trueline.ops.domains import with_domains

    number = int.from_bytes(sha256(f"{seed} {line.strip()}".encode()).digest()[:8], "little") >> 1
    return with_domains(config_to_case(config, number, (place,)))


def _digest(path: Path) -> str:
    digest = sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()[:16]


class SkipCount:
    """Skipped calls by reason. Of lines that cannot be read each is a reason of its own; the first are told, the others
    counted."""

    def __init__(self, reasons: Mapping[str, int] | None = None, told: int = 0) -> None:
        self.reasons: dict[str, int] = dict(reasons or {})
        self.told = told

    def add(self, skip: Skip, part: Part) -> None:
        reason = skip.reason
        if skip.unread:
            self.told += 1
            if self.told > _MOST_TOLD:
                reason = f"more lines of {part.name} cannot be read"
        self.reasons[reason] = self.reasons.get(reason, 0) + skip.count


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of all sources, where they are few enough to be held. ``calls`` of the sources are each part of a case
    or counted in ``skipped`` by reason."""

    cases: tuple[Case, ...]
    calls: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


def plan_of(parts: Sequence[Part]) -> Plan:
    """Gathers the cases of all parts. Cases that are the same are one, with the sum of their counts."""
    merged: dict[str, Case] = {}
    skipped = SkipCount()
    calls = 0
    for part in parts:
        for item in part.items():
            calls += item.content.count
            if isinstance(item.content, Skip):
                skipped.add(item.content, part)
                continue
            key = item.content.key
            known = merged.get(key)
            merged[key] = item.content if known is None else replace(known, count=known.count + item.content.count)
    return Plan(tuple(merged.values()), calls, skipped.reasons, tuple(part.name for part in parts))
