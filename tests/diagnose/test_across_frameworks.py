"""The same model written in torch and in Paddle: aligned call by call without a map, quiet where both are right, and a
fault planted in one of them is named with its call, module and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402
from tests.helpers.twins import paddle_run, torch_run  # noqa: E402
from trueline.records import Phase, Verdict  # noqa: E402

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_run(tmp_path_factory.mktemp("torch") / "run")


@pytest.fixture(scope="module")
def adamw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_run(tmp_path_factory.mktemp("adamw") / "run", optimizer="AdamW")


def shown(report: Any) -> str:
    wrong = [row for row in report.calls if row.verdict >= Verdict.WARN and row.verdict is not Verdict.NOT_COMPARED]
    return "\n".join(f"{row.verdict} {row.call.name} in {row.call.module}: {row.reason}" for row in wrong)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_clean_pair_is_quiet_and_aligned(tmp_path: Path, reference: Path, data: str) -> None:
    candidate = paddle_run(tmp_path / "run", data=data)
    with trueline.compare(reference, candidate) as report:
        assert report.counts["FAIL"] == report.counts["ERROR"] == report.counts["WARN"] == 0, shown(report)
        assert report.first_divergence is None
        pairs = [row for row in report.calls if row.reference is not None and row.candidate is not None]
        layers = [row for row in pairs if row.call.api.endswith(("linear", "layer_norm", "embedding", "conv1d"))]
        assert len(layers) == 2 * 2 * 11  # two steps, forward and backward
        assert all(row.reference.module == row.candidate.module for row in layers)  # type: ignore[union-attr]
        alone = [row.call.name for row in report.calls if row.reference is None or row.candidate is None]
        # Data, seeds of gradients, transposing for a product, and how many calls an optimizer makes.
        apis = {name.rpartition(".")[0].rpartition(".")[0] for name in alone}
        assert apis <= {"paddle.to_tensor", "torch.ones_like", "torch.Tensor.transpose", "paddle._C_ops.full_"}
        weights = [t for row in layers if row.call.api.endswith("linear") for t in row.tensors if "weight" in t.path]
        assert len(weights) == 2 * 2 * 7
        assert all(tensor.distance is not None and tensor.distance < 1e-5 for tensor in weights)
        assert all("axes of the reference" in tensor.reason for tensor in weights)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_parameters_are_compared_after_their_update(
    tmp_path: Path, reference: Path, adamw: Path, optimizer: str
) -> None:
    candidate = paddle_run(tmp_path / "run", optimizer=optimizer)
    with trueline.compare(reference if optimizer == "SGD" else adamw, candidate) as report:
        assert report.counts["FAIL"] == 0, shown(report)
        updates = [row for row in report.calls if row.call.context == "optimizer" and row.reference is not None]
        updates = [row for row in updates if row.candidate is not None]
        assert len(updates) == 2 * 21
        assert all(row.verdict is Verdict.PASS for row in updates), shown(report)


@pytest.mark.parametrize("data", ["tensors", "stats"])
@pytest.mark.parametrize(
    ("fault", "api", "module", "phase", "where"),
    [
        ("gelu by tanh", "paddle.nn.functional.gelu", "", FORWARD, "forward"),
        ("epsilon of layer norm", "paddle.nn.functional.layer_norm", "second", FORWARD, "forward"),
        ("no scale in attention", "torch.Tensor.mul", "attention", FORWARD, "forward"),
        ("softmax over the wrong axis", "paddle.nn.functional.softmax", "attention", FORWARD, "forward"),
        ("no bias", "paddle.nn.functional.linear", "", FORWARD, "forward"),
        ("label smoothing", "paddle.nn.functional.cross_entropy", "", FORWARD, "paddle_run"),
        ("scale of the loss", "paddle.Tensor.__mul__", "", FORWARD, "paddle_run"),
        ("gradient through a hook", "paddle.nn.functional.linear", "up", BACKWARD, "forward"),
        ("learning rate", "paddle._C_ops.sgd_", "", FORWARD, ""),
    ],
)
def test_a_planted_fault_is_named(
    tmp_path: Path, reference: Path, fault: str, api: str, module: str, phase: Phase, where: str, data: str
) -> None:
    candidate = paddle_run(tmp_path / "run", fault, data=data)
    with trueline.compare(reference, candidate, replay=data == "tensors") as report:
        assert report.verdict is Verdict.FAIL
        call = report.first_divergence
        assert call is not None
        assert (call.api, call.phase, call.step) == (api, phase, 0), report.origin.explanation  # type: ignore[union-attr]
        if module:
            assert call.module == module
        if where:
            assert "twins.py" in call.source and call.source.endswith(where)


def test_what_was_asked_for_differently_is_said(tmp_path: Path, reference: Path) -> None:
    candidate = paddle_run(tmp_path / "run", "epsilon of layer norm")
    with trueline.compare(reference, candidate) as report:
        assert report.origin is not None
        assert "eps: 1e-05 -> 0.001" in report.origin.explanation
        assert "asked differently" in report.origin.explanation  # each side computed rightly what it was asked for


def test_a_wrong_kernel_of_paddle_is_confirmed_by_replay(tmp_path: Path, reference: Path) -> None:
    candidate = paddle_run(tmp_path / "run", "gelu by a wrong kernel")
    with trueline.compare(reference, candidate) as report:
        assert report.first_divergence is not None
        assert report.first_divergence.api == "paddle.nn.functional.gelu"
        assert report.origin is not None and report.origin.confirmed is True, report.origin
        assert report.origin.evidence["candidate_error"] > 100 * report.origin.evidence["candidate_honest"]


BATCH, LENGTH, HEADS, WIDTH = 2, 6, 3, 8


def torch_attention(path: Path, arrays: list[Any], *, fused: bool, data: str) -> Path:
    """Heads before the sequence, as torch wants them."""
    functional = torch.nn.functional
    x, *weights = (torch.from_numpy(one.copy()).requires_grad_() for one in arrays)
    with trueline.capture(path, data=data, framework="torch"):
        heads = [functional.linear(x, one).view(BATCH, LENGTH, HEADS, WIDTH).transpose(1, 2) for one in weights[:3]]
        if fused:
            mixed = functional.scaled_dot_product_attention(*heads)
        else:
            scores = torch.matmul(heads[0], heads[1].transpose(2, 3)) * WIDTH**-0.5
            mixed = torch.matmul(torch.softmax(scores, -1), heads[2])
        out = functional.linear(mixed.transpose(1, 2).reshape(BATCH, LENGTH, HEADS * WIDTH), weights[3])
        out.pow(2).mean().backward()
    return path


def paddle_attention(path: Path, arrays: list[Any], *, scale: float, data: str) -> Path:
    """The sequence before the heads, as Paddle wants them; its linear layers have square weights, transposed."""
    functional = paddle.nn.functional
    x = paddle.to_tensor(arrays[0], stop_gradient=False)
    weights = [paddle.to_tensor(one.T.copy(), stop_gradient=False) for one in arrays[1:]]
    with trueline.capture(path, data=data, framework="paddle"):
        heads = [functional.linear(x, one).reshape([BATCH, LENGTH, HEADS, WIDTH]) for one in weights[:3]]
        if scale != 1.0:
            heads[0] = heads[0] * scale
        mixed = functional.scaled_dot_product_attention(*heads)
        out = functional.linear(mixed.reshape([BATCH, LENGTH, HEADS * WIDTH]), weights[3])
        out.pow(2).mean().backward()
    return path


def attention_arrays() -> list[Any]:
    random = np.random.default_rng(3)
    size = HEADS * WIDTH
    shapes = [(BATCH, LENGTH, size), *[(size, size)] * 4]
    return [(random.standard_normal(shape) / 3).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("data", ["tensors", "stats"])
@pytest.mark.parametrize("fused", [True, False])
def test_attention_that_lies_otherwise_and_one_call_against_several(tmp_path: Path, data: str, fused: bool) -> None:
    arrays = attention_arrays()
    reference = torch_attention(tmp_path / "torch", arrays, fused=fused, data=data)
    clean = paddle_attention(tmp_path / "clean", arrays, scale=1.0, data=data)
    with trueline.compare(reference, clean) as report:
        assert report.counts["FAIL"] == report.counts["WARN"] == 0, shown(report)
        (attention,) = [row for row in report.calls if row.call.name.endswith("product_attention.0.forward")]
        assert attention.reference is not None and attention.verdict is Verdict.PASS
        assert attention.output_distance < 1e-5
    wrong = paddle_attention(tmp_path / "wrong", arrays, scale=1.05, data=data)
    with trueline.compare(reference, wrong) as report:
        assert report.verdict is Verdict.FAIL
        assert report.first_divergence is not None
        assert report.first_divergence.api == "paddle.Tensor.__mul__" or not fused, report.origin
