"""Operators that honest implementations compute in different ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from trueline.cases import Case, Outcome, Status, Target, TensorSpec
from trueline.frameworks.base import ArrayOut, Executed, Mode
from trueline.frameworks.machine import executor
from trueline.judge.checks import check_standard_named, judge_case
from trueline.records import Verdict
from trueline.replay.honest import worse_of
from trueline.replay.inputs import inputs_for
from trueline.replay.worker import execute_case, measure_executions

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def executed(values: list[float]) -> Executed:
    bits = np.array(values, np.float32)
    return Executed(Outcome(Status.RETURNED), {"out": ArrayOut(bits, "float32", bits.shape, (1,), "cpu")}, {})


def test_each_element_is_the_one_farther_from_the_gold() -> None:
    gold = executed([1.0, 2.0, 3.0])
    worse = worse_of(executed([1.1, 2.0, 3.0]), executed([1.05, 2.2, 3.0]), gold).outputs["out"].bits
    assert worse is not None
    assert worse.tolist() == np.array([1.1, 2.2, 3.0], np.float32).tolist()


def attention(dtype: str, **arguments: object) -> Case:
    tensors = tuple(TensorSpec(f"args.{place}", dtype, (1, 2, 16, 8), requires_grad=True) for place in range(3))
    return Case(ATTENTION, {"args": [{"$t": 0}, {"$t": 1}, {"$t": 2}], "kwargs": arguments}, tensors, backward=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_attention_is_computed_in_several_ways(dtype: str) -> None:
    case = attention(dtype)
    machine = executor(Target.parse("torch:cpu"))
    modes: list[Mode] = ["honest", *machine.other_ways(case)]
    assert len(modes) == 3
    found = [machine.run(case, inputs_for(case), mode=mode).outputs["out"].bits for mode in modes]
    assert len({bits.tobytes() for bits in found if bits is not None}) == 3


@pytest.mark.parametrize("arguments", [{}, {"is_causal": True}, {"scale": 0.5}], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_way_is_honest(dtype: str, arguments: dict[str, object]) -> None:
    case = attention(dtype, **arguments)
    target = Target.parse("torch:cpu")
    machine, executions = executor(target), execute_case(case, target)
    for mode in machine.other_ways(case):
        done = machine.run(case, executions.inputs, mode=mode)
        measured = measure_executions(case, replace(executions, candidate=done))
        result = judge_case(case, measured, check_standard_named("calibrated"))
        assert result.verdict is Verdict.PASS, f"{mode}: {result.reason}"


def test_fused_kernels_may_lose_gradients_below_the_smallest_number() -> None:
    """What goes back through the scores is scaled, then rounded: in float16 little of a small gradient is left."""
    case = attention("float16", scale=2.0**-6)
    machine = executor(Target.parse("torch:cpu"))
    inputs = machine.run(case, inputs_for(case), mode="honest").arrived["out"]
    small = replace(inputs_for(case), gradients={"out": inputs._replace(bits=(inputs.bits * 2.0**-13).astype("e"))})
    gold = machine.run(case, small, mode="gold").gradients["args.0"].bits
    off = {}
    for mode in ("honest", "honest fused"):
        found = machine.run(case, small, mode=mode).gradients["args.0"].bits
        assert gold is not None and found is not None
        off[mode] = np.abs(found - gold).max()
    assert off["honest fused"] > 4 * off["honest"]


def test_rows_without_weights_are_zero_when_fused() -> None:
    case = attention("float16")
    masked = replace(
        case,
        arguments={"args": [{"$t": 0}, {"$t": 1}, {"$t": 2}, {"$t": 3}], "kwargs": {}},
        tensors=(*case.tensors, TensorSpec("args.3", "bool", (16, 16))),
    )
    machine = executor(Target.parse("torch:cpu"))
    inputs = inputs_for(masked)
    inputs.tensors["args.3"].bits[2] = False
    one, fused = (machine.run(masked, inputs, mode=mode) for mode in ("honest", "honest fused"))
    assert fused.returned and fused.backward is not None and fused.backward.status is Status.RETURNED
    for mine, theirs in (
        (fused.outputs["out"], one.outputs["out"]),
        *((fused.gradients[p], one.gradients[p]) for p in one.gradients),
    ):
        assert mine.bits is not None and theirs.bits is not None
        np.testing.assert_allclose(mine.bits.astype("f8"), theirs.bits.astype("f8"), atol=4e-3)
    bits = fused.outputs["out"].bits
    assert bits is not None and not np.any(bits[..., 2, :])


def test_in_float32_there_are_no_steps_to_round_and_in_float64_there_is_one_way() -> None:
    case = attention("float64")
    machine = executor(Target.parse("torch:cpu"))
    assert machine.other_ways(attention("float32")) == ("honest fused",)
    assert not machine.other_ways(case)
    assert not machine.other_ways(Case("torch.relu", {"args": [{"$t": 0}], "kwargs": {}}, case.tensors[:1]))
