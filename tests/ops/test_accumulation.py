"""How many terms are behind one element of an output."""

from __future__ import annotations

import pytest

from trueline.ops import Kind, facts_of
from trueline.ops.accumulation import gradient_terms, listed_operators, roundings_of, steps_of_position, terms_of
from trueline.ops.binding import signature
from trueline.ops.catalogue.language import Row, T, cases_of, op

F = "torch.nn.functional."

CASES: list[tuple[Row, int | None]] = [
    (op("torch.sum", T(4, 5)), 20),
    (op("torch.sum", T(4, 5), dim=1), 5),
    (op("torch.Tensor.mean", T(4, 5, 6), [0, 2], True), 24),
    (op("torch.softmax", T(4, 5), dim=-1), 5),
    (op("torch.matmul", T(4, 5), T(5, 6)), 5),
    (op("torch.bmm", T(2, 4, 5), T(2, 5, 6)), 5),
    (op("torch.addmm", T(6), T(4, 5), T(5, 6)), 5),
    (op(F + "linear", T(2, 3, 7), T(9, 7)), 7),
    (op(F + "conv2d", T(1, 4, 9, 9), T(8, 2, 3, 3), groups=2), 18),
    (op(F + "conv_transpose2d", T(1, 4, 9, 9), T(4, 8, 3, 3), groups=2), 18),
    (op(F + "avg_pool2d", T(1, 4, 9, 9), 3), 9),
    (op(F + "layer_norm", T(8, 5, 6), [5, 6]), 30),
    (op(F + "group_norm", T(2, 6, 5), 3), 10),
    (op(F + "batch_norm", T(8, 3, 5), T(3), T(3), None, None, True), 40),
    (op(F + "batch_norm", T(8, 3, 5), T(3), T(3)), None),
    (op(F + "instance_norm", T(8, 3, 5, 4)), 20),
    (op(F + "scaled_dot_product_attention", T(1, 9, 8), T(1, 30, 8), T(1, 30, 8)), 30),
    (op(F + "mse_loss", T(4, 5), T(4, 5)), 20),
    (op(F + "mse_loss", T(4, 5), T(4, 5), reduction="none"), None),
    (op("torch.index_add", T(3, 5), 0, T(40), T(40, 5)), 41),
    (op("torch.relu", T(4)), None),
]


@pytest.mark.parametrize(("row", "terms"), CASES, ids=[row.api for row, _ in CASES])
def test_terms(row: Row, terms: int | None) -> None:
    (case,) = cases_of([row], "float32")
    assert terms_of(case.api, case.arguments, {spec.path: spec.shape for spec in case.tensors}) == terms


def test_every_row_knows_its_parameters_and_has_a_kind() -> None:
    for name in listed_operators():
        assert signature(name), name
        assert facts_of(f"torch.{name}").kind is not Kind.OTHER, name


def test_facts() -> None:
    assert facts_of("torch.Tensor.transpose").moves
    assert facts_of("torch.round").discontinuous
    assert not facts_of("torch.exp").discontinuous and not facts_of("torch.exp").moves


@pytest.mark.parametrize(
    ("row", "digits", "roundings"),
    [
        (op("torch.cumsum", T(400, 3), 0), 24, 400.0),
        (op("torch.cumsum", T(400, 3), 0), 8, 1.0),  # half precision is to be summed in float32
        (op("torch.fft.rfft", T(4, 1024)), 11, 36.0),
        (op("torch.fft.rfft", T(4, 1024)), 24, 1.0),  # where torch's kernel for CPUs is the measure
        (op("torch.linalg.cond", T(5, 5)), 24, 5.0),
        (op("torch.sum", T(290, 3), 0), 24, 10.0),  # one after another
        (op("torch.sum", T(20, 3), 0), 24, 1.0),
        (op("torch.sum", T(400, 3), 0), 8, 1.0),
        (op("torch.var", T(400, 3), 0), 24, 50.0),  # the mean is a sum before the sum
        (op("torch.var", T(400, 3), 0), 11, 1.0),
    ],
    ids=lambda value: value.api if isinstance(value, Row) else str(value),
)
def test_roundings_that_follow_each_other(row: Row, digits: int, roundings: float) -> None:
    (case,) = cases_of([row], "float32")
    shapes = {spec.path: spec.shape for spec in case.tensors}
    assert roundings_of(case.api, case.arguments, shapes, digits) == roundings


@pytest.mark.parametrize(
    ("row", "path", "elements", "terms"),
    [
        (op("torch.add", T(5, 40), T(1, 40)), "args.1", 200, 5),
        (op("torch.add", T(5, 40), T(1, 40)), "args.0", 200, 1),
        (op("torch.matmul", T(300, 4), T(4, 6)), "args.1", 1800, 300),
        (op("torch.matmul", T(300, 4), T(4, 6)), "args.0", 1800, 6),
        (op("torch.nn.functional.linear", T(300, 4), T(6, 4), T(6)), "args.2", 1800, 300),
        (op("torch.mse_loss", T(50, 4), T(50, 4)), "args.0", 1, 1),  # each element on its own
        (op("torch.softmax", T(8, 100), 1), "args.0", 800, 100),
    ],
    ids=lambda value: value.api if isinstance(value, Row) else str(value),
)
def test_terms_of_gradients(row: Row, path: str, elements: int, terms: int) -> None:
    (case,) = cases_of([row], "float32")
    shapes = {spec.path: spec.shape for spec in case.tensors}
    assert gradient_terms(case.api, case.arguments, shapes, path, elements) == terms
    assert roundings_of(case.api, case.arguments, shapes, 24, terms) == (terms / 8 if terms > 8 else 1.0)
    assert roundings_of(case.api, case.arguments, shapes, 11, terms) == 1.0  # summed in float32


def test_positions_are_as_large_as_the_tensor_is_long() -> None:
    assert steps_of_position("torch.nn.functional.interpolate", {"args.0": (1, 3, 20, 30)}) == 900
    assert steps_of_position("torch.add", {"args.0": (1, 3, 20, 30)}) == 1
