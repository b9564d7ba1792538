"""Sees calls and writes them down: what went in, what came out, which gradients came back.

Nothing here patches Paddle; ``watch.py`` opens the ways by which calls arrive.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import paddle

from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.optimizers import OptimizerScope
from trueline.frameworks.paddle.backward import BackwardWatch, Held
from trueline.frameworks.paddle.flatten import flatten
from trueline.frameworks.paddle.graph import Edge, border_of, edges_of, nodes_from, ways_to
from trueline.frameworks.paddle.names import Trait
from trueline.frameworks.paddle.reading import Tensor
from trueline.frameworks.paddle.tensors import TensorDesk
from trueline.frameworks.paddle.witness import Witness
from trueline.frameworks.selection import Selection
from trueline.frameworks.stacks import Stacks
from trueline.frameworks.threads import thread_number
from trueline.frameworks.trees import Trees
from trueline.records import Level, Role
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, ROLES

HELD_INTEGERS = 512 * len(CALL_COLUMNS)
"""Rows of calls that are collected before they go to the writer."""

INPUT, OUTPUT, PARAMETER = (ROLES.index(role) for role in (Role.INPUT, Role.OUTPUT, Role.PARAMETER))
API, MODULE, KERNEL = (LEVELS.index(level) for level in (Level.API, Level.MODULE, Level.KERNEL))

_is_dynamic = paddle.in_dynamic_mode


class ThreadState(threading.local):
    """What one thread is in the middle of."""

    def __init__(self) -> None:
        self.modules: list[tuple[int, int, Any]] = []
        """The Layers being called: (number, stack at the call, Layer)."""
        self.optimizer = NONE
        self.open = 0
        """How many recorded calls are running, and work of ours: what is called meanwhile belongs to them."""
        self.backwards = 0
        """How many backwards are running, one inside the other."""
        self.contexts: list[Any] = []
        """The PyLayers being applied: what their forward was given to remember things by."""
        self.number = thread_number()


class OpenCall:
    """A call between its begin and its end."""

    __slots__ = (
        "context", "edges", "inputs", "level", "module", "mutates", "nth", "number", "stack", "trait", "tree",
        "versions", "visits", "write",
    )  # fmt: skip

    number: int
    level: int
    trait: Trait
    nth: int
    module: int
    context: int
    stack: int
    tree: int
    inputs: list[Tensor]
    visits: list[int]
    mutates: bool
    versions: list[int]
    write: int
    edges: list[Edge] | None


class Watch(OptimizerScope):
    """Writes calls into a notebook."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self.notebook = notebook
        self.scope = scope
        self.state = ThreadState()
        self.desk = TensorDesk(notebook, scope)
        self.trees = Trees(notebook)
        self.stacks = Stacks(notebook, paddle, paddle.nn.Layer.__call__.__code__)
        self.selection = Selection(scope)
        self.held = Held()
        self.ways: dict[int, int] = {}
        """In the backward that is running, how many ways lead to a node, by its address."""
        self.backwards: list[BackwardWatch] = []
        self.witness: Witness | None = None
        self.remember_context: Callable[[OpenCall, int, list[Tensor], int], None] = lambda *call: None
        self.looking = False
        self._epoch = 0
        self._stacks_wanted = scope.stacks
        self._backward_wanted = scope.backward
        self._contexts = {
            text: notebook.define("names", text, lambda text=text: [text])  # type: ignore[misc]
            for text in ("recompute", "backward", "optimizer")
        }

    def enter_trait(self, trait: Trait) -> Trait:
        """Asks whether the calls of a function are wanted. Its name is numbered when it is called: most never are."""
        trait.wanted = self.selection.api(trait.name)
        return trait

    def call(self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Makes a call and records it, without what is called inside. Faults of ours never reach the caller."""
        return self.make(API, trait, function, args, kwargs, args)

    def kernel(self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """The same at the level of kernels."""
        return self.make(KERNEL, trait, function, args, kwargs, args)

    def make(
        self,
        level: int,
        trait: Trait,
        function: Callable[..., Any],
        args: Any,
        kwargs: dict[str, Any],
        shown: Any,
        inside: int = 1,
    ) -> Any:
        """Makes a call and records it with the arguments ``shown``; ``inside`` 0 lets what it calls be recorded too."""
        if not _is_dynamic():  # a static graph is being built: nothing is computed
            return function(*args, **kwargs)
        state, witness = self.state, self.witness if inside else None
        call = None
        state.open += 1
        try:
            call = self.begin(level, trait, shown, kwargs)
            if witness is not None:
                witness.call_begins()
        except Exception as error:
            self.notebook.trouble(error)
        state.open += inside - 1
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            state.open -= inside
            if call is not None:
                self.abort(call, error)
            if witness is not None:
                witness.call_ends(recorded=call is not None)
            raise
        state.open += 1 - inside
        try:
            if trait.waits and hasattr(result, "wait"):
                result.wait()
            recorded = call is None  # not asked for
            if call is not None:
                recorded = self.end(call, result)
            elif trait.mutates:
                self.desk.changed(_tensors_in((result, shown) if trait.hides_all else result))
            if witness is not None:
                witness.call_ends(recorded)
        except Exception as error:
            self.notebook.trouble(error)
        finally:
            state.open -= 1
        return result

    def written(self, result: Any) -> None:
        """A kernel that changes what it is given has run inside a call: it gives back what it changed."""
        try:
            self.desk.changed(_tensors_in(result))
        except Exception as error:
            self.notebook.trouble(error)

    def begin(
        self,
        level: int,
        trait: Trait,
        args: Any,
        kwargs: dict[str, Any] | None,
        parameters: dict[str, Tensor] | None = None,
    ) -> OpenCall | None:
        """Writes down what goes in; None where this call is not wanted."""
        notebook, state = self.notebook, self.state
        if trait.step != self._epoch:
            trait.step, trait.count = self._epoch, 0
        nth = trait.count
        trait.count = nth + 1
        modules = state.modules
        module, above = (modules[-1][0], modules[-1][1]) if modules else (NONE, NONE)
        if not trait.wanted or (self.selection.narrow and not self.selection.takes(trait.name, nth, module)):
            return None
        if trait.name_id < 0:
            trait.name_id = notebook.define("names", trait.name, lambda: [trait.name])
        call = OpenCall()
        call.number = number = notebook.next_call()
        call.level, call.trait, call.nth, call.module = level, trait, nth, module
        leaves: list[Tensor] = []
        key: Any = (tuple([flatten(value, leaves) for value in args]), None)
        if kwargs:
            key = (key[0], tuple([(name, flatten(value, leaves)) for name, value in kwargs.items()]))
        first_parameter = len(leaves)
        if parameters:
            key = (*key, tuple(parameters))
            leaves.extend(parameters.values())
        call.tree = self.trees.arguments(key)
        call.inputs = leaves
        visits: list[int] = []
        call.visits = visits
        self.desk.look_all(leaves[:first_parameter], number, 0, INPUT, visits)
        if parameters:
            self.desk.look_all(leaves[first_parameter:], number, first_parameter, PARAMETER, visits)
        call.mutates = trait.mutates or bool(kwargs and (kwargs.get("out") is not None or kwargs.get("inplace")))
        call.edges = None
        if call.mutates:
            call.versions = self.desk.versions(leaves)
            if self._backward_wanted:
                call.edges = edges_of(leaves)  # as they are before the change
        call.write = self.desk.last_write
        call.context = self.backward_context() if state.backwards else state.optimizer
        call.stack = self.stacks.here(2, above) if self._stacks_wanted else NONE
        return call

    def end(self, call: OpenCall, result: Any) -> bool:
        """Writes down what came out; False where nothing did."""
        inputs = call.inputs
        outputs: list[Tensor] = []
        key = flatten(result, outputs)
        returned = len(outputs)
        changed = self._changed(call, outputs)
        if not returned and not changed:
            call.trait.count -= call.trait.count == call.nth + 1
            return False  # a question, or something between objects
        outputs += [inputs[position] for position in changed]
        first = len(inputs)
        tree = self.trees.result(key, first, changed, call.tree)
        self.desk.look_all(outputs, call.number, first, OUTPUT, call.visits)
        self.write(call, tree, NONE)
        if len(self.notebook.calls) > HELD_INTEGERS:
            self.notebook.hand_over()
        if self._backward_wanted:
            if call.trait.by_context:
                self.remember_context(call, tree, outputs[:returned], first)
            elif not all(tensor.stop_gradient for tensor in outputs):
                self._watch_backward(call, tree, outputs[:returned] if returned else outputs, first)
        return True

    def abort(self, call: OpenCall, error: BaseException) -> None:
        """Writes down a call that raised; the program decides what that means."""
        try:
            text = f"{type(error).__name__}: {error}"[:500]
            self.write(call, NONE, self.notebook.define("names", text, lambda: [text]))
        except Exception as trouble:
            self.notebook.trouble(trouble)

    def write(self, call: OpenCall, result: int, raised: int) -> None:
        row = (
            call.number, call.level, 0, call.trait.name_id, call.nth, self.notebook.step, call.module, call.context,
            self.state.number, NONE, call.tree, result, raised, call.stack,
        )  # fmt: skip
        self.write_row(row, call.visits)

    def write_row(self, row: tuple[int, ...], visits: list[int]) -> None:
        """Writes down a row of CALL_COLUMNS, and rows of VISIT_COLUMNS one after the other."""
        self.notebook.visits.extend(visits)
        self.notebook.calls.extend(row)

    def backward_context(self) -> int:
        """The context of a call that is made while a backward runs."""
        return self._contexts["recompute" if _recomputing() else "backward"]

    def backward_begins(self, roots: Any) -> None:
        """A backward begins, from some tensors; perhaps inside another."""
        try:
            if self.witness is not None:
                self.witness.backward_begins(roots)
            if self._backward_wanted:
                self.ways.update(ways_to(nodes_from(roots)))
        except Exception as error:
            self.notebook.trouble(error)

    def backward_ends(self, *, outermost: bool) -> None:
        """A backward has run; after the outermost one all that was to come has come."""
        try:
            if outermost:
                for backward in self.backwards:
                    backward.close()
                    backward.detach()
                self.backwards.clear()
                self.ways.clear()
                self.held.release()
            self.desk.gradients_summed()
            if self.witness is not None:
                self.witness.backward_ends(outermost)
        except Exception as error:
            self.notebook.trouble(error)

    def end_step(self) -> None:
        """Closes a step."""
        self.backward_ends(outermost=True)
        self._epoch += 1
        self.desk.end_step()

    def _changed(self, call: OpenCall, outputs: list[Tensor]) -> tuple[int, ...]:
        """Which inputs the call changed and did not return: positions among the input leaves."""
        inputs, desk = call.inputs, self.desk
        found: set[int] = set()
        if call.mutates:
            found = self._changed_openly(call, outputs)
        found.update(desk.written_since(inputs, call.write))
        if not found:
            return ()
        returned = {id(tensor) for tensor in outputs}
        changed = []
        for position in sorted(found):
            if id(inputs[position]) not in returned:
                returned.add(id(inputs[position]))
                changed.append(position)
        return tuple(changed)

    def _changed_openly(self, call: OpenCall, outputs: list[Tensor]) -> set[int]:
        """What the version counters say, what is given back of what was given, and what is known of the function."""
        inputs, trait = call.inputs, call.trait
        versions = zip(call.versions, self.desk.versions(inputs), strict=True)
        found = {position for position, (old, new) in enumerate(versions) if old != new}
        given = {id(tensor): position for position, tensor in enumerate(inputs)}
        found.update(given[id(tensor)] for tensor in outputs if id(tensor) in given)
        if trait.writes_first and inputs:
            found.add(0)
        if trait.hides_all:
            found.update(range(len(inputs)))
        self.desk.changed([inputs[position] for position in found])
        return found

    def _watch_backward(self, call: OpenCall, result: int, outputs: list[Tensor], first: int) -> None:
        edges = call.edges
        if edges is None:
            edges = edges_of(call.inputs)
        for edge in edges:
            if edge.is_leaf:
                self.desk.collects(call.inputs[edge.leaf])
        border = border_of(outputs, first, edges, None if self.witness is None else self.witness.nodes)
        if border:
            backward = BackwardWatch(self, call, result)
            backward.attach(border, outputs, first, call.inputs)
            if backward.waits > 1:
                self.backwards.append(backward)


def _tensors_in(value: Any) -> list[Tensor]:
    found: list[Tensor] = []
    flatten(value, found)
    return found


def _recomputing() -> bool:
    """Whether activation checkpointing is running the forward again."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith("recompute.py") and "paddle" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
