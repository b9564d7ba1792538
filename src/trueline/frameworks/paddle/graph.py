"""The piece of the autograd graph that one call added, and the gradients that cross its border.

The gradients of a call are what enters its piece at the outputs and what leaves it at the inputs; not what is summed up
elsewhere in the graph. Paddle tells of a node its name, its address and the nodes that follow; a hook at a node is
given what it sent and what it received, slot by slot. Most calls add one node, whose hook says it all. Where a call
added several, each node on the border is watched and the parts are put together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import paddle

from trueline.frameworks.paddle.reading import Tensor

MOST_NODES = 1024
"""A call that adds more nodes than this is taken as it is: its border is not searched further."""

ACCUMULATION = "GradNodeAccumulation"
"""The name of the nodes that collect the gradient of a leaf."""

_HEADERS = ("api.h", "fused_api.h")
_FUNCTIONS = re.compile(r"PADDLE_API\s[^;(]*?(\w+)\(([^;]*?)\)\s*;", re.DOTALL)
_LISTS = re.compile(r"std::vector<Tensor>>?& (\w+)")
_WITHOUT_GRADIENT = frozenset({"index", "indices", "size_tensor"})
"""Parameters that are lists of tensors, but have no gradients."""
_NODE = re.compile(r"([A-Z]\w*?)(?:Double|Triple)?GradNode(?:Final)?")
_ALWAYS = ("concat", "stack", "add_n", "broadcast_tensors", "einsum", "meshgrid", "multi_dot", "multiplex", "rnn")
_GradNode: Any = getattr(paddle.base.core, "GradNodeBase", getattr(paddle.base.libpaddle, "GradNodeBase", object))
_has_memory = paddle.Tensor._is_initialized


@dataclass(frozen=True, slots=True)
class Edge:
    """An input of a call that has a gradient: its leaf number, the address of the node that its gradient goes to, and
    what is needed to find it again."""

    leaf: int
    node: int
    tensor: int
    shape: tuple[int, ...]
    is_leaf: bool


@dataclass(slots=True)
class BorderNode:
    """A node to be watched. ``arrivals`` are the forward outputs whose gradients reach it (leaf numbers and shapes);
    ``departures`` maps a position among the gradients that it sends to somebody to a forward input."""

    node: Any
    arrivals: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    departures: list[tuple[int, Edge]] = field(default_factory=list)
    sends: int = 0
    """To how many nodes it sends gradients."""
    hookable: bool = True


def edges_of(leaves: list[Tensor]) -> list[Edge]:
    """Where the gradients of the inputs go."""
    found = []
    for number, tensor in enumerate(leaves):
        if not tensor.stop_gradient:
            node = tensor.grad_fn
            if node is not None:
                found.append(Edge(number, node.node_ptr(), id(tensor), tuple(tensor.shape), tensor.is_leaf))
    return found


def border_of(
    outputs: list[Tensor], first_output: int, edges: list[Edge], nodes: set[int] | None = None
) -> list[BorderNode]:
    """The border of the nodes that lie between the outputs and the inputs; the addresses of all of these nodes are put
    into ``nodes``."""
    known: dict[int, list[Edge]] = {}
    for edge in edges:
        same = known.setdefault(edge.node, [])
        if same and any(other.tensor == edge.tensor for other in same):  # the same tensor once more: its gradients sum
            continue
        same.append(edge)
    entries: dict[int, BorderNode] = {}
    for position, tensor in enumerate(outputs, first_output):
        if tensor.stop_gradient or tensor.is_leaf:
            continue
        node = tensor.grad_fn
        if node is None or node.node_ptr() in known:  # handed through as it came
            continue
        entry = entries.setdefault(node.node_ptr(), BorderNode(node))
        entry.arrivals.append((position, tuple(tensor.shape)))
    return _walk(entries, known, set() if nodes is None else nodes) if entries else []


def _walk(
    entries: dict[int, BorderNode], known: dict[int, list[Edge]], nodes: set[int]
) -> list[BorderNode]:
    waiting = list(entries.values())
    visited = set(entries)
    taken = dict.fromkeys(known, 0)
    border = []
    while waiting:
        place = waiting.pop(0)
        for following in place.node.next_functions:
            if following is None:
                continue
            pointer = following.node_ptr()
            same = known.get(pointer)
            if same is not None:
                # Outputs of one node that go in side by side: their gradients leave in the same order.
                place.departures.append((place.sends, same[min(taken[pointer], len(same) - 1)]))
                taken[pointer] += 1
            elif pointer not in visited and len(visited) < MOST_NODES and following.name() != ACCUMULATION:
                visited.add(pointer)
                waiting.append(BorderNode(following))
            place.sends += 1
        if place.arrivals or place.departures:
            place.hookable = is_hookable(place.node.name())
            border.append(place)
    nodes |= visited
    return border


@cache
def is_hookable(name: str) -> bool:
    """Whether a node of this name can have a hook after it has run.

    Paddle has none for the nodes of custom operators and of PyLayer, and cannot take back what such a hook returns
    where one slot sends several gradients, as in concat."""
    if not hasattr(_GradNode, "_register_post_hook"):  # older versions of Paddle
        return False
    found = _NODE.fullmatch(name)
    return found is not None and found[1] not in _takes_lists()


@cache
def _takes_lists() -> frozenset[str]:
    """The operators that take a list of tensors, as the nodes call them (``AddN``); from the headers that Paddle
    brings along, and a few that are known without them."""
    names = set(_ALWAYS)
    folder = os.path.join(os.path.dirname(paddle.__file__), "include", "paddle", "phi", "api", "include")
    for header in _HEADERS:
        try:
            with open(os.path.join(folder, header), encoding="utf-8") as stream:
                text = stream.read()
        except OSError:  # not every build of Paddle brings them
            continue
        for name, parameters in _FUNCTIONS.findall(text):
            if set(_LISTS.findall(parameters)) - _WITHOUT_GRADIENT:
                names.add(name)
    return frozenset("".join(part.capitalize() for part in name.split("_")) for name in names)


Part = tuple[int, int, int]
"""What an input of a concat is of its output: (axis, first index, index after the last)."""


def parts_of(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> dict[int, list[Part]]:
    """The parts of a concat that each input is, by the identity of the tensor; none where it cannot be told."""
    if not name.startswith("Concat") or len(outputs) != 1:
        return {}
    whole, shapes = list(outputs[0].shape), [list(tensor.shape) for tensor in inputs]
    if any(len(shape) != len(whole) for shape in shapes):
        return {}
    for axis, size in enumerate(whole):
        others = [shape[:axis] + shape[axis + 1 :] for shape in shapes]
        if sum(shape[axis] for shape in shapes) == size and all(o == whole[:axis] + whole[axis + 1 :] for o in others):
            found: dict[int, list[Part]] = {}
            end = 0
            for tensor, shape in zip(inputs, shapes, strict=True):
                end += shape[axis]
                found.setdefault(id(tensor), []).append((axis, end - shape[axis], end))
            return found
    return {}


def gradients_in(slots: Any) -> Iterator[Tensor]:
    """The gradients that a node really sent or received, in order."""
    for slot in slots:
        for gradient in slot if isinstance(slot, list | tuple) else (slot,):
            if gradient is not None and (_has_memory(gradient) or 0 in gradient.shape):
                yield gradient


def nodes_from(roots: Any) -> list[Any]:
    """Every node that the gradients of some tensors run through, besides those that collect the gradients of leaves."""
    tensors: list[Tensor] = list(roots) if isinstance(roots, list | tuple) else [roots]
    waiting = [tensor.grad_fn for tensor in tensors if not tensor.stop_gradient and tensor.grad_fn is not None]
    found: dict[int, Any] = {}
    while waiting:
        node = waiting.pop()
        if node.node_ptr() not in found and node.name() != ACCUMULATION:
            found[node.node_ptr()] = node
            waiting += [following for following in node.next_functions if following is not None]
    return list(found.values())


def ways_to(nodes: list[Any]) -> dict[int, int]:
    """How many ways lead to a node, by its address."""
    ways: dict[int, int] = {}
    for node in nodes:
        for following in node.next_functions:
            if following is not None:
                ways[following.node_ptr()] = ways.get(following.node_ptr(), 0) + 1
    return ways
