"""Runs one recorded call again, alone, on its recorded inputs: in float64 for the truth, and in its own precision.

``assess`` says how far a recorded output lies from the truth and how far an honest implementation in the same dtype
lies from it on the same inputs. Both start from what the call was really given, rounded as it was. Calls that cannot
be run again (other ranks, objects that were not recorded) raise ``Unreplayable`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trueline.dtypes import dtype_named
from trueline.frameworks.base import Bits
from trueline.frameworks.torch.rebuild import CPU, Setting, Unreplayable, rebuild, resolve, tensor_of, tensors_of
from trueline.records import Call, Phase, TensorRecord
from trueline.tree import tensor_paths

Fetch = Callable[[TensorRecord], Bits]
"""Gives the stored bits of a tensor."""

_CASTS = {"bfloat16", "half", "float", "double", "float64", "float32", "float16"}
_NOT_A_FUNCTION = {"as_strided"}
"""A result that depends on how its argument lies in memory, which only the recorded elements tell."""
_MAX_ELEMENTS = 1 << 28
"""Calls that touch more elements than this are not replayed: float64 copies of them would not fit."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Distances from the truth, of the worst output: of what was recorded (``error``) and of an honest implementation
    (``honest``); ``peak`` and ``honest_peak`` are the same for the worst element, in units of the largest magnitude.
    ``roundoff`` is the unit roundoff of the recorded output."""

    path: str
    error: float
    honest: float
    peak: float
    honest_peak: float
    roundoff: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call with the means to get its tensors; ``forward`` is the forward call of a backward one. ``ignored`` are
    paths of outputs that hold more than this call's own work."""

    call: Call
    fetch: Fetch
    forward: Call | None = None
    ignored: frozenset[str] = frozenset()


def assess(recorded: Recorded) -> Assessment:
    """Replays a call and says how wrong each recorded output is; gives the worst."""
    _check(recorded)
    outputs = {
        record.path: record for record in recorded.call.outputs if record.stored and record.path not in recorded.ignored
    }
    if not outputs:
        raise Unreplayable("none of its outputs can be judged")
    truth = _run(recorded, exact=True)
    honest = _run_honest(recorded, outputs)
    found = []
    for path, record in outputs.items():
        if path in truth:
            actual = _tensor(recorded.fetch(record), record)
            found.append(_assessment(path, actual, truth[path], honest.get(path), record))
    if not found:
        raise Unreplayable("the replay returned other outputs than were recorded")
    return max(found, key=lambda one: one.error / max(one.honest, one.roundoff * 1e-3, 1e-30))


def _check(recorded: Recorded) -> None:
    call = recorded.call
    if call.api.rpartition(".")[2] in _NOT_A_FUNCTION or call.raised:
        raise Unreplayable("it is no function of its arguments alone")
    if call.phase is Phase.BACKWARD and recorded.forward is None:
        raise Unreplayable("its forward call was not recorded")
    elements = sum(int(np.prod(record.shape, dtype=np.int64)) for record in call.tensors)
    if elements > _MAX_ELEMENTS:
        raise Unreplayable(f"it touches {elements:,} elements")


def _run_honest(recorded: Recorded, outputs: Mapping[str, TensorRecord]) -> dict[str, torch.Tensor]:
    """The call in its own precision; where this machine has no such kernel, the truth rounded."""
    try:
        return _run(recorded, exact=False)
    except Unreplayable:
        raise
    except (RuntimeError, NotImplementedError, TypeError):
        return {}


def _run(recorded: Recorded, *, exact: bool) -> dict[str, torch.Tensor]:
    """All outputs by path; ``exact`` in float64."""
    call = recorded.call
    forward = recorded.forward if call.phase is Phase.BACKWARD else call
    assert forward is not None
    target = torch.float64 if exact else _working_dtype(forward)
    function = resolve(forward.api)
    given = {record.path: record for record in forward.inputs}
    tensors: dict[str, torch.Tensor] = {}

    def leaf(path: str) -> torch.Tensor:
        record = given.get(path)
        if record is None or not record.stored:
            raise Unreplayable(f"its input {path} was not stored")
        value = _convert(_tensor(recorded.fetch(record), record), target)
        if call.phase is Phase.BACKWARD and value.is_floating_point():
            value.requires_grad_()
        tensors[path] = value
        # A copy is handed over: calls that work in place must change neither a leaf of autograd nor our input.
        return value.clone()

    paths = dict(tensor_paths(forward.arguments))
    arguments = rebuild(forward.arguments, lambda number: leaf(paths[number]), Setting(CPU, wide=exact))
    args, kwargs = arguments["args"], arguments["kwargs"]
    with torch.set_grad_enabled(call.phase is Phase.BACKWARD):
        if exact and forward.api.rpartition(".")[2] in _CASTS and args:
            returned = args[0]
        else:
            returned = _call(function, args, kwargs)
    results = dict(tensors_of(returned, "out"))
    results.update(tensors_of(args, "args"))
    results.update(tensors_of(kwargs, "kwargs"))
    if call.phase is Phase.FORWARD:
        return results
    return _gradients(recorded, tensors, results, target)


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except (TypeError, AttributeError, IndexError, ValueError) as error:
        raise Unreplayable(f"it cannot be called again: {str(error)[:120]}") from error


