"""Runs a Case once with torch: on its Target, honestly in the same dtypes, or in float64 for the gold.

All three are given the same rounded inputs. What a call raises is an Outcome; a Case that cannot be run at all
(``CannotExecute``) is for the caller to skip, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from trueline.cases import Case, Outcome, Status, Target
from trueline.errors import UsageError
from trueline.frameworks.base import GOLDS, Again, ArrayIn, ArrayOut, Conduct, Executed, Inputs, Mode
from trueline.frameworks.execution import Backward, Execution, Strides
from trueline.frameworks.overrides import OwnOperators, load_overrides
from trueline.frameworks.rounding import is_defined_by_dtype, settled, widened
from trueline.frameworks.torch import arrays
from trueline.frameworks.torch.execute_again import called_again
from trueline.frameworks.torch.execute_attention import other_way, other_ways
from trueline.frameworks.torch.execute_backward import go_back
from trueline.frameworks.torch.execute_errors import outcome_of
from trueline.frameworks.torch.execute_facts import tensor_float, with_device_defaults, with_explicit_defaults
from trueline.frameworks.torch.execute_wide import no_wide_gold, wide_arithmetic, widen_leaf
from trueline.frameworks.torch.names import Names, Trait, hidden_leaves, may_change
from trueline.frameworks.torch.rebuild import (
    Setting,
    TorchMaker,
    dtype_name,
    leaves_of,
    resolve,
    torch_dtype,
)
from trueline.frameworks.values import replaced

_SEEDS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Job:
    """How a Case is run: the function, where, and in which arithmetic. ``foreign`` says that the function is not
    torch's own, so that nothing is known of what it does to its arguments; ``way`` is the mode of another honest way
    than torch's, and ``target`` the device of the Target, whose defaults hold for all. ``apart`` says that longdouble
    is there for another implementation, not for its digits."""

    function: Callable[..., Any]
    setting: Setting
    longdouble: bool = False
    foreign: bool = False
    way: Mode | None = None
    target: str = "cpu"
    apart: bool = False


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
        self._own = OwnOperators(target.overrides, torch.autograd.Function)
        if "OMP_NUM_THREADS" not in os.environ:
            # Workers share the cores by cases. One thread also makes an honest run the same on every machine.
            torch.set_num_threads(1)

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        """The inputs as all are given them: rounded once, to the dtype of the Target where it has one, else to that of
        autocast where it was on (numbers that autocast would round on the way in are rounded here, so that the gold
        sees them rounded as well)."""
        return settled(case, inputs, self.target.dtype, arrays.rounded)

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        """Runs a Case once. ``watch`` are paths of arguments to be given back as outputs whatever happened to them:
        what an honest run changed."""
        inputs = self.rounded(case, inputs)
        if mode in GOLDS and is_defined_by_dtype(case):
            return widened(self._run(case, inputs, self._job(case, "honest"), watch))
        return self._run(case, inputs, self._job(case, mode), watch)

    def again(self, case: Case, inputs: Inputs, other: Inputs) -> Again | None:
        """The candidate's call made again with other values in the same memory."""
        inputs, job = self.rounded(case, inputs), self._job(case, "candidate")
        execution = TorchExecution(case, inputs, job, "" if self.target.dtype else case.autocast)
        return called_again(execution, self.rounded(case, other).tensors)

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        """The modes in which honest implementations compute this that round other things than torch's own."""
        given = case.tensors[0].dtype if case.tensors else ""
        return other_ways(case.api, self.target.dtype or case.autocast or given)

    def _job(self, case: Case, mode: Mode) -> Job:
        foreign = self._overrides.get(case.api) if mode == "candidate" else None
        device = self._device if mode == "candidate" else self._reference
        setting = Setting(device, wide=mode in GOLDS)
        way = mode if mode in ("honest steps", "honest fused") else None
        function = foreign or resolve(case.api, self._own)
        longdouble = mode in ("wide", "apart")
        return Job(function, setting, longdouble, foreign is not None, way, self._device.type, mode == "apart")

    def _run(self, case: Case, inputs: Inputs, job: Job, watch: Collection[str]) -> Executed:
        return TorchExecution(case, inputs, job, "" if self.target.dtype else case.autocast).execute(watch)


