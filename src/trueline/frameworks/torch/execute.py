"""Runs a Case once with torch: on its Target, honestly in the same dtypes, or in float64 for the gold.

All three are given the same rounded inputs. What a call raises is an Outcome; a Case that cannot be run at all
(``CannotExecute``) is for the caller to skip, with the reason.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from trueline.cases import Case, Outcome, Status, Target
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed, Inputs, Mode
from trueline.frameworks.torch import arrays
from trueline.frameworks.torch.execute_backward import arriving, go_back
from trueline.frameworks.torch.execute_errors import outcome_of
from trueline.frameworks.torch.execute_facts import (
    has_other_way,
    is_defined_by_dtype,
    keeps_its_dtype,
    other_way,
    with_explicit_defaults,
)
from trueline.frameworks.torch.execute_wide import no_wide_gold, wide_arithmetic, widen_leaf
from trueline.frameworks.torch.names import Names, Trait, hidden_leaves, may_change
from trueline.frameworks.torch.overrides import load_overrides
from trueline.frameworks.torch.rebuild import Setting, Unreplayable, leaves_of, rebuild, resolve, torch_dtype
from trueline.tree import tensor_paths

_SMALLEST_DIGITS = 8
"""Types with fewer digits (float8) are formats to store in: a call that takes them takes nothing else instead."""
_SEEDS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Job:
    """How a Case is run: the function, where, and in which arithmetic. ``foreign`` says that the function is not
    torch's own, so that nothing is known of what it does to its arguments; ``other_way`` that
    it is to be computed in another honest way than torch's."""

    function: Callable[..., Any]
    setting: Setting
    longdouble: bool = False
    foreign: bool = False
    other_way: bool = False


class TorchExecutor:
    """Executes Cases on a Target; golds and honest ones on the device of ``reference``."""

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        reference = reference or Target("torch", "cpu")
        if reference.dtype not in ("", "float64"):
            raise UsageError(f"{reference} cannot be a reference: golds are computed in float64; write torch:cpu")
        self.target = target
        self._device = _device(target)
        self._reference = _device(reference)
        self._overrides = load_overrides(target.overrides)
        if "OMP_NUM_THREADS" not in os.environ:
            # Workers share the cores by cases. One thread also makes an honest run the same on every machine.
            torch.set_num_threads(1)

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        """The inputs as all are given them: rounded once, to the dtype of the Target where it has one, else to that of
        autocast where it was on (numbers that autocast would round on the way in are rounded here, so that the gold
        sees them rounded as well)."""
        if inputs.settled:
            return inputs
        tensors = {path: self._round(case, path, array) for path, array in inputs.tensors.items()}
        gradients = inputs.gradients
        if self.target.dtype:
            gradients = {path: _to_dtype(array, self.target.dtype) for path, array in gradients.items()}
        return replace(inputs, tensors=tensors, gradients=gradients, settled=True)

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        """Runs a Case once. ``watch`` are paths of arguments to be given back as outputs whatever happened to them:
        what an honest run changed."""
        inputs = self.rounded(case, inputs)
        if mode in ("gold", "wide") and is_defined_by_dtype(case):
            return _widened(self._run(case, inputs, self._job(case, "honest"), watch))
        return self._run(case, inputs, self._job(case, mode), watch)

    def goes_other_ways(self, case: Case) -> bool:
        """Whether honest implementations compute this in ways that differ in what they round."""
        given = case.tensors[0].dtype if case.tensors else ""
        return has_other_way(case.api, self.target.dtype or case.autocast or given)

    def _job(self, case: Case, mode: Mode) -> Job:
        foreign = self._overrides.get(case.api) if mode == "candidate" else None
        device = self._device if mode == "candidate" else self._reference
        setting = Setting(device, wide=mode in ("gold", "wide"))
        return Job(foreign or resolve(case.api), setting, mode == "wide", foreign is not None, mode == "other honest")

    def _round(self, case: Case, path: str, array: ArrayIn) -> ArrayIn:
        if self.target.dtype:
            return array if keeps_its_dtype(case.api, path) else _to_dtype(array, self.target.dtype)
        if _is_lowered(case.autocast) and array.dtype == "float32":
            return arrays.rounded(arrays.rounded(array, case.autocast), array.dtype)
        return array

    def _run(self, case: Case, inputs: Inputs, job: Job, watch: Collection[str]) -> Executed:
        run = _Run(case, inputs, job, "" if self.target.dtype else case.autocast)
        return run.execute(watch)


