"""A second opinion on a case that went wrong, in a worker: everything that can be asked with its tensors at hand.

    opining      ``measure``: a case on any Targets -> what was measured of it; ``look``: a case and its wrong tensor ->
                 numbers, and notes in words
    describing   a case that ends every process and has no counterpart -> its inputs, for a script; nothing is executed

The numbers, all absolute errors being the largest of an element, and each there only where it could be had:

    error            of the candidate against the gold
    scale            the largest magnitude of the gold
    repeat           by how much repeated executions of the candidate differ among themselves (0: to the last bit)
    honest           the error of the reference in the dtype of the case
    moved            by how much the gold moves where the candidate is most wrong, when inputs move by one rounding
    own              the error of the candidate against the target's own framework in float64
    frameworks       by how much the two frameworks differ in float64
    narrow           by how much the target's own float32 differs from the candidate, where the case is of float64
    wrong, count     how many elements are wrong, of how many
    edges            the share of the wrong elements that lie on the border of the tensor
    border           the share of the elements of the border that are wrong
    slope            the derivative along a random direction, by differences of the target's own forward in float64
    slope_target     the same by the candidate's gradient
    slope_reference  the same by the gold's
    slope_noise      by how much two estimates of ``slope`` differ
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, Target
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Executor
from trueline.frameworks.machine import executor
from trueline.groups import ENDLESS
from trueline.numerics import widen
from trueline.ops.equivalence import rule_for
from trueline.replay.forms import numbers
from trueline.replay.inputs import inputs_for, perturbed
from trueline.replay.jobs import Announce, Work, measuring
from trueline.replay.keep import write_arrays
from trueline.replay.reduce import WRITTEN_OUT
from trueline.replay.serial import case_from_json, target_from_json
from trueline.replay.translated import executor_for, executors_for
from trueline.replay.worker import Executions, Options, execute_case

OPINE = "trueline.replay.opinions:opining"
DESCRIBE = "trueline.replay.opinions:describing"

_REPEATS = 3
_MOVES = 6
_STEP = 2.0**-20
"""Of the size of the input, to both sides: the error of the differences is its square, their noise 2**-33."""
_WRONG_SHARE = 0.01
"""An element is wrong where its error is more than this share of the largest."""


def opining(setup: dict[str, Any], announce: Announce) -> Work:
    """Measures cases, each on the Targets that its job names; looks at the tensors of one on those of the setup."""
    target, reference = target_from_json(setup["target"]), target_from_json(setup["reference"])
    options = Options(perturbations=0, predecessors=False, announce=announce)
    measuring_on = cache(lambda text: measuring(json.loads(text), announce))
    measuring_on(json.dumps({"target": setup["target"], "reference": setup["reference"]}))  # imports what there is

    def work(payload: Any) -> Any:
        if payload["job"] == "measure":
            targets = {"target": payload["target"], "reference": payload["reference"]}
            return measuring_on(json.dumps(targets))(payload["case"])
        case = case_from_json(payload["case"])
        try:
            executions = execute_case(case, target, reference, options)
        except CannotExecute as error:
            return {"numbers": {}, "notes": {"refused": str(error)}}
        announce("candidate")
        return _Asked(case, target, reference, executions, payload["part"], payload["path"].partition(":")[0]).answer()

    return work


def describing(setup: dict[str, Any], announce: Announce) -> Work:
    target = target_from_json(setup["target"])
    executor(target)  # imports the framework before the first job, whose time counts

    def work(payload: Any) -> Any:
        if payload["job"] != "describe":
            return {}
        case = case_from_json(payload["case"])
        inputs = executor_for(case, target).rounded(case, inputs_for(case))
        given = [
            {"requires_grad": spec.requires_grad, "strides": spec.strides, **_described(spec.path, array)}
            for spec in case.tensors
            if (array := inputs.tensors.get(spec.path)) is not None
        ]
        if any(one["bits"] is None for one in given):
            write_arrays(Path(payload["folder"]) / "repro.safetensors", dict(inputs.tensors))
        return {"tensors": given, "gradients": []}

    return work


def _described(path: str, array: ArrayIn) -> dict[str, Any]:
    """An array for a script: its bits where they are few."""
    few = array.bits.size <= WRITTEN_OUT
    bits = base64.b64encode(array.bits.tobytes()).decode() if few else None
    return {"path": path, "dtype": array.dtype, "shape": array.bits.shape, "bits": bits, "drawn": None}


@dataclass(slots=True)
class _Asked:
    """One tensor of one case, of which opinions are given."""

    case: Case
    target: Target
    reference: Target
    executions: Executions
    part: str
    path: str

    def answer(self) -> dict[str, Any]:
        found: dict[str, float] = {}
        notes: dict[str, str] = {}
        for name, ask in self._questions():
            try:
                found.update({key: float(value) for key, value in ask() if math.isfinite(value)})
            except (CannotExecute, ArithmeticError, ValueError, IndexError) as error:
                notes[name] = " ".join(str(error).split())[:200]
        return {"numbers": found, "notes": notes}

    def _questions(self) -> Iterator[tuple[str, Callable[[], Iterator[tuple[str, float]]]]]:
        yield "repeat", self._repeats
        if rule_for(self.case.api) is not None:  # its results are not unique: elements say nothing
            return
        yield "errors", self._errors
        yield "moves", self._moves
        yield "own", self._own
        if self.part == "gradient":
            yield "slope", self._slope

    def _repeats(self) -> Iterator[tuple[str, float]]:
        """The candidate again and again, on the same inputs."""
        machine, _ = executors_for(self.case, self.target, self.reference)
        first = self.executions.candidate
        apart = 0.0
        for _ in range(_REPEATS):
            again = machine.run(self.case, self.executions.inputs, mode="candidate")
            apart = max(apart, _apart(first, again))
        yield "repeat", apart

    def _errors(self) -> Iterator[tuple[str, float]]:
        gold, ours = self._values(self.executions.gold), self._values(self.executions.candidate)
        if gold is None or ours is None or gold.shape != ours.shape or not gold.size:
            return
        errors = self._off(ours, gold)
        yield "error", float(errors.max())
        yield "scale", float(np.max(np.abs(gold), initial=0.0, where=np.isfinite(gold)))
        honest = self._values(self.executions.honest)
        if honest is not None and honest.shape == gold.shape:
            yield "honest", float(self._off(honest, gold).max())
        wrong = errors > _WRONG_SHARE * errors.max()
        yield "count", float(wrong.size)
        yield "wrong", float(wrong.sum())
        border = _border(wrong.shape)
        if border is not None and wrong.any():
            yield "edges", float(wrong[border].sum() / wrong.sum())
            yield "border", float(wrong[border].mean())

    def _moves(self) -> Iterator[tuple[str, float]]:
        """How far the gold moves where the candidate is most wrong."""
        gold, ours = self._values(self.executions.gold), self._values(self.executions.candidate)
        if gold is None or ours is None or gold.shape != ours.shape or not gold.size:
            return
        _, judge = executors_for(self.case, self.target, self.reference)
        place = int(self._off(ours, gold).argmax())
        working = self.executions.honest.working or self.executions.candidate.working
        wide = self.executions.wide
        moved = 0.0
        for inputs in perturbed(self.executions.inputs, working, self.case.seed, _MOVES, longdouble=wide):
            other = self._values(judge.run(self.case, inputs, mode="wide" if wide else "gold"))
            if other is not None and other.shape == gold.shape:
                moved = max(moved, float(_errors(other, gold).reshape(-1)[place]))
        yield "moved", moved

    def _own(self) -> Iterator[tuple[str, float]]:
        """The target's own framework: in float64 and, where the case is of float64, in float32."""
        gold, ours = self._values(self.executions.gold), self._values(self.executions.candidate)
        if gold is None or ours is None or self.target.framework == self.reference.framework:
            return
        machine = self._plain_machine("")
        own = self._values(machine.run(self.case, self.executions.inputs, mode="gold"))
        if own is not None and own.shape == ours.shape == gold.shape:
            yield "own", float(self._off(ours, own).max())
            yield "frameworks", float(self._off(own, gold).max())
        if self.executions.wide:
            machine = self._plain_machine("float32")
            given = machine.rounded(self.case, replace(self.executions.inputs, settled=False))
            narrow = self._values(machine.run(self.case, given, mode="candidate"))
            if narrow is not None and narrow.shape == ours.shape:
                yield "narrow", float(self._off(narrow, ours).max())

    def _plain_machine(self, dtype: str) -> Executor:
        """The target's framework on the CPU, without what stands in for its operators."""
        plain = Target(self.target.framework, "cpu", dtype)
        return executor_for(self.case, plain, Target(self.target.framework, "cpu", "float64"))

    def _slope(self) -> Iterator[tuple[str, float]]:
        """The gradient of an input is the derivative of the forward; differences of the forward tell who is right."""
        ours, gold = self._values(self.executions.candidate), self._values(self.executions.gold)
        given = self.executions.inputs.tensors.get(self.path)
        if ours is None or gold is None or given is None or not dtype_named(given.dtype).is_float:
            return
        values = widen(given.bits, dtype_named(given.dtype)).reshape(given.bits.shape)
        direction = np.random.default_rng(self.case.seed & 0xFFFFFFFF).choice([-1.0, 1.0], values.shape)
        step = _STEP * max(1e-3, float(np.max(np.abs(values), initial=0.0)))
        machine = self._plain_machine("")
        estimates = [self._difference(machine, values, direction, size) for size in (step, 2 * step)]
        yield "slope", estimates[0]
        yield "slope_noise", abs(estimates[0] - estimates[1])
        yield "slope_target", float(np.sum(ours * direction))
        yield "slope_reference", float(np.sum(gold * direction))

    def _difference(self, machine: Executor, values: NDArray[Any], direction: NDArray[Any], step: float) -> float:
        high, low = (self._weighted(machine, values + side * step * direction) for side in (1.0, -1.0))
        return (high - low) / (2 * step)

    def _weighted(self, machine: Executor, values: NDArray[Any]) -> float:
        """The outputs for an input, weighted by the gradients that arrive at them."""
        tensors = {**self.executions.inputs.tensors, self.path: ArrayIn(values, "float64")}
        given = replace(self.executions.inputs, tensors=tensors, settled=True)
        done = machine.run(replace(self.case, backward=False), given, mode="gold")
        if not done.returned:
            raise CannotExecute(done.outcome.reason)
        total = 0.0
        for path, arriving in self.executions.inputs.gradients.items():
            output = done.outputs.get(path)
            if output is None or output.bits is None:
                raise CannotExecute(f"there is no {path} in float64")
            total += float(np.sum(_numbers(output) * numbers(arriving)))
        return total

    def _off(self, ours: NDArray[Any], gold: NDArray[Any]) -> NDArray[Any]:
        """Errors, none where the reference in this dtype is not finite either: a narrow type overflows."""
        errors, honest = _errors(ours, gold), self._values(self.executions.honest)
        if honest is None or honest.shape != errors.shape or honest.dtype.kind not in "fc":
            return errors
        return np.where(np.isfinite(honest) | np.isfinite(ours), errors, 0.0)

    def _values(self, executed: Executed) -> NDArray[Any] | None:
        """The numbers of the wrong tensor in an execution."""
        arrays: Mapping[str, ArrayOut] = executed.gradients if self.part == "gradient" else executed.outputs
        array = arrays.get(self.path)
        if not executed.returned or array is None or array.bits is None:
            return None
        return _numbers(array)


