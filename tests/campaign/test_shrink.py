"""Looking for the smallest case that fails, with failures made up: what is found, and at what price."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest

from trueline.campaign.shrink import Shrunk, elements, shrink
from trueline.cases import Case, CaseMeasured, CaseResult, Outcome, Status, TensorSpec
from trueline.records import Verdict
from trueline.replay.reduce import Reduction

MATMUL = Case(
    "torch.matmul",
    {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}},
    (TensorSpec("args.0", "float32", (64, 48)), TensorSpec("args.1", "float32", (48, 32))),
)
NORM = Case(
    "torch.nn.functional.layer_norm",
    {"args": [{"$t": 0}, {"$tuple": [96]}, {"$t": 1}], "kwargs": {"eps": 1e-3, "bias": {"$t": 2}}},
    (
        TensorSpec("args.0", "float32", (8, 10, 96), (960, 1, 10)),
        TensorSpec("args.2", "float32", (96,)),
        TensorSpec("kwargs.bias", "float32", (96,)),
    ),
    backward=True,
)


def result_of(case: Case) -> CaseResult:
    return CaseResult(case, CaseMeasured(case.key, Outcome(Status.RETURNED)), Verdict.FAIL, "wrong")


def search(case: Case, fails: Callable[[Reduction], bool], **limits: float) -> Shrunk:
    tried = []

    def attempt(reduction: Reduction) -> CaseResult | None:
        tried.append(reduction)
        return result_of(case) if fails(reduction) else None

    found = shrink(result_of(case), attempt, **limits)  # type: ignore[arg-type]
    assert found.attempts == len(tried)
    return found


def shapes(case: Case, reduction: Reduction) -> list[tuple[int, ...]]:
    return [reduction.shape(spec) for spec in case.tensors]


def fits(reduction: Reduction) -> bool:
    first, second = shapes(MATMUL, reduction)
    return first[1] == second[0]


def test_what_always_fails_is_shrunk_to_single_elements() -> None:
    found = search(MATMUL, fits)
    assert shapes(MATMUL, found.reduction) == [(1, 1), (1, 1)]
    assert elements(MATMUL, found.reduction) == 2
    assert found.attempts < 20


@pytest.mark.parametrize("least", [2, 5, 17, 33])
def test_a_fault_that_needs_some_length_keeps_it(least: int) -> None:
    found = search(MATMUL, lambda reduction: fits(reduction) and shapes(MATMUL, reduction)[0][1] >= least)
    first, second = shapes(MATMUL, found.reduction)
    assert least <= first[1] < 2 * least or first[1] == 48
    assert (first[0], second[1]) == (1, 1)


@pytest.mark.parametrize("place", [0, 20, 31])
def test_a_single_wrong_element_is_found_wherever_it_is(place: int) -> None:
    case = Case("torch.relu", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", (32, 7)),))

    def holds_it(reduction: Reduction) -> bool:
        (start, stop), _ = reduction.cuts_of(case.tensors[0])
        return start <= place < stop

    found = search(case, holds_it)
    assert found.reduction.cuts["args.0"][0] == (place, place + 1)


def test_sizes_in_arguments_follow_and_keywords_are_dropped() -> None:
    def fails(reduction: Reduction) -> bool:
        first, weight, _ = shapes(NORM, reduction)
        return reduction.arguments["args"][1] == {"$tuple": [first[-1]]} and weight[0] == first[-1] >= 2

    found = search(NORM, fails)
    assert found.reduction.arguments["kwargs"] == {}
    assert found.reduction.contiguous and found.reduction.ones
    (first, weight, _), argument = shapes(NORM, found.reduction), found.reduction.arguments["args"][1]
    assert first[-1] == weight[0] == argument["$tuple"][0] < 4
    assert elements(NORM, found.reduction) == prod(first) + weight[0]


def test_what_the_fault_needs_is_kept() -> None:
    found = search(NORM, lambda reduction: not reduction.contiguous and "eps" in reduction.arguments["kwargs"])
    assert not found.reduction.contiguous
    assert list(found.reduction.arguments["kwargs"]) == ["eps"]


def test_a_failure_that_nothing_smaller_shows_stays_whole() -> None:
    found = search(MATMUL, lambda reduction: False)
    assert found.reduction == Reduction(MATMUL.arguments)


def test_attempts_and_time_are_bounded() -> None:
    assert search(MATMUL, lambda reduction: False, attempts=5).attempts == 5
    assert search(MATMUL, fits, seconds=-1.0).attempts == 0


def test_a_reduction_travels_as_json() -> None:
    import json

    reduction = search(NORM, lambda reduction: "eps" in reduction.arguments["kwargs"]).reduction
    assert Reduction.from_json(json.loads(json.dumps(reduction.as_json()))) == reduction
