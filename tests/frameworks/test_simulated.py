"""A dtype without kernels, simulated in float32: what is rounded, what is not, and that it is always said."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from tests.helpers.paddle_cases import T, case_of, drawn, numbers
from trueline.cases import Case, Outcome, Status, Target
from trueline.errors import UsageError
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed, Inputs, Mode
from trueline.frameworks.rounding import rounded, settled
from trueline.frameworks.simulated import SimulatingExecutor


class Thirds:
    """An executor that divides by three in float32, and has no kernel for whatever is narrower."""

    def __init__(self, dtype: str, *, backward: bool = True) -> None:
        self._dtype = dtype
        self._backward = backward
        self.fed: list[Inputs] = []

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        return settled(case, inputs, self._dtype)

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        return ()

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        self.fed.append(inputs)
        given = inputs.tensors["args.0"]
        if given.dtype == "bfloat16" and not self._backward:
            done = Executed(Outcome(Status.RETURNED), {"out": _out(given)})
            return Executed(done.outcome, done.outputs, backward=Outcome(Status.UNSUPPORTED, "in its backward: none"))
        if given.dtype == "bfloat16":
            return Executed(Outcome(Status.UNSUPPORTED, "no kernel third for bfloat16"))
        made = ArrayIn(given.bits / np.float32(3), "float32")
        arrived = {} if inputs.draw is None else {"out": inputs.draw("out", given.bits.shape, "float32")}
        ended = Outcome(Status.RETURNED)
        return Executed(ended, {"out": _out(made), "out.1": _out(ArrayIn(np.ones(1, np.int64), "int64"))},
                        {"args.0": _out(made)}, ended, arrived, "float32")  # fmt: skip


def _out(array: ArrayIn) -> ArrayOut:
    return ArrayOut(array.bits, array.dtype, array.bits.shape, (1,), "cpu")


def simulating(**options: Any) -> tuple[SimulatingExecutor, Thirds]:
    single = Thirds("float32")
    return SimulatingExecutor(Thirds("bfloat16", **options), single, "bfloat16"), single


@pytest.mark.parametrize("backward", [True, False], ids=["no forward", "no backward"])
def test_inputs_and_outputs_are_rounded_and_it_is_said(backward: bool) -> None:
    case, inputs = case_of("paddle.third", T(drawn(64)))
    executor, single = simulating(backward=backward)
    done = executor.run(case, inputs, mode="candidate")
    assert done.returned and done.simulated
    fed = single.fed[0].tensors["args.0"]
    assert fed.dtype == "float32" and np.array_equal(fed.bits, rounded(rounded(fed, "bfloat16"), "float32").bits)
    for array in (done.outputs["out"], done.gradients["args.0"]):
        assert array.dtype == "bfloat16"
        expected = rounded(ArrayIn(fed.bits / np.float32(3), "float32"), "bfloat16").bits
        assert array.bits is not None and np.array_equal(array.bits, expected)
    assert done.outputs["out.1"].dtype == "int64"
    assert done.arrived["out"].dtype == "bfloat16"
    assert done.backward is not None and done.backward.simulated == done.simulated
    assert done.working == "bfloat16"


def test_what_has_a_kernel_is_not_simulated() -> None:
    case, inputs = case_of("paddle.third", T([1, 2], "int64"))
    executor, _ = simulating()
    assert executor.run(case, inputs, mode="candidate").simulated == ""


@pytest.mark.parametrize("dtype", ["float32", {"$dtype": "float32"}])
def test_what_asks_for_float32_gets_it(dtype: Any) -> None:
    case, inputs = case_of("paddle.third", T(drawn(4)), dtype)
    executor, _ = simulating()
    done = executor.run(case, inputs, mode="candidate")
    assert done.simulated and done.outputs["out"].dtype == "float32"


def test_golds_are_never_simulated() -> None:
    case, inputs = case_of("paddle.third", T(drawn(4)))
    executor, single = simulating()
    assert executor.run(case, inputs, mode="gold").outcome.status is Status.UNSUPPORTED
    assert not single.fed


def test_targets_say_it_and_read_it() -> None:
    target = Target.parse("paddle:gpu:0/bfloat16+simulated")
    assert (target.dtype, target.simulated) == ("bfloat16", True)
    assert Target.parse(str(target)) == target
    for text in ("paddle:cpu/float32+simulated", "paddle:cpu/bfloat16+fast", "paddle:cpu+simulated"):
        with pytest.raises(UsageError):
            Target.parse(text)


def test_by_paddle() -> None:
    pytest.importorskip("paddle")
    from trueline.frameworks.machine import executor

    case, inputs = case_of("paddle.matmul", T(drawn(4, 8), grad=True), T(drawn(8, 4, seed=1)))
    done = executor(Target.parse("paddle:cpu/bfloat16+simulated")).run(case, inputs, mode="candidate")
    assert done.simulated.startswith("no kernel matmul for bfloat16 on CPU")
    assert done.outputs["out"].dtype == done.gradients["args.0"].dtype == "bfloat16"
    real = executor(Target.parse("paddle:cpu/bfloat16+simulated")).run(
        *case_of("paddle.reshape", T(drawn(4, 8)), [8, 4]), mode="candidate"
    )
    assert not real.simulated and numbers(real.outputs["out"]).shape == (8, 4)
