"""What operators leave open."""

from __future__ import annotations

import pytest

from trueline.ops.freedoms import has_slope_at_nan, is_decided_by_inputs, may_differ_in_form


@pytest.mark.parametrize(
    ("api", "path", "may"),
    [
        ("torch.native_layer_norm", "out.1", True),
        ("torch.native_layer_norm", "out.0", False),
        ("torch._native_batch_norm_legit", "out.2", True),
        ("torch.nn.functional.layer_norm", "out", False),
        ("torch.max", "out.1", False),
    ],
)
def test_statistics_that_are_kept_may_have_another_form(api: str, path: str, may: bool) -> None:
    assert bool(may_differ_in_form(api, path)) is may


@pytest.mark.parametrize(
    ("api", "has"),
    [("torch.nn.functional.hardtanh", False), ("torch.selu_", False), ("torch.nansum", True), ("torch.exp", True)],
)
def test_pieces_have_no_slope_at_nan(api: str, has: bool) -> None:
    assert has_slope_at_nan(api) is has


@pytest.mark.parametrize(
    ("api", "dtype", "decided"),
    [
        ("torch.flatten", "bfloat16", True),
        ("torch.eq", "float32", True),
        ("paddle.not_equal", "float64", True),
        ("torch.relu", "float32", True),
        ("torch.floor", "float16", True),
        ("torch.abs", "float32", True),
        ("torch.abs", "complex64", False),  # a magnitude is computed
        ("torch.nn.functional.leaky_relu", "float32", False),
        ("torch.remainder", "float32", False),
        ("torch.isclose", "float32", False),
        ("paddle.median", "float32", False),  # the mean of two
        ("torch.add", "float32", False),
    ],
)
def test_what_computes_nothing_is_decided_by_its_inputs(api: str, dtype: str, decided: bool) -> None:
    assert is_decided_by_inputs(api, {"args": [{"$t": 0}], "kwargs": {}}, {dtype}) is decided


def test_rounding_to_decimals_computes() -> None:
    for decimals, decided in ((None, True), (0, True), (2, False)):
        arguments = {"args": [{"$t": 0}], "kwargs": {"decimals": decimals}}
        assert is_decided_by_inputs("torch.round", arguments, {"float32"}) is decided
