"""Runs a Case once with Paddle: on its Target, honestly in the same dtypes, or in float64 for the gold.

All three are given the same rounded inputs. What a call raises is an Outcome; a Case that cannot be run at all
(``CannotExecute``) is for the caller to skip, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

from trueline.cases import Case, Outcome, Status, Target
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.frameworks.base import GOLDS, ArrayIn, ArrayOut, Bits, Executed, Inputs, Mode
from trueline.frameworks.execution import NOT_CONNECTED, Backward, Execution, Strides
from trueline.frameworks.overrides import OwnOperators, load_overrides
from trueline.frameworks.paddle import arrays
from trueline.frameworks.paddle.execute_errors import outcome_of, sentence_of
from trueline.frameworks.paddle.execute_facts import may_change, with_explicit_defaults
from trueline.frameworks.paddle.flatten import by_position
from trueline.frameworks.paddle.rebuild import PaddleMaker, dtype_name, place_of, resolve
from trueline.frameworks.rounding import is_defined_by_dtype, settled, widened
from trueline.frameworks.values import leaves_of, replaced
from trueline.numerics.cpu import same_bits
from trueline.ops.facts import facts_of

_SEEDS = 2**63 - 1
_SIZE: type[Any] = getattr(paddle, "Size", type(None))
"""The type of shapes; Paddle has it since 3.1, before that a shape is a list."""
_NO_WIDE = "Paddle has nothing wider than float64 to judge float64 by; torch has: use --reference torch:cpu"


@dataclass(frozen=True, slots=True)
class Job:
    """How a Case is run: the function, where, and in which arithmetic. ``foreign`` says that the function is not
    Paddle's own, so that nothing is known of what it does to its arguments."""

    function: Callable[..., Any]
    device: str
    wide: bool = False
    foreign: bool = False


class PaddleExecutor:
    """Executes Cases on a Target; golds and honest ones on the device of ``reference``."""

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        reference = reference or Target("paddle", "cpu")
        if reference.dtype not in ("", "float64"):
            raise UsageError(f"{reference} cannot be a reference: golds are computed in float64; write paddle:cpu")
        self.target = target
        self._device = _usable(target)
        self._reference = _usable(reference)
        self._overrides = load_overrides(target.overrides)
        self._own = OwnOperators(target.overrides, paddle.autograd.PyLayer)
        paddle.disable_signal_handler()  # a crash is to end the process as the system has it, not in Paddle's own way
        paddle.disable_static()

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        """The inputs as all are given them: rounded once, to the dtype of the Target where it has one, else to that of
        autocast where it was on."""
        return settled(case, inputs, self.target.dtype)

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        """None: which kernels round what in between is not known of Paddle."""
        return ()

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        """Runs a Case once. ``watch`` are paths of arguments to be given back as outputs whatever happened to them:
        what an honest run changed."""
        inputs = self.rounded(case, inputs)
        if mode in GOLDS and is_defined_by_dtype(case):
            return widened(self._execution(case, inputs, "honest").execute(watch))
        if mode in ("wide", "apart"):
            if case.backward or not facts_of(case.api).exact:
                return Executed(Outcome(Status.UNSUPPORTED, _NO_WIDE))
            mode = "gold"  # moves or picks elements: nothing is rounded, so float64 is as good as anything wider
        return self._execution(case, inputs, mode).execute(watch)

    def _execution(self, case: Case, inputs: Inputs, mode: Mode) -> PaddleExecution:
        return PaddleExecution(case, inputs, self._job(case, mode), "" if self.target.dtype else case.autocast)

    def _job(self, case: Case, mode: Mode) -> Job:
        foreign = self._overrides.get(case.api) if mode == "candidate" else None
        device = self._device if mode == "candidate" else self._reference
        return Job(foreign or resolve(case.api, self._own), device, mode == "gold", foreign is not None)


