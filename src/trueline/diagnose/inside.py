"""Looks inside the compiled regions of a Run, after the fact: which entries give what their graphs do not, and which
nodes the compiler gets wrong."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueline.errors import UsageError
from trueline.frameworks.base import CannotExecute
from trueline.graphs import PREFIX, TRACED, Graph
from trueline.records import Call, TensorRecord, Verdict
from trueline.store import RankReader, Run, Trace, open_run

UNKEPT = "its tensors were not kept; capture with --data tensors"
UNREAD = "its graph is not in the Run: it was compiled before the recording began, or by another version of torch"


@dataclass(frozen=True)
class RegionReport:
    """One entry into a compiled graph, judged. ``inside`` is what ``frameworks.torch.graph_search`` found."""

    call: Call
    graph: Graph | None
    count: int
    """How many graphs its function was compiled into."""
    verdict: Verdict
    reason: str
    inside: Any = None


@dataclass
class InsideReport:
    """All entries of a Run that were looked at."""

    path: Path
    regions: list[RegionReport] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        if not self.regions:
            return Verdict.NOT_COMPARED
        return max(one.verdict for one in self.regions)

    @property
    def failures(self) -> list[RegionReport]:
        return [one for one in self.regions if one.verdict >= Verdict.FAIL]

    @property
    def measured(self) -> int:
        return sum(one.verdict in (Verdict.PASS, Verdict.FAIL) for one in self.regions)


def inside(
    source: str | os.PathLike[str],
    *,
    backend: Any = None,
    step: int | None = None,
    seconds: float = 600.0,
    every: bool = False,
    progress: Callable[[str], None] | None = None,
) -> InsideReport:
    """Looks at the compiled regions of a Run. ``backend`` compiles pieces where the recorded one is not torch's own: a
    function, or ``module:name``. Of entries into the same graph that are right the first two of each step are looked
    at, unless ``every`` asks for all. A wrong one is divided for so many ``seconds`` at most, each graph once."""
    with open_run(source) as opened:
        report = InsideReport(opened.path)
        for rank in opened.ranks:
            _look_at_rank(opened, rank, report, _backend(backend), step, seconds, every, progress)
        return report


def _backend(given: Any) -> Any:
    if not isinstance(given, str) or ":" not in given:
        return given
    module, _, name = given.partition(":")
    try:
        return getattr(importlib.import_module(module), name)  # named by the user, on the command line
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"--backend {given}: {error}; write MODULE:NAME of a function that torch.compile takes"
        ) from error


def _look_at_rank(
    opened: Run, rank: int, report: InsideReport, backend: Any, step: int | None, seconds: float, every: bool,
    progress: Callable[[str], None] | None,
) -> None:  # fmt: skip
    reader = opened.rank(rank)
    trace = reader.trace(step)
    traced = {graph.name: graph for graph in reader.graphs() if graph.stage == TRACED}
    counts: dict[str, int] = {}
    for graph in traced.values():
        counts[graph.function] = counts.get(graph.function, 0) + 1
    seen: dict[tuple[str, int], int] = {}
    divided: set[str] = set()
    first: dict[str, tuple[Call, Call | None]] = {}
    for position, backward in _borders(trace):
        call = trace.call(position, statistics=False)
        known = (call.api, call.step)
        seen[known] = seen.get(known, 0) + 1
        if not every and seen[known] > 2:
            continue
        if progress is not None:
            progress(call.name)
        entered = traced.get(call.api)
        count = counts.get(entered.function, 0) if entered else 0
        limit = 0.0 if call.api in divided else seconds
        entry = call, None if backward is None else trace.call(backward, statistics=False)
        found = _judged(reader, entry, first.setdefault(call.api, entry), entered, count, backend, limit)
        if found.verdict is Verdict.FAIL:
            divided.add(call.api)
        report.regions.append(found)


def _borders(trace: Trace) -> list[tuple[int, int | None]]:
    """The entries into graphs, each with the position of its backward."""
    entries: dict[int, int] = {}
    backwards: dict[int, int] = {}
    for position in range(len(trace)):
        row = trace.columns[position].tolist()
        if not trace.names.get(row[3], "").startswith(PREFIX):
            continue
        if row[2] == 0:
            entries[row[0]] = position
        else:
            backwards[row[9]] = position
    return [(position, backwards.get(number)) for number, position in entries.items()]


Entry = tuple[Call, Call | None]
"""An entry into a graph and its backward."""


def _judged(
    reader: RankReader, entry: Entry, first: Entry, graph: Graph | None, count: int, backend: Any, seconds: float
) -> RegionReport:
    call = entry[0]
    if graph is None:
        return RegionReport(call, None, count, Verdict.NOT_COMPARED, UNREAD if ".graph" in call.api else
                            "several graphs and what lies between them; each graph is a call of its own")  # fmt: skip
    if call.raised:
        return RegionReport(call, graph, count, Verdict.NOT_COMPARED, f"it raised: {call.raised}")
    if not all(record.stored for record in call.tensors if _numel(record)):
        return RegionReport(call, graph, count, Verdict.NOT_COMPARED, UNKEPT)
    search: Any = importlib.import_module("trueline.frameworks.torch.graph_search")
    try:
        recorded = _recorded(reader, *entry, graph, search)
        earlier = _recorded(reader, *first, graph, search) if first is not entry else None
        found = search.look_inside(graph, recorded, backend, earlier=earlier, seconds=seconds)
    except CannotExecute as error:
        return RegionReport(call, graph, count, Verdict.NOT_COMPARED, f"it cannot be replayed: {error}")
    except Exception as error:  # whatever a kernel raises on recorded data must not end the look at the others
        text = f"it cannot be replayed: {type(error).__name__}: {str(error)[:200]}"
        return RegionReport(call, graph, count, Verdict.NOT_COMPARED, text)
    if not found.judged:
        return RegionReport(call, graph, count, Verdict.NOT_COMPARED, "nothing it gives can be judged: it is random")
    verdict = Verdict.FAIL if found.wrong else Verdict.PASS
    return RegionReport(call, graph, count, verdict, _reason(found), found)


def _numel(record: TensorRecord) -> bool:
    return 0 not in record.shape


def _reason(found: Any) -> str:
    if not found.wrong:
        return f"{found.judged} values are what its nodes give"
    worst = max(found.wrong, key=lambda one: one.error)
    return (
        f"{worst.name} is off by {worst.error:.2g} (worst element {worst.peak:.2g}) where rounding explains "
        f"{worst.honest:.2g}"
    )


def _recorded(reader: RankReader, call: Call, backward: Call | None, graph: Graph, search: Any) -> Any:
    arrays: Any = importlib.import_module("trueline.frameworks.torch.arrays")
    base: Any = importlib.import_module("trueline.frameworks.base")
    torch_cpu = importlib.import_module("trueline.frameworks.torch.rebuild").CPU

    def tensor(record: TensorRecord | None, *, leaf: bool = False) -> Any:
        if record is None or not (record.stored or 0 in record.shape):
            return None
        bits = reader.tensor(record)
        made = arrays.enter(base.ArrayIn(bits, record.dtype), record.strides, torch_cpu, wide=False)
        return made.requires_grad_() if leaf and record.requires_grad and made.is_floating_point() else made

    given = {record.path: record for record in call.inputs}
    made = {record.path: record for record in call.outputs}
    arguments = (call.arguments or {}).get("args", []) if isinstance(call.arguments, dict) else []
    inputs = [
        tensor(given[path], leaf=True) if (path := f"args.{at}") in given else _plain(value)
        for at, value in enumerate(arguments)
    ]
    count = len(graph.outputs())
    outputs = [tensor(made.get(f"out.{at}")) for at in range(count)]
    if count == 1 and outputs == [None] and "out" in made:
        outputs = [tensor(made["out"])]
    after = [tensor(made[f"args.{at}"]) if f"args.{at}" in made else one for at, one in enumerate(inputs)]
    arrived, departed = [None] * count, [None] * len(inputs)
    if backward is not None:
        came = {record.path: record for record in backward.inputs}
        left = {record.path: record for record in backward.outputs}
        arrived = [tensor(came.get(f"out.{at}")) for at in range(count)]
        departed = [tensor(left.get(f"args.{at}")) for at in range(len(inputs))]
    return search.Recorded(inputs, outputs, after, arrived, departed)


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    raise CannotExecute("it was given something else than tensors and numbers")
