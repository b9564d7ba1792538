"""Paddle's poolings, written with torch's.

The input is padded by hand, so that every spelling of the padding works, and a window that hangs over the end
(``ceil_mode``) is filled up with what does not count: minus infinity for a maximum, zero for a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.base import CannotExecute
from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import (
    Pairs,
    channels_last,
    padded,
    pairs_of,
    ravelled,
    several,
    to_back,
    to_front,
    unravelled,
)

_MAXIMA: dict[int, Callable[..., Any]] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_MEANS: dict[int, Callable[..., Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}
_ADAPTIVE_MEANS: dict[int, Callable[..., Tensor]] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}
_ADAPTIVE_MAXIMA: dict[int, Callable[..., Any]] = {
    1: functional.adaptive_max_pool1d,
    2: functional.adaptive_max_pool2d,
    3: functional.adaptive_max_pool3d,
}


def _windows(x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, last: bool) -> tuple[Any, ...]:
    """Kernel, stride, what the padding adds, and what has to be added at the end to complete the last windows."""
    count = x.ndim - 2
    kernel = several(kernel_size, count)
    step = kernel if stride is None else several(stride, count)
    pairs = pairs_of(padding, x.shape[2:], kernel, step, last)
    more = [0] * count
    if ceil_mode:
        rest = [(size + sum(pair) - k) % s for size, pair, k, s in zip(x.shape[2:], pairs, kernel, step, strict=True)]
        more = [(s - left) % s for left, s in zip(rest, step, strict=True)]
    return kernel, step, pairs, [(0, extra) for extra in more]


def _maximum(
    x: Tensor, kernel_size: Any, stride: Any, padding: Any, return_mask: bool, ceil_mode: bool, layout: str
) -> Any:
    front = to_front(x, layout)
    kernel, step, pairs, more = _windows(front, kernel_size, stride, padding, ceil_mode, channels_last(layout))
    wide = padded(padded(front, pairs, -inf), more, -inf)
    out, index = _MAXIMA[len(kernel)](wide, kernel, step, return_indices=True)
    if not return_mask:
        return to_back(out, layout)
    return to_back(out, layout), to_back(_in_unpadded(index, wide, front, pairs).to(torch.int32), layout)


def _in_unpadded(index: Tensor, wide: Tensor, plain: Tensor, pairs: Pairs) -> Tensor:
    positions = unravelled(index, wide.shape[2:])
    return ravelled([one - before for one, (before, _) in zip(positions, pairs, strict=True)], plain.shape[2:])


@composite
def max_pool1d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
               ceil_mode: bool = False) -> Any:  # fmt: skip
    return _maximum(x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL")


@composite
def max_pool2d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
               ceil_mode: bool = False, data_format: str = "NCHW") -> Any:  # fmt: skip
    return _maximum(x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


@composite
def max_pool3d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
               ceil_mode: bool = False, data_format: str = "NCDHW") -> Any:  # fmt: skip
    return _maximum(x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def _mean(
    x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, exclusive: bool, divisor: Any, layout: str
) -> Tensor:
    """Sums of windows over the number of elements that are not padding, or over the size of the window."""
    front = to_front(x, layout)
    kernel, step, pairs, more = _windows(front, kernel_size, stride, padding, ceil_mode, channels_last(layout))
    pool, size = _MEANS[len(kernel)], prod(kernel)
    total = pool(padded(padded(front, pairs), more), kernel, step) * size
    count: Any = size if divisor is None else divisor
    if exclusive and divisor is None:
        count = pool(padded(padded(torch.ones_like(front[:1, :1]), pairs), more), kernel, step) * size
    return to_back(total / count, layout)


@composite
def avg_pool1d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, exclusive: bool = True,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


@composite
def avg_pool2d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               exclusive: bool = True, divisor_override: Any = None, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


@composite
def avg_pool3d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               exclusive: bool = True, divisor_override: Any = None, data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


def _norm(x: Tensor, norm_type: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, layout: str) -> Any:
    if float(norm_type) == inf:
        return _maximum(x, kernel_size, stride, padding, False, ceil_mode, layout)
    count = 1 if layout in ("NCL", "NLC") else 2
    mean = _mean(x.pow(float(norm_type)), kernel_size, stride, padding, ceil_mode, False, None, layout)
    return (mean * prod(several(kernel_size, count))).pow(1.0 / float(norm_type))


@composite
def lp_pool1d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0,
              ceil_mode: bool = False, data_format: str = "NCL") -> Any:  # fmt: skip
    return _norm(x, norm_type, kernel_size, stride, padding, ceil_mode, data_format)


@composite
def lp_pool2d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0,
              ceil_mode: bool = False, data_format: str = "NCHW") -> Any:  # fmt: skip
    return _norm(x, norm_type, kernel_size, stride, padding, ceil_mode, data_format)


def _wanted(output_size: Any, sizes: Any) -> list[int]:
    """The sizes asked for, those that are None being the input's."""
    output_size = output_size.reshape(-1).tolist() if isinstance(output_size, Tensor) else output_size
    given = output_size if isinstance(output_size, list | tuple) else [output_size] * len(sizes)
    given = list(given) * len(sizes) if len(given) == 1 else given
    return [int(size if one is None else one) for one, size in zip(given, sizes, strict=True)]


