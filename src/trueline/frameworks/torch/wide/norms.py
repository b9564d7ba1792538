"""Wide normalisation layers: layer, group, batch and RMS norm with their backward operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trueline.frameworks.torch.wide.table import REAL, Array, entry

Three = tuple["Array | None", "Array | None", "Array | None"]


def _normalised(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """Mean and reciprocal deviation over some axes, which are kept."""
    count = REAL(max(int(np.prod([x.shape[axis] for axis in axes])), 1))
    mean = x.sum(axis=axes, keepdims=True) / count
    variance = ((x - mean) ** 2).sum(axis=axes, keepdims=True) / count
    return mean, 1 / np.sqrt(variance + eps)


def _through(grad: Array, x: Array, mean: Array, rstd: Array, axes: tuple[int, ...]) -> Array:
    """The gradient of the input from that of the normalised values."""
    count = REAL(max(int(np.prod([x.shape[axis] for axis in axes])), 1))
    normal = (x - mean) * rstd
    first = grad.sum(axis=axes, keepdims=True) / count
    second = (grad * normal).sum(axis=axes, keepdims=True) / count
    return rstd * (grad - first - normal * second)


def _last(ndim: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(ndim - len(shape), ndim))


@entry("native_layer_norm")
def layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    mean, rstd = _normalised(input, _last(input.ndim, normalized_shape), eps)
    result = (input - mean) * rstd
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, rstd


@entry("native_layer_norm_backward")
def layer_norm_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> Three:
    outer = tuple(range(input.ndim - len(normalized_shape)))
    inner = grad_out if weight is None else grad_out * weight
    for_input = _through(inner, input, mean, rstd, _last(input.ndim, normalized_shape))
    for_weight = (grad_out * (input - mean) * rstd).sum(axis=outer)
    return (
        for_input if output_mask[0] else None,
        for_weight if output_mask[1] and weight is not None else None,
        grad_out.sum(axis=outer) if output_mask[2] and bias is not None else None,
    )


@entry("native_group_norm")
def group_norm(
    input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Array, Array, Array]:
    grouped = input.reshape(N, group, C // group * HxW)
    mean, rstd = _normalised(grouped, (2,), eps)
    result = ((grouped - mean) * rstd).reshape(N, C, HxW)
    result = result if weight is None else result * weight.reshape(1, C, 1)
    result = result if bias is None else result + bias.reshape(1, C, 1)
    return result.reshape(input.shape), mean[..., 0], rstd[..., 0]


@entry("native_group_norm_backward")
def group_norm_backward(
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Three:
    gradient = grad_out.reshape(N, C, HxW)
    inner = gradient if weight is None else gradient * weight.reshape(1, C, 1)
    grouped, centre, scale = (
        input.reshape(N, group, C // group * HxW),
        mean.reshape(N, group, 1),
        rstd.reshape(N, group, 1),
    )
    for_input = _through(inner.reshape(grouped.shape), grouped, centre, scale, (2,)).reshape(input.shape)
    normal = ((grouped - centre) * scale).reshape(N, C, HxW)
    return (
        for_input if output_mask[0] else None,
        (gradient * normal).sum(axis=(0, 2)) if output_mask[1] else None,
        gradient.sum(axis=(0, 2)) if output_mask[2] else None,
    )


def _channels(values: Array, ndim: int) -> Array:
    return values.reshape(1, -1, *[1] * (ndim - 2))


def _batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Batch norm; in training the running statistics are changed in place, as torch does."""
    axes = (0, *range(2, input.ndim))
    if training:
        mean, rstd = _normalised(input, axes, eps)
        count = input.size // input.shape[1]
        if running_mean is not None:
            running_mean[...] = (1 - REAL(momentum)) * running_mean + REAL(momentum) * mean.reshape(-1)
        if running_var is not None:
            variance = ((input - mean) ** 2).sum(axis=axes) / REAL(count - 1)
            running_var[...] = (1 - REAL(momentum)) * running_var + REAL(momentum) * variance
    else:
        assert running_mean is not None and running_var is not None
        mean = _channels(running_mean, input.ndim)
        rstd = 1 / np.sqrt(_channels(running_var, input.ndim) + eps)
    result = (input - mean) * rstd
    result = result if weight is None else result * _channels(weight, input.ndim)
    result = result if bias is None else result + _channels(bias, input.ndim)
    if not training:
        return result, np.zeros(0, REAL), np.zeros(0, REAL)
    return result, mean.reshape(-1), rstd.reshape(-1)


entry("native_batch_norm")(_batch_norm)


@entry("_native_batch_norm_legit")
def batch_norm_legit(*args: Array) -> tuple[Array, Array, Array]:
    result: tuple[Array, Array, Array] = _batch_norm(*args)  # type: ignore[arg-type]
    return result


@entry("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    input: Array, weight: Array | None, bias: Array | None, training: bool, momentum: float, eps: float
) -> tuple[Array, Array, Array]:
    return _batch_norm(input, weight, bias, None, None, True, momentum, eps)


@entry("native_batch_norm_backward")
def batch_norm_backward(
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Three:
    axes = (0, *range(2, input.ndim))
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, rstd = _channels(save_mean, input.ndim), _channels(save_invstd, input.ndim)
    else:
        assert running_mean is not None and running_var is not None
        mean, rstd = _channels(running_mean, input.ndim), 1 / np.sqrt(_channels(running_var, input.ndim) + eps)
    inner = grad_out if weight is None else grad_out * _channels(weight, input.ndim)
    for_input = _through(inner, input, mean, rstd, axes) if train else inner * rstd
    return (
        for_input if output_mask[0] else None,
        (grad_out * (input - mean) * rstd).sum(axis=axes) if output_mask[1] else None,
        grad_out.sum(axis=axes) if output_mask[2] else None,
    )


@entry("_batch_norm_with_update")
def batch_norm_with_update(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array]:
    results = _batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*results, np.zeros(0, np.uint8))


@entry("batch_norm_backward")
def batch_norm_with_update_backward(*args: Array, **named: Array) -> Three:
    """The same as of the plain form, without its reserve."""
    return batch_norm_backward(*args[:10])  # type: ignore[arg-type]


def _row_norms(v: Array, dim: int) -> tuple[Array, tuple[int, ...]]:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim) if dim != -1 else tuple(range(v.ndim))
    return np.sqrt((v * v).sum(axis=axes, keepdims=True)), axes


@entry("_weight_norm_interface")
def weight_norm(v: Array, g: Array, dim: int = 0) -> tuple[Array, Array]:
    norms, _ = _row_norms(v, dim)
    return v * (g / norms), norms


@entry("_weight_norm_interface_backward")
def weight_norm_backward(
    grad_w: Array, saved_v: Array, saved_g: Array, saved_norms: Array, dim: int
) -> tuple[Array, Array]:
    norms, axes = _row_norms(saved_v, dim)
    inner = (grad_w * saved_v).sum(axis=axes, keepdims=True)
    return saved_g / norms * (grad_w - saved_v * inner / norms**2), inner / norms


@entry("renorm")
def renorm(self: Array, p: float, dim: int, maxnorm: float) -> Array:
    axes = tuple(axis for axis in range(self.ndim) if axis != dim % self.ndim)
    if p == float("inf"):
        norms = np.abs(self).max(axis=axes, keepdims=True)
    else:
        norms = np.power(np.power(np.abs(self), REAL(p)).sum(axis=axes, keepdims=True), 1 / REAL(p))
    return np.where(norms > maxnorm, self * (maxnorm / (norms + REAL(1e-7))), self)
