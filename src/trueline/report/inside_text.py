"""What was found inside the compiled regions of a Run, for a terminal and as JSON; and the graphs that a Run holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trueline.graphs import TRACED, Graph, Node
from trueline.records import Verdict
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.wording import plural
from trueline.tree import render

_STYLES = {Verdict.PASS: "good", Verdict.FAIL: "bad", Verdict.NOT_COMPARED: "warn"}
_MOST_NODES = 40
_MOST_PIECE = 12


def inside_blocks(report: Any, *, rows: int = 8) -> list[Block]:
    """All regions that were looked at; the wrong ones in detail."""
    verdict = report.verdict
    blocks: list[Block] = [
        Paragraph((Span(str(verdict), _STYLES.get(verdict, "bad")), Span(f"  {_sentence(report)}", "strong")))
    ]
    for region in report.failures[:rows]:
        blocks += [BLANK, *_failure(region)]
    others = [one for one in report.regions if one.verdict is Verdict.NOT_COMPARED]
    if others:
        blocks += [BLANK, heading("Not compared")]
        blocks += [line(f"{one.call.name} (step {one.call.step}): {one.reason}", indent=2) for one in others[:rows]]
    return blocks


def _sentence(report: Any) -> str:
    if not report.regions:
        return "the Run has no compiled region"
    wrong, measured = len(report.failures), report.measured
    if not wrong:
        return f"{plural(measured, 'call')} of compiled graphs: all give what their nodes give"
    return (
        f"{plural(measured, 'call')} of compiled graphs: {wrong:,} give something else than their nodes"
    )


def _failure(region: Any) -> list[Block]:
    graph, found = region.graph, region.inside
    where = f"graph {graph.number + 1} of {region.count} of {graph.function}, {graph.file}:{graph.line}"
    module = f"in {region.call.module}, " if region.call.module else ""
    items = [
        ("step", f"{region.call.step}, rank {region.call.rank}"),
        ("what", region.reason),
        ("where", module + where),
    ]
    items.append(("compiled by", str(graph.how.get("backend", "?"))))
    if found.piece:
        items.append(("the piece", plural(len(found.piece), "node")))
        items += [("", _told(node)) for node in found.piece[:_MOST_PIECE]]
    if found.evidence:
        worst = max(found.evidence, key=lambda one: one.error)
        items.append(("alone it gives", f"{worst.name} off by {worst.error:.2g}, rounding explains {worst.honest:.2g}"))
    if found.stage:
        items.append(("goes wrong in", found.stage))
    if found.operators:
        items.append(("made into", ", ".join(found.operators[:12])))
    if found.kernels:
        items.append(("kernels", ", ".join(found.kernels[:4])))
    if found.note:
        items.append(("note", found.note))
    if found.tries:
        items.append(("search", f"{plural(found.tries, 'compilation')} in {found.seconds:.1f} s"))
    return [Paragraph((Span(region.call.name, "heading"),)), Fields(tuple(items))]


def _told(node: Node) -> str:
    module = f"  in {node.module}" if node.module else ""
    return f"{node.operator}{module}  {node.source}".rstrip()


def inside_dict(report: Any) -> dict[str, Any]:
    """The whole report as plain data."""
    return {
        "run": str(report.path),
        "verdict": str(report.verdict),
        "measured": report.measured,
        "regions": [_region_dict(one) for one in report.regions],
    }


def _region_dict(region: Any) -> dict[str, Any]:
    found, graph = region.inside, region.graph
    content: dict[str, Any] = {
        "call": region.call.name,
        "step": region.call.step,
        "rank": region.call.rank,
        "module": region.call.module,
        "verdict": str(region.verdict),
        "reason": region.reason,
    }
    if graph is not None:
        content |= {"function": graph.function, "file": graph.file, "line": graph.line, "graph": graph.number}
        content |= {"graphs": region.count, "how": graph.how}
    if found is not None:
        content |= {
            "wrong": [asdict(one) for one in found.wrong],
            "piece": {
                "operators": found.operators,
                "nodes": [{"operator": n.operator, "module": n.module, "source": n.source} for n in found.piece],
            },
            "evidence": [asdict(one) for one in found.evidence],
            "stage": found.stage,
            "reproduced": found.again,
            "kernels": found.kernels,
            "compilations": found.tries,
            "seconds": found.seconds,
            "note": found.note,
        }
    return content


# Graphs


def graphs_table(graphs: Sequence[Graph]) -> list[Block]:
    """The graphs of a Run, one a row."""
    if not graphs:
        return []
    counts: dict[str, int] = {}
    for graph in graphs:
        counts[graph.function] = counts.get(graph.function, 0) + (graph.stage == TRACED)
    rows = tuple(
        Row((
            graph.name, graph.stage, f"{graph.number + 1} of {counts[graph.function]}", str(len(graph.calls())),
            str(graph.how.get("backend", "?")), f"{graph.file}:{graph.line}",
        ))
        for graph in graphs
    )  # fmt: skip
    columns = ("graph", "stage", "number", "nodes", "compiled by", "function")
    return [BLANK, heading("Compiled graphs"), Table(columns, rows, frozenset({"nodes"}))]


def graph_blocks(graphs: Sequence[Graph]) -> list[Block]:
    """The nodes of the graphs that one call enters."""
    blocks: list[Block] = []
    for graph in graphs:
        rows = tuple(_row(node) for node in graph.nodes[:_MOST_NODES])
        title = f"{graph.stage} graph, {plural(len(graph.calls()), 'node')}"
        blocks += [BLANK, heading(title), Table(("node", "operator", "takes", "gives", "module", "source"), rows)]
        if len(graph.nodes) > _MOST_NODES:
            blocks.append(line(f"and {len(graph.nodes) - _MOST_NODES:,} more; --json shows all", "dim", indent=2))
    return blocks


def _row(node: Node) -> Row:
    takes = ", ".join([*map(_argument, node.args), *(f"{n}={_argument(v)}" for n, v in node.kwargs.items())])
    gives = ", ".join(f"{one.dtype}{list(one.shape)}" if one.shape or one.dtype else "" for one in node.gives)
    return Row((node.name, node.operator or node.kind, takes[:60], gives[:40], node.module, node.source))


def _argument(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind in ("node", "dtype", "device", "size"):
            return str(content)
        if kind == "tuple":
            return f"({', '.join(map(_argument, content))})"
        return f"{kind} {content}"
    if isinstance(value, list):
        return f"[{', '.join(map(_argument, value))}]"
    return render(value)