def _adaptive_mean(x: Tensor, output_size: Any, layout: str) -> Tensor:
    front = to_front(x, layout)
    sizes = front.shape[2:]
    return to_back(_ADAPTIVE_MEANS[len(sizes)](front, _wanted(output_size, sizes)), layout)


@composite
def adaptive_avg_pool1d(x: Tensor, output_size: Any) -> Tensor:
    return _adaptive_mean(x, output_size, "NCL")


@composite
def adaptive_avg_pool2d(x: Tensor, output_size: Any, data_format: str = "NCHW") -> Tensor:
    return _adaptive_mean(x, output_size, data_format)


@composite
def adaptive_avg_pool3d(x: Tensor, output_size: Any, data_format: str = "NCDHW") -> Tensor:
    return _adaptive_mean(x, output_size, data_format)


@composite
def adaptive_max_pool(x: Tensor, output_size: Any, return_mask: bool = False) -> Any:
    """For one, two and three dimensions alike."""
    sizes = x.shape[2:]
    out, index = _ADAPTIVE_MAXIMA[len(sizes)](x, _wanted(output_size, sizes), return_indices=True)
    return (out, index.to(torch.int32)) if return_mask else out


@composite
def max_unpool(x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
               data_format: str = "", output_size: Any = None) -> Tensor:  # fmt: skip
    """For one, two and three dimensions alike; Paddle knows channels first only."""
    count = x.ndim - 2
    kernel, pads = several(kernel_size, count), several(padding, count)
    step = kernel if stride is None else several(stride, count)
    sizes = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], step, kernel, pads, strict=True)]
    sizes = sizes if output_size is None else several(output_size, count)[-count:]
    flat = x.new_zeros(*x.shape[:2], prod(sizes))
    return flat.scatter(2, indices.long().flatten(2), x.flatten(2)).unflatten(2, sizes)


def _borders(size: int, wanted: int, kernel: int | None, u: float) -> list[tuple[int, int]]:
    """Where the windows of a fractional pooling begin and end, from one random number.

    Without a kernel the windows lie side by side, and the number is scaled so that none is longer than it must be.
    """
    if wanted == 1:
        return [(0, size)] if kernel is None else [(0, kernel)]
    if kernel is None:
        alpha, base = size / wanted, size // wanted
        u *= min((base + 2) / alpha - 1, (size + 1 - base) / alpha - (wanted - 1))
        edges = [int((place + u) * alpha) - int(u * alpha) for place in range(wanted + 1)]
        return [(max(low, 0), min(high, size)) for low, high in pairwise(edges)]
    alpha = (size - kernel) / (wanted - 1)
    starts = [int((place + u) * alpha) - int(u * alpha) for place in range(wanted - 1)]
    return [(start, start + kernel) for start in [*starts, size - kernel]]


@composite
def fractional_max_pool(x: Tensor, output_size: Any, kernel_size: Any = None, random_u: float | None = None,
                        return_mask: bool = False) -> Any:  # fmt: skip
    """For two and three dimensions alike, with the random number given."""
    if random_u is None:
        raise CannotExecute("without random_u the windows are drawn at random, differently in every framework")
    sizes = x.shape[2:]
    kernels = [None] * len(sizes) if kernel_size is None else several(kernel_size, len(sizes))
    out, index = x, torch.arange(prod(sizes)).reshape(sizes).expand_as(x)
    for dim, (size, wanted, kernel) in enumerate(zip(sizes, _wanted(output_size, sizes), kernels, strict=True), 2):
        windows = [slice(*border) for border in _borders(size, wanted, kernel, random_u)]
        best = [torch.max(out[(slice(None),) * dim + (window,)], dim, keepdim=True) for window in windows]
        chosen = torch.cat([one.indices + window.start for one, window in zip(best, windows, strict=True)], dim)
        out, index = torch.cat([one.values for one in best], dim), index.gather(dim, chosen)
    return (out, index.to(torch.int32)) if return_mask else out