class _Run:
    """One execution of one Case."""

    def __init__(self, case: Case, inputs: Inputs, job: Job, autocast: str) -> None:
        self._case = case
        self._inputs = inputs
        self._job = job
        self._autocast = autocast
        self._trait = _trait(case.api)
        self._leaves: dict[str, torch.Tensor] = {}
        self._given: dict[str, torch.Tensor] = {}
        self._versions: dict[str, int] = {}

    def execute(self, watch: Collection[str]) -> Executed:
        case, device = self._case, self._job.setting.device
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            try:
                stack.enter_context(self._arithmetic())
                args, kwargs = self._arguments()
                _forget_peak(device)
                started = time.perf_counter()
                with self._digits():
                    returned = self._job.function(*args, **kwargs)
                results = dict(leaves_of(returned, "out"))
                changed = self._changed(args, kwargs, watch)
                synchronise(device)
                outcome = Outcome(Status.RETURNED, "", time.perf_counter() - started, _peak(device))
                ends = {**results, **{path: self._given[path] for path in changed}}
                done = Executed(outcome, self._outputs(results, changed), working=self._working(results))
            except Unreplayable:
                raise
            except Exception as error:
                return Executed(self._ended(error, started))
            return self._go_back(done, ends) if case.backward else done

    def _go_back(self, done: Executed, ends: Mapping[str, Any]) -> Executed:
        device = self._job.setting.device
        fed = arriving(self._case, self._inputs, ends)
        started = time.perf_counter()
        try:
            found = go_back(self._case, self._leaves, fed, wide=self._job.setting.wide, digits=self._digits())
            synchronise(device)
        except Unreplayable:
            raise
        except Exception as error:
            ended = self._ended(error, started)
            return replace(done, backward=replace(ended, reason=f"in its backward: {ended.reason}"))
        outcome = Outcome(Status.RETURNED, "", time.perf_counter() - started, _peak(device))
        return replace(done, gradients=found.gradients, arrived=found.arrived, backward=outcome)

    def _ended(self, error: Exception, started: float) -> Outcome:
        if self._job.longdouble and isinstance(error, no_wide_gold()):
            return Outcome(Status.UNSUPPORTED, str(error))
        return outcome_of(error, time.perf_counter() - started)

    @contextmanager
    def _arithmetic(self) -> Iterator[None]:
        """Seeds, gradient mode, and for a gold the dtype of what is made from nothing."""
        _seed(self._case.seed & _SEEDS, self._job.setting.device)
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self._case.backward))
            if self._job.other_way:
                stack.enter_context(other_way())
            if self._job.setting.wide:
                stack.enter_context(_default_dtype(torch.float64))
            if not self._case.tensors and self._job.setting.device.type != "cpu":
                stack.enter_context(self._job.setting.device)
            yield

    def _digits(self) -> AbstractContextManager[None]:
        """What a call and its backward run in; the tensors they are given are made outside of it."""
        return wide_arithmetic() if self._job.longdouble else nullcontext()

    def _arguments(self) -> tuple[Any, dict[str, Any]]:
        paths = dict(tensor_paths(self._case.arguments))
        specs = {spec.path: spec for spec in self._case.tensors}

        def leaf(number: int) -> torch.Tensor:
            path = paths[number]
            array, spec = self._inputs.tensors.get(path), specs.get(path)
            if array is None or spec is None:
                raise Unreplayable(f"its input {path} was not recorded")
            return self._enter(path, array, spec.strides, spec.requires_grad)

        made = rebuild(self._case.arguments, leaf, self._job.setting)
        args, kwargs = made["args"], made["kwargs"]
        if self._job.setting.wide:
            kwargs = with_explicit_defaults(self._case.api, args, kwargs, self._first_dtype())
        args, kwargs = self._own_memory(args, kwargs)
        self._versions = {path: _version(value) for path, value in self._given.items()}
        return args, kwargs

    def _enter(self, path: str, array: ArrayIn, strides: tuple[int, ...] | None, requires_grad: bool) -> torch.Tensor:
        setting = self._job.setting
        if self._job.longdouble:
            made = widen_leaf(array, strides)
        else:
            made = arrays.enter(array, strides, setting.device, wide=setting.wide)
        if requires_grad and self._case.backward and (made.is_floating_point() or made.is_complex()):
            made.requires_grad_()
        self._leaves[path] = made
        if self._autocast and not setting.wide and made.is_floating_point() and made.dtype is not torch.float64:
            made = arrays.cast(made, torch_dtype(self._autocast))
        self._given[path] = made
        return made

    def _own_memory(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A call that may write to its arguments is given copies of those that are leaves of autograd, which it must
        not write to; a foreign one copies of all, so that what it does to them shows."""
        foreign = self._job.foreign
        if not foreign and (self._trait is None or not may_change(self._trait, args, kwargs)):
            return args, kwargs
        copies = {
            id(value): (path, _copy(value))
            for path, value in self._given.items()
            if value is self._leaves[path] and (foreign or value.requires_grad)
        }
        if not copies:
            return args, kwargs
        self._given.update(copies.values())
        return _replaced(args, copies), _replaced(kwargs, copies)

    def _changed(self, args: Any, kwargs: dict[str, Any], watch: Collection[str]) -> list[str]:
        """Paths of the arguments that the call changed."""
        hidden: set[int] = set()
        if self._trait is not None and not self._job.foreign:
            given = list(self._given.values())
            hidden = {id(given[place]) for place in hidden_leaves(self._trait, args, kwargs, given)}
        return [
            path
            for path, value in self._given.items()
            if path in watch
            or _version(value) != self._versions[path]
            or id(value) in hidden
            or (self._job.foreign and not _same_content(value, self._leaves[path]))
        ]

    def _outputs(self, results: Mapping[str, Any], changed: list[str]) -> dict[str, ArrayOut]:
        outputs: dict[str, ArrayOut] = {}
        returned: set[str] = set()
        for path, value in results.items():
            alias = next((where for where in changed if self._given[where] is value), "")
            returned.add(alias)
            outputs[path] = replace(arrays.leave(value, alias), view=self._shared(value))
        for path in changed:
            if path not in returned:
                outputs[path] = arrays.leave(self._given[path], path)
        return outputs

    def _shared(self, value: Any) -> str:
        """The path of an argument whose memory a result shares."""
        if self._job.longdouble or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return ""
        memory = value.untyped_storage().data_ptr()
        found = (path for path, given in self._given.items() if given.layout is torch.strided)
        return next((path for path in found if memory and self._given[path].untyped_storage().data_ptr() == memory), "")

    def _working(self, results: Mapping[str, Any]) -> str:
        tensors = [value for value in (*self._given.values(), *results.values()) if isinstance(value, torch.Tensor)]
        names = {str(value.dtype).removeprefix("torch.") for value in tensors if value.dtype.is_floating_point}
        return min(names, key=lambda name: dtype_named(name).digits, default="")

    def _first_dtype(self) -> str:
        return next((array.dtype for array in self._inputs.tensors.values()), "")


def synchronise(device: torch.device) -> None:
    """Waits until a device has done what it was told."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def _seed(seed: int, device: torch.device) -> None:
    """Seeds the generators that a call on a device can use. ``torch.manual_seed`` would reach for all devices there
    could be, at a hundred times the cost."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        getattr(torch, device.type).manual_seed(seed)


def _device(target: Target) -> torch.device:
    try:
        device = torch.device(target.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{target}: this torch ({torch.__version__}) cannot use {target.device}: {reason}") from error
    return device


def _to_dtype(array: ArrayIn, dtype: str) -> ArrayIn:
    kind = dtype_named(array.dtype)
    if kind.is_float and kind.digits >= _SMALLEST_DIGITS:
        return arrays.rounded(array, dtype)
    if kind.is_complex and dtype in ("float32", "float64"):
        return arrays.rounded(array, "complex64" if dtype == "float32" else "complex128")
    return array


def _is_lowered(autocast: str) -> bool:
    return bool(autocast) and autocast != "float32"


def _widened(executed: Executed) -> Executed:
    """Results of another dtype as a gold: the same numbers in float64."""
    return replace(
        executed,
        outputs={path: _widened_array(array) for path, array in executed.outputs.items()},
        gradients={path: _widened_array(array) for path, array in executed.gradients.items()},
    )


def _widened_array(array: ArrayOut) -> ArrayOut:
    kind = dtype_named(array.dtype)
    if array.bits is None or kind.is_exact:
        return array
    bits = arrays.widened_bits(ArrayIn(array.bits, array.dtype))
    return replace(array, bits=bits, dtype="complex128" if kind.is_complex else "float64")


@cache
def _names() -> Names:
    return Names()


@cache
def _trait(api: str) -> Trait | None:
    try:
        return _names().trait(resolve(api))
    except Unreplayable:  # an API of somebody else's, which only an override can run
        return None


def _version(value: torch.Tensor) -> int:
    return 0 if value.is_inference() else value._version


def _copy(value: torch.Tensor) -> torch.Tensor:
    """The same content in memory of its own, differentiably, with the same strides where they allow to write."""
    if hasattr(value, "array") or torch._debug_has_internal_overlap(value) == 1:
        return value.clone()
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.copy_(value)


def _replaced(value: Any, copies: Mapping[int, tuple[str, torch.Tensor]]) -> Any:
    if isinstance(value, torch.Tensor):
        return copies[id(value)][1] if id(value) in copies else value
    if isinstance(value, dict):
        return {key: _replaced(item, copies) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, copies) for item in value)
    return value


def _same_content(value: torch.Tensor, before: torch.Tensor) -> bool:
    if value is before:
        return True
    # By bytes: a NaN is not equal to itself, but unchanged all the same.
    return arrays.bits_of(value).tobytes() == arrays.bits_of(before.to(value.dtype)).tobytes()


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> int:
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else 0