class PaddleExecution(Execution):
    """One execution of one Case by Paddle."""

    def __init__(self, case: Case, inputs: Inputs, job: Job, autocast: str) -> None:
        super().__init__(case, inputs, job.function, PaddleMaker(job.device, job.wide))
        self._job = job
        self._autocast = autocast
        self._place = place_of(job.device)
        self._before: dict[str, Bits] = {}

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """Seeds, the device and the gradient mode, and for a gold the dtype of what is made from nothing."""
        device, dtype = paddle.get_device(), paddle.get_default_dtype()
        if device != self._job.device:
            paddle.set_device(self._job.device)
        paddle.seed(self.case.seed & _SEEDS)
        if self._job.wide:
            paddle.set_default_dtype("float64")
        try:
            with paddle.set_grad_enabled(self.case.backward):
                yield
        finally:
            paddle.set_default_dtype(dtype)
            if device != self._job.device:
                paddle.set_device(device)

    def enter(self, path: str, array: ArrayIn, strides: Strides, requires_grad: bool) -> Any:
        fed = arrays.as_fed(array, wide=self._job.wide)
        made = arrays.enter(fed, strides, self._place)
        kind = dtype_named(dtype_name(made.dtype))
        if requires_grad and self.case.backward and not kind.is_exact:
            made.stop_gradient = False
        self.leaves[path] = made
        if self._autocast and not self._job.wide and kind.is_float and kind.name != "float64":
            made = arrays.cast(made, self._autocast)
            fed = ArrayIn(arrays.bits_of(made), self._autocast)
        self.given[path] = made
        self._before[path] = fed.bits
        return made

    def prepared(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if self._job.wide:
            first = next((array.dtype for array in self.inputs.tensors.values()), "")
            kwargs = with_explicit_defaults(self.case.api, args, kwargs, first)
        if self._job.foreign or may_change(self.case.api, kwargs):
            args, kwargs = self._own_memory(args, kwargs)
        return args, kwargs

    def _own_memory(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Copies of the leaves of autograd, which must not be written to."""
        copies: dict[int, Any] = {}
        for path, value in self.given.items():
            if value is self.leaves[path] and not value.stop_gradient:
                copies[id(value)] = self.given[path] = value.clone()
        return replaced(args, copies, paddle.Tensor), replaced(kwargs, copies, paddle.Tensor)

    def results_of(self, returned: Any) -> Iterator[tuple[str, Any]]:
        found = leaves_of(by_position(returned), "out", paddle.Tensor, _SIZE)
        return ((path, value) for path, value in found if not self.is_tensor(value) or arrays.is_made(value))

    def changed(self, args: Any, kwargs: dict[str, Any], watch: Collection[str]) -> list[str]:
        """Looks at the content: not every kernel of Paddle's that writes to an argument counts its version up."""
        return [path for path, value in self.given.items() if path in watch or not self._as_before(path, value)]

    def _as_before(self, path: str, value: Any) -> bool:
        # Not by value: a NaN is not equal to itself, but unchanged all the same.
        return same_bits(self._before[path], arrays.bits_of(value, shared=True))

    def leave(self, value: Any, alias: str = "") -> ArrayOut:
        # Nobody writes to results any more, unless somebody unknown keeps hold of them.
        return arrays.leave(value, alias, shared=not self._job.foreign)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, paddle.Tensor)

    def dtype_of(self, tensor: Any) -> str:
        return dtype_name(tensor.dtype)

    def needs_gradient(self, tensor: Any) -> bool:
        return not tensor.stop_gradient

    def go_back(self, ends: Mapping[str, tuple[Any, ArrayIn]]) -> Backward:
        done = Backward()
        strides = {spec.path: spec.strides for spec in self.case.gradients}
        fed = []
        for path, (value, array) in ends.items():
            gradient = arrays.enter(arrays.as_fed(array, wide=self._job.wide), strides.get(path), self._place)
            if gradient.dtype != value.dtype:
                gradient = arrays.cast(gradient, dtype_name(value.dtype))
            fed.append(gradient)
            name = dtype_name(gradient.dtype)
            kept = self._job.wide or name == array.dtype
            done.arrived[path] = array if kept else ArrayIn(arrays.bits_of(gradient), name)
        wanted = {path: leaf for path, leaf in self.leaves.items() if not leaf.stop_gradient}
        if not wanted:
            return done
        if fed:
            paddle.autograd.backward([value for value, _ in ends.values()], fed)
        for path, leaf in wanted.items():
            done.gradients[path] = _missing(leaf) if leaf.grad is None else arrays.leave(leaf.grad, shared=True)
        return done

    def ended(self, error: Exception, seconds: float) -> Outcome:
        return outcome_of(error, seconds)

    def synchronise(self) -> None:
        if self._job.device != "cpu":
            paddle.device.synchronize(self._job.device)

    def forget_peak(self) -> None:
        if self._job.device.startswith("gpu"):
            paddle.device.cuda.reset_max_memory_allocated(self._place)

    def peak(self) -> int:
        if not self._job.device.startswith("gpu"):
            return 0
        return int(paddle.device.cuda.max_memory_allocated(self._place))


def _missing(leaf: Any) -> ArrayOut:
    shape = tuple(leaf.shape)
    return ArrayOut(None, dtype_name(leaf.dtype), shape, (), arrays.device_of(leaf), NOT_CONNECTED)


def _usable(target: Target) -> str:
    """The device of a Target, as Paddle names it, once it was seen to work."""
    before = paddle.get_device()
    try:
        paddle.set_device(target.device)
        device = paddle.get_device()
        paddle.to_tensor(np.zeros(1, dtype=np.float32))
    except Exception as error:
        reason = sentence_of(str(error))[:200]
        version = paddle.__version__
        raise UsageError(f"{target}: this paddle ({version}) cannot use {target.device}: {reason}") from error
    finally:
        paddle.set_device(before)
    return str(device)
