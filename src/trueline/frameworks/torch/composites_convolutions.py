"""Paddle's convolutions, written with torch's: any spelling of the padding, channels first or last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import channels_last, padded, pairs_of, several, to_back, to_front
from trueline.frameworks.torch.transposed import THEIRS, conv_transpose, is_large

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int, layout: str
) -> Tensor:
    count = weight.ndim - 2
    front = to_front(x, layout)
    stride, dilation = several(stride, count), several(dilation, count)
    window = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
    pairs = pairs_of(padding, front.shape[2:], window, stride, channels_last(layout))
    flat = None if bias is None else bias.reshape(-1)
    out = _CONVOLUTIONS[count](padded(front, pairs), weight, flat, stride, 0, dilation, groups)
    return to_back(out, layout)


@composite
def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, data_format: str = "NCL") -> Tensor:  # fmt: skip
    return _convolution(x, weight, bias, stride, padding, dilation, groups, data_format)


@composite
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    return _convolution(x, weight, bias, stride, padding, dilation, groups, data_format)


@composite
def conv3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    return _convolution(x, weight, bias, stride, padding, dilation, groups, data_format)


def _transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any, output_size: Any, layout: str,
) -> Tensor:  # fmt: skip
    """The full transposed convolution, cut by the padding; the cut keeps more of the end where a size is asked for."""
    count = weight.ndim - 2
    front = to_front(x, layout)
    stride, dilation = several(stride, count), several(dilation, count)
    window = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation, strict=True)]
    full = [(size - 1) * step + extent for size, step, extent in zip(front.shape[2:], stride, window, strict=True)]
    pairs = pairs_of(padding, full, window, stride, channels_last(layout))
    if isinstance(padding, str) and padding.upper() == "SAME":
        pairs = _same(front.shape[2:], window, stride)
    sizes = [length - before - after for length, (before, after) in zip(full, pairs, strict=True)]
    wanted = [size + more for size, more in zip(sizes, several(output_padding, count), strict=True)]
    if output_size is not None:
        wanted = several(output_size, count)
    extra = [max(before + size - length, 0) for size, length, (before, _) in zip(wanted, full, pairs, strict=True)]
    if is_large(front, weight):
        out = conv_transpose(front, weight, stride, dilation, groups)
    else:
        out = THEIRS[count](front, weight, None, stride, 0, 0, groups, dilation)
    out = padded(out, [(0, more) for more in extra])
    for dim, ((before, _), size) in enumerate(zip(pairs, wanted, strict=True), start=2):
        out = out.narrow(dim, before, size)
    out = out if bias is None else out + bias.reshape(-1, *[1] * count)
    return to_back(out, layout)


def _same(sizes: Any, window: list[int], stride: list[int]) -> list[tuple[int, int]]:
    """What ``SAME`` takes away, reckoned from the size of the input as Paddle does."""
    return pairs_of("SAME", list(sizes), window, stride, False)


@composite
def conv1d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = "NCL",
) -> Tensor:  # fmt: skip
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)


@composite
def conv2d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    dilation: Any = 1, groups: int = 1, output_size: Any = None, data_format: str = "NCHW",
) -> Tensor:  # fmt: skip
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)


@composite
def conv3d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, output_size: Any = None, data_format: str = "NCDHW",
) -> Tensor:  # fmt: skip
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format)
