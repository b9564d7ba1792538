"""Jobs of workers for modes in which numbers are not held against other numbers, as makers for ``pool.Pool``:

    running     a case runs on the target, forward and backward; what came out that is not finite is counted
    repeating   a case runs several times with the same inputs, on the target and on the reference: the same bits?

``Evidence.numbers`` of the first:

    elements, nan, infinity     how many there are
    not_finite_at               the first that is NaN or infinite; -1 where all are finite
    given_not_finite            elements of the inputs, and of gradients that arrived, that are not finite

and of the second:

    repeats                     how often the call was run
    differs, differs_at         elements whose bits differ from those of the first run, the first of them
    differs_in                  the run in which; the first is 1
    first_value, other_value    that element, in the first run and in that one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trueline.cases import Case, CaseMeasured, Evidence, Outcome, Status, Target
from trueline.dtypes import DType, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Executor, Inputs
from trueline.frameworks.machine import executor
from trueline.numerics import statistics
from trueline.numerics.cpu import compare
from trueline.replay.forms import numbers
from trueline.replay.inputs import inputs_for
from trueline.replay.measuring import Measuring
from trueline.replay.serial import target_from_json
from trueline.replay.translated import executor_for, executors_for

Announce = Callable[[str], None]

OF_REFERENCE = "reference "
"""Before the path of what the reference, not the target, gave."""


def running(setup: dict[str, Any], announce: Announce) -> Measuring:
    target = target_from_json(setup["target"])
    executor(target)  # imports its framework now, so that no case pays for it
    return Measuring(lambda case: run_once(case, target, announce))


def repeating(setup: dict[str, Any], announce: Announce) -> Measuring:
    target, reference = target_from_json(setup["target"]), target_from_json(setup["reference"])
    executor(target)
    repeats = int(setup["repeats"])
    return Measuring(lambda case: run_repeatedly(case, target, reference, repeats, announce))


def run_once(case: Case, target: Target, announce: Announce = lambda stage: None) -> CaseMeasured:
    """Runs a Case on a Target, and looks for what is not finite."""
    try:
        machine = executor_for(case, target)
        inputs = machine.rounded(case, inputs_for(case))
        announce("candidate")
        executed = machine.run(case, inputs, mode="candidate")
    except CannotExecute as error:
        return _skipped(case, error)
    ended = _ended(executed)
    if ended.status is not Status.RETURNED:
        return CaseMeasured(case.key, ended)
    announce("measure")
    given = sum(_not_finite(ArrayIn(array.bits, array.dtype))
                for array in (*inputs.tensors.values(), *executed.arrived.values()))  # fmt: skip
    evidence = tuple(_looked_at(part, path, array, given) for part, path, array in _arrays(executed))
    nothing = Evidence("output", "out", "bool", (0,), numbers={"elements": 0.0})
    return CaseMeasured(case.key, ended, evidence=evidence or (nothing,))


def run_repeatedly(
    case: Case, target: Target, reference: Target, repeats: int, announce: Announce = lambda stage: None
) -> CaseMeasured:
    """Runs a Case several times on the Target and on the reference, and compares bits."""
    try:
        machine, judge = executors_for(case, target, reference)
        inputs = machine.rounded(case, inputs_for(case))
        announce("honest")
        of_reference, inputs = _runs_if_any(case, judge, inputs, repeats)
        announce("candidate")
        of_target, _ = _runs(case, machine, inputs, "candidate", repeats)
    except CannotExecute as error:
        return _skipped(case, error)
    failed = next((place for place, one in enumerate(of_target) if _ended(one).status is not Status.RETURNED), None)
    if failed is not None:
        ended = _ended(of_target[failed])
        again = f" in run {failed + 1} of {repeats}, where the first returned: " if failed else ""
        outcome = replace(ended, reason=f"{again}{ended.reason}".strip())
        return CaseMeasured(case.key, outcome, _ended(of_reference[0]) if of_reference and not failed else None)
    announce("measure")
    evidence = list(_compared(of_target, ""))
    if all(_ended(one).status is Status.RETURNED for one in of_reference):
        evidence += _compared(of_reference, OF_REFERENCE)
    return CaseMeasured(case.key, _ended(of_target[0]), evidence=tuple(evidence))


def _runs_if_any(case: Case, judge: Executor, inputs: Inputs, repeats: int) -> tuple[list[Executed], Inputs]:
    """Runs of the reference; none where it has no such call: the target is looked at all the same."""
    try:
        return _runs(case, judge, inputs, "honest", repeats)
    except CannotExecute:
        return [], inputs


def _runs(case: Case, machine: Executor, inputs: Inputs, mode: Any, repeats: int) -> tuple[list[Executed], Inputs]:
    """Several runs, all of which are given the gradients that arrived in the first."""
    done = [machine.run(case, inputs, mode=mode)]
    if done[0].arrived:
        inputs = replace(inputs, gradients={**inputs.gradients, **done[0].arrived})
    while len(done) < repeats and _ended(done[-1]).status is Status.RETURNED:
        done.append(machine.run(case, inputs, mode=mode))
    return done, inputs


def _compared(runs: Sequence[Executed], prefix: str) -> Iterator[Evidence]:
    others = [{(part, path): array for part, path, array in _arrays(run)} for run in runs[1:]]
    for part, path, first in _arrays(runs[0]):
        yield _repeated(part, prefix + path, first, [one.get((part, path)) for one in others])


def _repeated(part: str, path: str, first: ArrayOut, others: Sequence[ArrayOut | None]) -> Evidence:
    kind = dtype_named(first.dtype)
    assert first.bits is not None
    worst: dict[str, float] = {"repeats": float(len(others) + 1), "differs": 0.0, "differs_at": -1.0}
    direct = None
    for place, other in enumerate(others):
        if other is None or other.bits is None or (other.dtype, other.shape) != (first.dtype, first.shape):
            found = "nothing" if other is None else f"{other.dtype} {list(other.shape)}"
            text = f"run 1 gave {first.dtype} {list(first.shape)}, run {place + 2} {found}"
            return Evidence(part, path, kind.name, first.shape, structure=text)
        differs = _differing(first.bits, other.bits)
        count = int(np.count_nonzero(differs))
        if direct is None or count > worst["differs"]:
            direct = compare(np.asarray(first.bits), kind, np.asarray(other.bits), kind)
        if count > worst["differs"]:
            worst.update(_difference(first, other, differs, kind), differs=float(count), differs_in=float(place + 2))
    return Evidence(part, path, kind.name, first.shape, exact=True, direct=direct, numbers=worst)


def _difference(first: ArrayOut, other: ArrayOut, differs: Any, kind: DType) -> dict[str, float]:
    at = int(differs.argmax())
    assert first.bits is not None and other.bits is not None
    values = [np.asarray(numbers(ArrayIn(one, kind.name))).reshape(-1)[at] for one in (first.bits, other.bits)]
    return {"differs_at": float(at), "first_value": float(values[0].real), "other_value": float(values[1].real)}


def _differing(one: Any, other: Any) -> Any:
    """Which elements differ in any bit."""
    ours, theirs = (np.ascontiguousarray(bits).reshape(-1) for bits in (one, other))
    if not ours.size:
        return np.zeros(0, dtype=np.bool_)
    return (ours.view(np.uint8) != theirs.view(np.uint8)).reshape(ours.size, -1).any(axis=1)


def _looked_at(part: str, path: str, array: ArrayOut, given: int) -> Evidence:
    kind = dtype_named(array.dtype)
    assert array.bits is not None
    found = {"elements": float(array.bits.size), "given_not_finite": float(given)}
    if not kind.is_exact and array.bits.size:
        # Of complex numbers the parts are counted.
        seen = statistics(np.asarray(array.bits), kind)
        found |= {"nan": float(seen.nan), "infinity": float(seen.positive_infinity + seen.negative_infinity)}
        if found["nan"] + found["infinity"]:
            finite = np.isfinite(numbers(ArrayIn(array.bits, array.dtype)))
            found["not_finite_at"] = float((~finite).reshape(-1).argmax())
    return Evidence(part, path, kind.name, array.shape, exact=kind.is_exact, numbers=found)


def _not_finite(array: ArrayIn) -> int:
    kind = dtype_named(array.dtype)
    if kind.is_exact or not array.bits.size:
        return 0
    seen = statistics(np.asarray(array.bits), kind)
    return int(seen.nan + seen.positive_infinity + seen.negative_infinity)


def _arrays(executed: Executed) -> Iterator[tuple[str, str, ArrayOut]]:
    sides: tuple[tuple[str, Mapping[str, ArrayOut]], ...] = (
        ("output", executed.outputs),
        ("gradient", executed.gradients),
    )
    for part, arrays in sides:
        for path, array in arrays.items():
            if array.bits is not None:
                yield part, path, array


def _ended(executed: Executed) -> Outcome:
    """How an execution ended: as its backward did where that did not return."""
    backward = executed.backward
    if not executed.returned or backward is None:
        return executed.outcome
    if backward.status is not Status.RETURNED:
        return backward
    return replace(
        executed.outcome,
        seconds=executed.outcome.seconds + backward.seconds,
        peak_bytes=max(executed.outcome.peak_bytes, backward.peak_bytes),
    )


def _skipped(case: Case, error: CannotExecute) -> CaseMeasured:
    return CaseMeasured(case.key, Outcome(Status.UNSUPPORTED, str(error)), skipped=str(error))
