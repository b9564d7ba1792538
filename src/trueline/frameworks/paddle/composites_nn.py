"""Layers of torch written with Paddle. Names are torch's.

What Paddle cannot do raises ``CannotExecute`` with the reason, and so does what it does wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle import Tensor
from paddle.nn import functional

from trueline.frameworks.base import CannotExecute, one_of
from trueline.frameworks.paddle.composites import COMPOSITES, composite


def _sizes(value: Any, count: int) -> list[int]:
    return [int(one) for one in value] if isinstance(value, list | tuple) else [int(value)] * count


@composite
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Any:
    """Paddle keeps weight and bias flat."""
    weight, bias = (None if one is None else one.flatten() for one in (weight, bias))
    return functional.layer_norm(input, _sizes(normalized_shape, 1), weight, bias, eps)


@composite
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Any:
    """A weight of ones stands in for none: without one Paddle's gradient is wrong."""
    weight = paddle.ones([input.shape[1]], input.dtype) if weight is None else weight
    return functional.group_norm(input, num_groups, eps, weight, bias)


@composite
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """torch's momentum is the share that is new, and its running variance is the unbiased estimate."""
    channels = input.shape[1]
    if not training:
        return functional.batch_norm(input, running_mean, running_var, weight, bias, False, epsilon=eps)
    spare = paddle.zeros([channels], input.dtype), paddle.ones([channels], input.dtype)
    out = functional.batch_norm(input, *spare, weight, bias, True, epsilon=eps)
    if running_mean is not None and running_var is not None:
        axes = [0, *range(2, input.ndim)]
        with paddle.no_grad():
            mean, var = input.mean(axes), input.var(axes, unbiased=True)
            paddle.assign(running_mean * (1 - momentum) + mean * momentum, running_mean)
            paddle.assign(running_var * (1 - momentum) + var * momentum, running_var)
    return out


@composite
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not use_input_stats or running_mean is not None:
        raise CannotExecute("Paddle's instance_norm knows no running statistics")
    return functional.instance_norm(input, weight=weight, bias=bias, eps=eps)


@composite
def gelu(input: Tensor, approximate: str = "none") -> Any:
    one_of("approximate", approximate, "none", "tanh")
    return functional.gelu(input, approximate == "tanh")


@composite
def hardsigmoid(input: Tensor, inplace: bool = False) -> Any:
    return functional.hardsigmoid(input, slope=1 / 6)


@composite
def embedding(
    input: Tensor,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """torch looks up the row at ``padding_idx`` like any other; it only gets no gradient."""
    if max_norm is not None or scale_grad_by_freq:
        raise CannotExecute("max_norm and scale_grad_by_freq are not written with Paddle")
    out = functional.embedding(input, weight)
    if padding_idx is None:
        return out
    held = functional.embedding(input, weight.detach())
    return paddle.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), held, out)


@composite
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.bilinear(input1, input2, weight, None if bias is None else bias.reshape([1, -1]))


@composite
def one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
    return functional.one_hot(tensor, num_classes).astype("int64")


@composite
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """torch keeps the classes in the second dimension, and what is ignored does not count in the mean."""
    if label_smoothing:
        raise CannotExecute("label_smoothing is not written with Paddle")
    one_of("reduction", reduction, "mean", "sum", "none")
    axis = 1 if input.ndim > 1 else 0
    if target.dtype not in (paddle.int64, paddle.int32, paddle.uint8):
        return _of_probabilities(input, target, weight, reduction, axis)
    scores = functional.log_softmax(input, axis)
    valid = (target != ignore_index).astype(input.dtype)
    index = paddle.where(target == ignore_index, paddle.zeros_like(target), target)
    weights = valid if weight is None else valid * weight[index]
    loss = -paddle.take_along_axis(scores, index.unsqueeze(axis), axis).squeeze(axis) * weights
    if reduction == "mean":
        return loss.sum() / weights.sum()
    return loss.sum() if reduction == "sum" else loss