def _errors(ours: NDArray[Any], gold: NDArray[Any]) -> NDArray[Any]:
    """Absolute errors, ``ENDLESS`` where one side alone is not finite or another infinity."""
    with np.errstate(all="ignore"):
        errors = np.abs(ours.astype(gold.dtype if gold.dtype.kind in "fc" else np.float64) - gold)
    same = (ours == gold) | (np.isnan(ours) & np.isnan(gold))
    return np.where(same, 0.0, np.nan_to_num(errors, nan=ENDLESS, posinf=ENDLESS))


def _numbers(array: ArrayOut) -> NDArray[Any]:
    assert array.bits is not None
    return np.asarray(numbers(ArrayIn(array.bits, array.dtype)))


def _apart(first: Executed, second: Executed) -> float:
    """By how much two executions differ, ``ENDLESS`` where one has what the other has not."""
    if first.returned != second.returned:
        return ENDLESS
    apart = 0.0
    for ours, theirs in ((first.outputs, second.outputs), (first.gradients, second.gradients)):
        for path, array in ours.items():
            other = theirs.get(path)
            if array.bits is None or other is None or other.bits is None:
                continue
            if array.bits.shape != other.bits.shape:
                return ENDLESS
            if not np.array_equal(array.bits, other.bits):
                apart = max(apart, float(_errors(_numbers(array), _numbers(other)).max()))
    return apart


def _border(shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Which elements lie at the beginning or end of a dimension; None where that are most of them."""
    if not shape:
        return None
    border = np.zeros(shape, dtype=np.bool_)
    for dimension, size in enumerate(shape):
        if size >= 4:
            for index in (0, size - 1):
                border[(slice(None),) * dimension + (index,)] = True
    return border if border.any() and border.mean() < 0.8 else None


