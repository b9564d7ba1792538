"""A Run -> the files of another tool."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trueline.errors import UsageError
from trueline.exchange.outgoing import calls_of, widened
from trueline.formats import apex, checker_json, msprobe, msprobe_writer, ptdbg
from trueline.formats.foreign import ForeignCall, Sources
from trueline.records import Call, Level
from trueline.store.reader import Run, open_run

Source = str | os.PathLike[str] | Run
Choice = Callable[[Call], bool]


@dataclass(slots=True)
class Sent:
    """What an export wrote. ``left_out`` counts calls that the format cannot say and ``unsaid`` tensors of calls that
    it can, by reason."""

    path: Path
    format: str
    calls: int = 0
    tensors: int = 0
    files: list[Path] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unsaid: Counter[str] = field(default_factory=Counter)


class _Writer(Protocol):
    calls: int
    tensors: int
    unsaid: Counter[str]

    def add(self, call: ForeignCall) -> None: ...

    def close(self) -> None: ...


def write_msprobe(
    run: Source,
    folder: str | os.PathLike[str],
    *,
    data: str | None = None,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    choose: Choice | None = None,
) -> Sent:
    """Writes ``step<N>/rank<R>/dump.json`` and what belongs to it, for msprobe's own compare. ``data`` is pt or npy, or
    empty for statistics alone; None writes the tensors that the Run has."""
    with _Export(run, folder, msprobe.NAME, steps, ranks) as export:
        kind = ("pt" if export.stored else "") if data is None else data
        if kind not in ("pt", "npy", ""):
            raise UsageError(f"tensors are written as pt or npy, not {kind!r}")
        for rank, step in export.parts():
            folder_writer = msprobe_writer.Writer(export.out, rank, step, widen=widened, level=export.level, data=kind)
            export.fill(folder_writer, rank, [step], lambda call: _raised(call) or _chosen(choose, call))
            export.sent.files.append(folder_writer.folder / "dump.json")
        return export.sent


def write_ptdbg(
    run: Source,
    folder: str | os.PathLike[str],
    *,
    name: str = "dump",
    data: str | None = None,
    values: int = 4,
    stacks: bool = True,
    integers: bool = True,
    tensors: bool = True,
    sources: Sources | None = None,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    choose: Choice | None = None,
    exist_ok: bool = False,
) -> Sent:
    """Writes ``rank<R>/<name>.pkl`` and the npy files in ``rank<R>/<data>``.

    ``data`` is the folder's name, as ``name`` where it is None, empty for no tensors. ``values`` is how many of max,
    min, mean and norm are said. Without ``integers`` neither integer nor bool tensors nor plain numbers are written
    (``filter_switch``); without ``tensors`` stacks alone. ``sources`` gives the text of a line of a file, for the
    stacks. Several steps go into one file: calls are numbered on, as ptdbg does.
    """
    with _Export(run, folder, ptdbg.NAME, steps, ranks, exist_ok) as export:
        kept = (name if export.stored else "") if data is None else data
        for rank in export.ranks:
            writer = ptdbg.Writer(
                export.out / f"rank{rank}", name, widen=widened, data=kept, values=values, stacks=stacks,
                integers=integers, tensors=tensors, sources=sources,
            )  # fmt: skip
            chosen = [step for one, step in export.parts() if one == rank]
            export.fill(writer, rank, chosen, lambda call: _raised(call) or _chosen(choose, call), numbered_on=True)
            export.sent.files.append(writer.path)
        return export.sent


def write_checker_json(
    run: Source,
    folder: str | os.PathLike[str],
    *,
    real: bool = False,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    choose: Choice | None = None,
    process: int | None = None,
    sources: Sources | None = None,
    exist_ok: bool = False,
) -> Sent:
    """Writes forward_info, backward_info and stack_info, in ``step<N>`` where there are several steps. The number in
    their names is the rank, or ``process``. ``real`` also writes the tensors that the Run has; ``sources`` gives the
    text of a line of a file, for the stacks."""
    with _Export(run, folder, checker_json.NAME, steps, ranks, exist_ok) as export:
        several = len({step for _, step in export.parts()}) > 1
        for rank, step in export.parts():
            place = export.out / f"step{step}" if several else export.out
            number = rank if process is None else process
            writer = checker_json.Writer(place, number, real=real, sources=sources)
            export.fill(writer, rank, [step], lambda call: _of_torch(call) or _chosen(choose, call))
            export.sent.files.append(place / f"forward_info_{number}.json")
        return export.sent


def write_apex(
    run: Source,
    folder: str | os.PathLike[str],
    *,
    real: bool = False,
    unique: bool = False,
    split: bool = True,
    tensors: str | os.PathLike[str] | None = None,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    choose: Choice | None = None,
    exist_ok: bool = False,
    as_document: bool = False,
) -> Sent:
    """Writes ``rank<R>_step<S>/forward_rank<R>_all.json`` (with ``split`` also ``_half`` and ``_other``). ``real`` also
    writes the tensors that the Run has; ``unique`` keeps one of several entries that are alike; ``tensors`` is another
    folder for the tensors; ``as_document`` calls them ``Paddle*add*0.0.pt``, as PaddleAPEX's document does."""
    with _Export(run, folder, apex.NAME, steps, ranks, exist_ok) as export:
        for rank, step in export.parts():
            writer = apex.Writer(
                export.out, rank, step, real=real, unique=unique, split=split,
                tensors=None if tensors is None else Path(tensors), as_document=as_document,
            )  # fmt: skip
            export.fill(writer, rank, [step], lambda call: _of_paddle(call) or _chosen(choose, call))
            export.sent.files.append(writer.folder / f"forward_rank{rank}_all.json")
        return export.sent


