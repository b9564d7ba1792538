"""The piece of the autograd graph that one call added, and the gradients that cross its border.

The gradients of a call are what enters its piece at the outputs and what leaves it at the inputs; not what is summed
up elsewhere in the graph. Most calls add one node, whose hook gives both at once. Where a call added several, each
node on the border is watched and the parts are put together.
"""

from __future__ import annotations

from typing import Any

import torch

MARK = "trueline"
"""Nodes that belong to a recorded call carry this key in their metadata."""

MOST_NODES = 4096
"""A single call that adds more nodes than this is taken as it is: its border is not searched further."""

Edge = tuple[Any, int]


class Border:
    """Where gradients enter and leave the nodes of one call.

    ``nodes`` holds (node, arrivals, departures) for each node to be watched: arrivals maps a position among the
    gradients that reach the node to a forward output, departures a position among those it sends on to a forward
    input (both as leaf numbers of the forward call).
    """

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, list[tuple[int, int]], list[tuple[int, int]]]] = []


def input_edges(leaves: list[torch.Tensor]) -> list[tuple[int, Any, int]]:
    """(leaf number, node or leaf tensor, output number) for the inputs that require a gradient."""
    found = []
    for number, tensor in enumerate(leaves):
        if tensor.requires_grad:
            node = tensor.grad_fn
            found.append((number, tensor, 0) if node is None else (number, node, tensor.output_nr))
    return found


def border_of(
    outputs: list[torch.Tensor], first_output: int, edges: list[tuple[int, Any, int]], first_sequence: int, mark: bool
) -> Border | None:
    """Finds the border of the nodes that lie between the outputs and the input edges; None where there is none.

    ``first_sequence`` is the number that autograd would have given to the next node before the call was made: nodes
    with a smaller one are older than the call.
    """
    entries: dict[Any, list[tuple[int, int]]] = {}
    known = {(id(source), number): leaf for leaf, source, number in edges}
    for position, tensor in enumerate(outputs):
        if not tensor.requires_grad:
            continue
        node = tensor.grad_fn
        if node is not None and node._sequence_nr() >= first_sequence:
            entries.setdefault(node, []).append((tensor.output_nr, first_output + position))
    if not entries:
        return None
    border = Border()
    if len(entries) == 1 and not mark:
        (node, arrivals), = entries.items()
        departures = _simple_departures(node, known)
        if departures is not None:
            border.nodes.append((node, arrivals, departures))
            return border
    waiting = list(entries)
    visited = set(waiting)
    while waiting and len(visited) < MOST_NODES:
        node = waiting.pop()
        departures = []
        for position, (following, number) in enumerate(node.next_functions):
            if following is None:
                continue
            leaf = known.get((id(following), number))
            if leaf is None:
                variable = getattr(following, "variable", None)
                if variable is not None:
                    leaf = known.get((id(variable), 0))
                elif following not in visited and following._sequence_nr() >= first_sequence:
                    visited.add(following)
                    waiting.append(following)
            if leaf is not None:
                departures.append((position, leaf))
        if mark:
            node.metadata[MARK] = True
        if departures or node in entries:
            border.nodes.append((node, entries.get(node, []), departures))
    return border


def _simple_departures(node: Any, known: dict[tuple[int, int], int]) -> list[tuple[int, int]] | None:
    """The way out of a node whose every edge leads straight to an input: most calls add just one such node. None
    where the node is not of that kind."""
    departures = []
    for position, (following, number) in enumerate(node.next_functions):
        if following is None:
            continue
        leaf = known.get((id(following), number))
        if leaf is None:
            variable = getattr(following, "variable", None)
            leaf = known.get((id(variable), 0)) if variable is not None else None
            if leaf is None:
                return None
        departures.append((position, leaf))
    return departures
