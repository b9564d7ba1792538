"""Runs one recorded call again, alone, on its recorded inputs: in float64 for the truth, and in its own precision.

``assess`` says how far a recorded output lies from the truth and how far an honest implementation in the same dtype
lies from it on the same inputs. Both start from what the call was really given, rounded as it was. The call becomes a
Case and is executed by its own framework, on the CPU. Calls that cannot be run again (other ranks, objects that were
not recorded) raise ``Unreplayable`` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, Status, Target, TensorSpec
from trueline.dtypes import DType, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Executor, Inputs
from trueline.frameworks.machine import executor
from trueline.numerics import widen
from trueline.numerics.narrow import narrow
from trueline.records import Call, Phase, TensorRecord
from trueline.replay.independent import is_affordable
from trueline.replay.precision import autocast_of
from trueline.replay.refusals import refusal

Array = NDArray[Any]
Fetch = Callable[[TensorRecord], Array]
"""Gives the stored bits of a tensor."""

_NOT_A_FUNCTION = frozenset({"as_strided"})
"""A result that depends on how its argument lies in memory, which only the recorded elements tell."""
_SEED = 0


class Unreplayable(Exception):
    """A call cannot be run again; the message says why."""


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
    outputs = {
        record.path: record for record in recorded.call.outputs if record.stored and record.path not in recorded.ignored
    }
    case, inputs = _case_of(recorded)
    if not outputs:
        raise Unreplayable("none of its outputs can be judged")
    machine = executor(Target(case.api.partition(".")[0], "cpu"))
    watch = frozenset(path for path in outputs if not path.startswith("out")) if not case.backward else frozenset()
    truth = as_recorded(recorded.call, recorded.forward, _run(machine, case, inputs, watch, exact=True))
    honest = as_recorded(recorded.call, recorded.forward, _run(machine, case, inputs, watch, exact=False))
    found = []
    for path, record in outputs.items():
        if path in truth and truth[path].bits is not None:
            found.append(_assessment(path, record, recorded.fetch(record), truth[path], honest.get(path)))
    if not found:
        raise Unreplayable("the replay returned other outputs than were recorded")
    return max(found, key=lambda one: one.error / max(one.honest, one.roundoff * 1e-3, 1e-30))


def exact_and_honest(recorded: Recorded, path: str, *, apart: bool = False) -> tuple[Array, Array | None]:
    """One output of a call, or one of its gradients, as it would be in float64 and as an honest implementation in the
    call's own precision gives it (None where there is none here): flat, in float64. ``apart`` asks for a truth that
    shares no kernel with the call, where there is one: it may have been recorded on this very CPU."""
    case, inputs = _case_of(recorded)
    machine = executor(Target(case.api.partition(".")[0], "cpu"))
    watch = frozenset() if case.backward or path.startswith("out") else frozenset({path})
    own = _apart(machine, case, inputs, watch, recorded) if apart else None
    gold = own or _run(machine, case, inputs, watch, exact=True)
    exact = as_recorded(recorded.call, recorded.forward, gold).get(path)
    if exact is None or exact.bits is None:
        raise Unreplayable("the replay returned other outputs than were recorded")
    honest = as_recorded(recorded.call, recorded.forward, _run(machine, case, inputs, watch, exact=False)).get(path)
    truth = _numbers(exact.bits, dtype_named(exact.dtype))
    if honest is None or honest.bits is None:
        return truth, None
    return truth, _numbers(honest.bits, dtype_named(honest.dtype))


def as_recorded(call: Call, forward: Call | None, parts: Mapping[str, ArrayOut]) -> Mapping[str, ArrayOut]:
    """The gradients that a replay gave, as they are recorded: a value that the forward call took twice has one, the
    sum, under the last of its places."""
    if call.phase is not Phase.BACKWARD or forward is None:
        return parts
    kept, sums = {record.path for record in call.outputs}, dict(parts)
    for record in forward.inputs:
        twins = [one for one in forward.inputs if one.tensor_id == record.tensor_id and one.requires_grad]
        found = [parts[one.path] for one in twins if one is not record and one.path not in kept and one.path in parts]
        if record.path not in kept or record.path not in parts or not found:
            continue
        given = [one for one in (parts[record.path], *found) if one.bits is not None]
        numbers = [numbers_of(np.asarray(one.bits), one.dtype) for one in given]
        if numbers and len({one.size for one in numbers}) == 1:
            wide = "complex128" if np.iscomplexobj(numbers[0]) else "float64"
            sums[record.path] = replace(parts[record.path], bits=np.sum(numbers, axis=0), dtype=wide)
    return sums


def _apart(
    machine: Executor, case: Case, inputs: Inputs, watch: frozenset[str], recorded: Recorded
) -> Mapping[str, ArrayOut] | None:
    """What a call gives by other kernels than torch's; None where there are none, or they would take long."""
    if not case.api.startswith("torch.") or not is_affordable(case, [prod(one.shape) for one in recorded.call.tensors]):
        return None
    try:
        done = machine.run(case, machine.rounded(case, inputs), mode="wide", watch=watch)
        return parts_of(case, done)
    except (CannotExecute, Unreplayable):
        return None


