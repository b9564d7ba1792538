"""Wide operators that reduce, accumulate, order or normalise along dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide.table import (
    REAL,
    Array,
    Dims,
    Entry,
    Number,
    along,
    axes_of,
    cast,
    count_of,
    entry,
    promoted,
)


def _summed(self: Array, dim: Dims, keepdim: bool) -> Array:
    return np.asarray(self.sum(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("sum")
def sum_(self: Array, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Array:
    return _summed(cast(self, dtype), dim, keepdim)


@entry("nansum")
def nansum(self: Array, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Array:
    self = cast(self, dtype)
    return _summed(np.where(np.isnan(self), 0, self), dim, keepdim)


@entry("mean")
def mean(self: Array, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Array:
    self = cast(self, dtype)
    return _summed(self, dim, keepdim) / REAL(count_of(self.shape, axes_of(dim, self.ndim)))


def _variance(self: Array, dim: Dims, correction: Number, keepdim: bool) -> tuple[Array, Array]:
    axes = axes_of(dim, self.ndim)
    count = REAL(count_of(self.shape, axes))
    centre = self.sum(axis=axes, keepdims=True) / count
    squares = np.abs(self - centre) ** 2
    freedom = max(count - REAL(correction), REAL(0))
    variance = squares.sum(axis=axes, keepdims=keepdim) / freedom
    return np.asarray(variance), centre if keepdim else centre.reshape(np.shape(variance))


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Dims, Number]:
    """Torch has two ways to say it: var(x, unbiased) and var(x, dim, correction=)."""
    if isinstance(dim, bool):
        return None, int(dim)
    if isinstance(unbiased, bool):
        return dim, int(unbiased)
    return dim, 1 if correction is None else correction


@entry("var")
def var(self: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Array:
    dim, correction = _correction(dim, unbiased, correction)
    return _variance(self, dim, correction, keepdim)[0]


@entry("std")
def std(self: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Array:
    return np.sqrt(var(self, dim, unbiased, keepdim, correction=correction))


@entry("var_mean")
def var_mean(
    self: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Array, Array]:
    dim, correction = _correction(dim, unbiased, correction)
    return _variance(self, dim, correction, keepdim)


@entry("std_mean")
def std_mean(
    self: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Array, Array]:
    variance, centre = var_mean(self, dim, unbiased, keepdim, correction=correction)
    return np.sqrt(variance), centre


def _norm(self: Array, order: Number, axes: tuple[int, ...], keepdim: bool) -> Array:
    size = np.abs(self)
    if order == 0:
        return (size != 0).sum(axis=axes, keepdims=keepdim).astype(REAL)
    if order in (float("inf"), float("-inf")):
        return size.max(axis=axes, keepdims=keepdim) if order > 0 else size.min(axis=axes, keepdims=keepdim)
    if order == 1:
        return size.sum(axis=axes, keepdims=keepdim)
    if order == 2:
        return np.sqrt((size * size).sum(axis=axes, keepdims=keepdim))
    return np.power(np.power(size, REAL(order)).sum(axis=axes, keepdims=keepdim), 1 / REAL(order))


@entry("linalg_vector_norm")
def vector_norm(
    self: Array, ord: Number = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Array:
    return np.asarray(_norm(promoted(self, dtype), ord, axes_of(dim, self.ndim), keepdim))


@entry("norm")
def norm(
    self: Array, p: Number = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Array:
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


@entry("dist")
def dist(self: Array, other: Array, p: Number = 2) -> Array:
    return vector_norm(self - other, p)


@entry("prod")
def prod(self: Array, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Array:
    return np.asarray(cast(self, dtype).prod(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("amax")
def amax(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return np.asarray(self.max(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("amin")
def amin(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return np.asarray(self.min(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("aminmax")
def aminmax(self: Array, dim: Dims = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), amax(self, dim, keepdim)


@entry("all")
def all_(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return np.asarray((self != 0).all(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("any")
def any_(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return np.asarray((self != 0).any(axis=axes_of(dim, self.ndim), keepdims=keepdim))


@entry("count_nonzero")
def count_nonzero(self: Array, dim: Dims = None) -> Array:
    return np.asarray((self != 0).sum(axis=axes_of(dim, self.ndim)))


@entry("argmax")
def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(np.argmax, self, dim, keepdim)


@entry("argmin")
def argmin(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(np.argmin, self, dim, keepdim)


def _position(function: Entry, self: Array, dim: int | None, keepdim: bool) -> Array:
    if self.ndim == 0:
        return np.zeros((), np.int64)
    return np.asarray(function(self, axis=dim, keepdims=keepdim))


@entry("max.default", "max.unary_out")
def max_of_all(self: Array) -> Array:
    return np.asarray(self.max())


@entry("min.default", "min.unary_out")
def min_of_all(self: Array) -> Array:
    return np.asarray(self.min())


def _chosen(self: Array, index: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The values at one index along a dimension, with the index."""
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    values = np.take_along_axis(self, index, axis=dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


@entry("max.dim", "max.dim_max")
def max_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _chosen(self, _position(np.argmax, self, dim, True), dim, keepdim)


@entry("min.dim", "min.dim_min")
def min_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _chosen(self, _position(np.argmin, self, dim, True), dim, keepdim)


def _order(self: Array, axis: int, descending: bool) -> Array:
    """The stable order along an axis; NaN counts as the greatest."""
    if not descending:
        return np.argsort(self, axis=axis, kind="stable")
    turned = np.argsort(np.flip(self, axis), axis=axis, kind="stable")
    return np.flip(self.shape[axis] - 1 - turned, axis)


@entry("sort")
def sort(self: Array, *args: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """sort(x, dim, descending), or sort(x, stable=, dim=, descending=)."""
    dim, descending = (*args, *(dim, descending)[len(args) :])[:2]
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    order = _order(self, dim, descending)
    return np.take_along_axis(self, order, axis=dim), order.copy()


@entry("sort.stable", "sort.values_stable")
def sort_stable(self: Array, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    return sort(self, dim, descending)


@entry("topk")
def topk(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    order = np.take(_order(self, dim, largest), np.arange(k), axis=dim)
    return np.take_along_axis(self, order, axis=dim), order


@entry("kthvalue")
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    values, axis = along(self, dim)
    return _chosen(self, np.take(_order(values, axis, False), [k - 1], axis=axis), axis, keepdim)


def _median(self: Array, dim: int, keepdim: bool, ignore_nan: bool) -> tuple[Array, Array]:
    values, axis = along(self, dim)
    order = _order(values, axis, False)
    missing = np.isnan(values).sum(axis=axis, keepdims=True)
    middle = np.maximum(values.shape[axis] - missing - 1, 0) // 2
    if not ignore_nan:
        middle = np.where(missing > 0, values.shape[axis] - missing, (values.shape[axis] - 1) // 2)
    return _chosen(self, np.take_along_axis(order, middle, axis=axis), axis, keepdim)


@entry("median.dim", "median.dim_values")
def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _median(self, dim, keepdim, False)


@entry("nanmedian.dim", "nanmedian.dim_values")
def nanmedian_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _median(self, dim, keepdim, True)


@entry("median.default")
def median(self: Array) -> Array:
    return _median(self.reshape(-1), 0, False, False)[0] if self.size else np.asarray(REAL("nan"))


@entry("nanmedian.default")
def nanmedian(self: Array) -> Array:
    return _median(self.reshape(-1), 0, False, True)[0] if self.size else np.asarray(REAL("nan"))


@entry("mode")
def mode(self: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The most frequent value, the smallest of them where there are several; its last place."""
    values, axis = along(self, dim)
    counts = (np.expand_dims(values, axis) == np.expand_dims(values, axis + 1)).sum(axis=axis)
    frequent = np.where(counts == counts.max(axis=axis, keepdims=True), values, np.inf)
    wanted = values == frequent.min(axis=axis, keepdims=True)
    last = values.shape[axis] - 1 - np.argmax(np.flip(wanted, axis), axis=axis, keepdims=True)
    return _chosen(self, last, axis, keepdim)


@entry("cumsum")
def cumsum(self: Array, dim: int, dtype: torch.dtype | None = None) -> Array:
    values, axis = along(cast(self, dtype), dim)
    return np.cumsum(values, axis=axis).reshape(self.shape)


@entry("cumprod")
def cumprod(self: Array, dim: int, dtype: torch.dtype | None = None) -> Array:
    values, axis = along(cast(self, dtype), dim)
    return np.cumprod(values, axis=axis).reshape(self.shape)


def _cumulative_extreme(self: Array, dim: int, better: Entry) -> tuple[Array, Array]:
    values, axis = along(self, dim)
    best = np.moveaxis(values, axis, 0).copy()
    place = np.zeros(best.shape, np.int64)
    for index in range(1, len(best)):
        taken = better(best[index], best[index - 1]) | np.isnan(best[index]) & ~np.isnan(best[index - 1])
        taken = taken | np.isnan(best[index]) & np.isnan(best[index - 1])
        best[index] = np.where(taken, best[index], best[index - 1])
        place[index] = np.where(taken, index, place[index - 1])
    return np.moveaxis(best, 0, axis).reshape(self.shape), np.moveaxis(place, 0, axis).reshape(self.shape)


@entry("cummax")
def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    return _cumulative_extreme(self, dim, np.greater_equal)


@entry("cummin")
def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    return _cumulative_extreme(self, dim, np.less_equal)


def _peak(self: Array, axes: tuple[int, ...]) -> Array:
    """The maximum, finite, to be taken out before exponentials."""
    peak = self.max(axis=axes, keepdims=True) if self.size else np.zeros((), self.dtype)
    return np.where(np.isfinite(peak), peak, 0)


@entry("logsumexp")
def logsumexp(self: Array, dim: Dims, keepdim: bool = False) -> Array:
    axes = axes_of(dim, self.ndim)
    if np.iscomplexobj(self) or self.size == 0:
        return np.log(np.exp(self).sum(axis=axes, keepdims=keepdim))
    peak = _peak(self, axes)
    result = np.log(np.exp(self - peak).sum(axis=axes, keepdims=True)) + peak
    return result if keepdim else result.reshape([n for axis, n in enumerate(self.shape) if axis not in axes])


@entry("logcumsumexp")
def logcumsumexp(self: Array, dim: int) -> Array:
    values, axis = along(self, dim)
    rows = np.moveaxis(values, axis, 0).copy()
    for index in range(1, len(rows)):
        rows[index] = np.logaddexp(rows[index - 1], rows[index])
    return np.moveaxis(rows, 0, axis).reshape(self.shape)


@entry("_softmax")
def softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    values, axis = along(self, dim)
    powers = np.exp(values - (values.max(axis=axis, keepdims=True) if values.size else 0))
    return (powers / powers.sum(axis=axis, keepdims=True)).reshape(self.shape)


@entry("_safe_softmax")
def safe_softmax(self: Array, dim: int, dtype: torch.dtype | None = None) -> Array:
    """Softmax, with zeros where everything is masked."""
    values, axis = along(cast(self, dtype), dim)
    masked = np.isneginf(values).all(axis=axis, keepdims=True)
    return np.where(masked, 0, softmax(values, axis)).reshape(self.shape)


@entry("_softmax_backward_data")
def softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: torch.dtype) -> Array:
    gradient, axis = along(grad_output, dim)
    output = output.reshape(gradient.shape)
    product = gradient * output
    return (product - output * product.sum(axis=axis, keepdims=True)).reshape(grad_output.shape)


@entry("_log_softmax")
def log_softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    values, axis = along(self, dim)
    shifted = values - (values.max(axis=axis, keepdims=True) if values.size else 0)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).reshape(self.shape)


@entry("_log_softmax_backward_data")
def log_softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: torch.dtype) -> Array:
    gradient, axis = along(grad_output, dim)
    total = gradient.sum(axis=axis, keepdims=True)
    return (gradient - np.exp(output.reshape(gradient.shape)) * total).reshape(grad_output.shape)