def _gradients(
    recorded: Recorded, tensors: dict[str, torch.Tensor], results: dict[str, torch.Tensor], target: torch.dtype | None
) -> dict[str, torch.Tensor]:
    arrived = [
        record for record in recorded.call.inputs if record.path in results and results[record.path].requires_grad
    ]
    if not arrived:
        raise Unreplayable("no gradient that arrived belongs to an output of the replay")
    outputs, gradients = [], []
    for record in arrived:
        if not record.stored:
            raise Unreplayable(f"the gradient of {record.path} was not stored")
        output = results[record.path]
        outputs.append(output)
        gradients.append(_tensor(recorded.fetch(record), record).to(output.dtype).reshape(output.shape))
    wanted = [record.path for record in recorded.call.outputs if record.path in tensors]
    wanted = [path for path in wanted if tensors[path].requires_grad]
    if not wanted:
        raise Unreplayable("none of the gradients that left belongs to an input of the replay")
    found = torch.autograd.grad(outputs, [tensors[path] for path in wanted], gradients, allow_unused=True)
    return {path: gradient for path, gradient in zip(wanted, found, strict=True) if gradient is not None}


def _working_dtype(forward: Call) -> torch.dtype | None:
    """The dtype in which the call really worked, where that is coarser than its inputs (autocast); else None."""
    floats = [dtype_named(record.dtype) for record in forward.outputs if dtype_named(record.dtype).is_float]
    given = [dtype_named(record.dtype) for record in forward.inputs if dtype_named(record.dtype).is_float]
    if not floats or not given:
        return None
    coarsest = min(floats, key=lambda dtype: dtype.digits)
    return getattr(torch, coarsest.name) if coarsest.digits < max(dtype.digits for dtype in given) else None


def _convert(value: torch.Tensor, target: torch.dtype | None) -> torch.Tensor:
    if target is None or not (value.is_floating_point() or value.is_complex()):
        return value
    if value.is_complex():
        return value.to(torch.complex128) if target is torch.float64 else value
    return value.to(target)


def _tensor(bits: Bits, record: TensorRecord) -> torch.Tensor:
    return tensor_of(bits, record.dtype, record.shape)


def _assessment(
    path: str, actual: torch.Tensor, truth: torch.Tensor, honest: torch.Tensor | None, record: TensorRecord
) -> Assessment:
    if actual.numel() != truth.numel():
        raise Unreplayable(f"{path} has another shape when replayed")
    error, peak = _distances(actual, truth)
    rounded = truth.detach().to(actual.dtype) if honest is None or honest.numel() != truth.numel() else honest
    honest_error, honest_peak = _distances(rounded.to(actual.dtype), truth)
    return Assessment(path, error, honest_error, peak, honest_peak, dtype_named(record.dtype).epsilon / 2)


def _distances(actual: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """|actual - truth| / |truth| in the L2 norm, and for the worst element; infinite where NaN or Inf disagree."""
    wide = torch.complex128 if actual.is_complex() or truth.is_complex() else torch.float64
    left, right = actual.detach().to(wide).reshape(-1), truth.detach().to(wide).reshape(-1)
    if not left.numel():
        return 0.0, 0.0
    finite = torch.isfinite(left) & torch.isfinite(right)
    if bool(((left != right) & ~(torch.isnan(left) & torch.isnan(right)) & ~finite).any()):
        # Overflow in the recorded dtype of what float64 can still hold is rounding, not a fault.
        largest = torch.finfo(actual.dtype).max if actual.is_floating_point() else float("inf")
        overflow = torch.isinf(left) & torch.isfinite(right) & (right.abs() >= largest)
        if bool(((left != right) & ~(torch.isnan(left) & torch.isnan(right)) & ~finite & ~overflow).any()):
            return float("inf"), float("inf")
    left, right = left[finite], right[finite]
    difference = left - right
    norm, largest_value = float(torch.linalg.vector_norm(right)), float(right.abs().max()) if right.numel() else 0.0
    gap = float(torch.linalg.vector_norm(difference))
    if gap == 0.0:
        return 0.0, 0.0
    if norm == 0.0:
        return float("inf"), float("inf")
    return gap / norm, float(difference.abs().max()) / largest_value


__all__ = ["Assessment", "Recorded", "Unreplayable", "assess", "resolve"]