def numbers_of(bits: Array, dtype: str) -> Array:
    """Stored bits as numbers: flat, in float64 or complex128."""
    return _numbers(np.asarray(bits), dtype_named(dtype))


def _case_of(recorded: Recorded) -> tuple[Case, Inputs]:
    """The call as a Case, and what it was given."""
    call = recorded.call
    backward = call.phase is Phase.BACKWARD
    case = plan_of(call, recorded.forward)
    forward = recorded.forward if backward else call
    assert forward is not None
    missing = [record.path for record in forward.inputs if not record.stored]
    if missing:
        raise Unreplayable(f"its input {missing[0]} was not stored")
    tensors = {record.path: _given(record, recorded.fetch) for record in forward.inputs}
    gradients: dict[str, ArrayIn] = {}
    if backward:
        known = {record.path for record in forward.outputs}
        arrived = [record for record in call.inputs if record.path in known]
        if unstored := [record.path for record in arrived if not record.stored]:
            raise Unreplayable(f"the gradient of {unstored[0]} was not stored")
        gradients = {record.path: _given(record, recorded.fetch) for record in arrived}
        if not gradients:
            raise Unreplayable("no gradient that arrived belongs to an output of the replay")
    return case, Inputs(tensors, gradients)


def _spec(record: TensorRecord, *, requires_grad: bool) -> TensorSpec:
    kind = dtype_named(record.dtype)
    return TensorSpec(record.path, kind.name, record.shape, requires_grad=requires_grad and not kind.is_exact)


def _given(record: TensorRecord, fetch: Fetch) -> ArrayIn:
    return ArrayIn(np.asarray(fetch(record)), dtype_named(record.dtype).name)


def _run(
    machine: Executor, case: Case, inputs: Inputs, watch: frozenset[str], *, exact: bool
) -> Mapping[str, ArrayOut]:
    """What a call gives, or its gradients, by path. In its own precision there may be no such kernel on this machine:
    then nothing, and the truth, rounded, stands in."""
    try:
        done = machine.run(case, machine.rounded(case, inputs), mode="gold" if exact else "honest", watch=watch)
    except CannotExecute as error:
        raise Unreplayable(str(error)) from error
    ended = done.backward if case.backward and done.returned else done.outcome
    if ended is None or ended.status is not Status.RETURNED:
        if exact:
            raise Unreplayable(f"it cannot be called again: {ended.reason if ended is not None else 'no gradient'}")
        return {}
    return _parts(case, done)


