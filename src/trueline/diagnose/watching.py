"""``watch``: a light look at every call for as long as a program runs, with an explanation ready when something breaks.

    with trueline.watch("runs/watch") as watched:
        for batch in loader:
            train_step(batch)          # steps are found from optimizer.step(), or told by watched.step()
    watched.events                     # overflows, what was meant, what is coming
    watched.report                     # as trueline.overflow gives it

The folder is a Run: the calls before each overflow, with the tensors of those near its origin. ``overflow-rank0.txt``
beside it is the report, on disk before the program goes on.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trueline.capture.watch import Watch
from trueline.capture.watch_events import Explained
from trueline.capture.watch_options import make_watch_options
from trueline.diagnose.headroom import candidates, forecast_of
from trueline.diagnose.overflow import overflow
from trueline.diagnose.watched import watched_of
from trueline.dtypes import limit_of
from trueline.errors import UsageError
from trueline.overflows import Birth, Forecast, Nature, OverflowKind, OverflowReport, WatchEvent
from trueline.report.overflow_files import write_overflow_json
from trueline.report.overflow_text import birth_sentence, event_blocks, forecast_sentence, overflow_blocks
from trueline.report.terminal import plain
from trueline.store.watch_log import WatchLog, watched_ranks
from trueline.store.writer import rank_folder

_MOST_FORETOLD = 3
"""Calls that are told at a time: what follows them grows with them."""


def watch(
    path: str | os.PathLike[str] | None = None,
    *,
    steps: Sequence[int] | str | int | None = None,
    ranks: Sequence[int] | str | int | None = None,
    overflow_nums: int | None = None,
    exit_after: bool = False,
    look_back: int = 64,
    rotation: int | None = None,
    hold: float = 0.25,
    backward: bool = True,
    whole: bool = False,
    budget: float = 0.03,
    on_overflow: Callable[[WatchEvent], None] | None = None,
    framework: str = "auto",
) -> OverflowWatch:
    """Watches a program for NaN, infinity and numbers that come near the limits of their dtypes.

    Use it as a context manager, or call ``start()`` and ``stop()``. Without ``path`` nothing is written until something
    breaks; the folder is then made beside the program. ``overflow_nums`` ends the watch after so many bad steps,
    counted by each rank for itself, and with ``exit_after`` the program too, cleanly. ``look_back`` is how many calls
    before the origin are kept with their tensors. Every call is looked at in each ``rotation``-th step (every fourth;
    on a GPU every 64th of those that are recorded), at tensors of more than 131,072 elements a part, another one each
    time; at all of what a step gives away (loss, gradients of
    parameters) in each. When something bad is seen, all that the step still holds is read whole: the origin and its
    counts are exact, headroom is of the part that was seen. ``whole`` looks at everything in every step. ``hold`` is
    the memory that may be held back for that: a share of what is free, or bytes. ``on_overflow`` is called with each
    event in the thread that trains, at the end of the step. On a GPU nothing is held: calls are recorded so that a step
    that turns out bad can be computed again, in as many steps as fit ``budget``, a share of the time that a step
    takes. ``steps``, ``ranks`` and ``framework`` as in ``capture``.
    """
    options = make_watch_options(
        steps=steps,
        ranks=ranks,
        overflow_nums=overflow_nums,
        exit_after=exit_after,
        look_back=look_back,
        rotation=rotation,
        hold=hold,
        backward=backward,
        whole=whole,
        budget=budget,
    )
    return OverflowWatch(None if path is None else Path(path), options, framework, OverflowAnalyst(), on_overflow)


class OverflowWatch(Watch):
    """A watch with its report."""

    @property
    def report(self) -> OverflowReport:
        """What was found so far, all ranks together, each call executed again to see whether it had to happen."""
        if self.path is None:
            raise UsageError("nothing was found, and without a path nothing is kept; give watch(path) one")
        return overflow(self.path)


class OverflowAnalyst:
    """Explains what a watch found, by reading its Run. Nothing is executed here: that would change what the program's
    random numbers are, and take its time."""

    def __init__(self) -> None:
        self._report: OverflowReport | None = None
        self._limits: list[float] = []
        self._told: set[int] = set()

    def explain(self, run: Path, rank: int, step: int) -> Explained:
        self._report = overflow(run, replay=False, forecast=False, ranks=(rank,))
        births = [birth for birth in self._report.births if birth.call.step == step]
        alarms = [birth for birth in births if birth.alarm]
        if alarms:
            return Explained(f"step {step}: {birth_sentence(alarms[0])}", alarms[0])
        scaled = next((birth for birth in births if _is_probe(birth)), None)
        if scaled is not None:
            return Explained(f"step {step}: {scaled.call.name}: {scaled.why}", meant=True)
        return Explained("")

    def foresee(self, log: WatchLog, rank: int) -> Sequence[tuple[Forecast, str]]:
        series = log.series
        self._limits += [limit_of(series[number].dtype) for number in range(len(self._limits), len(series))]
        found = []
        for number in candidates(log.recent, np.array(self._limits)):
            if number in self._told:
                continue
            forecast = forecast_of(series[number], *log.recent.of(number), rank)
            if forecast is not None:
                self._told.add(number)
                found.append((forecast, forecast_sentence(forecast)))
        return sorted(found, key=lambda pair: pair[0].step)[:_MOST_FORETOLD]

    def put_down(self, run: Path, rank: int, events: Sequence[WatchEvent]) -> Path:
        text, data = io.StringIO(), io.StringIO()
        text.write(plain(event_blocks(events)))
        if self._report is not None:
            logs = watched_ranks([(rank, rank_folder(run, rank))])  # what was just found is there, not in the report
            report = replace(self._report, watched=tuple(watched_of(one, log) for one, log in logs.items()))
            text.write("\n" + plain(overflow_blocks(report)))
            write_overflow_json(report, data, events)
            _put(run / f"overflow-rank{rank}.json", data.getvalue())
        target = run / f"overflow-rank{rank}.txt"
        _put(target, text.getvalue())
        return target


def _is_probe(birth: Birth) -> bool:
    return birth.kind is OverflowKind.GRADIENT_SCALED and birth.nature is Nature.MEANT


def _put(path: Path, text: str) -> None:
    """Writes a file, whole or not at all, and waits until it is on the disk."""
    draft = path.with_name(f".{path.name}.part")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
