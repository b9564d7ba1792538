"""The graph inside a compiled region, as plain data: what a compiler was given, or has made of it.

A node's arguments are JSON: numbers and text stand for themselves, a list for a list, and an object with one key for
everything else:

    {"node": NAME}      what another node gave          {"tuple": [...]}, {"dict": {...}}, {"slice": [a, b, c]}
    {"size": TEXT}      a size that is free             {"dtype": NAME}, {"device": ...}, {"layout": ...}
    {"float": "nan"}    a number that JSON has not      {"memory_format": ...}, {"ellipsis": true}
    {"complex": [r, i]}                                 {"opaque": TYPE}   what cannot be written down
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trueline.checked import record, unfit
from trueline.records import Frame

EVENT = "graph"
"""The kind of those events of a Run that hold a graph."""
PREFIX = "torch.compile."
"""How the names of borders begin."""

INPUT, CONSTANT, CALL, OUTPUT = KINDS = ("input", "constant", "call", "output")
TRACED = "traced"
"""The stage that a compiler was given; the others are what it made on its way."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a node gives, or a part of it. Sizes that are free are text."""

    dtype: str = ""
    shape: tuple[int | str, ...] = ()
    device: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a graph. ``operator`` is the name of an API for a call, the place in the program that an input comes
    from, or the reason why a constant is not there; ``content`` is the shape and the numbers of a small constant."""

    name: str
    kind: str
    operator: str = ""
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    gives: tuple[Shape, ...] = ()
    module: str = ""
    module_class: str = ""
    stack: tuple[tuple[str, int, str], ...] = ()
    content: list[Any] = field(default_factory=list)

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(Frame(*one) for one in self.stack)

    @property
    def source(self) -> str:
        """The line of the program that this node stands for."""
        return str(self.frames[0]) if self.stack else ""

    def uses(self) -> list[str]:
        """The nodes whose values it takes, in order."""
        return list(dict.fromkeys(references([self.args, self.kwargs])))


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph of a compiled region. ``name`` is that of the border calls that run it, ``number`` counts the graphs of
    the function (a graph break begins another, a recompilation as well); ``how`` says by what it was compiled."""

    name: str
    stage: str
    number: int
    function: str
    file: str
    line: int
    compiled: str = ""
    how: dict[str, Any] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def inputs(self) -> list[Node]:
        return [node for node in self.nodes if node.kind == INPUT]

    def calls(self) -> list[Node]:
        return [node for node in self.nodes if node.kind == CALL]

    def outputs(self) -> list[Any]:
        """What the graph gives, as arguments."""
        found = next((node for node in self.nodes if node.kind == OUTPUT), None)
        return [] if found is None else found.args

    def event(self) -> dict[str, Any]:
        """The graph as an event of a Run."""
        return {"kind": EVENT, **asdict(self)}


def graphs_in(events: list[dict[str, Any]]) -> list[Graph]:
    """The graphs among the events of a Run; raises ``Unfit`` where one is none."""
    found = [
        record(Graph, {name: value for name, value in event.items() if name != "kind"})
        for event in events
        if event.get("kind") == EVENT
    ]
    for graph in found:
        _check(graph)
    return found


def _check(graph: Graph) -> None:
    """Every node is of a kind that is known and takes only what was computed before."""
    known: set[str] = set()
    for node in graph.nodes:
        if node.kind not in KINDS:
            unfit(f"node {node.name[:40]!r} of {graph.name[:80]} is of no known kind")
        strange = set(node.uses()) - known
        if strange:
            unfit(f"node {node.name[:40]!r} of {graph.name[:80]} takes {min(strange)[:40]!r}, which is not before it")
        if node.name in known:
            unfit(f"{graph.name[:80]} has two nodes of the name {node.name[:40]!r}")
        known.add(node.name)


def references(value: Any) -> Iterator[str]:
    """The names of the nodes in an argument."""
    if isinstance(value, Mapping):
        name = value.get("node")
        if isinstance(name, str) and len(value) == 1:
            yield name
            return
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from references(item)
