"""A Run or one of its calls, for people: what is in it, what it says about its own completeness, what a call was given
and gave back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueline.records import Call, Certificate, Phase, Role, TensorRecord
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.partial import partial_blocks, partial_certificates
from trueline.report.wording import command, module_of, place, plural, size, statistic
from trueline.store import RankReader, Run, Trace
from trueline.store.columns import LEVELS, PHASES
from trueline.tree import Tree, render, tensor_paths

_APIS_SHOWN = 20
_FRAMES_SHOWN = 1


@dataclass(frozen=True, slots=True)
class ApiCount:
    """How often an API was called in the whole Run."""

    api: str
    level: str
    forward: int
    backward: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What is in a Run."""

    calls: int
    bytes_on_disk: int
    steps: Mapping[int, tuple[int, ...]]
    """Rank -> the steps that it holds."""
    certificates: Mapping[int, Certificate]
    apis: tuple[ApiCount, ...]


def summarize_run(run: Run, *, step: int | None = None, rank: int | None = None) -> RunSummary:
    """Counts what a Run holds, or one step or rank of it."""
    ranks = run.ranks if rank is None else (rank,)
    readers = {number: run.rank(number) for number in ranks}
    counts: dict[tuple[str, str], list[int]] = {}
    total = 0
    for reader in readers.values():
        trace = reader.trace(step)
        total += len(trace)
        _count_apis(trace, counts)
    apis = (ApiCount(api, level, *numbers) for (api, level), numbers in counts.items())
    return RunSummary(
        calls=total,
        bytes_on_disk=_folder_size(run.path),
        steps={number: reader.steps if step is None else (step,) for number, reader in readers.items()},
        certificates={number: reader.certificate for number, reader in readers.items()},
        apis=tuple(sorted(apis, key=lambda count: (-count.forward - count.backward, count.api))),
    )


def run_blocks(run: Run, summary: RunSummary) -> list[Block]:
    """A Run on one screen."""
    info = run.info
    wanted = ", ".join(f"{name}={value}" for name, value in info.options.items() if value not in (None, "", [], ()))
    items = [
        ("Run", str(run.path)),
        ("made", f"{info.created} on {info.host} by trueline {info.tool_version}"),
        ("program", command(*info.command) or "-"),
        ("framework", f"{info.framework} {info.framework_version}, Python {info.python}".strip()),
        ("devices", ", ".join(info.devices) or "-"),
        ("commit", info.git_commit or "-"),
        ("seed", "-" if info.seed is None else str(info.seed)),
        ("asked for", wanted or "defaults"),
        ("ranks", f"{_ranges(run.ranks)} (world size {info.world_size})"),
        ("steps", _steps(summary.steps)),
        ("size", f"{plural(summary.calls, 'call')}, {size(summary.bytes_on_disk)} on disk"),
    ]
    blocks = partial_blocks(partial_certificates(str(run.path), dict(summary.certificates)))
    blocks += [Fields(tuple(items), indent=0), BLANK, heading("Certificate")]
    blocks += certificate_blocks(summary.certificates)
    return blocks + _api_blocks(summary) + [BLANK, heading("Next"), _next_line(run, summary)]


def certificate_blocks(certificates: Mapping[int, Certificate]) -> list[Block]:
    """What each rank says about its own completeness."""
    return [block for rank, certificate in certificates.items() for block in _certificate_blocks(rank, certificate)]


def call_blocks(call: Call, forward: Call | None = None, *, whole_stack: bool = False) -> list[Block]:
    """A call with its arguments, statistics and stack; for a backward call also the forward call it belongs to."""
    items = [
        ("module", module_of(call)),
        ("where", f"{place(call)}, call #{call.id}, level {call.level.value}"),
        ("call", render_call(call)),
        ("result", render_result(call)),
    ]
    if call.raised:
        items.append(("raised", call.raised))
    if forward is not None:
        items.append(("forward", f"#{forward.id} {render_call(forward)}"))
    title = Paragraph((Span(call.name, "heading"),))
    return [title, Fields(tuple(items)), *_stack_blocks(call, forward, whole_stack), *_tensor_blocks(call)]


