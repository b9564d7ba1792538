"""A gold in a narrower dtype than float64 judges nothing, unless nothing can have been rounded."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.cases import Case, Outcome, Status
from trueline.frameworks.base import ArrayOut, Executed
from trueline.replay.golds import trusted


def gold_of(*dtypes: str) -> Executed:
    arrays = [ArrayOut(np.ones(2, dtype=dtype), dtype, (2,), (1,), "cpu") for dtype in dtypes]
    return Executed(Outcome(Status.RETURNED), {f"out.{place}": array for place, array in enumerate(arrays)})


def case_of(api: str, *, backward: bool = False) -> Case:
    return Case(api, {"args": [], "kwargs": {}}, backward=backward)


def test_wide_and_exact_arrays_stand() -> None:
    gold = gold_of("float64", "complex128", "int64", "bool")
    assert trusted(case_of("torch.exp"), gold).outputs == gold.outputs


def test_what_was_computed_in_float32_is_no_gold() -> None:
    found = trusted(case_of("torch.exp"), gold_of("float32")).outputs["out.0"]
    assert found.bits is None
    assert found.note == "the reference gives float32 even where it is asked for float64"


@pytest.mark.parametrize("backward", [False, True])
def test_what_was_only_moved_is_as_good_in_float32(backward: bool) -> None:
    """Its gradients may be sums."""
    found = trusted(case_of("torch.nn.functional.one_hot", backward=backward), gold_of("float32")).outputs["out.0"]
    if backward:
        assert found.bits is None
    else:
        assert found.dtype == "float64" and found.bits is not None and found.bits.tolist() == [1.0, 1.0]