def _of_probabilities(input: Tensor, target: Tensor, weight: Any, reduction: str, axis: int) -> Any:
    scores = functional.log_softmax(input, axis)
    if weight is not None:
        scores = scores * weight.reshape([-1] + [1] * (input.ndim - 1 - axis))
    loss = -(target * scores).sum(axis)
    if reduction == "mean":
        return loss.sum() / (input.shape[0] if input.ndim > 1 else 1) / max(loss.size // max(input.shape[0], 1), 1)
    return loss.sum() if reduction == "sum" else loss


@composite
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    if beta == 0:
        return functional.l1_loss(input, target, reduction)
    return functional.smooth_l1_loss(input, target, reduction, beta, is_huber=False)


def _pooled(rank: int, input: Tensor, arguments: dict[str, Any], dilation: Any, return_indices: bool) -> Any:
    if any(one != 1 for one in _sizes(dilation, 1)):
        raise CannotExecute("Paddle's poolings know no dilation")
    pool = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[rank - 1]
    batched = input if input.ndim == rank + 2 else input.unsqueeze(0)
    out = pool(batched, return_mask=return_indices, **arguments)
    found = [out[0], out[1].astype("int64")] if return_indices else [out]
    found = found if input.ndim == rank + 2 else [one.squeeze(0) for one in found]
    return tuple(found) if return_indices else found[0]


def _max_pool(rank: int) -> Callable[..., Any]:
    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        arguments = {"kernel_size": kernel_size, "stride": stride or None, "padding": padding, "ceil_mode": ceil_mode}
        return _pooled(rank, input, arguments, dilation, return_indices)

    return pool


def _avg_pool(rank: int) -> Callable[..., Any]:
    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        function = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[rank - 1]
        padded = any(_sizes(padding, 1))
        if ceil_mode and padded and count_include_pad:
            raise CannotExecute("Paddle counts what hangs over the end and the padding in another way")
        if divisor_override is not None and padded:
            raise CannotExecute("Paddle's divisor_override is wrong where there is a padding")
        more = {} if divisor_override is None else {"divisor_override": divisor_override}
        exclusive = not count_include_pad or (ceil_mode and divisor_override is None)
        return function(input, kernel_size, stride or None, padding, exclusive=exclusive, ceil_mode=ceil_mode, **more)

    return pool


for _rank in (1, 2, 3):
    COMPOSITES[f"max_pool{_rank}d"] = _max_pool(_rank)
    COMPOSITES[f"avg_pool{_rank}d"] = _avg_pool(_rank)


@composite
def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """For one, two and three dimensions alike."""
    rank = input.ndim - 2
    pool = (functional.adaptive_max_pool1d, functional.adaptive_max_pool2d, functional.adaptive_max_pool3d)[rank - 1]
    out = pool(input, output_size, return_mask=return_indices)
    return (out[0], out[1].astype("int64")) if return_indices else out


@composite
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    if mode == "nearest-exact":
        raise CannotExecute("Paddle knows no nearest-exact")
    size = None if size is None else _sizes(size, input.ndim - 2)
    if mode == "nearest" and input.ndim == 3:  # Paddle takes images and volumes only
        wide = interpolate(
            input.unsqueeze(2),
            None if size is None else [1, *size],
            None if scale_factor is None else [1.0, _single(scale_factor)],
            mode,
        )
        return wide.squeeze(2)
    return functional.interpolate(
        input,
        size,
        scale_factor,
        mode,
        bool(align_corners),
        data_format=None,
        recompute_scale_factor=recompute_scale_factor,
        antialias=antialias,
    )


def _single(value: Any) -> float:
    return float(value[0] if isinstance(value, list | tuple) else value)


@composite
def affine_grid(theta: Tensor, size: Any, align_corners: Any = None) -> Any:
    return functional.affine_grid(theta, _sizes(size, 1), bool(align_corners))


@composite
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None
) -> Any:
    return functional.grid_sample(input, grid, mode, padding_mode, bool(align_corners))


@composite
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    return functional.fold(
        input,
        _sizes(output_size, 2),
        _sizes(kernel_size, 2),
        _sizes(stride, 2),
        _sizes(padding, 2),
        _sizes(dilation, 2),
    )
