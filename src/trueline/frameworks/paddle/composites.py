"""Functions of torch that Paddle has not, written with Paddle.

A composite has torch's own parameter names and gives what torch's function gives. Rows of ``ops.mapping`` that lead
from torch to Paddle (``FROM_TORCH``) name it ``composite.NAME``; ``composite_named`` finds it. Gradients come from
Paddle's own autograd. Layers are in the modules beside this one whose names begin with ``composites_``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle
from paddle import Tensor
from paddle.nn import functional

from trueline.frameworks.base import one_of
from trueline.frameworks.composites import Composites

COMPOSITES = Composites("trueline.frameworks.paddle")
composite = COMPOSITES.register
composite_named = COMPOSITES.named


@composite
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.linear(input, weight.t(), bias)


@composite
def add(input: Any, other: Any, alpha: float = 1) -> Tensor:
    return input + (other if alpha == 1 else alpha * other)


@composite
def sub(input: Any, other: Any, alpha: float = 1) -> Tensor:
    return input - (other if alpha == 1 else alpha * other)


@composite
def mul(input: Any, other: Any) -> Tensor:
    return input * other


@composite
def div(input: Any, other: Any, rounding_mode: str | None = None) -> Tensor:
    result = input / other
    if rounding_mode is None:
        return result
    return paddle.floor(result) if rounding_mode == "floor" else paddle.trunc(result)


def _beside(value: Any, tensor: Tensor) -> Tensor:
    """A number as a tensor of the same dtype: Paddle's in-place functions take no numbers."""
    return value if isinstance(value, Tensor) else paddle.to_tensor(value, dtype=tensor.dtype)


@composite
def add_(input: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return input.add_(_beside(other if alpha == 1 else alpha * other, input))


@composite
def sub_(input: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return input.subtract_(_beside(other if alpha == 1 else alpha * other, input))


@composite
def mul_(input: Tensor, other: Any) -> Tensor:
    return input.multiply_(_beside(other, input))


@composite
def div_(input: Tensor, other: Any) -> Tensor:
    return input.divide_(_beside(other, input))


@composite
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input.add_(value * tensor1 * tensor2)


@composite
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input.add_(value * (tensor1 / tensor2))


@composite
def _pow(input: Any, exponent: Any) -> Tensor:
    return input**exponent


@composite
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if not isinstance(min, Tensor) and not isinstance(max, Tensor):
        return paddle.clip(input, min, max)
    result = input if min is None else paddle.maximum(input, paddle.to_tensor(min, input.dtype))
    return result if max is None else paddle.minimum(result, paddle.to_tensor(max, input.dtype))


@composite
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(input.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return paddle.transpose(input, order)


@composite
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    size = tensor.shape[dim]
    if not isinstance(split_size_or_sections, int):
        return tuple(paddle.split(tensor, list(split_size_or_sections), dim))
    each = split_size_or_sections
    sizes = [each] * (size // each) + ([size % each] if size % each else [])
    return tuple(paddle.split(tensor, sizes, dim))


@composite
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    return split(input, -(-input.shape[dim] // chunks), dim)


@composite
def cast(x: Tensor, dtype: Any = None) -> Tensor:
    return x.clone() if dtype is None else paddle.cast(x, dtype)


@composite
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    return paddle.take_along_axis(input, index, dim, broadcast=False)


@composite
def scatter(input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    return paddle.put_along_axis(input, index, src, dim, broadcast=not isinstance(src, Tensor))


@composite
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        return paddle.take_along_axis(input.flatten(), indices.flatten(), 0)
    return paddle.take_along_axis(input, indices, dim)


@composite
def max_along(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return paddle.max(input)
    return paddle.max(input, dim, keepdim), paddle.argmax(input, dim, keepdim)


@composite
def min_along(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return paddle.min(input)
    return paddle.min(input, dim, keepdim), paddle.argmin(input, dim, keepdim)


@composite
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    order = paddle.argsort(input, dim, descending, stable)
    return paddle.take_along_axis(input, order, dim), order


@composite
def softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    return functional.softmax(input, dim, dtype=dtype)


@composite
def log_softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    return functional.log_softmax(input, dim, dtype=dtype)


@composite
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    axes = list(range(-len(normalized_shape), 0))
    small = paddle.finfo(input.dtype).eps if eps is None else eps
    result = input * paddle.rsqrt((input * input).mean(axes, keepdim=True) + small)
    return result if weight is None else result * weight


@composite
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: float | None = None) -> Tensor:  # fmt: skip
    weights = paddle.matmul(query, key, transpose_y=True) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = paddle.tril(paddle.ones(weights.shape[-2:])).astype("bool")
    if attn_mask is not None and attn_mask.dtype == paddle.bool:
        weights = paddle.where(attn_mask, weights, paddle.full_like(weights, -float("inf")))
    elif attn_mask is not None:
        weights = weights + attn_mask
    return paddle.matmul(functional.dropout(functional.softmax(weights, -1), dropout_p), value)


@composite
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    # Not Paddle's own nll_loss: its gradient writes out of bounds where a label is the ignored one.
    one_of("reduction", reduction, "mean", "sum", "none")
    kept = target != ignore_index
    labels = paddle.where(kept, target, paddle.zeros_like(target))
    axis = 1 if input.ndim > 1 else 0
    picked = paddle.take_along_axis(input, labels.unsqueeze(axis), axis, broadcast=False).squeeze(axis)
    weights = kept.astype(input.dtype) * (1.0 if weight is None else paddle.gather(weight, labels.flatten()).reshape(
        labels.shape))  # fmt: skip
    losses = -picked * weights
    if reduction == "none":
        return losses
    return losses.sum() / weights.sum() if reduction == "mean" else losses.sum()


def _convolution(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convolve(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
        if isinstance(padding, str):
            padding = padding.upper()
        return function(input, weight, bias, stride, padding, dilation, groups)

    return convolve


COMPOSITES["conv1d"] = _convolution(functional.conv1d)
COMPOSITES["conv2d"] = _convolution(functional.conv2d)
COMPOSITES["conv3d"] = _convolution(functional.conv3d)


@composite
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    if mode != "constant":
        return functional.pad(input, list(pad), mode, data_format={3: "NCL", 4: "NCHW", 5: "NCDHW"}[input.ndim])
    pairs = [list(pad[place : place + 2]) for place in range(0, len(pad), 2)]
    spread = [0, 0] * (input.ndim - len(pairs)) + [size for pair in reversed(pairs) for size in pair]
    return functional.pad(input, spread, "constant", 0.0 if value is None else value, pad_from_left_axis=True)


@composite
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    return functional.dropout(input, p, training=training)


@composite
def rsub(input: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return other - input * alpha


@composite
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input + value * tensor1 * tensor2


@composite
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    return input + value * (tensor1 / tensor2)


@composite
def var_mean(input: Tensor, dim: Any = None, correction: float = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return paddle.var(input, dim, keepdim=keepdim, correction=correction), paddle.mean(input, dim, keepdim)
