"""Records the backward of one forward call: the gradients that reach its outputs and those it sends to its inputs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import paddle

from trueline.frameworks.paddle.graph import BorderNode, Edge, Part, gradients_in, parts_of
from trueline.frameworks.paddle.reading import Tensor, data_ptr
from trueline.frameworks.paddle.tensors import Look
from trueline.records import Role
from trueline.store.columns import NONE, ROLES

if TYPE_CHECKING:
    from trueline.frameworks.paddle.calls import OpenCall, Watch

INPUT, OUTPUT = ROLES.index(Role.INPUT), ROLES.index(Role.OUTPUT)
HELD_BYTES = 64 << 20

SHARED = "gradient of an input that several calls use, at a node that Paddle gives no hook for"
OVERWRITTEN = "gradient that a hook of the program made and a node wrote over at once"
UNKNOWN = "gradient that could not be told apart from others of its call"

_register_hook = paddle.Tensor._register_grad_hook
_remove_hook = paddle.Tensor._remove_grad_hook
_clone = paddle.Tensor.clone
_add = paddle._C_ops.add
_has_memory = paddle.Tensor._is_initialized


class BackwardWatch:
    """Waits at the border of a call; writes one backward Call when all of it has been crossed."""

    __slots__ = (
        "_call", "_fired", "_result", "_step", "_sums", "_undo", "_watch", "arrived", "departed", "waits", "whole",
    )  # fmt: skip

    def __init__(self, watch: Watch, call: OpenCall, result: int) -> None:
        self._watch = watch
        self._call = (
            call.number, call.level, call.trait.name_id, call.nth, call.module, call.context, call.tree, call.stack,
        )  # fmt: skip
        self._result = result
        self._step = watch.notebook.step
        self._fired = 0
        self._undo: list[tuple[Any, int]] = []
        self._sums: dict[int, Tensor] = {}
        """Gradients that leave for the same input in several places, copied and added up."""
        self.waits = 0
        self.arrived: dict[int, Look] = {}
        self.departed: dict[int, Look] = {}
        self.whole: Tensor | None = None
        """What arrived, where what leaves may have to be made from it."""

    def attach(self, border: list[BorderNode], outputs: list[Tensor], first: int, inputs: list[Tensor]) -> None:
        """Goes to every place where gradients of the call come by."""
        ways: dict[int, int] = {}
        for place in border:
            for _, edge in place.departures:
                ways[edge.node] = ways.get(edge.node, 0) + 1
        for place in border:
            for leaf, _ in place.arrivals:
                hook = _Arrival(self, leaf, place.node.node_ptr(), counts=not place.hookable)
                _register_hook(outputs[leaf - first], hook)
            if place.hookable:
                several = frozenset(edge.leaf for _, edge in place.departures if ways[edge.node] > 1)
                place.node._register_post_hook(_NodeHook(self, place, several))
                self.waits += 1
            else:
                self.waits += len(place.arrivals)
                parts = parts_of(place.node.name(), inputs, outputs) if len(border) == 1 else {}
                self._at_inputs(place, inputs, ways, parts)

    def _at_inputs(
        self, place: BorderNode, inputs: list[Tensor], ways: dict[int, int], parts: dict[int, list[Part]]
    ) -> None:
        """For a node without a hook: waits where the gradients arrive."""
        for edge in {edge.leaf: edge for _, edge in place.departures}.values():
            tensor = inputs[edge.leaf]
            number = int(_register_hook(tensor, _Departure(self, edge, ways[edge.node], parts.get(edge.tensor))))
            self._undo.append((tensor if edge.is_leaf else None, number))
            self.waits += 1

    def crossed(self) -> None:
        """One place of the border was passed."""
        self._fired += 1
        if self._fired >= self.waits:
            self.close()

    def leave(self, leaf: int, gradient: Tensor, *, several: bool = False) -> None:
        """A gradient goes to an input. It is read at once: where it arrives, others may be added to it in place."""
        if not several:
            self.departed[leaf] = self._watch.desk.look(gradient)
            return
        earlier = self._sums.get(leaf)
        self._sums[leaf] = copy_of(gradient) if earlier is None else sum_of(earlier, gradient)

    def close(self) -> None:
        """Writes the backward call, if any gradient came by."""
        for leaf, gradient in self._sums.items():
            self.departed[leaf] = self._watch.desk.look(gradient)
        if self._fired and (self.arrived or self.departed):
            self._write()
        self._fired = 0
        self.arrived, self.departed, self._sums, self.whole = {}, {}, {}, None

    def detach(self) -> None:
        """Takes back the hooks at leaves; the others die with the graph."""
        for tensor, number in self._undo:
            if tensor is not None:
                _remove_hook(tensor, number)
        self._undo.clear()

    def _write(self) -> None:
        watch = self._watch
        notebook = watch.notebook
        forward, level, name, nth, module, context, tree, stack = self._call
        arrived, departed = self.arrived, dict(sorted(self.departed.items()))
        number = notebook.next_call()
        arguments, result = watch.trees.backward((tree, self._result, tuple(arrived), tuple(departed)))
        visits: list[int] = []
        for position, look in enumerate(arrived.values()):
            visits += (number, position, INPUT, *look)
        for position, look in enumerate(departed.values(), len(arrived)):
            visits += (number, position, OUTPUT, *look)
        notebook.visits.extend(visits)
        row = (
            number, level, 1, name, nth, self._step, module, context, watch.state.number, forward, arguments, result,
            NONE, stack,
        )  # fmt: skip
        notebook.calls.extend(row)


class _NodeHook:
    """What a node calls after it has run. It must give back what it was given, whatever happens."""

    __slots__ = ("_arrival", "_backward", "_departures", "_sends", "_several")

    def __init__(self, backward: BackwardWatch, place: BorderNode, several: frozenset[int]) -> None:
        self._backward = backward
        self._arrival = place.arrivals[0] if len(place.arrivals) == 1 else None
        self._departures = place.departures  # not the place itself: it holds the node, which holds us
        self._sends = place.sends
        self._several = several

    def __call__(self, sent: Any, received: Any) -> Any:
        watch = self._backward._watch
        if watch.looking:
            watch.state.open += 1
            try:
                self._fire(watch, sent, received)
            except Exception as error:
                watch.notebook.trouble(error)
            finally:
                watch.state.open -= 1
        return sent

    def _fire(self, watch: Watch, sent: Any, received: Any) -> None:
        backward = self._backward
        if self._arrival is not None:
            self._check_arrival(watch, *self._arrival, sent, received)
        if self._departures:
            going = list(gradients_in(sent))
            for edge, gradient in self._matched(going):
                if gradient is None:
                    watch.notebook.tally.miss(UNKNOWN)
                    continue
                backward.leave(edge.leaf, gradient, several=edge.leaf in self._several)
                if not edge.is_leaf:
                    watch.held.keep(gradient)
        backward.crossed()

    def _check_arrival(self, watch: Watch, leaf: int, shape: tuple[int, ...], sent: Any, received: Any) -> None:
        """What the node was given is what arrived at the output, unless a hook of the program made something else of
        it. Then it is taken from here, where the node may have overwritten it already."""
        gradient = _arrived(list(gradients_in(received)), shape)
        held = self._backward.whole
        if gradient is None or (held is not None and data_ptr(held) == data_ptr(gradient)):
            return
        if data_ptr(gradient) in [data_ptr(other) for other in gradients_in(sent)]:
            self._backward.arrived.pop(leaf, None)
            watch.notebook.tally.miss(OVERWRITTEN)
        else:
            self._backward.arrived[leaf] = watch.desk.look(gradient)

    def _matched(self, going: list[Tensor]) -> list[tuple[Edge, Tensor | None]]:
        if len(going) == self._sends:
            return [(edge, going[position]) for position, edge in self._departures]
        # Some gradients were not computed: the others keep their order, and have the shapes of their inputs.
        matched: list[tuple[Edge, Tensor | None]] = []
        for _, edge in self._departures:
            found = next((place for place, item in enumerate(going) if tuple(item.shape) == edge.shape), None)
            if found is not None:
                matched.append((edge, going.pop(found)))
            elif going:
                matched.append((edge, None))
        return matched


class _TensorHook:
    """What a tensor calls when all of its gradient has come. It must give back nothing, whatever happens."""

    __slots__ = ("_backward",)
    counts: bool
    """Whether the border is crossed here."""

    def __init__(self, backward: BackwardWatch) -> None:
        self._backward = backward

    def __call__(self, gradient: Tensor | None) -> None:
        watch = self._backward._watch
        if not watch.looking:
            return
        watch.state.open += 1
        try:
            if gradient is not None and (_has_memory(gradient) or 0 in gradient.shape):
                self._take(watch, gradient)
            if self.counts:
                self._backward.crossed()
        except Exception as error:
            watch.notebook.trouble(error)
        finally:
            watch.state.open -= 1

    def _take(self, watch: Watch, gradient: Tensor) -> None:
        raise NotImplementedError


class _Arrival(_TensorHook):
    """Of an output of the call. The gradient is held until the node has run: as long as somebody else holds it, no node
    writes what it sends over what it was given. What came by several ways was added up in place, so it is new."""

    __slots__ = ("_leaf", "_node", "counts")

    def __init__(self, backward: BackwardWatch, leaf: int, node: int, *, counts: bool) -> None:
        super().__init__(backward)
        self._leaf = leaf
        self._node = node
        self.counts = counts

    def _take(self, watch: Watch, gradient: Tensor) -> None:
        if watch.ways.get(self._node, 2) > 1:
            watch.desk.changed([gradient])
        self._backward.whole = gradient
        self._backward.arrived[self._leaf] = watch.desk.look(gradient)


class _Departure(_TensorHook):
    """Of an input of the call: its gradient is that of the call alone only if no other way leads to it. Of a concat
    it can be told all the same, from what arrived."""

    __slots__ = ("_edge", "_parts", "_ways")
    counts = True

    def __init__(self, backward: BackwardWatch, edge: Edge, ways: int, parts: list[Part] | None) -> None:
        super().__init__(backward)
        self._edge = edge
        self._ways = ways
        self._parts = parts

    def _take(self, watch: Watch, gradient: Tensor) -> None:
        backward, edge = self._backward, self._edge
        if watch.ways.get(edge.node, 2) <= self._ways:
            if self._ways > 1:
                watch.desk.changed([gradient])
            backward.leave(edge.leaf, gradient)
            if not edge.is_leaf:
                watch.held.keep(gradient)
        elif self._parts and backward.whole is not None:
            for axis, first, end in self._parts:
                with paddle.no_grad():
                    part = paddle.slice(backward.whole, [axis], [first], [end])
                backward.leave(edge.leaf, part, several=len(self._parts) > 1)
        else:
            watch.notebook.tally.miss(SHARED)


class Held:
    """The gradients that came by last. As long as they live, whoever meets one again knows it; so a bounded number is
    kept alive a little longer than Paddle would."""

    def __init__(self) -> None:
        self._tensors: deque[tuple[Tensor, int]] = deque()
        self._bytes = 0

    def keep(self, tensor: Tensor) -> None:
        size = tensor.element_size()
        for extent in tensor.shape:
            size *= extent
        if size > HELD_BYTES:
            return
        self._tensors.append((tensor, size))
        self._bytes += size
        while self._bytes > HELD_BYTES:
            self._bytes -= self._tensors.popleft()[1]

    def release(self) -> None:
        self._tensors.clear()
        self._bytes = 0


def copy_of(tensor: Tensor) -> Tensor:
    with paddle.no_grad():
        return _clone(tensor)


def sum_of(left: Tensor, right: Tensor) -> Tensor:
    """The sum of two gradients, computed outside of any graph and any call."""
    with paddle.no_grad():
        return _add(left, right)


def _arrived(gradients: list[Tensor], shape: tuple[int, ...]) -> Tensor | None:
    """The gradient of an output, which has its shape, among those that reached a node."""
    if len(gradients) == 1:
        return gradients[0]
    return next((gradient for gradient in gradients if tuple(gradient.shape) == shape), None)
