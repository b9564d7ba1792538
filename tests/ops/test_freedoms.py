"""What operators leave open."""

from __future__ import annotations

import pytest

from trueline.ops.freedoms import has_slope_at_nan, may_differ_in_form


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
