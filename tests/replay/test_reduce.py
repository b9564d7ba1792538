"""What is left of a case: parts of its tensors, gradients that fit, indices that stay within."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trueline.cases import Case, TensorSpec
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.replay.reduce import Reduction, plain_array, reduced_case, reduced_inputs

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
INDICES = np.array([0, 3, 2], dtype=np.int64)
CASE = Case(
    "torch.index_select",
    {"args": [{"$t": 0}, 0, {"$t": 1}], "kwargs": {"out": {"$t": 2}}},
    (
        TensorSpec("args.0", "float32", (4, 6), (1, 4), requires_grad=True),
        TensorSpec("args.2", "int64", (3,)),
        TensorSpec("kwargs.out", "float32", (3, 6)),
    ),
    (TensorSpec("out", "float32", (3, 6)),),
    backward=True,
)
INPUTS = Inputs({"args.0": ArrayIn(VALUES, "float32"), "args.2": ArrayIn(INDICES, "int64"),
                 "kwargs.out": ArrayIn(np.zeros((3, 6), np.float32), "float32")}, settled=True)  # fmt: skip
ARRIVED = {"out": ArrayIn(np.arange(18, dtype=np.float32).reshape(3, 6), "float32")}
WITHOUT_OUT = {**CASE.arguments, "kwargs": {}}


def test_parts_are_taken_and_the_rest_is_dropped() -> None:
    reduction = Reduction(WITHOUT_OUT, {"args.0": ((0, 4), (3, 6)), "args.2": ((1, 3),)}, contiguous=True)
    case = reduced_case(CASE, reduction, {"args.0": "float32"})
    assert [(spec.path, spec.shape, spec.strides) for spec in case.tensors] == [
        ("args.0", (4, 3), None),
        ("args.2", (2,), None),
    ]
    inputs = reduced_inputs(CASE, INPUTS, ARRIVED, reduction)
    assert (inputs.tensors["args.0"].bits == VALUES[:, 3:]).all()
    assert (inputs.tensors["args.2"].bits == [3, 2]).all()
    assert set(inputs.tensors) == {"args.0", "args.2"} and inputs.settled


def test_gradients_are_cut_where_the_inputs_were() -> None:
    reduction = Reduction(WITHOUT_OUT, {"args.0": ((0, 4), (3, 6)), "args.2": ((1, 3),)})
    draw = reduced_inputs(CASE, INPUTS, ARRIVED, reduction).draw
    assert draw is not None
    assert (draw("out", (2, 3), "float32").bits == ARRIVED["out"].bits[1:, 3:]).all()
    assert (draw("out", (2, 3, 1), "bfloat16").bits == 0x3F80).all()  # nothing is known of it: ones
    ones = reduced_inputs(CASE, INPUTS, ARRIVED, Reduction(WITHOUT_OUT, ones=True)).draw
    assert ones is not None
    assert (ones("out", (3, 6), "float32").bits == 1).all()


def test_what_has_no_dimensions_keeps_none() -> None:
    case = Case("torch.exp", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", ()),), backward=True)
    single = ArrayIn(np.array(2, dtype=np.float32), "float32")
    inputs = reduced_inputs(case, Inputs({"args.0": single}), {"out": single}, Reduction(case.arguments))
    assert inputs.tensors["args.0"].bits.shape == ()
    assert inputs.draw is not None
    assert inputs.draw("out", (), "float32").bits.shape == ()


def test_indices_stay_within_a_shorter_dimension() -> None:
    reduction = Reduction(WITHOUT_OUT, {"args.0": ((0, 2), (0, 6))})
    assert (reduced_inputs(CASE, INPUTS, ARRIVED, reduction).tensors["args.2"].bits == [0, 3, 2]).all()
    inputs = reduced_inputs(CASE, INPUTS, ARRIVED, replace(reduction, within=True))
    assert (inputs.tensors["args.2"].bits == [0, 1, 0]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "bool", "uint8"])
def test_plain_content_is_what_a_script_draws(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from trueline.dtypes import dtype_named

    storage = np.dtype(dtype_named(dtype).storage)
    array = plain_array(ArrayIn(np.arange(60).reshape(6, 10).astype(storage), dtype))
    generator = np.random.default_rng(0)
    if dtype in ("int32", "uint8", "bool"):
        low, high = (0, 2) if dtype == "bool" else (0, 60)
        expected = torch.from_numpy(generator.integers(low, high, (6, 10)))
    elif dtype == "float64":
        expected = torch.from_numpy(generator.standard_normal((6, 10)))
    else:
        expected = torch.from_numpy(generator.standard_normal((6, 10), np.float32))
    bits = torch.from_numpy(np.ascontiguousarray(array.bits).view(np.uint8).copy()).view(getattr(torch, dtype))
    assert torch.equal(bits.reshape(6, 10), expected.to(getattr(torch, dtype)))
