"""``compare_runs``: opens two Runs, lays them side by side rank by rank, and names the call in which they part."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from trueline.diagnose.comparison import Comparison
from trueline.diagnose.judging import judge_table
from trueline.diagnose.origin import find_origin
from trueline.diagnose.table import Progress, RankTable
from trueline.errors import UsageError
from trueline.judge import Standard, standard_named
from trueline.store.reader import Run, open_run

Path = str | os.PathLike[str]


def compare_runs(
    reference: Path,
    candidate: Path,
    *,
    standard: str | Standard = "honest",
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    replay: bool | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compares two Runs, reference first.

    ``steps`` and ``ranks`` choose some of those that both have. ``replay`` says whether suspects are replayed in
    float64 on their recorded inputs; None means: where tensors were kept and torch is installed. Where nothing is
    suspect, calls are also replayed in search of a fault that hides under honest noise: always with True, with None
    only where the Runs differ in precision (it takes up to 20 s a rank). ``progress`` is told (what, done, total) from
    time to time.
    """
    rule = standard_named(standard)
    runs = (open_run(reference), open_run(candidate))
    common = [rank for rank in runs[0].ranks if rank in runs[1].ranks and (ranks is None or rank in ranks)]
    if not common:
        raise UsageError(
            f"the Runs have no rank in common{' among those asked for' if ranks is not None else ''}: "
            f"{reference} has {_numbers(runs[0].ranks)}, {candidate} has {_numbers(runs[1].ranks)}"
        )
    notes = _notes(runs)
    tables = []
    for rank in common:
        readers = (runs[0].rank(rank), runs[1].rank(rank))
        chosen = _common_steps(readers[0].steps, readers[1].steps, steps, rank, notes)
        table = RankTable(readers, chosen)
        table.measure(progress)
        judge_table(table, rule, progress)
        tables.append(table)
    missing = {
        "reference": tuple(
            rank for rank in runs[1].ranks if rank not in runs[0].ranks and (ranks is None or rank in ranks)
        ),
        "candidate": tuple(
            rank for rank in runs[0].ranks if rank not in runs[1].ranks and (ranks is None or rank in ranks)
        ),
    }
    for side, numbers in missing.items():
        if numbers:
            notes.append(f"the {side} has no rank {_numbers(numbers)}; it was not compared")
    mode = _mode(tables)
    result = Comparison(*runs, rule, tables, mode=mode, notes=notes, missing_ranks=missing)
    wanted = mode == "tensors" and importlib.util.find_spec("torch") is not None if replay is None else replay
    result.origin = find_origin(tables, rule, replay=wanted, thorough=replay is True, notes=notes)
    return result


def _common_steps(
    left: Sequence[int], right: Sequence[int], wanted: Sequence[int] | None, rank: int, notes: list[str]
) -> tuple[int, ...]:
    common = tuple(step for step in left if step in set(right) and (wanted is None or step in wanted))
    if not common:
        raise UsageError(
            f"rank {rank}: the Runs have no step in common{' among those asked for' if wanted is not None else ''}: "
            f"the reference has {_numbers(left)}, the candidate {_numbers(right)}"
        )
    for name, own, other in (("reference", left, right), ("candidate", right, left)):
        lonely = [step for step in own if step not in set(other) and (wanted is None or step in wanted)]
        if lonely:
            notes.append(f"rank {rank}: only the {name} has step {_numbers(lonely)}")
    return common


def _notes(runs: tuple[Run, Run]) -> list[str]:
    """What a reader should know of how the two Runs were made."""
    notes = []
    left, right = runs[0].info, runs[1].info
    versions = [f"{info.framework} {info.framework_version}" for info in (left, right)]
    if versions[0] != versions[1]:
        notes.append(f"made with {versions[0]} and {versions[1]}")
    if left.seed != right.seed:
        notes.append(f"the seeds differ: {left.seed} and {right.seed}")
    if left.world_size != right.world_size:
        notes.append(f"the world sizes differ: {left.world_size} and {right.world_size}")
    for option in ("level", "data"):
        values = [info.options.get(option) for info in (left, right)]
        if values[0] != values[1]:
            notes.append(f"captured with different {option}: {values[0]} and {values[1]}")
    for name, run in zip(("reference", "candidate"), runs, strict=True):
        incomplete = [rank for rank in run.ranks if not run.rank(rank).certificate.complete]
        if incomplete:
            reason = run.rank(incomplete[0]).certificate.stopped_because
            notes.append(f"the {name} is incomplete (rank {_numbers(incomplete)}): {reason or 'it stopped early'}")
    return notes


def _mode(tables: Sequence[RankTable]) -> str:
    """What both sides have: the best of the data that was compared."""
    modes = [table.mode for table in tables]
    return next((mode for mode in ("tensors", "digest", "stats") if mode in modes), "structure")


def _numbers(values: Sequence[int]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown}, …" if len(values) > 8 else shown or "none"
