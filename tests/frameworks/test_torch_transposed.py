"""Our own transposed convolution against torch's: the same sums in another order."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn import functional

from trueline.frameworks.torch import transposed
from trueline.frameworks.torch.composites_convolutions import conv3d_transpose


@pytest.mark.parametrize(
    ("dimensions", "stride", "dilation", "groups"),
    [(count, *rest) for count, rest in itertools.product((1, 2, 3), ((1, 1, 1), (2, 1, 1), (1, 3, 2), (3, 2, 2)))],
)
def test_results_and_gradients_are_those_of_torch(dimensions: int, stride: int, dilation: int, groups: int) -> None:
    torch.manual_seed(dimensions)
    strides, dilations = [stride] * dimensions, [dilation, *[1] * (dimensions - 1)]
    x = torch.randn(2, 4, *[3, 4, 5][:dimensions], dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, *[2, 3, 4][:dimensions], dtype=torch.float64, requires_grad=True)
    ours = transposed.conv_transpose(x, weight, strides, dilations, groups)
    theirs = transposed.THEIRS[dimensions](x, weight, None, strides, 0, 0, groups, dilations)
    arrived = torch.randn_like(theirs)
    pairs = zip(torch.autograd.grad(ours, (x, weight), arrived), torch.autograd.grad(theirs, (x, weight), arrived),
                strict=True)  # fmt: skip
    for one, other in ((ours, theirs), *pairs):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.equal(ours == 0, theirs == 0), "what nothing adds to stays zero"


def test_it_is_taken_where_columns_are_many_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.ones(1, 2, 3, 3, 3, dtype=torch.float64), torch.ones(2, 2, 2, 2, 2, dtype=torch.float64)
    columns = weight[0].numel() * math.prod(x.shape[2:])
    assert not transposed.is_large(x, weight)
    monkeypatch.setattr(transposed, "_MANY_COLUMNS", columns - 1)
    assert transposed.is_large(x, weight) and not transposed.is_large(x.float(), weight.float())
    asked = conv3d_transpose(x, weight, stride=2, padding=1, output_padding=1)
    expected = functional.conv_transpose3d(x, weight, stride=2, padding=1, output_padding=1)
    assert torch.equal(asked, expected)


def test_what_is_not_finite_does_not_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column has zeros beyond the border of an image; beside these, infinity would become NaN."""
    monkeypatch.setattr(transposed, "_MANY_COLUMNS", 1)
    x, weight = (torch.ones(1, 1, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert transposed.is_large(x, weight)
    with torch.no_grad():
        other = x.clone()
        other[0, 0, 1, 1] = math.inf
    assert not transposed.is_large(other, weight) and not transposed.is_large(x, other)
    ours = transposed.conv_transpose(x, weight, [1, 1], [1, 1], 1)
    theirs = functional.conv_transpose2d(x, weight)
    arrived = torch.ones_like(theirs)
    arrived[0, 0, 2, 2] = math.inf
    for one, another in zip(torch.autograd.grad(ours, (x, weight), arrived),
                            torch.autograd.grad(theirs, (x, weight), arrived), strict=True):  # fmt: skip
        torch.testing.assert_close(one, another, equal_nan=True)
