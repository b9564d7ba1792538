"""Calls and tensors of two frameworks, paired without a map of anybody's making."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.compare import Alignment, Match, align_calls, pair_leaves
from trueline.compare.parameters import common_name, default_of, in_torch
from trueline.compare.turning import Turner, orders
from trueline.diagnose import compare_runs
from trueline.records import Phase, Verdict
from trueline.store import open_run
from trueline.store.reader import RankReader

Readers = tuple[RankReader, RankReader]


def readers(tmp_path: Path, left: list[Spec], right: list[Spec], data: str = "tensors") -> Readers:
    runs = [write_run(tmp_path / name, specs, data=data) for name, specs in (("a", left), ("b", right))]
    return open_run(runs[0]).rank(0), open_run(runs[1]).rank(0)


def aligned(tmp_path: Path, left: list[Spec], right: list[Spec]) -> tuple[Alignment, Any, Any]:
    traces = [reader.trace() for reader in readers(tmp_path, left, right)]
    places = [np.arange(len(trace)) for trace in traces]
    return align_calls(traces[0], places[0], traces[1], places[1], across=True), traces[0], traces[1]


@pytest.mark.parametrize(
    ("api", "path", "name"),
    [
        ("paddle.nn.functional.linear", "args.1", "weight"),
        ("paddle.nn.functional.linear", "kwargs.x", "input"),
        ("torch.nn.functional.linear", "args.0", "input"),
        ("paddle.matmul", "args.1", "other"),
        ("torch.matmul", "kwargs.other", "other"),
        ("paddle.nn.functional.softmax", "kwargs.axis", "dim"),
        ("nobody.knows", "args.3", "args.3"),
        ("paddle.nn.functional.embedding", "kwargs.weight", "weight"),
        ("torch.matmul", "out", "out"),
    ],
)
def test_parameters_have_one_name(api: str, path: str, name: str) -> None:
    assert common_name(api, path) == name


def test_defaults_and_values_are_those_of_torch() -> None:
    assert default_of("torch.nn.functional.layer_norm", "eps") == 1e-5
    assert default_of("torch.nobody", "eps") is None
    api, arguments = in_torch("paddle.cumsum", {"args": [{"$t": 0}], "kwargs": {"axis": 1}})
    assert arguments["kwargs"] or api == "paddle.cumsum"
    nothing: dict[str, Any] = {"args": [], "kwargs": {}}
    assert in_torch("paddle.nobody.knows", nothing) == ("paddle.nobody.knows", nothing)


def test_operators_are_matched_whatever_they_are_called(tmp_path: Path) -> None:
    x, w = array(4, 8), array(8, 8, seed=1)
    left = [
        Spec("torch.nn.functional.linear", [x, w], [x], module="up"),
        Spec("torch.Tensor.transpose", [x, 0, 1], [np.ascontiguousarray(x.T)]),
        Spec("torch.cat", [[x, x]], [np.concatenate([x, x])]),
    ]
    right = [
        Spec("paddle.nn.functional.linear", [], [x], kwargs={"x": x, "weight": w}, module="up"),
        Spec("paddle.transpose", [x, [1, 0]], [np.ascontiguousarray(x.T)]),
        Spec("paddle.concat", [[x, x]], [np.concatenate([x, x])]),
    ]
    found, reference, candidate = aligned(tmp_path, left, right)
    assert found.match.tolist() == [Match.SAME] * 3
    leaves = pair_leaves(found, reference, candidate, across=True)
    assert leaves.row.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert (leaves.reference == leaves.candidate).all()


def test_what_moves_elements_is_no_counterpart_of_arithmetic(tmp_path: Path) -> None:
    x = array(2, 3, 4)
    left = [Spec("torch.Tensor.transpose", [x, 1, 2], [x]), Spec("torch.nn.functional.gelu", [x], [x])]
    right = [Spec("paddle.nn.functional.swish", [x], [x])]
    found, _, _ = aligned(tmp_path, left, right)
    pairs = list(zip(found.reference.tolist(), found.candidate.tolist(), found.match.tolist(), strict=True))
    assert (1, 0, Match.FUSED) in pairs


def test_scalars_are_not_told_by_their_shapes(tmp_path: Path) -> None:
    x = array(3)
    left = [Spec("torch.ones_like", [x], [np.array(1.0, np.float32)])]
    right = [Spec("paddle.nn.functional.mse_loss", [x, x], [np.array(2.0, np.float32)])]
    found, _, _ = aligned(tmp_path, left, right)
    assert sorted(found.match.tolist()) == [Match.EXTRA, Match.MISSING]


def test_orders_of_axes() -> None:
    assert list(orders((2, 3), (3, 2))) == [(1, 0)]
    assert list(orders((2, 3), (2, 3))) == []
    assert list(orders((4, 4), (4, 4))) == [(1, 0)]
    assert (0, 2, 1, 3) in list(orders((2, 3, 4, 5), (2, 4, 3, 5)))
    assert list(orders((2, 1), (1, 2))) == []  # an axis of one element lies anyhow


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_transposed_tensor_is_recognised(tmp_path: Path, data: str) -> None:
    w, other = array(6, 6), array(6, 6, seed=9)
    sides = readers(tmp_path, [Spec("torch.f", [w], [w])], [Spec("paddle.f", [w.T.copy(), other], [w])], data)
    traces = sides[0].trace(), sides[1].trace()
    turner = Turner(sides, traces)
    pairs = [
        (*traces[0].visits[0, 3:].tolist(), *traces[1].visits[place, 3:].tolist()) for place in (0, 1)
    ]
    found = turner.turn(pairs[0], 1.4)
    assert found is not None and found.distance < 1e-6
    assert found.axes == ((1, 0) if data == "tensors" else ())
    assert found.estimated is (data == "stats")
    assert turner.turn(pairs[1], 1.4) is None  # another tensor altogether
    assert turner.turn(pairs[0], 1e-6) is None  # lies alike already


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_wrong_transposition_is_not_turned_away(tmp_path: Path, data: str) -> None:
    """Both sides transpose the same tensor, one of them not at all: the right elements in the wrong places."""
    x = array(8, 8)
    y = np.ascontiguousarray(x.T)
    left = [Spec("torch.transpose", [x, 0, 1], [y]), Spec("torch.exp", [y], [np.exp(y)])]
    right = [Spec("paddle.transpose", [x, [1, 0]], [x.copy()]), Spec("paddle.exp", [x], [np.exp(x)])]
    write_run(tmp_path / "a", left, data=data)
    write_run(tmp_path / "b", right, data=data)
    with compare_runs(tmp_path / "a", tmp_path / "b", replay=False) as report:
        assert report.verdict is Verdict.FAIL
        assert report.first_divergence is not None and report.first_divergence.api == "paddle.transpose"


def test_noise_that_vanishes_beside_its_inputs_excuses_nothing_later(tmp_path: Path) -> None:
    """The gradient of a bias before a softmax is rounding and nothing else; what comes later is judged as sharply."""
    x, gradient = array(64, 16), array(64, 16, seed=3)
    bias = x[0].copy()

    def run(framework: str, seed: int, scale: float) -> list[Spec]:
        left_over = array(16, seed=seed) * np.float32(1e-9)
        first = Spec(f"{framework}.add", [x, bias], [x + bias])
        back = Spec(f"{framework}.add", [gradient], [gradient, left_over], phase=Phase.BACKWARD, forward=first)
        given = (x * np.float32(scale)).astype(np.float32)
        return [first, back, Spec(f"{framework}.exp", [given], [np.exp(given)])]

    runs = [write_run(tmp_path / name, run(name, seed, scale)) for name, seed, scale in
            (("torch", 4, 1.0), ("paddle", 5, 1.01))]  # fmt: skip
    with compare_runs(*runs, replay=False) as report:
        assert report.first_divergence is not None and report.first_divergence.api == "paddle.exp"
        assert "the two are given other data" in report.calls[2].reason
