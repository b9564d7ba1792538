"""One execution of one Case, as every framework does it: arguments from bits, the call, what it returned and what it
changed, the backward, bits again.

A framework's own ``Execution`` says how tensors enter and leave, what they are, and in which arithmetic calls run.
What a call raises is an Outcome; a Case that cannot be run at all raises ``CannotExecute``.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from trueline.cases import Case, Outcome, Status
from trueline.dtypes import DTYPES, DType
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Inputs
from trueline.frameworks.values import Maker, packed, rebuild
from trueline.tree import tensor_paths

NOT_CONNECTED = "no gradient: autograd finds no way back from the result to this input"

Strides = tuple[int, ...] | None


@dataclass(slots=True)
class Backward:
    """What a backward gave: gradients by the path of the input, and the gradients that were fed."""

    gradients: dict[str, ArrayOut] = field(default_factory=dict)
    arrived: dict[str, ArrayIn] = field(default_factory=dict)


Around = Callable[[], AbstractContextManager[None]]
_around: ContextVar[Around] = ContextVar("around", default=nullcontext)


@contextmanager
def inside(around: Around) -> Iterator[None]:
    """Has every call that is executed meanwhile, and every backward, run inside of what ``around`` makes; what their
    tensors are made and read with stays outside."""
    before = _around.set(around)
    try:
        yield
    finally:
        _around.reset(before)


_last_paths: list[tuple[Case, dict[int, str]]] = []
"""Of the Cases that were executed last: each is executed several times, in two frameworks."""


def _paths_of(case: Case) -> dict[int, str]:
    for known, paths in _last_paths:
        if known is case:
            return paths
    found = dict(tensor_paths(case.arguments))
    _last_paths[:] = [(case, found), *_last_paths[:1]]
    return found


class Execution(ABC):
    """One execution of one Case. ``leaves`` are its inputs as leaves of autograd, ``given`` as the call is given them;
    most often the same tensors."""

    def __init__(self, case: Case, inputs: Inputs, function: Callable[..., Any], maker: Maker) -> None:
        self.case = case
        self.inputs = inputs
        self.function = function
        self.maker = maker
        self.leaves: dict[str, Any] = {}
        self.given: dict[str, Any] = {}

    # What a framework says

    @abstractmethod
    def arithmetic(self) -> AbstractContextManager[None]:
        """Seeds, the gradient mode and whatever else a call runs in; entered before its tensors are made."""

    @abstractmethod
    def enter(self, path: str, array: ArrayIn, strides: Strides, requires_grad: bool) -> Any:
        """The tensor of an argument; puts it into ``leaves`` and ``given``."""

    @abstractmethod
    def prepared(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments as the call is given them: defaults spelled out, memory of its own where it may write."""

    @abstractmethod
    def leave(self, value: Any, alias: str = "") -> ArrayOut:
        """A result as bits: a tensor, or a plain number."""

    @abstractmethod
    def results_of(self, returned: Any) -> Iterator[tuple[str, Any]]:
        """Tensors and numbers of what a call returned, by path."""

    @abstractmethod
    def changed(self, args: Any, kwargs: dict[str, Any], watch: Collection[str]) -> list[str]:
        """Paths of the arguments that the call changed, and of those that are watched."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def dtype_of(self, tensor: Any) -> str: ...

    @abstractmethod
    def needs_gradient(self, tensor: Any) -> bool: ...

    @abstractmethod
    def go_back(self, ends: Mapping[str, tuple[Any, ArrayIn]]) -> Backward:
        """Runs the backward from the outputs, with what arrives at them."""

    @abstractmethod
    def ended(self, error: Exception, seconds: float) -> Outcome:
        """How an execution ended that raised this."""

    def digits(self) -> AbstractContextManager[None]:
        """What a call and its backward run in; the tensors they are given are made outside of it."""
        return _around.get()()

    def synchronise(self) -> None:
        """Waits until the device has done what it was told."""
        return

    def forget_peak(self) -> None:
        """From here on, memory is counted."""
        return

    def peak(self) -> int:
        """The most bytes that were used since; 0 where that is not known."""
        return 0

    def shared(self, value: Any) -> str:
        """The path of an argument whose memory a result shares, where that is to be kept."""
        return ""

    def told(self, done: Executed) -> Executed:
        """What was executed, with what else the framework has to say of it."""
        return done

    # What is the same everywhere

    def execute(self, watch: Collection[str]) -> Executed:
        """The forward and, where the Case has one, the backward."""
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            try:
                stack.enter_context(self.arithmetic())
                args, kwargs = self.arguments()
                self.forget_peak()
                started = time.perf_counter()
                with self.digits():
                    returned = self.function(*args, **kwargs)
                results = dict(self.results_of(packed(returned)))
                changed = self.changed(args, kwargs, watch)
                self.synchronise()
                outcome = Outcome(Status.RETURNED, "", time.perf_counter() - started, self.peak())
                ends = {**results, **{path: self.given[path] for path in changed}}
                done = self.told(Executed(outcome, self._outputs(results, changed), working=self._working(results)))
            except CannotExecute:
                raise
            except Exception as error:
                return Executed(self.ended(error, time.perf_counter() - started))
            return self._go_back(done, ends) if self.case.backward else done

    def arguments(self) -> tuple[Any, dict[str, Any]]:
        """What the call is given; fills ``leaves`` and ``given``."""
        paths = _paths_of(self.case)
        specs = {spec.path: spec for spec in self.case.tensors}

        def leaf(number: int) -> Any:
            path = paths[number]
            array, spec = self.inputs.tensors.get(path), specs.get(path)
            if array is None or spec is None:
                raise CannotExecute(f"its input {path} was not recorded")
            return self.enter(path, array, spec.strides, spec.requires_grad)

        made = rebuild(self.case.arguments, leaf, self.maker)
        return self.prepared(made["args"], made["kwargs"])

    def _outputs(self, results: Mapping[str, Any], changed: list[str]) -> dict[str, ArrayOut]:
        outputs: dict[str, ArrayOut] = {}
        returned: set[str] = set()
        for path, value in results.items():
            alias = next((where for where in changed if self.given[where] is value), "")
            returned.add(alias)
            output, shared = self.leave(value, alias), self.shared(value)
            outputs[path] = replace(output, view=shared) if shared else output
        for path in changed:
            if path not in returned:
                outputs[path] = self.leave(self.given[path], path)
        return outputs

    def _working(self, results: Mapping[str, Any]) -> str:
        """The dtype that a call works in: the coarsest of its results. Inputs that are coarser than all of these were
        widened before anything was computed; they count where no result is of a floating dtype."""
        found = self._coarsest(results) or self._coarsest(self.given)
        return "" if found is None else found.name

    def _coarsest(self, values: Mapping[str, Any]) -> DType | None:
        tensors = [value for value in values.values() if self.is_tensor(value)]
        kinds = {DTYPES[name] for value in tensors if (name := self.dtype_of(value)) in DTYPES}
        return min((kind for kind in kinds if kind.is_float), key=lambda kind: kind.digits, default=None)

    def _go_back(self, done: Executed, ends: Mapping[str, Any]) -> Executed:
        fed = self.arriving(ends)
        started = time.perf_counter()
        try:
            found = self.go_back(fed)
            self.synchronise()
        except CannotExecute:
            raise
        except Exception as error:
            ended = self.ended(error, time.perf_counter() - started)
            return replace(done, backward=replace(ended, reason=f"in its backward: {ended.reason}"))
        outcome = Outcome(Status.RETURNED, "", time.perf_counter() - started, self.peak())
        return replace(done, gradients=found.gradients, arrived=found.arrived, backward=outcome)

    def arriving(self, ends: Mapping[str, Any]) -> dict[str, tuple[Any, ArrayIn]]:
        """The outputs at which gradients arrive (those that the Case names, or all that can have one; each tensor
        once), with what arrives there."""
        named = [spec.path for spec in self.case.gradients] or list(ends)
        found: dict[str, tuple[Any, ArrayIn]] = {}
        seen: list[Any] = []
        for path in named:
            place = self._place_of(path, ends)
            value = ends.get(place)
            if not self.is_tensor(value) or any(value is other for other in seen):
                continue
            seen.append(value)
            array = self._gradient_at(path, value) if self.needs_gradient(value) else None
            if array is not None:
                found[place] = (value, array)
        return found

    def _place_of(self, path: str, ends: Mapping[str, Any]) -> str:
        """Where the output of a gradient is. Dumps that keep no outputs call a single gradient ``out``, also where the
        call gave several things of which one has a gradient."""
        if path in ends:
            return path
        below = (one for one in ends if one.startswith(f"{path}."))
        return next((one for one in below if self.is_tensor(ends[one]) and self.needs_gradient(ends[one])), path)

    def _gradient_at(self, path: str, value: Any) -> ArrayIn | None:
        """What arrives at an output: the gradient that is given for it, where it fits, else one that is drawn."""
        given, shape = self.inputs.gradients.get(path), tuple(value.shape)
        if given is not None and given.bits.shape == shape:
            return given
        if self.inputs.draw is not None:
            return self.inputs.draw(path, shape, self.dtype_of(value))
        if given is not None:
            raise CannotExecute(f"the gradient of {path} has shape {given.bits.shape}, the output has {shape}")
        return None
