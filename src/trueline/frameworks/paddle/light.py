"""A light watch of a Paddle program: every call is held for its step, few tensors are read.

The doors are those of a capture (``watch.py``); what goes through them is remembered, not written down: the arguments
and results as they are, with their version counters. Gradients come by a hook at every output. What a step gives away
is read before the optimizer changes parameters, since Paddle's optimizers leave no trace in version counters; other
outputs are read in rotation, in one go. See ``frameworks.light`` for what all this is for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle

from trueline.frameworks.base import Tally
from trueline.frameworks.light import LOOKS, Examination, LightOptions, LookName, Sink, StepLooks
from trueline.frameworks.paddle.light_calls import LightWatch
from trueline.frameworks.paddle.light_held import Book, Kept, Ring, Tensor, examined, look_at
from trueline.frameworks.paddle.optimizers import scaler_in_charge
from trueline.frameworks.paddle.reading import data_ptr, dtype_key
from trueline.frameworks.paddle.watch import PaddleWatcher
from trueline.numerics.light import LOOK
from trueline.records import Phase, Role

_CHEAP = 0.03
"""Looks at everything that cost less than this share of a step are taken in every step."""

_version = paddle.Tensor._inplace_version

Wanted = tuple[Any, int, int, int]
"""A tensor to be looked at, the number of its call, the number of its name, and the Sink."""


class PaddleLight:
    """The light watcher of Paddle."""

    def __init__(self, options: LightOptions) -> None:
        self._options = options
        self.trouble: dict[str, int] = {}
        self.names: list[LookName] = []
        self._numbers: dict[LookName, int] = {}
        self._short: dict[tuple[Any, ...], int] = {}
        self._ring = Ring(Book(self.trouble, Tally()), options.hold)
        self._watch = LightWatch(self._ring, backward=options.backward)
        notebook: Any = self._watch.notebook  # the doors tell it of trouble, and nothing else
        self._doors = PaddleWatcher(notebook, self._watch.scope, self._watch)
        self._parameters: list[Tensor] = []
        self._looks: list[StepLooks] = []
        self._looked = 0
        self._gradients_looked = False
        self._stepped = False
        self._previous: tuple[int, list[Kept], frozenset[int]] | None = None
        self._step = 0
        self._rotation = 1 if options.whole else options.rotation
        self._spent, self._began = 0.0, time.perf_counter()

    def start(self) -> None:
        self._doors.start()
        self._began = time.perf_counter()

    def stop(self) -> None:
        self._doors.close()

    def abandon(self) -> None:
        self._doors.abandon()
        self._ring.clear()

    def optimizer_begins(self, optimizer: Any) -> None:
        self._doors.optimizer_begins(optimizer)
        self._parameters = _parameters_of(optimizer)
        if not scaler_in_charge():  # a scaler looks itself first, and then lets step or not
            self._look(partial=True)

    def optimizer_ends(self, optimizer: Any) -> None:
        self._doors.optimizer_ends(optimizer)
        if not self._watch.found_inf:
            self._stepped = True
            self._ring.updated.update(id(tensor) for tensor in self._parameters)

    def end_step(self, step: int) -> None:
        self._step = step
        self._look(partial=False)
        self._previous = (step, self._ring.calls, frozenset(self._ring.updated))
        self._ring.turn()
        self._watch.end_step()
        self._step, self._looked, self._gradients_looked, self._stepped = step + 1, 0, False, False
        self._pace()

    def poll(self) -> Sequence[StepLooks]:
        looks, self._looks = self._looks, []
        return looks

    def examine(self, step: int) -> Examination:
        self._watch.state.open += 1  # whatever we call now is ours
        try:
            if self._previous is not None and self._previous[0] == step:
                return examined(step, self._previous[1], self._previous[2], self._ring)
            return examined(step, self._ring.calls, frozenset(self._ring.updated), self._ring)
        finally:
            self._watch.state.open -= 1

    def forget(self, step: int) -> None:
        if self._previous is not None and self._previous[0] <= step:
            self._previous = None

    def _pace(self) -> None:
        """Looks at every call in each step where that is cheap."""
        now = time.perf_counter()
        if not self._options.whole:
            is_cheap = self._spent * self._rotation < _CHEAP * (now - self._began)
            self._rotation = 1 if is_cheap else self._options.rotation
        self._spent, self._began = 0.0, now

    def _look(self, *, partial: bool) -> None:
        began = time.perf_counter()
        self._watch.state.open += 1
        try:
            wanted = [*self._outputs(), *self._sinks(partial=partial)]
            if not partial:
                wanted += self._results()
            self._looks.append(self._read(wanted, partial))
        except Exception as error:
            self._watch.notebook.trouble(error)
        finally:
            self._watch.state.open -= 1
        self._spent += time.perf_counter() - began

    def _read(self, wanted: list[Wanted], partial: bool) -> StepLooks:
        rows = np.zeros(len(wanted), LOOKS)
        now = self._step // self._rotation
        whole = self._options.whole
        rounds = [None if whole or sink != Sink.NONE else now + call for _, call, _, sink in wanted]
        numbers = look_at([tensor for tensor, *_ in wanted], rounds)
        for field in LOOK.names or ():
            rows[field] = numbers[field]
        if wanted:
            _, rows["call"], rows["name"], rows["sink"] = zip(*wanted, strict=True)
        return StepLooks(self._step, rows, self.names, partial, self._watch.found_inf, self._stepped)

    def _outputs(self) -> list[Wanted]:
        """Outputs and arrived gradients whose turn it is, of the calls since the last look; the same memory once."""
        found: list[Wanted] = []
        seen: set[tuple[int, int]] = set()
        calls = self._ring.calls[self._looked :]
        self._looked = len(self._ring.calls)
        for kept in calls:
            if (kept.number + self._step) % self._rotation or kept.args is None:
                continue
            for position, tensor in enumerate(kept.outputs):
                if _is_float(tensor) and _version(tensor) == kept.after[position] and _is_new(tensor, seen):
                    found.append((tensor, kept.number, self._name(kept, position, tensor, Phase.FORWARD), Sink.NONE))
            for position, (_, gradient) in kept.arrived.items():
                if _is_float(gradient) and _is_new(gradient, seen):
                    found.append(
                        (gradient, kept.number, self._name(kept, position, gradient, Phase.BACKWARD), Sink.NONE)
                    )
        return found

    def _sinks(self, *, partial: bool) -> list[Wanted]:
        found: list[Wanted] = []
        if not self._ring.calls:  # nothing was done in this step: what is bad was bad before
            return found
        if not self._gradients_looked:
            self._gradients_looked = partial
            for loss in self._watch.losses:
                found.append((loss, -1, self._outside("loss", 0, Role.OUTPUT, "loss", loss), int(Sink.LOSS)))
            for number, parameter in enumerate(self._parameters):
                gradient = parameter._grad_ivar()
                if gradient is not None and gradient._is_initialized() and gradient.is_dense():
                    name = self._outside(parameter.name, number, Role.PARAMETER, "grad", gradient)
                    found.append((gradient, -1, name, int(Sink.GRADIENT)))
        if self._stepped and not partial:
            for number, parameter in enumerate(self._parameters):
                if not (number + self._step) % self._rotation:
                    name = self._outside(parameter.name, number, Role.PARAMETER, "value", parameter)
                    found.append((parameter, -1, name, int(Sink.PARAMETER)))
        return found

    def _results(self) -> list[Wanted]:
        """In a step without a backward, what came of it: outputs that no later call took up."""
        if self._watch.losses:
            return []
        calls = [kept for kept in self._ring.calls if kept.args is not None]
        taken = {id(tensor) for kept in calls for tensor in kept.inputs}
        return [
            (tensor, kept.number, self._name(kept, position, tensor, Phase.FORWARD), int(Sink.RESULT))
            for kept in calls
            for position, tensor in enumerate(kept.outputs)
            if id(tensor) not in taken and _is_float(tensor) and _version(tensor) == kept.after[position]
        ]

    def _name(self, kept: Kept, position: int, tensor: Tensor, phase: Phase) -> int:
        """The number of the name of an output, or of the gradient that arrived at it."""
        key = (kept.api, kept.nth, position, phase, kept.module, kept.context, dtype_key(tensor.dtype))
        number = self._short.get(key)
        if number is None:
            path = "out" if position == 0 and kept.returned <= 1 else f"out.{position}"
            module, kind = self._ring.book.module(kept.module)
            role = Role.OUTPUT if phase is Phase.FORWARD else Role.INPUT
            dtype = str(tensor.dtype).rpartition(".")[2]
            name = LookName(kept.api, kept.nth, phase, role, path, dtype, module, kind, kept.context)
            number = self._short[key] = self._number(name)
        return number

    def _outside(self, api: str, nth: int, role: Role, path: str, tensor: Tensor) -> int:
        """The number of the name of something that is no call: the loss, a parameter, its gradient."""
        key = (api, nth, path, role, dtype_key(tensor.dtype))
        number = self._short.get(key)
        if number is None:
            dtype = str(tensor.dtype).rpartition(".")[2]
            number = self._short[key] = self._number(LookName(api, nth, Phase.BACKWARD, role, path, dtype))
        return number

    def _number(self, name: LookName) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number


def _is_float(tensor: Tensor) -> bool:
    return bool(tensor.is_floating_point()) and bool(tensor._is_initialized()) and bool(tensor.is_dense())


def _is_new(tensor: Tensor, seen: set[tuple[int, int]]) -> bool:
    """Whether its memory is not among the seen, and enters it: all of a step is held, so addresses tell."""
    mark = (data_ptr(tensor), int(np.prod(tensor.shape)))
    known = mark in seen
    seen.add(mark)
    return not known


def _parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters of an optimizer, those of all its groups."""
    listed = getattr(optimizer, "_parameter_list", None)
    if listed is None and hasattr(optimizer, "_inner_opt"):
        return _parameters_of(optimizer._inner_opt)
    found: list[Tensor] = []
    for item in listed or ():
        found += item["params"] if isinstance(item, dict) else [item]
    return found
