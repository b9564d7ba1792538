"""A gold in a narrower dtype than float64 judges nothing, unless nothing can have been rounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trueline.cases import Case, Outcome, Status
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed, Inputs
from trueline.ops.facts import _ONE_TO_ONE, _TABLE, Kind, facts_of
from trueline.replay.golds import is_known, trusted


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


def executed(values: list[float], *, dtype: str = "float32", backward: bool = True) -> Executed:
    array = ArrayOut(np.array(values, dtype), dtype, (len(values),), (1,), "cpu")
    done = Executed(Outcome(Status.RETURNED), {"out": array})
    if not backward:
        return done
    return replace(done, gradients={"args.0": array}, backward=Outcome(Status.RETURNED))


def moved(api: str, ours: list[float], theirs: list[float], *, given: int = 1, **options: Any) -> bool:
    backward, dtype = options.get("backward", True), options.get("dtype", "float32")
    case = Case(api, {"args": [{"$t": place % given} for place in range(2)], "kwargs": {}}, backward=backward)
    inputs = Inputs({f"args.{place}": ArrayIn(np.ones(2, dtype), dtype) for place in range(given)})
    sides = [executed(values, dtype=dtype, backward=backward) for values in (ours, theirs)]
    return is_known(case, inputs, *sides)


def test_what_moves_elements_to_one_place_each_is_known_with_its_gradients() -> None:
    assert moved("torch.cat", [1.0, 2.0], [1.0, 2.0], given=2)
    assert moved("torch.cat", [1.0, 2.0], [1.0, 2.0], given=2, backward=False)


@pytest.mark.parametrize(
    ("api", "options"),
    [
        ("torch.cat", {"given": 1}),  # the same tensor twice: its gradients are added
        ("torch.gather", {"given": 2}),  # may take an element twice
        ("torch.exp", {"given": 2}),
        ("torch.abs", {"given": 2, "dtype": "complex64"}),
    ],
)
def test_what_adds_up_or_computes_needs_a_gold(api: str, options: dict[str, Any]) -> None:
    assert not moved(api, [1.0, 2.0], [1.0, 2.0], **options)


def test_two_implementations_must_agree_to_the_last_bit() -> None:
    assert not moved("torch.cat", [1.0, 0.0], [1.0, -0.0], given=2)
    assert not moved("torch.cat", [1.0, 2.0], [1.0, 2.0000002], given=2)


def test_operators_that_move_one_to_one_neither_compute_nor_repeat() -> None:
    kinds = {name: kind for kind, names in _TABLE.items() for name in names.split()}
    assert {kinds[name] for name in _ONE_TO_ONE} == {Kind.MOVE, Kind.SELECT}
    for api in ("torch.expand", "torch.gather", "torch.Tensor.repeat", "torch.where", "torch.nn.functional.pad"):
        assert not facts_of(api).one_to_one