def matches_table(trace: Trace, positions: list[int], limit: int) -> Table:
    """The calls at these positions, one a row, at most ``limit`` of them."""
    found = [trace.call(position, statistics=False) for position in positions[:limit]]
    rows = tuple(Row((f"#{c.id}", c.name, str(c.step), str(c.rank), c.module, c.source)) for c in found)
    return Table(("number", "call", "step", "rank", "module", "source"), rows, frozenset({"number", "step", "rank"}))


def forward_of(reader: RankReader, call: Call) -> Call | None:
    """The forward call that a backward call belongs to, where the Run has it."""
    if call.phase is not Phase.BACKWARD or call.forward_id is None:
        return None
    trace = reader.trace()
    positions = trace.find(f"#{call.forward_id}")
    return trace.call(positions[0]) if positions else None


def render_call(call: Call) -> str:
    """The call as it would look in Python, tensors as ``float32[8, 16]``."""
    given = (f"{name}={text}" if name else text for name, text in arguments_of(call))
    return f"{call.api}({', '.join(given)})"


def arguments_of(call: Call) -> list[tuple[str, str]]:
    """Name (empty for one that was given by its place) and text of each argument."""
    leaves = _leaves(call, call.arguments, given=True)
    tree = call.arguments
    if not isinstance(tree, dict):
        return [] if tree is None else [("", render(tree, leaves))]
    if not set(tree) <= {"args", "kwargs"}:
        return [(name, render(value, leaves)) for name, value in tree.items()]
    named = (tree.get("kwargs") or {}).items()
    return [("", render(item, leaves)) for item in _items(tree.get("args"))] + [
        (name, render(value, leaves)) for name, value in named
    ]


def render_result(call: Call) -> str:
    leaves = _leaves(call, call.result, given=False)
    tree = call.result
    if tree is None:
        return "-"
    if isinstance(tree, dict) and set(tree) == {"out"}:
        return render(tree["out"], leaves)
    return render(tree, leaves)


def describe_tensor(record: TensorRecord) -> str:
    return f"{record.dtype}[{', '.join(map(str, record.shape))}]"


def _items(tree: Tree) -> list[Tree]:
    if isinstance(tree, dict) and "$tuple" in tree:
        return list(tree["$tuple"])
    return list(tree) if isinstance(tree, list) else []


def _leaves(call: Call, tree: Tree, *, given: bool) -> dict[int, str]:
    records = {record.path: record for record in (call.inputs if given else call.outputs)}
    paths = tensor_paths(tree)
    return {leaf: f"<{describe_tensor(records[path])}>" for leaf, path in paths if path in records}


def _stack_blocks(call: Call, forward: Call | None, whole: bool) -> list[Block]:
    stack = call.stack or (forward.stack if forward is not None else ())
    if not stack:
        return [Fields((("source", "(no stack was kept: capture with --stacks)"),))]
    shown = stack if whole else stack[:_FRAMES_SHOWN]
    text = "\n".join(str(frame) for frame in shown)
    if len(stack) > len(shown):
        text += f"  (--stack shows {len(stack) - len(shown)} more)"
    return [Fields((("source" if not whole else "stack ", text),))]


def _tensor_blocks(call: Call) -> list[Block]:
    if not call.tensors:
        return [line("no tensors", "dim", indent=2)]
    columns = ("role", "path", "dtype", "shape", "min", "max", "mean", "norm", "nan", "inf", "zeros", "kept")
    right = frozenset({"min", "max", "mean", "norm", "nan", "inf", "zeros"})
    return [BLANK, Table(columns, tuple(_tensor_row(record) for record in call.tensors), right)]