class TorchExecution(Execution):
    """One execution of one Case by torch."""

    def __init__(self, case: Case, inputs: Inputs, job: Job, autocast: str) -> None:
        super().__init__(case, inputs, job.function, TorchMaker(job.setting))
        self._job = job
        self._autocast = autocast
        self._trait = None if job.foreign else _trait(job.function)
        self._versions: dict[str, int] = {}
        self._random: torch.Tensor | None = None

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """Seeds, gradient mode, and for a gold the dtype of what is made from nothing."""
        _seed(self.case.seed & _SEEDS, self._job.setting.device)
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.case.backward))
            if self._job.way is not None:
                stack.enter_context(other_way(self._job.way))
            if self._job.setting.wide:
                stack.enter_context(_default_dtype(torch.float64))
            if not self.case.tensors and self._job.setting.device.type != "cpu":
                stack.enter_context(self._job.setting.device)
            yield

    def digits(self) -> AbstractContextManager[None]:
        return self._wide() if self._job.longdouble else super().digits()

    @contextmanager
    def _wide(self) -> Iterator[None]:
        with super().digits(), wide_arithmetic(apart=self._job.apart):
            yield

    def enter(self, path: str, array: ArrayIn, strides: Strides, requires_grad: bool) -> torch.Tensor:
        setting = self._job.setting
        if self._job.longdouble:
            made = widen_leaf(array, strides)
        else:
            made = arrays.enter(array, strides, setting.device, wide=setting.wide)
        if requires_grad and self.case.backward and (made.is_floating_point() or made.is_complex()):
            made.requires_grad_()
        self.leaves[path] = made
        if self._autocast and not setting.wide and made.is_floating_point() and made.dtype is not torch.float64:
            made = arrays.cast(made, torch_dtype(self._autocast))
        self.given[path] = made
        return made

    def prepared(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        kwargs = with_device_defaults(self.case.api, args, kwargs, self._job.target)
        if self._job.setting.wide:
            first = next((array.dtype for array in self.inputs.tensors.values()), "")
            kwargs = with_explicit_defaults(self.case.api, args, kwargs, first)
        args, kwargs = self._own_memory(args, kwargs)
        self._versions = {path: _version(value) for path, value in self.given.items()}
        self._random = None if self._job.setting.wide else _random_state(self._job.setting.device)
        return args, kwargs

    def _own_memory(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A call that may write to its arguments is given copies of those that are leaves of autograd, which it must
        not write to; a foreign one copies of all, so that what it does to them shows."""
        foreign = self._job.foreign
        if not foreign and (self._trait is None or not may_change(self._trait, args, kwargs)):
            return args, kwargs
        copies: dict[int, torch.Tensor] = {}
        for path, value in self.given.items():
            if value is self.leaves[path] and (foreign or value.requires_grad):
                copies[id(value)] = self.given[path] = _copy(value)
        if not copies:
            return args, kwargs
        return replaced(args, copies, torch.Tensor), replaced(kwargs, copies, torch.Tensor)

    def results_of(self, returned: Any) -> Iterator[tuple[str, Any]]:
        return leaves_of(returned, "out")

    def changed(self, args: Any, kwargs: dict[str, Any], watch: Collection[str]) -> list[str]:
        """By version counters and what is known of those that do not count; of a foreign function by content."""
        hidden: set[int] = set()
        if self._trait is not None and not self._job.foreign:
            given = list(self.given.values())
            hidden = {id(given[place]) for place in hidden_leaves(self._trait, args, kwargs, given)}
        return [
            path
            for path, value in self.given.items()
            if path in watch
            or _version(value) != self._versions[path]
            or id(value) in hidden
            or (self._job.foreign and not _same_content(value, self.leaves[path]))
        ]

    def leave(self, value: Any, alias: str = "") -> ArrayOut:
        # Nobody writes to results any more, unless somebody unknown keeps hold of them.
        return arrays.leave(value, alias, shared=not self._job.foreign)

    def told(self, done: Executed) -> Executed:
        rounded = tensor_float(self.case.api, self._job.setting.device.type)
        return replace(done, tensor_float=rounded, conduct=self._conduct())

    def _conduct(self) -> Conduct | None:
        if self._random is None:
            return None
        draws = not torch.equal(self._random, _random_state(self._job.setting.device))
        return Conduct(draws, torch.is_grad_enabled() is not self.case.backward)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def dtype_of(self, tensor: Any) -> str:
        return dtype_name(tensor.dtype)

    def needs_gradient(self, tensor: Any) -> bool:
        return bool(tensor.requires_grad)

    def go_back(self, ends: Mapping[str, tuple[Any, ArrayIn]]) -> Backward:
        return go_back(self.case, self.leaves, ends, wide=self._job.setting.wide, digits=self.digits())

    def ended(self, error: Exception, seconds: float) -> Outcome:
        if self._job.longdouble and isinstance(error, no_wide_gold()):
            return Outcome(Status.UNSUPPORTED, str(error))
        return outcome_of(error, seconds)

    def synchronise(self) -> None:
        synchronise(self._job.setting.device)

    def forget_peak(self) -> None:
        if self._job.setting.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._job.setting.device)

    def peak(self) -> int:
        device = self._job.setting.device
        return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else 0

    def shared(self, value: Any) -> str:
        """The path of an argument whose memory a result shares."""
        if self._job.longdouble or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return ""
        memory = value.untyped_storage().data_ptr()
        found = (path for path, given in self.given.items() if given.layout is torch.strided)
        return next((path for path in found if memory and self.given[path].untyped_storage().data_ptr() == memory), "")


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


def _random_state(device: torch.device) -> torch.Tensor:
    """The state of the generator that calls on a device draw from."""
    if device.type == "cpu":
        return torch.default_generator.get_state()
    state: torch.Tensor = getattr(torch, device.type).get_rng_state(device)
    return state


def _device(target: Target) -> torch.device:
    try:
        device = torch.device(target.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{target}: this torch ({torch.__version__}) cannot use {target.device}: {reason}") from error
    return device


@cache
def _names() -> Names:
    return Names()


@cache
def _trait(function: Callable[..., Any]) -> Trait:
    return _names().trait(function)


def _version(value: torch.Tensor) -> int:
    return 0 if value.is_inference() else value._version


def _copy(value: torch.Tensor) -> torch.Tensor:
    """The same content in memory of its own, differentiably, with the same strides where they allow to write."""
    if hasattr(value, "array") or torch._debug_has_internal_overlap(value) == 1:
        return value.clone()
    first = value.storage_offset()
    length = first + 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    if not first or not value.numel():
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    else:  # what lies before it in memory goes along: a kernel that starts there reads numbers, not nothing
        made = value.detach().as_strided((length,), (1,), 0).clone().as_strided(value.shape, value.stride(), first)
    return made.copy_(value)


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
