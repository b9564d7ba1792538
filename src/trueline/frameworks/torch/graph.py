"""The piece of the autograd graph that one call added, and the gradients that cross its border.

The gradients of a call are what enters its piece at the outputs and what leaves it at the inputs; not what is summed
up elsewhere in the graph. Most calls add one node, whose hook gives both at once. Where a call added several, each
node on the border is watched and the parts are put together.
"""

from __future__ import annotations

from typing import Any

import torch

from trueline.frameworks.torch.unseen import Unseen, told

MARK = "trueline"
"""Nodes that belong to a recorded call carry this key in their metadata."""

MOST_NODES = 4096
"""A single call that adds more nodes than this is taken as it is: its border is not searched further."""

Edge = tuple[Any, int]


def _accumulator() -> type:
    with torch.enable_grad(), torch.inference_mode(False), torch._C.DisableTorchFunction():
        tensor = torch.empty(0, requires_grad=True)
        return type(tensor.view_as(tensor).grad_fn.next_functions[0][0])  # type: ignore[union-attr]


ACCUMULATE: Any = _accumulator()
"""The type of the nodes that collect the gradient of a leaf."""


class Border:
    """Where gradients enter and leave the nodes of one call.

    ``nodes`` holds (node, arrivals, departures, window) for each node to be watched: arrivals maps a position among
    the gradients that reach the node to a forward output, departures a position among those it sends on to a forward
    input (both as leaf numbers of the forward call). ``window`` is the part of its first gradient that counts, None
    where all of it does.
    """

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, list[tuple[int, int]], list[tuple[int, int]], Window | None]] = []


class Window:
    """The part of a gradient that belongs to a view which was changed in place.

    Autograd then keeps one node (CopySlices) for the whole base: gradients of the base go in and come out, and what
    the call did to the view happens within the view's part of them.
    """

    __slots__ = ("_base", "_view")

    def __init__(self, view: torch.Tensor, base: torch.Tensor) -> None:
        self._view = (view.shape, view.stride(), view.storage_offset() - base.storage_offset())
        self._base = (base.shape, base.stride())

    def of(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same gradients, the first one cut down to the view."""
        whole = gradients[0]
        if whole is None:
            return gradients
        shape, strides, offset = self._view
        with Unseen():
            if whole.stride() != self._base[1]:
                whole = whole.new_empty_strided(*self._base).copy_(whole)
            return whole.as_strided(shape, strides, offset + whole.storage_offset()), *gradients[1:]


def input_edges(leaves: list[torch.Tensor]) -> list[tuple[int, Any, int]]:
    """(leaf number, node or leaf tensor, output number) for the inputs that require a gradient."""
    found = []
    for number, tensor in enumerate(leaves):
        if told(tensor, "requires_grad"):
            node = told(tensor, "grad_fn")
            found.append((number, tensor, 0) if node is None else (number, node, told(tensor, "output_nr")))
    return found


def border_of(
    outputs: list[torch.Tensor],
    first_output: int,
    edges: list[tuple[int, Any, int]],
    first_sequence: int,
    mark: bool,
    changeable: list[torch.Tensor] | None = None,
) -> Border | None:
    """Finds the border of the nodes that lie between the outputs and the input edges; None where there is none.

    ``first_sequence`` is the number that autograd would have given to the next node before the call was made: nodes
    with a smaller one are older than the call. ``changeable`` are the inputs of a call that may work in place.
    """
    entries, windows = _entries(outputs, first_output, edges, first_sequence, changeable)
    if not entries:
        return None
    border = Border()
    known = {(id(source), number): leaf for leaf, source, number in edges}
    if len(entries) == 1 and not mark and not windows:
        ((node, arrivals),) = entries.items()
        departures = _simple_departures(node, known)
        if departures is not None:
            border.nodes.append((node, arrivals, departures, None))
            return border
    waiting = list(entries)
    visited = set(waiting)
    while waiting and len(visited) < MOST_NODES:
        node = waiting.pop()
        window, view = windows.get(node, (None, None))
        departures = []
        for position, (following, number) in enumerate(node.next_functions):
            if window is not None and position == 0:  # leads on to the base: within the window, that is the view
                leaf = view
            elif following is None:
                continue
            else:
                leaf = _leaf_at(following, number, known)
                if leaf is None and following not in visited and following._sequence_nr() >= first_sequence:
                    visited.add(following)
                    waiting.append(following)
            if leaf is not None:
                departures.append((position, leaf))
        if mark:
            node.metadata[MARK] = True
        if departures or node in entries:
            border.nodes.append((node, entries.get(node, []), departures, window))
    if mark and windows:
        for tensor in outputs:  # a view that was changed in place has a node of its own too, above that of its base
            if (node := told(tensor, "grad_fn")) is not None:
                node.metadata[MARK] = True
    return border


def _entries(
    outputs: list[torch.Tensor],
    first_output: int,
    edges: list[tuple[int, Any, int]],
    first_sequence: int,
    changeable: list[torch.Tensor] | None,
) -> tuple[dict[Any, list[tuple[int, int]]], dict[Any, tuple[Window, int | None]]]:
    """The nodes at which gradients enter, with their arrivals; and for those that stand for the base of a view, the
    window and the leaf number of the view among the inputs."""
    entries: dict[Any, list[tuple[int, int]]] = {}
    windows: dict[Any, tuple[Window, int | None]] = {}
    for position, tensor in enumerate(outputs, first_output):
        if not told(tensor, "requires_grad"):
            continue
        node = told(tensor, "grad_fn")
        if node is None or node._sequence_nr() < first_sequence:
            continue
        base = told(tensor, "_base") if changeable else None
        slices = None if base is None else _slices_of(base, first_sequence)
        if base is None or slices is None or node == slices:
            entries.setdefault(node, []).append((told(tensor, "output_nr"), position))
        else:
            entries[slices] = [(0, position)]
            leaves = (leaf for leaf, _, _ in edges if (changeable or ())[leaf] is tensor)
            windows[slices] = Window(tensor, base), next(leaves, None)
    return entries, windows


def _slices_of(base: torch.Tensor, first_sequence: int) -> Any:
    """The node that stands for a tensor since the call changed a view of it in place; None where it did not."""
    node = told(base, "grad_fn") if told(base, "requires_grad") else None
    if node is None or node._sequence_nr() < first_sequence or not node.name().endswith("CopySlices"):
        return None
    return node


def _leaf_at(following: Any, number: int, known: dict[tuple[int, int], int]) -> int | None:
    """The forward input that an edge leads to."""
    leaf = known.get((id(following), number))
    if leaf is None and type(following) is ACCUMULATE:
        leaf = known.get((id(following.variable), 0))
    return leaf


def _simple_departures(node: Any, known: dict[tuple[int, int], int]) -> list[tuple[int, int]] | None:
    """The way out of a node whose every edge leads straight to an input: most calls add just one such node. None
    where the node is not of that kind."""
    departures = []
    for position, (following, number) in enumerate(node.next_functions):
        if following is None:
            continue
        leaf = _leaf_at(following, number, known)
        if leaf is None:
            return None
        departures.append((position, leaf))
    return departures
