"""A dtype that a device has no kernels for, simulated: inputs rounded to it, computed in float32, outputs rounded.

Only what has no kernel is simulated, and every Outcome of such a call says so, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from trueline.cases import Case, Outcome, Status
from trueline.dtypes import dtype_named
from trueline.frameworks.base import GOLDS, ArrayIn, ArrayOut, Executed, Executor, Inputs, Mode
from trueline.frameworks.rounding import rounded
from trueline.tree import Tree

_SINGLE = "float32"


class SimulatingExecutor:
    """Executes Cases by ``real``, in ``dtype``; where that has no kernel by ``single``, the same Target in float32."""

    def __init__(self, real: Executor, single: Executor, dtype: str) -> None:
        self._real = real
        self._single = single
        self._dtype = dtype

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        return self._real.rounded(case, inputs)

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        return self._real.other_ways(case)

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        """Runs a Case once, in its dtype if that can be had."""
        inputs = self.rounded(case, inputs)
        done = self._real.run(case, inputs, mode=mode, watch=watch)
        missing = _missing(done)
        if missing is None or mode in GOLDS:
            return done
        simulated = self._single.run(case, self._in_single(inputs), mode=mode, watch=watch)
        if _missing(simulated) is not None:  # float32 has no kernel either: the first refusal says it best
            return done
        return self._narrowed(case, inputs, simulated, missing.reason.removeprefix("in its backward: "))

    def _in_single(self, inputs: Inputs) -> Inputs:
        def draw(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
            assert inputs.draw is not None
            return rounded(inputs.draw(path, shape, self._dtype if dtype == _SINGLE else dtype), dtype)

        return replace(
            inputs,
            tensors={path: self._wider(array) for path, array in inputs.tensors.items()},
            gradients={path: self._wider(array) for path, array in inputs.gradients.items()},
            draw=None if inputs.draw is None else draw,
            settled=True,
        )

    def _wider(self, array: ArrayIn) -> ArrayIn:
        return rounded(array, _SINGLE) if array.dtype == self._dtype else array

    def _narrowed(self, case: Case, inputs: Inputs, done: Executed, reason: str) -> Executed:
        """What float32 gave, rounded, but for what a call gives in float32 whatever its inputs are."""
        follows = any(array.dtype == self._dtype for array in inputs.tensors.values())
        if not follows or _asks_for_single(case.arguments):
            return _marked(done, reason)
        return replace(
            _marked(done, reason),
            outputs=self._narrow(done.outputs),
            gradients=self._narrow(done.gradients),
            arrived={path: self._narrow_in(array) for path, array in done.arrived.items()},
            working=self._dtype,
        )

    def _narrow(self, arrays: Mapping[str, ArrayOut]) -> dict[str, ArrayOut]:
        return {path: self._narrow_out(array) for path, array in arrays.items()}

    def _narrow_out(self, array: ArrayOut) -> ArrayOut:
        if array.dtype != _SINGLE:
            return array
        bits = None if array.bits is None else self._narrow_in(ArrayIn(array.bits, array.dtype)).bits
        return replace(array, bits=bits, dtype=self._dtype)

    def _narrow_in(self, array: ArrayIn) -> ArrayIn:
        return rounded(array, self._dtype) if array.dtype == _SINGLE else array


def _missing(done: Executed) -> Outcome | None:
    """How the forward or the backward ended where it has no kernel."""
    for outcome in (done.outcome, done.backward):
        if outcome is not None and outcome.status is Status.UNSUPPORTED:
            return outcome
    return None


def _marked(done: Executed, reason: str) -> Executed:
    backward = None if done.backward is None else replace(done.backward, simulated=reason)
    return replace(done, outcome=replace(done.outcome, simulated=reason), backward=backward)


def _asks_for_single(tree: Tree) -> bool:
    """Whether a call names float32, as a dtype or as text."""
    if isinstance(tree, str):
        return tree == _SINGLE
    if isinstance(tree, dict):
        if "$dtype" in tree:
            return dtype_named(str(tree["$dtype"])).name == _SINGLE
        return any(_asks_for_single(value) for value in tree.values())
    return isinstance(tree, list) and any(_asks_for_single(item) for item in tree)
