"""What is to be checked: the cases of Runs, config lines and the operator catalogue, merged, with nothing lost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import glob
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cases import Case, Target
from trueline.errors import UsageError
from trueline.replay.refusals import case_refusal

if TYPE_CHECKING:
    from trueline.formats.configs import Config

Source = str | os.PathLike[str]

_STRIDE = 0x9E3779B97F4A7C15
"""Odd and large: other seeds give other numbers everywhere."""
_MOST_TOLD = 20
"""Of the lines of a file that cannot be read, so many are told one by one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of all sources. ``calls`` of the sources are each part of a case or counted in ``skipped`` by reason;
    ``identity`` tells these sources from others of the same name."""

    cases: tuple[Case, ...]
    calls: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()


def plan_of(sources: Sequence[Source], ops: Sequence[str], seed: int, target: Target) -> Plan:
    """Gathers the cases of all sources. Cases that are the same are one, with the sum of their counts."""
    if not sources and not ops:
        raise UsageError("no source: give the folder of a Run, a file of config lines, or operators "
                         "(--ops 'torch.nn.functional.*')")  # fmt: skip
    parts = [_cases_of(path, seed, target) for source in sources for path in _paths_of(source)]
    parts += [_cases_of_operators(pattern, seed, target) for pattern in ops]
    merged: dict[str, Case] = {}
    skipped: dict[str, int] = {}
    for part in parts:
        for case in part.cases:
            known = merged.get(case.key)
            merged[case.key] = case if known is None else replace(known, count=known.count + case.count)
        for reason, count in part.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    return Plan(
        tuple(merged.values()),
        sum(part.calls for part in parts),
        skipped,
        tuple(name for part in parts for name in part.names),
        tuple(name for part in parts for name in part.identity),
    )


def _paths_of(source: Source) -> list[Path]:
    """The paths of a source: itself, or what its pattern matches."""
    text = os.fspath(source)
    if os.path.exists(text) or not any(sign in text for sign in "*?["):
        return [Path(text)]
    found = sorted(Path(name) for name in glob(text, recursive=True))
    if not found:
        raise UsageError(f"nothing matches {text}")
    return found


def _cases_of(path: Path, seed: int, target: Target) -> Plan:
    return _cases_of_configs(path, seed, target) if path.is_file() else _cases_of_run(path, seed, target)


def _cases_of_run(path: Path, seed: int, target: Target) -> Plan:
    from trueline.replay.cases import cases_from_run
    from trueline.store import open_run

    with open_run(path) as run:
        created = f"{path.resolve()} of {run.info.created}"
    planned = cases_from_run(path, seed=seed, overridden=tuple(target.overrides))
    return Plan(tuple(planned.cases), planned.calls, dict(planned.skipped), (str(path),), (created,))


def _cases_of_configs(path: Path, seed: int, target: Target) -> Plan:
    """The lines of a file, a case each. A line that cannot be read is skipped and told; a file in which none can be
    read is an error."""
    from trueline.formats.configs import ConfigError, parse_configs

    content = path.read_bytes()
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is neither a Run nor a file of config lines: {error}") from None
    cases: list[Case] = []
    skipped: dict[str, int] = {}
    unread: list[str] = []
    for number, config in parse_configs(lines):
        place = f"{path}:{number}"
        try:
            if isinstance(config, ConfigError):
                raise config
            case = _case_of_config(config, lines[number - 1], place, seed)
        except ConfigError as error:
            unread.append(f"{place} cannot be read: {error}")
            continue
        reason = case_refusal(case, tuple(target.overrides))
        if reason:
            skipped[reason] = skipped.get(reason, 0) + 1
        else:
            cases.append(case)
    if unread and not cases and not skipped:
        raise UsageError(f"{path} has no line that can be read; the first: {unread[0]}")
    skipped.update(dict.fromkeys(unread[:_MOST_TOLD], 1))
    if len(unread) > _MOST_TOLD:
        skipped[f"more lines of {path} cannot be read"] = len(unread) - _MOST_TOLD
    calls = len(cases) + sum(skipped.values())
    return Plan(tuple(cases), calls, skipped, (str(path),), (f"{path.resolve()} {sha256(content).hexdigest()[:16]}",))


def _case_of_config(config: Config, line: str, place: str, seed: int) -> Case:
    from trueline.formats.configs import config_to_case
    from trueline.ops.domains import with_domains

    number = int.from_bytes(sha256(f"{seed} {line.strip()}".encode()).digest()[:8], "little") >> 1
    case = with_domains(config_to_case(config, number))
    return replace(case, calls=(place,))


def _cases_of_operators(pattern: str, seed: int, target: Target) -> Plan:
    """Operators of the catalogue or, where Paddle's are meant, of the mapping, whose rows have examples."""
    known = pattern.partition(".")[0]
    if known == "paddle" or (known != "torch" and target.framework == "paddle"):
        cases = _examples(pattern, seed)
    else:
        from trueline.ops.catalogue import catalogue_cases

        made = catalogue_cases(pattern, target.dtype or "float32")
        cases = [replace(case, seed=(case.seed + seed * _STRIDE) % 2**63) for case in made]
    return Plan(tuple(cases), len(cases), {}, (f"ops {pattern}",), (f"ops {pattern}",))


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
