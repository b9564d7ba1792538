"""Operators that honest implementations compute in different ways."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from trueline.cases import Case, Outcome, Status, Target, TensorSpec
from trueline.frameworks.base import ArrayOut, Executed
from trueline.frameworks.machine import executor
from trueline.replay.honest import worse_of
from trueline.replay.inputs import inputs_for

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def executed(values: list[float]) -> Executed:
    bits = np.array(values, np.float32)
    return Executed(Outcome(Status.RETURNED), {"out": ArrayOut(bits, "float32", bits.shape, (1,), "cpu")}, {})


def test_each_element_is_the_one_farther_from_the_gold() -> None:
    gold = executed([1.0, 2.0, 3.0])
    worse = worse_of(executed([1.1, 2.0, 3.0]), executed([1.05, 2.2, 3.0]), gold).outputs["out"].bits
    assert worse is not None
    assert worse.tolist() == np.array([1.1, 2.2, 3.0], np.float32).tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_attention_is_computed_in_two_ways(dtype: str) -> None:
    tensors = tuple(TensorSpec(f"args.{place}", dtype, (1, 2, 16, 8)) for place in range(3))
    case = Case(ATTENTION, {"args": [{"$t": 0}, {"$t": 1}, {"$t": 2}], "kwargs": {}}, tensors)
    machine = executor(Target.parse("torch:cpu"))
    assert machine.goes_other_ways(case)
    one, other = (machine.run(case, inputs_for(case), mode=mode) for mode in ("honest", "other honest"))
    assert one.returned and other.returned
    assert not np.array_equal(one.outputs["out"].bits, other.outputs["out"].bits)


def test_in_float32_and_elsewhere_there_is_one_way() -> None:
    tensors = tuple(TensorSpec(f"args.{place}", "float32", (1, 2, 16, 8)) for place in range(3))
    arguments = {"args": [{"$t": 0}, {"$t": 1}, {"$t": 2}], "kwargs": {}}
    machine = executor(Target.parse("torch:cpu"))
    assert not machine.goes_other_ways(Case(ATTENTION, arguments, tensors))
    assert not machine.goes_other_ways(Case("torch.relu", {"args": [{"$t": 0}], "kwargs": {}}, tensors[:1]))