def _tensor_row(record: TensorRecord) -> Row:
    numbers = record.statistics
    role = "gradient" if record.path.startswith("grad") else record.role.value
    head = (role, record.path, record.dtype, "x".join(map(str, record.shape)) or "scalar")
    kept = "yes" if record.stored else "no"
    if numbers is None:
        return Row((*head, *["-"] * 7, record.missing or kept), "dim")
    infinities = numbers.positive_infinity + numbers.negative_infinity
    cells = [statistic(v) for v in (numbers.minimum, numbers.maximum, numbers.mean, numbers.norm)]
    style = "bad" if numbers.nan or infinities else ("" if record.role is not Role.OUTPUT else "strong")
    return Row((*head, *cells, str(numbers.nan), str(infinities), str(numbers.zeros), kept), style)


def _certificate_blocks(rank: int, certificate: Certificate) -> list[Block]:
    calls = ", ".join(f"{count:,} {kind}" for kind, count in certificate.calls.items()) or "no calls"
    volume = f"{size(certificate.bytes_seen)} seen, {size(certificate.bytes_stored)} kept"
    text = f"rank {rank}: {calls}; {plural(certificate.tensors, 'tensor')} ({volume})"
    blocks: list[Block] = [line(text, indent=2)]
    if not certificate.complete:
        blocks.append(line(f"incomplete: {certificate.stopped_because or 'stopped early'}", "warn", indent=4))
    blocks += [line(f"way into {name}: {way}", "dim", indent=4) for name, way in certificate.ways.items()]
    for reason, count in certificate.not_recorded.items():
        blocks.append(line(f"not recorded, {count:,} times: {reason}", "warn", indent=4))
    return [*blocks, line(_kernel_sentence(certificate), "dim", indent=4)]


def _kernel_sentence(certificate: Certificate) -> str:
    outside = certificate.kernels_outside
    if outside is None:
        return "kernels outside recorded calls were not watched for (capture with --witness)"
    if not outside:
        return f"all {certificate.kernels_inside:,} kernels ran inside recorded calls"
    names = ", ".join(f"{name} ({count:,})" for name, count in list(outside.items())[:5])
    return f"{plural(sum(outside.values()), 'kernel')} ran outside recorded calls: {names}"


def _api_blocks(summary: RunSummary) -> list[Block]:
    shown = summary.apis[:_APIS_SHOWN]
    rows = tuple(Row((f"{a.forward:,}", f"{a.backward:,}", a.level, a.api)) for a in shown)
    table = Table(("forward", "backward", "level", "api"), rows, frozenset({"forward", "backward"}))
    blocks: list[Block] = [BLANK, heading("Calls by API"), table]
    if len(summary.apis) > len(shown):
        blocks.append(line(f"and {len(summary.apis) - len(shown):,} more APIs", "dim", indent=2))
    return blocks


def _next_line(run: Run, summary: RunSummary) -> Paragraph:
    example = f"{summary.apis[0].api}.0" if summary.apis else "CALL"
    return line(command("trueline", "show", run.path, example), "code", indent=2)


def _count_apis(trace: Trace, counts: dict[tuple[str, str], list[int]]) -> None:
    keys = np.stack([trace.column("api"), trace.column("level"), trace.column("phase")])
    kinds, amounts = np.unique(keys, axis=1, return_counts=True)
    for (api, level, phase), amount in zip(kinds.T.tolist(), amounts.tolist(), strict=True):
        entry = counts.setdefault((trace.names.get(api, "?"), LEVELS[level].value), [0, 0])
        entry[0 if PHASES[phase] is Phase.FORWARD else 1] += amount


def _folder_size(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += (Path(folder) / name).stat().st_size
            except OSError:  # a file that went away meanwhile
                continue
    return total


def _steps(steps: Mapping[int, tuple[int, ...]]) -> str:
    distinct = set(steps.values())
    if len(distinct) == 1:
        return _ranges(distinct.pop())
    return "; ".join(f"rank {rank}: {_ranges(numbers)}" for rank, numbers in steps.items())


def _ranges(numbers: tuple[int, ...]) -> str:
    """``0-3, 7``."""
    parts: list[list[Any]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "none"
