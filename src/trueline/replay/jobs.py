"""The kinds of jobs that workers do, as makers for ``pool.Pool``: JSON in, JSON out.

    MEASURE   a case -> what was measured of it
    EXECUTE   a case -> its tensors in a file, for a Run
    SAVE      what is done with a failure: ``measure`` what is left of a case by a reduction; ``describe`` that for a
              script; ``keep`` inputs and outputs of the whole case in files
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from trueline.cases import Case, Target
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Inputs
from trueline.frameworks.machine import executor
from trueline.frameworks.rounding import settled, to_dtype
from trueline.replay.inputs import inputs_for
from trueline.replay.keep import write_arrays
from trueline.replay.measuring import Measuring
from trueline.replay.modes_how import measurer_for
from trueline.replay.reduce import (
    PLAIN_SEED,
    WRITTEN_OUT,
    Reduction,
    integer_range,
    is_plain,
    reduced_case,
    reduced_inputs,
)
from trueline.replay.serial import case_from_json, measured_to_json, target_from_json
from trueline.replay.translated import executors_for
from trueline.replay.worker import Options, execute_case, measure_executions, warm_up

MEASURE = "trueline.replay.jobs:measuring"
SAVE = "trueline.replay.jobs:saving"
EXECUTE = "trueline.replay.jobs:executing"

Announce = Callable[[str], None]
Work = Callable[[Any], Any]


def measuring(setup: dict[str, Any], announce: Announce) -> Measuring:
    target, reference = _targets(setup)
    options = Options(announce=announce)
    measure = measurer_for(target)
    # What executes graphs has threads, which no process survives that is forked from this one.
    warm = None if target.how else partial(warm_up, target, reference, options)
    return Measuring(lambda case: measure(case, target, reference, options), warm)


def saving(setup: dict[str, Any], announce: Announce) -> Work:
    target, reference = _targets(setup)
    bench = _Bench(target, reference, announce)
    kinds = {"measure": bench.measure, "describe": bench.describe, "keep": bench.keep}
    return lambda payload: kinds[payload["job"]](payload)


def executing(setup: dict[str, Any], announce: Announce) -> Work:
    target, reference = _targets(setup)
    rounded_to = str(setup.get("inputs_rounded_to", ""))
    spool = Path(setup["spool"])

    def work(payload: Any) -> Any:
        case = case_from_json(payload["case"])
        announce("candidate")
        try:
            machine, _ = executors_for(case, target, reference)
            inputs = machine.rounded(case, _rounded_first(case, inputs_for(case), rounded_to))
            executed = machine.run(case, inputs, mode="candidate")
        except CannotExecute as error:
            return {"status": "unsupported", "reason": str(error), "tensors": []}
        file = spool / payload["name"]
        with open(file, "wb") as stream:
            tensors = [_spooled(stream, *leaf) for leaf in _leaves(case, inputs, executed)]
        ended = executed.outcome if executed.backward is None else executed.backward
        return {"status": ended.status.value, "reason": ended.reason, "simulated": ended.simulated,
                "tensors": tensors}  # fmt: skip

    return work


def _rounded_first(case: Case, inputs: Inputs, dtype: str) -> Inputs:
    """Inputs, and gradients that are drawn later, rounded to a dtype before the Target rounds them to its own: so that
    Targets of several dtypes are given the same numbers."""
    if not dtype:
        return inputs
    draw = inputs.draw

    def drawn(path: str, shape: tuple[int, ...], wanted: str) -> ArrayIn:
        assert draw is not None
        return to_dtype(draw(path, shape, wanted), dtype)

    return replace(settled(case, inputs, dtype), draw=None if draw is None else drawn, settled=False)


@dataclass(frozen=True, slots=True)
class _Settled:
    case: str
    inputs: Inputs
    arrived: Mapping[str, ArrayIn]


class _Bench:
    """Keeps the inputs of the last case, of which many reductions are tried. ``execute`` in a job says whether the
    candidate can be executed without ending this process."""

    def __init__(self, target: Target, reference: Target, announce: Announce) -> None:
        self._target = target
        self._reference = reference
        self._options = Options(announce=announce, predecessors=False)
        self._last: _Settled | None = None

    def _case(self, payload: Mapping[str, Any]) -> Case:
        """The case as this Target executes it: under autocast, what goes in is rounded first."""
        case = case_from_json(payload["case"])
        return replace(case, autocast=self._target.autocast) if self._target.autocast else case

    def measure(self, payload: Mapping[str, Any]) -> Any:
        case, inputs = self._reduced(payload)
        try:
            executions = execute_case(case, self._target, self._reference, self._options, inputs)
        except CannotExecute as error:
            return {"refused": str(error)}
        return {"measured": measured_to_json(measure_executions(case, executions, self._options))}

    def describe(self, payload: Mapping[str, Any]) -> Any:
        case, inputs = self._reduced(payload)
        arrived = self._arrived(case, inputs, payload["execute"])
        plain = bool(payload["reduction"]["plain"])
        given = [
            {"requires_grad": spec.requires_grad, "strides": spec.strides, **_described(spec.path, array, plain)}
            for spec in case.tensors
            if (array := inputs.tensors.get(spec.path)) is not None
        ]
        arriving = [_described(path, array, False) for path, array in arrived.items()]
        if any(one["bits"] is None and one["drawn"] is None for one in (*given, *arriving)):
            write_arrays(Path(payload["folder"]) / "repro.safetensors", _named_inputs(inputs, arrived))
        return {"tensors": given, "gradients": arriving}

    def keep(self, payload: Mapping[str, Any]) -> Any:
        case, folder = self._case(payload), Path(payload["folder"])
        settled = self._settled(case, payload["execute"])
        write_arrays(folder / "inputs.safetensors", _named_inputs(settled.inputs, settled.arrived))
        if payload["execute"]:
            executions = execute_case(case, self._target, self._reference, self._options)
            sides = {"candidate": executions.candidate, "honest": executions.honest, "gold": executions.gold}
            write_arrays(folder / "outputs.safetensors", _named_outputs(sides))
        return {}

    def _settled(self, case: Case, execute: bool) -> _Settled:
        """The inputs of a case as everybody is given them, with the gradients that arrive at its outputs."""
        if self._last is None or self._last.case != case.key:
            machine, _ = executors_for(case, self._target, self._reference)
            inputs = machine.rounded(case, inputs_for(case))
            arrived = self._arrived(case, inputs, execute)
            self._last = _Settled(case.key, inputs, {**inputs.gradients, **arrived})
        return self._last

    def _arrived(self, case: Case, inputs: Inputs, execute: bool) -> Mapping[str, ArrayIn]:
        """The gradients that arrive at the outputs: of an honest run or, where this machine has none in that dtype and
        the candidate may be executed, of the candidate."""
        machine, judge = executors_for(case, self._target, self._reference)
        arrived = judge.run(case, inputs, mode="honest").arrived
        if not arrived and case.backward and execute:
            arrived = machine.run(case, inputs, mode="candidate").arrived
        return arrived

    def _reduced(self, payload: Mapping[str, Any]) -> tuple[Case, Inputs]:
        case = self._case(payload)
        settled = self._settled(case, payload["execute"])
        reduction = Reduction.from_json(payload["reduction"])
        dtypes = {path: array.dtype for path, array in settled.inputs.tensors.items()}
        inputs = reduced_inputs(case, settled.inputs, settled.arrived, reduction)
        return reduced_case(case, reduction, dtypes), inputs


def _targets(setup: Mapping[str, Any]) -> tuple[Target, Target]:
    target, reference = target_from_json(setup["target"]), target_from_json(setup["reference"])
    # Frameworks and overrides are imported now, so that no case pays for it.
    if reference.framework == target.framework:
        executor(target, reference)
    else:
        executor(target)
        executor(Target(reference.framework, reference.device, target.dtype), reference)
    return target, reference


def _described(path: str, array: ArrayIn, plain: bool) -> dict[str, Any]:
    """An array for a script: its bits where they are few, how to draw it where it is plain."""
    few = array.bits.size <= WRITTEN_OUT
    drawn = [PLAIN_SEED, *integer_range(array)] if plain and not few and is_plain(array.dtype) else None
    bits = base64.b64encode(array.bits.tobytes()).decode() if few else None
    return {"path": path, "dtype": array.dtype, "shape": array.bits.shape, "bits": bits, "drawn": drawn}


def _named_inputs(inputs: Inputs, arrived: Mapping[str, ArrayIn]) -> dict[str, ArrayIn]:
    return {**inputs.tensors, **{f"gradient {path}": array for path, array in arrived.items()}}


def _named_outputs(sides: Mapping[str, Executed]) -> dict[str, ArrayIn]:
    found: dict[str, ArrayIn] = {}
    for side, executed in sides.items():
        for path, array in executed.outputs.items():
            _add(found, f"{side} {path}", array)
        for path, array in executed.gradients.items():
            _add(found, f"{side} gradient {path}", array)
    return found


def _add(found: dict[str, ArrayIn], name: str, array: ArrayOut) -> None:
    if array.bits is not None:
        found[name] = ArrayIn(array.bits, array.dtype)


def _leaves(case: Case, inputs: Inputs, executed: Executed) -> list[tuple[str, str, ArrayOut]]:
    """All tensors of an executed case, as (part, path, array)."""
    strides = {spec.path: spec.strides for spec in case.tensors}
    leaves = [("input", path, _given(array, strides.get(path))) for path, array in inputs.tensors.items()]
    leaves += [("output", path, array) for path, array in executed.outputs.items()]
    leaves += [("arrived", path, _given(array, None)) for path, array in executed.arrived.items()]
    leaves += [("gradient", path, array) for path, array in executed.gradients.items()]
    return [leaf for leaf in leaves if leaf[2].bits is not None]


def _given(array: ArrayIn, strides: tuple[int, ...] | None) -> ArrayOut:
    shape = array.bits.shape
    return ArrayOut(array.bits, array.dtype, shape, strides if strides is not None else _contiguous(shape), "cpu")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _spooled(stream: Any, part: str, path: str, array: ArrayOut) -> dict[str, Any]:
    assert array.bits is not None
    offset = stream.tell()
    stream.write(array.bits.tobytes())
    return {"part": part, "path": path, "dtype": array.dtype, "shape": array.shape, "strides": array.strides,
            "device": array.device or "cpu", "offset": offset, "alias": array.alias}  # fmt: skip