WRITERS: Mapping[str, Callable[..., Sent]] = {
    msprobe.NAME: write_msprobe,
    ptdbg.NAME: write_ptdbg,
    checker_json.NAME: write_checker_json,
    apex.NAME: write_apex,
}


def export_run(
    run: Source,
    out: str | os.PathLike[str],
    *,
    format: str,
    tensors: bool = True,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
) -> Sent:
    """Writes a Run as another tool's dump: msprobe, ptdbg, checker or apex. The folder must not exist.

    trueline.export_run("runs/a", "dump/a", format="msprobe")
    """
    if format not in WRITERS:
        raise UsageError(f"unknown format {format!r}; known: {', '.join(WRITERS)}")
    if format in (msprobe.NAME, ptdbg.NAME):
        return WRITERS[format](run, out, data=None if tensors else "", steps=steps, ranks=ranks)
    return WRITERS[format](run, out, real=tensors, steps=steps, ranks=ranks)


class _Export:
    """One export: the Run that is opened, the folder that is made, what goes into it."""

    def __init__(
        self,
        run: Source,
        folder: str | os.PathLike[str],
        format: str,
        steps: Sequence[int] | None,
        ranks: Sequence[int] | None,
        exist_ok: bool = False,
    ) -> None:
        self.out = Path(folder)
        self._own = not isinstance(run, Run)
        self._made = not self.out.exists()
        if not self._made and not exist_ok:
            raise UsageError(f"{self.out} exists already; choose another folder or remove the old one")
        self.run = run if isinstance(run, Run) else open_run(run)
        self.ranks = self._wanted("rank", self.run.ranks, ranks)
        self._steps = steps
        self.sent = Sent(self.out, format)

    def __enter__(self) -> _Export:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._own:
            self.run.close()
        if kind is not None and self._made:
            shutil.rmtree(self.out, ignore_errors=True)
        elif not self.sent.calls and kind is None:
            if self._made:
                shutil.rmtree(self.out, ignore_errors=True)
            reasons = "; ".join(reason for reason, _ in self.sent.left_out.most_common(3)) or "it has no calls"
            raise UsageError(f"nothing of {self.run.path} can be written for {self.sent.format}: {reasons}")

    @property
    def stored(self) -> bool:
        return any(self.run.rank(rank).trace().stored for rank in self.ranks)

    @property
    def level(self) -> str:
        """msprobe's word for what was captured."""
        seen = {name.split()[0] for rank in self.ranks for name in self.run.rank(rank).certificate.calls}
        return "mix" if {"api", "module"} <= seen else "L0" if "module" in seen else "L1"

    def parts(self) -> Iterator[tuple[int, int]]:
        for rank in self.ranks:
            for step in self._wanted("step", self.run.rank(rank).steps, self._steps):
                yield rank, step

    def fill(
        self,
        writer: _Writer,
        rank: int,
        steps: Sequence[int],
        refused: Callable[[Call], str],
        *,
        numbered_on: bool = False,
    ) -> None:
        """Gives the calls of a rank to a writer, but those that are refused for a reason."""
        before: Counter[str] = Counter()
        try:
            for step in steps:
                highest: dict[str, int] = {}
                for call, foreign in calls_of(self.run.rank(rank), step):
                    reason = refused(call)
                    if reason:
                        self.sent.left_out[reason] += 1
                        continue
                    highest[call.api] = max(highest.get(call.api, -1), call.index)
                    if numbered_on:
                        foreign.index += before[call.api]
                    writer.add(foreign)
                before.update({api: index + 1 for api, index in highest.items()})
        finally:
            writer.close()
        self.sent.calls += writer.calls
        self.sent.tensors += writer.tensors
        self.sent.unsaid.update(+writer.unsaid)

    def _wanted(self, what: str, there: Sequence[int], wanted: Sequence[int] | None) -> tuple[int, ...]:
        if wanted is None:
            return tuple(there)
        chosen = tuple(number for number in there if number in wanted)
        if not chosen:
            raise UsageError(f"{self.run.path} has no {what} {list(wanted)}; it has {list(there)[:16]}")
        return chosen


def _chosen(choose: Choice | None, call: Call) -> str:
    return "" if choose is None or choose(call) else "not asked for"


def _raised(call: Call) -> str:
    return "the call did not return" if call.raised else ""


def _of_torch(call: Call) -> str:
    if call.level is not Level.API:
        return f"a call of a {call.level.value}: api_accuracy_checker knows APIs alone"
    if call.api.startswith("paddle."):
        return "a call of Paddle: api_accuracy_checker knows torch alone"
    return _raised(call)


def _of_paddle(call: Call) -> str:
    if call.level is not Level.API:
        return f"a call of a {call.level.value}: PaddleAPEX knows APIs alone"
    if not call.api.startswith("paddle."):
        return "a call of torch: PaddleAPEX knows Paddle alone"
    return _raised(call)
