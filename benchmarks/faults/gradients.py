"""Wrong gradient formulas, for ``planting.gradient``: gradients of a node's inputs from those of its outputs.

All arithmetic goes through ``torch.ops.aten`` (see there).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Grads = Sequence[Tensor | None]


def scaled(place: int, factor: float) -> Callable[..., list[Tensor | None]]:
    """One of the gradients is multiplied by ``factor``."""

    def change(grads_in: Grads, grads_out: Grads, *args: Any, **kwargs: Any) -> list[Tensor | None]:
        return [aten.mul(grad, factor) if number == place else grad for number, grad in enumerate(grads_in)]

    return change


def rounded(dtype: torch.dtype) -> Callable[..., list[Tensor | None]]:
    """Every gradient was computed in a smaller type."""

    def change(grads_in: Grads, grads_out: Grads, *args: Any, **kwargs: Any) -> list[Tensor | None]:
        return [
            None if grad is None else aten._to_copy(aten._to_copy(grad, dtype=dtype), dtype=grad.dtype)
            for grad in grads_in
        ]

    return change


def passed_through(grads_in: Grads, grads_out: Grads, *args: Any, **kwargs: Any) -> list[Tensor | None]:
    """The derivative was taken as 1."""
    return [grads_out[0], *grads_in[1:]]


def gelu_without_density(grads_in: Grads, grads_out: Grads, x: Tensor, *args: Any, **kwargs: Any) -> Grads:
    """The term x * pdf(x) is missing."""
    normal = aten.mul(aten.add(aten.erf(aten.mul(x, math.sqrt(0.5))), 1.0), 0.5)
    return [aten.mul(grads_out[0], normal)]


def silu_without_product(grads_in: Grads, grads_out: Grads, x: Tensor, *args: Any, **kwargs: Any) -> Grads:
    """The derivative was taken as sigmoid(x)."""
    return [aten.mul(grads_out[0], aten.sigmoid(x))]


def softmax_without_sum(grads_in: Grads, grads_out: Grads, x: Tensor, dim: int, *rest: Any) -> Grads:
    """y * g, the sum over the row is missing."""
    return [aten.mul(aten._softmax(x, dim, False), grads_out[0])]


def tanh_without_square(grads_in: Grads, grads_out: Grads, x: Tensor) -> Grads:
    """1 - y instead of 1 - y * y."""
    return [aten.mul(grads_out[0], aten.sub(1.0, aten.tanh(x)))]


def _layer_norm_parts(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal standard deviation."""
    mean = aten.mean(x, [-1], True)
    centred = aten.sub(x, mean)
    return mean, aten.rsqrt(aten.add(aten.mean(aten.mul(centred, centred), [-1], True), eps))


def layer_norm_weight_without_mean(
    grads_in: Grads, grads_out: Grads, x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float
) -> Grads:
    """The weight's gradient uses x / std where (x - mean) / std belongs."""
    _, scale = _layer_norm_parts(x, eps)
    product = aten.mul(grads_out[0], aten.mul(x, scale))
    return [grads_in[0], aten.sum(product, list(range(x.dim() - 1))), grads_in[2]]


def layer_norm_input_without_means(
    grads_in: Grads, grads_out: Grads, x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float
) -> Grads:
    """The two terms from the statistics are missing in the input's gradient."""
    _, scale = _layer_norm_parts(x, eps)
    return [aten.mul(aten.mul(grads_out[0], weight), scale), *grads_in[1:]]


def batch_norm_without_means(
    grads_in: Grads, grads_out: Grads, x: Tensor, mean: Any, var: Any, weight: Tensor, bias: Any, *rest: Any
) -> Grads:
    """The batch statistics were taken as constants."""
    spread = aten.var(x, [0, 2, 3], correction=0, keepdim=True)
    factor = aten.mul(aten.rsqrt(aten.add(spread, rest[-1])), aten.view(weight, [1, -1, 1, 1]))
    return [aten.mul(grads_out[0], factor), *grads_in[1:]]


def embedding_without_repeats(grads_in: Grads, grads_out: Grads, tokens: Tensor, *args: Any, **kwargs: Any) -> Grads:
    """A token that occurs twice gets one of its gradients instead of their sum."""
    return [aten.index_put(aten.zeros_like(grads_in[0]), [tokens], grads_out[0], False)]


def embedding_with_padding(
    grads_in: Grads, grads_out: Grads, tokens: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Grads:
    """The row of the padding token gets a gradient."""
    return [aten.embedding_dense_backward(grads_out[0], tokens, weight.shape[0], -1, False)]


def conv_weight_without_last_image(
    grads_in: Grads,
    grads_out: Grads,
    x: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Grads:
    """The last image of the batch is left out of the weight's gradient."""
    count = x.shape[0] - 1
    partial = aten.convolution_backward(
        aten.slice(grads_out[0], 0, 0, count),
        aten.slice(x, 0, 0, count),
        weight,
        None,
        stride,
        padding,
        dilation,
        False,
        [0, 0],
        groups,
        [False, True, False],
    )
    return [grads_in[0], partial[1], *grads_in[2:]]


def zeroed(grads_in: Grads, grads_out: Grads, *args: Any, **kwargs: Any) -> Grads:
    """Nothing flows back through this node."""
    return [None if grad is None else aten.zeros_like(grad) for grad in grads_in]


def cumsum_not_reversed(grads_in: Grads, grads_out: Grads, x: Tensor, dim: int) -> Grads:
    return [aten.cumsum(grads_out[0], dim)]


def shifted_rows(grads_in: Grads, grads_out: Grads, *args: Any, **kwargs: Any) -> Grads:
    """Every row of the first gradient belongs to its neighbour."""
    return [aten.roll(grads_in[0], [1], [0]), *grads_in[1:]]
