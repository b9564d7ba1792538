"""Sees calls and writes them down: what went in, what came out, which gradients came back.

Nothing here patches torch; ``doors.py`` opens the ways by which calls arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.optimizers import OptimizerScope
from trueline.frameworks.torch.backward import BackwardWatch
from trueline.frameworks.torch.calls import fast_calls, recorder_for
from trueline.frameworks.torch.flatten import flatten
from trueline.frameworks.torch.graph import border_of, input_edges
from trueline.frameworks.torch.names import Trait, hidden_leaves, may_change
from trueline.frameworks.torch.opencalls import (
    API,
    Closing,
    OpenCall,
    made_between,
    open_again,
    recomputing,
    thread_state,
)  # fmt: skip
from trueline.frameworks.torch.selection import Selection
from trueline.frameworks.torch.splice import FRAMES
from trueline.frameworks.torch.stacks import torch_stacks
from trueline.frameworks.torch.tensors import TensorDesk, likeness
from trueline.frameworks.torch.unseen import Unseen, kernels_are_seen, same_memory, told, unseen
from trueline.frameworks.trees import Trees
from trueline.records import Level, Role
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, ROLES

_next_sequence = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
_grad_enabled = torch.is_grad_enabled
_graph_task = torch._C._current_graph_task_id

OUTLIVED = "calls that were still running when the recording ended"
HELD_CALLS = 512
"""Rows of calls that are collected before they go to the writer."""

INPUT, OUTPUT, PARAMETER = (ROLES.index(role) for role in (Role.INPUT, Role.OUTPUT, Role.PARAMETER))
MODULE, KERNEL = (LEVELS.index(level) for level in (Level.MODULE, Level.KERNEL))


class Watch(OptimizerScope):
    """Writes calls into a notebook."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self.notebook = notebook
        self.scope = scope
        self.desk = TensorDesk(notebook, scope)
        self.fast = fast_calls()
        self.state = thread_state(self.fast)
        self.sheets = None if self.fast is None else self.fast.Sheets()
        """Where rows lie until the notebook takes them; in the notebook's own lists where there is no extension."""
        if self.sheets is not None:
            notebook.sources.append(self.sheets.take)
        self.stacks = torch_stacks(notebook, self.fast)
        self.selection = Selection(scope)
        self._trees = Trees(notebook)
        self.enter_arguments, self.enter_result = self._trees.enter_arguments, self._trees.enter_result
        self.backward_trees = self._trees.backward
        self._epoch = 0
        self._stacks_wanted = scope.stacks
        self._backward_wanted = scope.backward
        self._witness = scope.witness
        self._contexts = {
            text: notebook.define("names", text, lambda text=text: [text])  # type: ignore[misc]
            for text in ("recompute", "backward", "optimizer")
        }
        self._in_backward = self._contexts["backward"]
        self.backwards: list[BackwardWatch] = []
        self._looking = False
        self._read_after = -1
        self._settle_then = False
        """The backward after which what waits is read, and whether it is waited for."""
        self._flatten = flatten if self.fast is None else self.fast.flatten
        self._frames_to_api = 5 if self.fast is None else 4  # the mode of the extension has no frame
        self.recorder = recorder_for(
            self,
            self.fast,
            trees=self._trees.known_arguments,
            results=self._trees.known_results,
            input=INPUT,
            output=OUTPUT,
            level=API,
            none=NONE,
            held_calls=HELD_CALLS,
        )

    @property
    def looking(self) -> bool:
        """Whether a step is being recorded."""
        return self._looking

    @looking.setter
    def looking(self, looking: bool) -> None:
        self._looking = looking
        if self.recorder is not None:
            self.recorder.looking = looking
            self.recorder.epoch = self._epoch

    @property
    def backward_wanted(self) -> bool:
        """Whether gradients are listened for at the nodes of graphs."""
        return self._backward_wanted

    @backward_wanted.setter
    def backward_wanted(self, wanted: bool) -> None:
        self._backward_wanted = wanted
        if self.recorder is not None:
            self.recorder.backward = int(wanted)

    def write(self, row: tuple[int, ...], visits: list[int]) -> None:
        """Writes down a call: a row of CALL_COLUMNS, and rows of VISIT_COLUMNS one after the other."""
        if self.sheets is not None:
            self.sheets.write(row, visits)
            return
        self.notebook.visits.extend(visits)
        self.notebook.calls.extend(row)  # not +=, which would store the list again: another thread may be at it

    def call(self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None) -> Any:
        """Makes a call and records it. Faults of ours never reach the caller."""
        return made_between(self.opened(trait, args, kwargs, self._frames_to_api), function, args, kwargs)

    def opened(self, trait: Trait, args: Any, kwargs: dict[str, Any] | None, frames: int = 3) -> Closing | None:
        """Opens a call that is about to be made, and gives what closes it; None where nothing is to be done then. So
        many ``frames`` up, counted from ``begin``, the program made the call."""
        if not self._looking:  # a thread that outlives the capture still has the mode on
            return None
        try:
            call = self.begin(API, trait, args, kwargs, frames)
        except Exception as error:
            self.notebook.trouble(error)
            call = None
        if call is None:
            return self.opened_unrecorded(trait, args, kwargs)
        self.state.open += 1
        return partial(self._closed, call)

    def _closed(self, call: OpenCall, result: Any, error: BaseException | None) -> None:
        self.state.open -= 1
        if error is None:
            self.ended(call, result)
        else:
            self.abort(call, error)

    def call_unrecorded(
        self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None
    ) -> Any:
        """Makes a call that is not wanted."""
        return made_between(self.opened_unrecorded(trait, args, kwargs), function, args, kwargs)

    def opened_unrecorded(self, trait: Trait, args: Any, kwargs: dict[str, Any] | None) -> Closing | None:
        """As ``opened``, for a call that is not wanted: tensors that it may change are read before, where they still
        wait for it."""
        if not may_change(trait, args, kwargs):
            return None
        leaves: list[torch.Tensor] = []
        try:
            with Unseen():
                self._flatten((args, kwargs), leaves)
                self.desk.before_change(leaves)
        except Exception as error:
            self.notebook.trouble(error)
        return partial(self._closed_unrecorded, leaves)

    def _closed_unrecorded(self, leaves: list[torch.Tensor], result: Any, error: BaseException | None) -> None:
        try:
            with Unseen():
                self.desk.changed(leaves)
        except Exception as trouble:
            self.notebook.trouble(trouble)

    def call_outside(
        self,
        trait: Trait,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        skip_first: bool = False,
        wait: bool = False,
        frames: int = 2 + FRAMES,
        unless: Callable[[], bool] | None = None,
    ) -> Any:
        """Like ``call``, for functions that are entered with the modes on; they stay on inside. ``wait`` asks to
        wait for a result that comes later before it is read. So many ``frames`` up the program made the call.
        ``unless`` is asked when it has returned: whether it need not be written down, since another call says it."""
        call = None
        try:
            call = self.begin(API, trait, args[1:] if skip_first else args, kwargs, frames + 1)
        except Exception as error:
            self.notebook.trouble(error)
        if call is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self.abort(call, error)
            raise
        if wait and hasattr(result, "wait"):
            result.wait()
        if unless is None or not unless():
            self.ended(call, result)
        return result

    def ended(self, call: OpenCall, result: Any) -> None:
        """As ``end``; faults of ours never reach the caller."""
        if not self._looking:
            self.outlived()
            return
        try:
            self.end(call, result)
        except Exception as error:
            self.notebook.trouble(error)

    def outlived(self) -> None:
        """A call of another thread was still running when the looking ended: nobody would take what is seen of it."""
        self.notebook.tally.miss(OUTLIVED)

    def kernel(self, trait: Trait, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Runs and records one kernel, seen below autograd."""
        call = None
        try:
            call = self.begin(KERNEL, trait, args, kwargs, 4)
        except Exception as error:
            self.notebook.trouble(error)
        result = function(*args, **kwargs)
        if call is not None:
            self.ended(call, result)
        return result

    def begin(
        self,
        level: int,
        trait: Trait,
        args: Any,
        kwargs: dict[str, Any] | None,
        skip: int,
        parameters: dict[str, torch.Tensor] | None = None,
    ) -> OpenCall | None:
        """Writes down what goes in; None where this call is not wanted."""
        grad = _grad_enabled()
        with Unseen():
            return self._begin(level, trait, args, kwargs, skip + 1, parameters, grad)

    def _begin(
        self,
        level: int,
        trait: Trait,
        args: Any,
        kwargs: dict[str, Any] | None,
        skip: int,
        parameters: dict[str, torch.Tensor] | None,
        grad: bool,
    ) -> OpenCall | None:
        notebook, state = self.notebook, self.state
        if trait.step != self._epoch:
            trait.step, trait.count = self._epoch, 0
        nth = trait.count
        trait.count = nth + 1
        modules = state.modules
        module, above = (modules[-1][0], modules[-1][1]) if modules else (NONE, NONE)
        if not trait.wanted or (self.selection.narrow and not self.selection.takes(trait.name, nth, module)):
            return None
        call = OpenCall()
        call.number = number = notebook.next_call()
        call.level, call.trait, call.nth, call.module = level, trait, nth, module
        leaves: list[torch.Tensor] = []
        flatten = self._flatten
        key: Any = (tuple([flatten(value, leaves) for value in args]), None)
        if kwargs:
            key = (key[0], tuple([(name, flatten(value, leaves)) for name, value in kwargs.items()]))
        first_parameter = len(leaves)
        if parameters:
            key = (*key, tuple(parameters))
            leaves.extend(parameters.values())
        call.tree = self._trees.arguments(key)
        call.inputs = leaves
        visits: list[int] = []
        look_all = self.desk.look_all
        if parameters:
            look_all(leaves[:first_parameter], number, 0, INPUT, visits)
            look_all(leaves[first_parameter:], number, first_parameter, PARAMETER, visits)
        else:
            look_all(leaves, number, 0, INPUT, visits)
        call.visits = visits
        call.mutates = may_change(trait, args, kwargs)
        call.edges = None
        if call.mutates:
            call.hidden = hidden_leaves(trait, args, kwargs, leaves)
            call.versions = self.desk.versions(leaves)
            if self._backward_wanted and grad:
                call.edges = input_edges(leaves)  # as they are before the change
            self.desk.before_change(_may_change(trait, leaves, kwargs))
        call.first_sequence = _next_sequence()
        call.context = state.optimizer
        if _graph_task() != -1:
            call.context = self.backward_context()
        call.stack = self.stacks.here(skip, above) if self._stacks_wanted else NONE
        return call

    def end(self, call: OpenCall, result: Any) -> None:
        """Writes down what came out."""
        grad = _grad_enabled()
        with Unseen():
            self._end(call, result, grad)

    def _end(self, call: OpenCall, result: Any, grad: bool) -> None:
        inputs = call.inputs
        outputs: list[torch.Tensor] = []
        key: Any = self._flatten(result, outputs)
        returned = len(outputs)
        if not inputs and not returned:
            return  # no tensor in, none out: nothing that numbers could be said of
        changed: tuple[int, ...] = ()
        if call.mutates:
            changed = self._changed(call, outputs)
            outputs += [inputs[position] for position in changed]
        first = len(inputs)
        tree = self._trees.result(key, first, changed, call.tree)
        self.desk.look_all(outputs, call.number, first, OUTPUT, call.visits)
        if call.mutates and (self.state.functions or call.level == KERNEL):
            self.desk.before_change(outputs)  # mark_dirty, or autograd above a kernel, will move their version counters
        self._write(call, tree, NONE)
        if self._many_rows():
            self.notebook.hand_over()
        if self._backward_wanted and call.level != KERNEL and grad:
            edges = call.edges
            for tensor in outputs:
                if told(tensor, "requires_grad"):
                    if edges is None:
                        edges = input_edges(inputs)
                    self._watch_backward(call, tree, outputs[:returned] if returned else outputs, first, edges)
                    break

    def abort(self, call: OpenCall, error: BaseException) -> None:
        """Writes down a call that raised; the program decides what that means."""
        try:
            text = f"{type(error).__name__}: {error}"[:500]
            if type(error).__name__ == "_StopRecomputationError":
                text = "stopped by activation checkpointing: all it needed was recomputed"
            raised = self.notebook.define("names", text, lambda: [text])
            self._write(call, NONE, raised)
        except Exception as trouble:
            self.notebook.trouble(trouble)

    @unseen
    def end_step(self) -> None:
        """Closes a step: gradients that never came, tensors that wait."""
        for backward in self.backwards:
            backward.close()
        self.backwards.clear()
        self._epoch += 1
        if self.recorder is not None:
            self.recorder.epoch = self._epoch
        self.desk.end_step()

    # What the extension asks of us.

    def backward_context(self) -> int:
        """The context of a call that is made while a backward runs."""
        return self._contexts["recompute" if recomputing() else "backward"]

    def read_after_backward(self) -> None:
        """Has what waits read when the backward that is running ends: before other gradients are added to those that it
        made, or mixed with those of other processes."""
        torch.autograd.Variable._execution_engine.queue_callback(self._backward_ended)

    def stand_in(self, gradient: torch.Tensor) -> torch.Tensor:
        """What to keep of a gradient that is to become that of a parameter. Autograd gives one away if nobody else has
        it, and a copy if somebody has: so we keep another tensor for the same memory. What lies there may be changed
        unseen once the backward has ended (the next one adds to it), so it is read by then. In CPU memory, where that
        would take the program's time, the copy is cheaper, unless there is somebody who sees it."""
        in_memory, is_odd = told(gradient, "device").type == "cpu", type(gradient) is not torch.Tensor
        if in_memory and not is_odd and not kernels_are_seen():
            return gradient
        self._settle_then |= in_memory
        task = _graph_task()
        if task not in (-1, self._read_after):
            self._read_after = task
            self.read_after_backward()
        with Unseen():
            return likeness(gradient) if is_odd else same_memory(gradient)

    def _backward_ended(self) -> None:
        try:
            settle, self._settle_then = self._settle_then, False
            with Unseen():
                (self.desk.settle if settle else self.desk.launch)()
        except Exception as error:
            self.notebook.trouble(error)

    def raised_inside(self, *fields: Any) -> None:
        """A call raised; ``fields`` are those of ``open_again``, the visits and the error."""
        *known, visits, error = fields
        call = open_again(*known)
        call.visits = visits
        self.abort(call, error)

    def watch_backward(self, *fields: Any) -> None:
        """Watches the backward of a call that added many nodes, or changed a view."""
        *known, inputs, first_sequence, result, outputs, mutates, edges = fields
        call = open_again(*known)
        call.inputs, call.mutates, call.first_sequence = inputs, bool(mutates), first_sequence
        self._watch_backward(call, result, outputs, len(inputs), input_edges(inputs) if edges is None else edges)

    def _many_rows(self) -> bool:
        if self.sheets is not None:
            return len(self.sheets) > HELD_CALLS
        return len(self.notebook.calls) > HELD_CALLS * len(CALL_COLUMNS)

    def _write(self, call: OpenCall, result: int, raised: int) -> None:
        row = (
            call.number,
            call.level,
            1 if call.level == KERNEL and call.context == self._in_backward else 0,
            call.trait.name_id,
            call.nth,
            self.notebook.step,
            call.module,
            call.context,
            self.state.number,
            NONE,
            call.tree,
            result,
            raised,
            call.stack,
        )
        self.write(row, call.visits)

    def _changed(self, call: OpenCall, outputs: list[torch.Tensor]) -> tuple[int, ...]:
        """Which inputs the call changed and did not return: positions among the input leaves."""
        versions = zip(call.versions, self.desk.versions(call.inputs), strict=True)
        hidden = call.hidden
        changed = [position for position, (old, new) in enumerate(versions) if old != new or position in hidden]
        self.desk.changed([call.inputs[position] for position in changed])
        returned = {id(tensor) for tensor in outputs}
        found = []
        for position in changed:
            if id(call.inputs[position]) not in returned:
                returned.add(id(call.inputs[position]))
                found.append(position)
        return tuple(found)

    def _watch_backward(
        self, call: OpenCall, result: int, outputs: list[torch.Tensor], first: int, edges: list[tuple[int, Any, int]]
    ) -> None:
        border = border_of(
            outputs, first, edges, call.first_sequence, self._witness, call.inputs if call.mutates else None
        )
        if border is not None and border.nodes:
            watch = BackwardWatch(self, call, result, border)
            if watch.waits:
                self.backwards.append(watch)


def _may_change(trait: Trait, leaves: list[torch.Tensor], kwargs: dict[str, Any] | None) -> list[torch.Tensor]:
    """The tensors that a call might change: for most in-place calls the first one, but lists and out= can be any."""
    if kwargs and kwargs.get("out") is not None:
        return leaves
    return leaves[:1] if trait.first_only else leaves