def plan_of(call: Call, forward: Call | None) -> Case:
    """A recorded call as a Case, without its data; ``forward`` is the forward call of a backward one."""
    backward = call.phase is Phase.BACKWARD
    planned = forward if backward else call
    if planned is None:
        raise Unreplayable("its forward call was not recorded")
    if planned.api.rpartition(".")[2] in _NOT_A_FUNCTION:
        raise Unreplayable("it is no function of its arguments alone")
    if reason := refusal(planned):
        raise Unreplayable(reason)
    # What a kernel cannot be differentiated by (running statistics) must not be asked for.
    wanted = {record.path for record in call.outputs} if backward else set()
    wanted |= {record.path for record in planned.inputs if backward and record.requires_grad}
    specs = tuple(_spec(record, requires_grad=record.path in wanted) for record in planned.inputs)
    return Case(planned.api, planned.arguments, specs, backward=backward, autocast=autocast_of(planned), seed=_SEED)


def parts_of(case: Case, done: Executed) -> Mapping[str, ArrayOut]:
    """What a Case gave, by path; raises where it did not return."""
    ended = done.backward if case.backward and done.outcome.status is Status.RETURNED else done.outcome
    if ended is None or ended.status is not Status.RETURNED:
        raise Unreplayable(f"it cannot be called again: {ended.reason if ended is not None else 'no gradient'}")
    return _parts(case, done)


def _parts(case: Case, done: Executed) -> Mapping[str, ArrayOut]:
    if not case.backward:
        # What a call changed in place and returned is recorded under the argument's path, or as its result.
        changed = {array.alias: array for array in done.outputs.values() if array.alias}
        return {**changed, **done.outputs}
    return done.gradients


def _assessment(path: str, record: TensorRecord, bits: Array, truth: ArrayOut, honest: ArrayOut | None) -> Assessment:
    dtype = dtype_named(record.dtype)
    assert truth.bits is not None
    if math.prod(record.shape) != truth.bits.size:
        raise Unreplayable(f"{path} has another shape when replayed")
    exact = _numbers(truth.bits, dtype_named(truth.dtype))
    error, peak = distances(_numbers(np.asarray(bits), dtype), exact, dtype)
    if honest is None or honest.bits is None or honest.bits.size != exact.size:
        rounded = exact if dtype.is_exact else _numbers(narrow(exact, dtype), dtype)
    else:
        own = _numbers(honest.bits, dtype_named(honest.dtype))
        rounded = own if dtype.is_exact else _numbers(narrow(own, dtype), dtype)
    honest_error, honest_peak = distances(rounded, exact, dtype)
    return Assessment(path, error, honest_error, peak, honest_peak, dtype.epsilon / 2)


def _numbers(bits: Array, dtype: DType) -> Array:
    """Flat, in float64 or complex128."""
    values = bits if dtype.is_exact else widen(np.ascontiguousarray(bits), dtype)
    return np.asarray(values).reshape(-1).astype(np.complex128 if dtype.is_complex else np.float64)


def distances(actual: Array, truth: Array, dtype: DType) -> tuple[float, float]:
    """|actual - truth| / |truth| in the L2 norm, and for the worst element; infinite where NaN or Inf disagree."""
    if not actual.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        finite = np.isfinite(actual) & np.isfinite(truth)
        odd = ~finite & (actual != truth) & ~(np.isnan(actual) & np.isnan(truth))
        if odd.any() and dtype.is_float:
            # Overflow in the recorded dtype of what float64 can still hold is rounding, not a fault.
            odd &= ~(np.isinf(actual) & np.isfinite(truth) & (np.abs(truth) >= dtype.largest))
        if odd.any():
            return math.inf, math.inf
        left, right = actual[finite], truth[finite]
        difference = np.abs(left - right)
        gap, norm = float(np.linalg.norm(difference)), float(np.linalg.norm(right))
    if gap == 0.0:
        return 0.0, 0.0
    if norm == 0.0:
        return math.inf, math.inf
    return gap / norm, float(difference.max()) / float(np.abs(right).max())
