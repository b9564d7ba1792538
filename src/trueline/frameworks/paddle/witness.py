"""Counts what Paddle itself says it computed, inside recorded calls and outside of them.

Forward: Paddle's statistics of operators (``paddle.amp.debugging.collect_operator_stats``), asked before and after each
outermost call. Backward: the nodes of the graph that a backward runs through, each of which must belong to a recorded
call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
from paddle.base import core

from trueline.frameworks.paddle.graph import nodes_from

if TYPE_CHECKING:
    from trueline.frameworks.base import Tally

_FLAG = "FLAGS_low_precision_op_list"


class Witness:
    """Fills the counts of kernels in the tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._flag: Any = 0
        self._last: dict[str, int] = {}
        self._in_backward = False
        self.nodes: set[int] = set()
        """The addresses of the nodes that belong to recorded calls of this step."""

        self.custom: set[str] = set()
        """The names of the nodes of recorded PyLayers, whose addresses are not always known."""

    def on(self) -> None:
        self._flag = paddle.get_flags([_FLAG])[_FLAG]
        paddle.set_flags({_FLAG: 1})
        self._last = counts()

    def off(self) -> None:
        self._count(recorded=False)
        self.nodes.clear()
        paddle.set_flags({_FLAG: self._flag})

    def call_begins(self) -> None:
        """An outermost call begins: what was computed since the last one was outside."""
        self._count(recorded=self._in_backward)

    def call_ends(self, recorded: bool) -> None:
        self._count(recorded=recorded)

    def backward_begins(self, roots: Any) -> None:
        """A backward begins: all nodes that it may run through are counted; what the engine computes by itself on the
        way (the first gradient, sums) is theirs."""
        self._count(recorded=self._in_backward)
        self._in_backward = True
        for node in nodes_from(roots):
            if node.node_ptr() in self.nodes or node.name() in self.custom:
                self._tally.kernels_inside += 1
            else:
                outside = self._tally.kernels_outside
                outside[node.name()] = outside.get(node.name(), 0) + 1

    def backward_ends(self, outermost: bool) -> None:
        self._count(recorded=self._in_backward)
        self._in_backward = self._in_backward and not outermost

    def _count(self, *, recorded: bool) -> None:
        last, now = self._last, counts()
        self._last = now
        for name, count in now.items():
            fresh = count - last.get(name, 0)
            if fresh and recorded:
                self._tally.kernels_inside += fresh
            elif fresh:
                self._tally.kernels_outside[name] = self._tally.kernels_outside.get(name, 0) + fresh


def counts() -> dict[str, int]:
    """Operator -> how often it ran since the statistics were cleared."""
    return {name: sum(map(int, text.split(","))) for name, text in core.get_low_precision_op_list().items()}
