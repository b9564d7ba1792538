"""What composites promise beyond the examples of their rows: which random numbers they use, and where they compute."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trueline.frameworks.base import CannotExecute  # noqa: E402
from trueline.frameworks.torch.composites import composite_named  # noqa: E402


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    function = composite_named(name)
    assert function is not None, name
    return function(*args, **kwargs)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_channels_fall_out_as_a_whole(data_format: str) -> None:
    x = torch.ones(20, 30, 4, 5) if data_format == "NCHW" else torch.ones(20, 4, 5, 30)
    out = call("dropout_channels", x, 0.25, True, data_format)
    planes = (out if data_format == "NCHW" else out.movedim(-1, 1)).flatten(2)
    assert torch.equal(planes, planes[:, :, :1].expand_as(planes))
    assert sorted(set(planes.flatten().tolist())) == pytest.approx([0.0, 1 / 0.75])
    assert 0.15 < (planes[:, :, 0] == 0).double().mean() < 0.35


def test_dropout_along_an_axis_shares_its_choice() -> None:
    out = call("dropout", torch.ones(400, 6), 0.5, axis=0)
    assert torch.equal(out, out[:, :1].expand_as(out))
    assert set(out.flatten().tolist()) == {0.0, 2.0}
    kept = call("dropout", torch.ones(400, 6), 0.5, axis=0, mode="downscale_in_infer")
    assert set(kept.flatten().tolist()) == {0.0, 1.0}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = torch.randn(200_000, dtype=torch.float64)
    out = call("alpha_dropout", x, 0.3)
    assert out.mean() == pytest.approx(0.0, abs=0.02) and out.var() == pytest.approx(1.0, abs=0.03)
    feature = call("feature_alpha_dropout", torch.zeros(50, 40, 6), 0.3)
    assert torch.equal(feature, feature[:, :, :1].expand_as(feature)) and len(set(feature.flatten().tolist())) == 2


def test_hard_gumbel_softmax_is_one_hot_and_derives_as_the_soft_one() -> None:
    x = torch.randn(50, 6, requires_grad=True)
    out = call("gumbel_softmax", x, 0.5, True)
    assert torch.equal(out.detach().sort(-1).values, torch.eye(6)[-1].expand(50, 6))
    (gradient,) = torch.autograd.grad(out, x, torch.randn(50, 6))
    assert gradient.abs().max() > 0.01


def test_sampled_centres_hold_every_class_that_occurs() -> None:
    label = torch.tensor([3, 17, 3, 9])
    renumbered, sample = call("class_center_sample", label, 20, 8)
    assert len(sample) == len(set(sample.tolist())) == 8 and torch.equal(sample, sample.sort().values)
    assert torch.equal(sample[renumbered], label)
    _, present = call("class_center_sample", label, 20, 2)
    assert present.tolist() == [3, 9, 17]


def test_what_cannot_be_compared_is_refused() -> None:
    row, colptr, nodes = torch.tensor([1, 2, 3]), torch.tensor([0, 3, 3]), torch.tensor([0])
    with pytest.raises(CannotExecute, match="at random"):
        call("sample_neighbors", row, colptr, nodes, 2)
    with pytest.raises(CannotExecute, match="random_u"):
        call("fractional_max_pool", torch.randn(1, 1, 6, 6), 3)
    with pytest.raises(CannotExecute, match="norm_by_times"):
        call(
            "ctc_loss", torch.randn(4, 1, 3), torch.ones(1, 1), torch.tensor([4]), torch.tensor([1]), norm_by_times=True
        )
    with pytest.raises(CannotExecute, match="fastemit"):
        call("rnnt_loss", torch.randn(1, 2, 2, 3), torch.ones(1, 1), torch.tensor([2]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("name", "shapes", "rest"),
    [
        ("interpolate", [(1, 2, 4, 5)], {"size": [7, 9], "mode": "bilinear", "align_mode": 1}),
        ("flash_attention", [(1, 5, 2, 4)] * 3, {"causal": True}),
        ("deform_conv2d", [(1, 2, 5, 5), (1, 18, 3, 3), (3, 2, 3, 3)], {}),
        ("dropout", [(4, 5)], {"axis": [0]}),
        ("group_norm", [(2, 4, 3)], {"num_groups": 2}),
        ("avg_pool2d", [(1, 2, 6, 6)], {"kernel_size": 3, "padding": 1}),
        ("fractional_max_pool", [(1, 2, 7, 7)], {"output_size": 3, "random_u": 0.3}),
        ("prior_box", [(1, 2, 3, 4), (1, 3, 9, 12)], {"min_sizes": [2.0]}),
    ],
)
def test_a_composite_computes_where_its_tensors_are(
    name: str, shapes: list[tuple[int, ...]], rest: dict[str, Any]
) -> None:
    """The device ``meta`` holds no numbers, so that anything made on the CPU beside it is noticed."""
    out = call(name, *(torch.empty(shape, device="meta") for shape in shapes), **rest)
    for one in out if isinstance(out, tuple) else (out,):
        assert one is None or one.device.type == "meta"


def test_a_word_that_the_operator_does_not_know_is_refused() -> None:
    scores, labels = torch.rand(4, 3), torch.zeros(4, 1, dtype=torch.long)
    assert call("cross_entropy", scores, labels, reduction="sum").shape == ()
    with pytest.raises(CannotExecute, match="reduction is 'nonsense'"):
        call("cross_entropy", scores, labels, reduction="nonsense")
