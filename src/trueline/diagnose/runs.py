"""``compare_runs``: opens two Runs, lays them side by side rank by rank, and names the call in which they part."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from trueline.diagnose.comparison import Comparison
from trueline.diagnose.judging import judge_table
from trueline.diagnose.origin import find_origin, first_failure
from trueline.diagnose.outcome import outcome_of
from trueline.diagnose.table import Progress, RankTable, frameworks_of
from trueline.errors import UsageError
from trueline.judge import Standard, standard_named
from trueline.records import RunInfo
from trueline.store.reader import Run, open_run

if TYPE_CHECKING:
    from trueline.judge.by_element import ByElement

Path = str | os.PathLike[str]


def compare_runs(
    reference: Path,
    candidate: Path,
    *,
    baseline: Path | None = None,
    standard: str | Standard = "honest",
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    replay: bool | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compares two Runs, reference first. With ``baseline`` three: the reference is the gold, and the candidate's
    errors are judged by those of the baseline, a peer of the candidate, against that gold.

    ``steps`` and ``ranks`` choose some of those that both have. ``replay`` says whether suspects are replayed in
    float64 on their recorded inputs; None means: where tensors were kept and their framework is installed. Where
    nothing is suspect, calls are also replayed in search of a fault that hides under honest noise: always with True,
    with None only where the Runs differ in precision (it takes up to 20 s a rank). ``progress`` is told (what, done,
    total) from time to time.
    """
    rule = standard_named(standard, baseline=baseline is not None)
    with contextlib.ExitStack() as opened:
        runs = (opened.enter_context(open_run(reference)), opened.enter_context(open_run(candidate)))
        peer = None if baseline is None else opened.enter_context(open_run(baseline))
        result = _compared(runs, peer, rule, steps, ranks, replay, progress)
        opened.pop_all()  # the comparison reads on, and closes them
    return result


def _compared(
    runs: tuple[Run, Run],
    peer: Run | None,
    rule: Standard,
    steps: Sequence[int] | None,
    ranks: Sequence[int] | None,
    replay: bool | None,
    progress: Progress | None,
) -> Comparison:
    common = [rank for rank in runs[0].ranks if rank in runs[1].ranks and (ranks is None or rank in ranks)]
    if not common:
        raise UsageError(
            f"the Runs have no rank in common{' among those asked for' if ranks is not None else ''}: "
            f"{runs[0].path} has {_numbers(runs[0].ranks)}, {runs[1].path} has {_numbers(runs[1].ranks)}"
        )
    notes = _notes(runs)
    tables = []
    for rank in common:
        readers = (runs[0].rank(rank), runs[1].rank(rank))
        chosen = _common_steps(readers[0].steps, readers[1].steps, steps, rank, notes)
        table = RankTable(readers, chosen)
        table.measure(progress)
        _judge(table, rule, peer, notes, progress)
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
    result = Comparison(*runs, rule, tables, mode=mode, notes=notes, missing_ranks=missing, baseline=peer)
    if hasattr(rule, "judge_outputs"):
        result.origin = first_failure(tables, rule)
        return result
    wanted = mode == "tensors" and _can_replay(tables) if replay is None else replay
    result.origin, walks = find_origin(tables, rule, replay=wanted, thorough=replay is True, notes=notes)
    result.outcomes = [outcome_of(one.table, one.divergences, one.first) for one in walks]
    for one, done in zip(walks, result.outcomes, strict=True):
        if done.reason:
            notes.append(f"rank {one.table.rank}: {done.reason}" if len(walks) > 1 else done.reason)
    return result


def _can_replay(tables: Sequence[RankTable]) -> bool:
    """Whether the frameworks whose calls were recorded are installed here."""
    needed = {name for table in tables for trace in table.traces for name in frameworks_of(trace)}
    return bool(needed) and all(importlib.util.find_spec(name) is not None for name in needed)


def _judge(table: RankTable, rule: Standard, peer: Run | None, notes: list[str], progress: Progress | None) -> None:
    if not hasattr(rule, "judge_outputs"):
        judge_table(table, rule, progress)
        return
    # Imported here: comparisons of statistics start sooner without it.
    from trueline.diagnose.elements import Peers, judge_elements

    peers = None
    if peer is not None:
        if table.rank not in peer.ranks:
            raise UsageError(f"the baseline {peer.path} has no rank {table.rank}; it has {_numbers(peer.ranks)}")
        peers = Peers.of(table.readers[0], peer.rank(table.rank), table.steps)
        lonely = [step for step in table.steps if step not in peer.rank(table.rank).steps]
        if lonely:
            notes.append(f"rank {table.rank}: the baseline has no step {_numbers(lonely)}")
    judge_elements(table, cast("ByElement", rule), peers, progress)


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
    notes += _replay_notes(left, right)
    for option in ("level", "data"):
        values = [info.options.get(option) for info in (left, right)]
        if values[0] != values[1]:
            notes.append(f"captured with different {option}: {values[0]} and {values[1]}")
    for name, run in zip(("reference", "candidate"), runs, strict=True):
        if incomplete := run.incomplete():
            notes.append(f"the {name} is {incomplete}")
    return notes


def _replay_notes(left: RunInfo, right: RunInfo) -> list[str]:
    """What a reader should know of two replays: whether they were given the same numbers, and what was simulated."""
    notes = [
        f"the {name} is a replay on {info.options['target']}: {info.options['simulated']}"
        for name, info in (("reference", left), ("candidate", right))
        if "simulated" in info.options and "target" in info.options
    ]
    given = [_rounded_to(info) for info in (left, right)]
    if None not in given and given[0] != given[1]:
        coarse = given[1] or given[0]
        notes.append(
            f"the two replays were not given the same numbers: inputs were rounded to {given[0] or 'nothing'} and to "
            f"{given[1] or 'nothing'}; execute the finer one with --inputs-rounded-to {coarse}"
        )
    return notes


def _rounded_to(info: RunInfo) -> str | None:
    """The dtype to which the inputs of a replay were rounded, empty for none; None for what is no replay."""
    target = info.options.get("target")
    if not isinstance(target, str):
        return None
    return str(info.options.get("inputs_rounded_to") or target.partition("/")[2].partition("+")[0])


def _mode(tables: Sequence[RankTable]) -> str:
    """What both sides have: the best of the data that was compared."""
    modes = [table.mode for table in tables]
    return next((mode for mode in ("tensors", "digest", "stats") if mode in modes), "structure")


def _numbers(values: Sequence[int]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown}, …" if len(values) > 8 else shown or "none"
