"""Rules: what is equally right must look equal, and what is wrong must not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from tests.ops.trials import function_named, trial_of  # noqa: E402
from trueline.ops.equivalence import RULES, Comparable, Trial, comparable, rule_for, same_gauge  # noqa: E402


def agree(one: Comparable, other: Comparable, tolerance: float = 1e-5) -> bool:
    """What a worker asks: same paths, same values, all checks hold."""
    if not (all(check.holds for check in one.checks) and all(check.holds for check in other.checks)):
        return False
    for left, right in ((one.outputs, other.outputs), (one.gradients, other.gradients)):
        if left.keys() != right.keys():
            return False
        for path in left:
            room = 0.0 if path in one.exact else tolerance
            if not np.allclose(left[path], right[path], rtol=room, atol=room, equal_nan=True):
                return False
    return True


def failed(result: Comparable) -> list[str]:
    return [check.text for check in result.checks if not check.holds]


def tied(*shape: int, distinct: int = 3, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.randint(0, distinct, shape).float()


# -- ties ---------------------------------------------------------------------------------------------------------


def other_choice(function: Callable[..., Any], dim: int) -> Callable[..., Any]:
    """The same operator with the other way of choosing: run on the input turned around along a dimension."""

    def turned(input: Any, *args: Any, **kwargs: Any) -> Any:
        found = function(input.flip(dim), *args, **kwargs)
        last = input.shape[dim] - 1
        return (found[0], last - found[1]) if isinstance(found, tuple) else last - found

    return turned


@pytest.mark.parametrize(
    ("api", "arguments", "backward"),
    [
        ("torch.max", (1,), True),
        ("torch.min", (1, True), True),
        ("torch.Tensor.max", (1,), True),
        ("torch.median", (1,), True),
        ("torch.nanmedian", (1,), True),
        ("torch.kthvalue", (4, 1), True),
        ("torch.topk", (4, 1), True),
        ("torch.sort", (1,), True),
        ("torch.argmax", (1,), False),
        ("torch.argmin", (1, True), False),
        ("torch.argsort", (1,), False),
        ("torch.mode", (1,), True),
    ],
)
def test_either_of_equal_values_may_be_chosen(api: str, arguments: tuple[Any, ...], backward: bool) -> None:
    given = tied(5, 40)
    first = trial_of(api, given, *arguments, backward=backward)
    second = trial_of(api, given, *arguments, function=other_choice(function_named(api), 1), backward=backward)
    index = "out.1" if "out.1" in first.outputs else "out"
    assert not np.array_equal(first.outputs[index], second.outputs[index]), "the test must choose differently"
    assert agree(comparable(first), comparable(second))


@pytest.mark.parametrize(
    "api", ["torch.max", "torch.topk", "torch.sort", "torch.argmax", "torch.kthvalue", "torch.mode"]
)
def test_a_wrong_choice_shows(api: str) -> None:
    given = torch.arange(20.0).reshape(2, 10)
    arguments = {"torch.topk": (3, 1), "torch.kthvalue": (3, 1)}.get(api, (1,))
    right = trial_of(api, given, *arguments)
    index = "out.1" if "out.1" in right.outputs else "out"
    for wrong_index in (
        np.roll(right.outputs[index], 1),
        right.outputs[index] + 100,
        np.zeros_like(right.outputs[index]),
    ):
        if np.array_equal(wrong_index, right.outputs[index]):
            wrong_index = wrong_index + 1
        wrong = replace(right, outputs={**right.outputs, index: wrong_index})
        assert not agree(comparable(wrong), comparable(right))


def test_a_stable_sort_promises_the_order() -> None:
    given = tied(3, 20, distinct=2)
    right = trial_of("torch.sort", given, dim=1, stable=True)
    swapped = right.outputs["out.1"].copy()
    swapped[:, [0, 1]] = swapped[:, [1, 0]]
    wrong = replace(right, outputs={**right.outputs, "out.1": swapped})
    assert not agree(comparable(wrong), comparable(right))
    free = replace(right, arguments={"args": right.arguments["args"], "kwargs": {"dim": 1}})
    assert agree(comparable(replace(free, outputs=wrong.outputs)), comparable(free))


def test_a_gradient_lost_among_ties_shows() -> None:
    given = tied(5, 40)
    right = trial_of("torch.max", given, 1, backward=True)
    path = next(iter(right.gradients))
    halved = replace(right, gradients={path: right.gradients[path] * 0.5})
    assert not agree(comparable(halved), comparable(right))


def test_gradients_of_another_order_are_not_compared() -> None:
    given = torch.tensor([[3.0, 1.0, 2.0, 5.0]])
    right = trial_of("torch.topk", given, 2, sorted=False, backward=True)
    turned = {path: out[:, ::-1].copy() for path, out in right.outputs.items()}
    other = replace(right, outputs=turned)
    assert agree(comparable(other), replace(comparable(right), gradients=comparable(other).gradients))
    assert not same_gauge(comparable(other), comparable(right))
    assert same_gauge(comparable(right), comparable(right))


def test_a_running_maximum() -> None:
    given = tied(3, 12)
    right = trial_of("torch.cummax", given, 1, backward=True)
    first = replace(right, outputs={**right.outputs, "out.1": np.argmax(
        np.where(np.arange(12) <= np.arange(12)[:, None], right.inputs["args.0"][:, None, :], -1), -1)})  # fmt: skip
    assert not np.array_equal(first.outputs["out.1"], right.outputs["out.1"])
    assert agree(comparable(first), comparable(right))


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"stride": 2, "ceil_mode": True}]
)
def test_pooling_with_ties(options: dict[str, Any]) -> None:
    given = tied(2, 3, 9, 9)

    def turned(input: Any, kernel_size: int, **kwargs: Any) -> Any:
        span = (kernel_size - 1) * kwargs.get("dilation", 1) + 1
        step, room = kwargs.get("stride", kernel_size), kwargs.get("padding", 0)
        wide = F.pad(input, (room, room + 8) * 2, value=-1e30)
        count = F.max_pool2d(input, kernel_size, **kwargs).shape[-1]
        windows = wide.unfold(2, span, step).unfold(3, span, step)[:, :, :count, :count]
        windows = windows[..., :: kwargs.get("dilation", 1), :: kwargs.get("dilation", 1)].flatten(-2).flip(-1)
        return windows.max(-1).values

    first = trial_of("torch.nn.functional.max_pool2d", given, 3, backward=True, **options)
    second = trial_of("torch.nn.functional.max_pool2d", given, 3, function=turned, backward=True, **options)
    assert not np.allclose(first.gradients["args.0"], second.gradients["args.0"])
    assert agree(comparable(first), comparable(second))
    shifted = replace(first, gradients={"args.0": np.roll(first.gradients["args.0"], 1, -1)})
    assert not agree(comparable(shifted), comparable(first))


def test_pooling_indices_select_the_maximum() -> None:
    right = trial_of("torch.nn.functional.max_pool2d", tied(1, 2, 8, 8), 2, return_indices=True)
    assert agree(comparable(right), comparable(right))
    wrong = replace(right, outputs={**right.outputs, "out.1": right.outputs["out.1"] * 0})
    assert not agree(comparable(wrong), comparable(right))


def test_unique_without_order() -> None:
    given = torch.tensor([3.0, 1.0, 3.0, 2.0])
    right = trial_of("torch.unique", given, sorted=False, return_inverse=True, return_counts=True)
    values, inverse, counts = (right.outputs[f"out.{place}"] for place in range(3))
    order = np.array([2, 0, 1])
    back = np.argsort(order)
    other = replace(right, outputs={"out.0": values[order], "out.1": back[inverse], "out.2": counts[order]})
    assert agree(comparable(other), comparable(right))
    wrong = replace(other, outputs={**other.outputs, "out.2": counts})
    assert not agree(comparable(wrong), comparable(right))


# -- random numbers ------------------------------------------------------------------------------------------------


def random_trial(api: str, *args: Any, seed: int = 0, **kwargs: Any) -> Trial:
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that dropout2d takes three axes for those of dropout1d
        return trial_of(api, *args, **kwargs)


DROPOUTS = [
    ("torch.nn.functional.dropout", (64, 50), 0.3),
    ("torch.nn.functional.dropout2d", (32, 40, 5, 5), 0.4),
    ("torch.nn.functional.dropout2d", (32, 40, 5), 0.4),
    ("torch.nn.functional.dropout1d", (32, 40, 5), 0.4),
    ("torch.nn.functional.dropout1d", (2000, 5), 0.4),
    ("torch.nn.functional.dropout3d", (2000, 2, 1, 2), 0.4),
    ("torch.nn.functional.dropout3d", (16, 40, 2, 3, 2), 0.4),
    ("torch.nn.functional.alpha_dropout", (64, 50), 0.3),
    ("torch.nn.functional.feature_alpha_dropout", (32, 40, 5, 5), 0.3),
    ("torch.nn.functional.feature_alpha_dropout", (32, 40, 5), 0.3),
]


@pytest.mark.parametrize(("api", "shape", "probability"), DROPOUTS)
def test_dropout_with_another_seed_is_the_same(api: str, shape: tuple[int, ...], probability: float) -> None:
    given = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    one, other = (random_trial(api, given, probability, True, seed=seed, backward=True) for seed in (1, 2))
    assert not np.array_equal(one.outputs["out"], other.outputs["out"])
    assert agree(comparable(one), comparable(other)), failed(comparable(one)) + failed(comparable(other))


@pytest.mark.parametrize(("api", "shape", "probability"), DROPOUTS)
def test_a_wrong_dropout_shows(api: str, shape: tuple[int, ...], probability: float) -> None:
    given = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    right = random_trial(api, given, probability, True, backward=True)
    scaled = replace(right, outputs={"out": right.outputs["out"] * 1.01})
    assert not agree(comparable(scaled), comparable(right)), "not scaled by 1/(1-p)"
    rate = random_trial(api, given, probability + 0.15, True, backward=True)
    rate = replace(rate, arguments=right.arguments)
    assert failed(comparable(rate)), "dropped too many"
    other = random_trial(api, given, probability, True, seed=5, backward=True)
    mixed = replace(right, gradients=other.gradients)
    assert failed(comparable(mixed)), "another mask in backward"


def test_a_mask_must_say_what_was_kept() -> None:
    right = random_trial("torch.native_dropout", torch.randn(64, 50), 0.4, True, backward=True)
    assert not failed(comparable(right))
    wrong = replace(right, outputs={**right.outputs, "out.1": ~right.outputs["out.1"]})
    assert failed(comparable(wrong))


def test_the_gradient_of_a_soft_sample() -> None:
    for hard in (False, True):
        given = torch.randn(40, 9, generator=torch.Generator().manual_seed(1))
        right = random_trial("torch.nn.functional.gumbel_softmax", given, hard=hard, backward=True)
        assert not failed(comparable(right))
        wrong = replace(right, gradients={"args.0": np.abs(right.gradients["args.0"])})
        assert failed(comparable(wrong))


def test_dropout_inside_a_layer() -> None:
    weights = [torch.randn(24, 5), torch.randn(24, 6), torch.randn(24, 6), torch.randn(24, 6)]
    state = (torch.zeros(2, 3, 6), torch.zeros(2, 3, 6))
    for chance, training in ((0.5, True), (0.5, False), (0.0, True)):
        arguments = (torch.randn(7, 3, 5), state, weights, False, 2, chance, training, False, False)
        result = comparable(trial_of("torch.lstm", *arguments))
        assert bool(result.dropped) == (chance > 0 and training)


def test_dropout_outside_training_is_the_identity() -> None:
    trial = random_trial("torch.nn.functional.dropout", torch.randn(5), 0.5, False)
    assert np.array_equal(comparable(trial).outputs["out"], trial.inputs["args.0"])


LAWS: list[tuple[str, tuple[Any, ...], Callable[[Any], Any]]] = [
    ("torch.rand", ((5000,),), lambda x: x * 0.9),
    ("torch.rand_like", (torch.zeros(5000),), lambda x: x * x),
    ("torch.randn", ((5000,),), lambda x: x * 1.2),
    ("torch.randn_like", (torch.zeros(5000),), lambda x: x + 0.2),
    ("torch.normal", (torch.zeros(5000), torch.full((5000,), 3.0)), lambda x: x / 3),
    ("torch.Tensor.normal_", (torch.zeros(5000), 1.0, 2.0), lambda x: x - 1),
    ("torch.Tensor.uniform_", (torch.zeros(5000), -2.0, 3.0), lambda x: np.abs(x)),
    ("torch.nn.init.uniform_", (torch.zeros(5000), 1.0, 3.0), lambda x: x - 1),
    ("torch.nn.init.normal_", (torch.zeros(5000), 1.0, 3.0), lambda x: x / 3),
    ("torch.Tensor.exponential_", (torch.zeros(5000), 2.0), lambda x: x * 2),
    ("torch.Tensor.geometric_", (torch.zeros(5000), 0.3), lambda x: x + 1),
    ("torch.Tensor.cauchy_", (torch.zeros(5000), 0.0, 2.0), lambda x: x / 2),
    ("torch.Tensor.log_normal_", (torch.zeros(5000), 0.0, 0.5), lambda x: x * 1.3),
    ("torch.randint", (3, 9, (5000,)), lambda x: np.minimum(x, 7)),
    ("torch.randint", (9, (5000,)), lambda x: x + 1),
    ("torch.Tensor.random_", (torch.zeros(5000), 2, 8), lambda x: x + 0.5),
    ("torch.randperm", (100,), lambda x: np.minimum(x, 98)),
    ("torch.bernoulli", (torch.full((5000,), 0.3),), lambda x: 1 - x),
    ("torch.Tensor.bernoulli_", (torch.zeros(5000), 0.3), lambda x: x * 0),
    ("torch.poisson", (torch.full((5000,), 4.0),), lambda x: x + 1),
    ("torch.binomial", (torch.full((5000,), 10.0), torch.full((5000,), 0.3)), lambda x: np.maximum(x - 1, 0)),
    ("torch.multinomial", (torch.tensor([0.0, 1.0, 3.0, 1.0]), 3), lambda x: x * 0),
    ("torch.multinomial", (torch.tensor([0.2, 1.0, 3.0, 1.0]), 2000, True), lambda x: x * 0),
    ("torch.nn.functional.gumbel_softmax", (torch.zeros(50, 8),), lambda x: x * 0.9),
    ("torch.nn.functional.fractional_max_pool2d", (torch.randn(2, 3, 8, 8), 2, 4), lambda x: x * 0.99),
    ("torch.rrelu", (torch.randn(5000), 0.1, 0.3, True), lambda x: x * 1.2),
]


@pytest.mark.parametrize(("api", "arguments", "spoil"), LAWS, ids=[f"{api}-{n}" for n, (api, *_) in enumerate(LAWS)])
def test_distributions_hold_and_wrong_ones_do_not(
    api: str, arguments: tuple[Any, ...], spoil: Callable[[Any], Any]
) -> None:
    arguments = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in arguments)
    trial = random_trial(api, *arguments)
    assert not failed(comparable(trial))
    assert comparable(trial).checks, "something must have been checked"
    wrong = replace(trial, outputs={path: spoil(out) for path, out in trial.outputs.items()})
    assert failed(comparable(wrong))


# -- factorizations --------------------------------------------------------------------------------------------------


def flipped(trial: Trial, columns: dict[str, int]) -> Trial:
    """The same factorization with the sign of the first vector turned; -1 says columns, -2 rows."""
    outputs = {path: array.copy() for path, array in trial.outputs.items()}
    for path, axis in columns.items():
        outputs[path][(..., 0) if axis == -1 else (..., 0, slice(None))] *= -1
    return replace(trial, outputs=outputs)


@pytest.mark.parametrize(
    ("api", "columns"),
    [
        ("torch.linalg.svd", {"out.0": -1, "out.2": -2}),
        ("torch.svd", {"out.0": -1, "out.2": -1}),
        ("torch.linalg.eigh", {"out.1": -1}),
        ("torch.linalg.qr", {"out.0": -1, "out.1": -2}),
        ("torch.linalg.eig", {"out.1": -1}),
    ],
)
def test_signs_of_vectors_are_free(api: str, columns: dict[str, int]) -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 5, 5)
    right = trial_of(api, given @ given.mT if "eigh" in api else given)
    assert agree(comparable(flipped(right, columns)), comparable(right), 1e-4)
    lonely = flipped(right, dict(list(columns.items())[:1])) if len(columns) > 1 else None
    if lonely is not None:
        assert not agree(comparable(lonely), comparable(right), 1e-4)
    for path in columns:
        wrong = replace(right, outputs={**right.outputs, path: right.outputs[path] * 1.01})
        if api != "torch.linalg.eig":  # the length of these is free as well
            assert not agree(comparable(wrong), comparable(right), 1e-4)


def test_gradients_of_other_signs_are_not_compared() -> None:
    torch.manual_seed(0)
    right = trial_of("torch.linalg.qr", torch.randn(4, 4), backward=True)
    other = flipped(right, {"out.0": -1, "out.1": -2})
    assert same_gauge(comparable(right), comparable(right))
    assert not same_gauge(comparable(right), comparable(other))
    assert comparable(right).gauge_reason


def test_pivoting_is_free_and_the_product_is_not() -> None:
    given = torch.tensor([[2.0, 1.0], [2.0, 5.0]])
    right = trial_of("torch.linalg.lu_factor", given)
    other = replace(right, outputs={"out.0": np.array([[2.0, 5.0], [1.0, -4.0]]), "out.1": np.array([2, 2])})
    assert agree(comparable(right), comparable(other))
    wrong = replace(right, outputs={**right.outputs, "out.1": np.array([2, 2])})
    assert not agree(comparable(right), comparable(wrong))
    for api in ("torch.linalg.lu", "torch.linalg.lu_factor"):
        trial = trial_of(api, torch.randn(2, 4, 4))
        product = next(array for path, array in comparable(trial).outputs.items() if path.endswith(":product"))
        assert np.allclose(product, trial.inputs["args.0"], atol=1e-5)


def test_the_older_packed_form() -> None:
    trial = trial_of("torch.Tensor.lu", torch.randn(2, 4, 5), function=torch.lu)
    assert np.allclose(comparable(trial).outputs["out.0:product"], trial.inputs["args.0"], atol=1e-5)


def test_eigenvalues_come_in_any_order() -> None:
    right = trial_of("torch.linalg.eigvals", torch.randn(6, 6))
    other = replace(right, outputs={"out": right.outputs["out"][::-1].copy()})
    assert agree(comparable(other), comparable(right))


# -- writes, memory, attention ---------------------------------------------------------------------------------------


def test_places_written_twice_hold_either_value() -> None:
    zeros, source = torch.zeros(5), torch.tensor([1.0, 2.0, 3.0])
    index = torch.tensor([0, 0, 2])
    calls = [
        ("torch.scatter", (zeros, 0, index, source)),
        ("torch.index_copy", (zeros, 0, index, source)),
        ("torch.Tensor.put_", (zeros.clone(), index, source)),
        ("torch.index_put", (zeros, (index,), source)),
        ("torch.index_put_", (zeros.clone(), [index], source)),
    ]
    for api, arguments in calls:
        right = trial_of(api, *arguments)
        outputs = []
        for value in (1.0, 2.0, 7.0):
            held = right.outputs["out"].copy()
            held[0] = value
            outputs.append(comparable(replace(right, outputs={"out": held})))
        assert agree(outputs[0], outputs[1]), api
        assert failed(outputs[2]), api
        lost = right.outputs["out"].copy()
        lost[2] = 0.5
        assert not agree(comparable(replace(right, outputs={"out": lost})), outputs[0]), api


def test_brackets_with_one_index_tensor() -> None:
    target = torch.zeros(5)
    right = trial_of("torch.Tensor.__setitem__", target, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    first, second = (replace(right, outputs={"args.0": np.array([value, 0, 3, 0, 0])}) for value in (1.0, 2.0))
    assert agree(comparable(first), comparable(second))
    assert failed(comparable(replace(right, outputs={"args.0": np.array([9.0, 0, 3, 0, 0])})))


def test_unwritten_memory_is_not_compared() -> None:
    trial = trial_of("torch.empty_like", torch.randn(3))
    assert not comparable(trial).outputs
    assert "nobody" in comparable(trial).dropped["out"]


def test_queries_that_see_nothing() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    right = trial_of("torch.nn.functional.scaled_dot_product_attention", query, key, value, mask)
    blind = right.outputs["out"].copy()
    blind[..., 1, :] = np.nan
    other = replace(right, outputs={"out": blind})
    assert agree(comparable(other), comparable(right))
    blind[..., 2, :] = np.nan
    assert not agree(comparable(replace(right, outputs={"out": blind})), comparable(right))
    leaking = right.outputs["out"].copy()
    leaking[..., 1, :] = 0.3
    assert failed(comparable(replace(right, outputs={"out": leaking})))


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_row_has_a_reason_and_an_operator_that_torch_has() -> None:
    rooms = ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.special", "torch._VF")
    names = [operator for rule in RULES for operator in rule.operators]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule.reason
        for operator in rule.operators:
            places = [f"{room}.{operator}{tail}" for room in rooms for tail in ("", "_")]
            known = [place for place in places if exists(place)]
            assert known, f"torch has no {operator}"
            assert rule_for(known[0]) is rule


def exists(api: str) -> bool:
    try:
        return function_named(api) is not None
    except AttributeError:
        return False


def test_operators_without_a_row_are_compared_as_they_are() -> None:
    assert rule_for("torch.matmul") is None
    assert rule_for("torch.nn.functional.normalize") is None
    trial = trial_of("torch.relu", torch.randn(3), backward=True)
    assert comparable(trial).outputs.keys() == {"out"} and comparable(trial).gradients.keys() == {"args.0"}


def test_a_rule_that_does_not_fit_compares_nothing() -> None:
    right = trial_of("torch.sort", torch.randn(3, 4), 1)
    odd = comparable(replace(right, outputs={"out.0": right.outputs["out.0"], "out.1": np.zeros((5, 7), np.int64)}))
    assert not odd.outputs and all("does not fit" in reason for reason in odd.dropped.values())


def test_random_operators_without_a_law_are_not_compared() -> None:
    rule = rule_for("torch.nn.init.kaiming_uniform_")
    assert rule is not None and rule.random
    trial = trial_of("torch.nn.init.kaiming_uniform_", torch.zeros(4, 4))
    assert not comparable(trial).outputs and comparable(trial).dropped
