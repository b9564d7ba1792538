"""What Paddle's image operators share: where the channels are, and the many ways in which a padding may be written.

The composites move channels to the front, pad by hand where torch cannot, compute, and move the channels back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.base import one_of

Pairs = list[tuple[int, int]]
"""Elements added before and after each spatial dimension, the first spatial dimension first."""


def channels_last(data_format: str) -> bool:
    return data_format.endswith("C") and len(data_format) > 2


def to_front(x: Tensor, data_format: str) -> Tensor:
    """The tensor with its channels as second dimension."""
    return x.movedim(-1, 1) if channels_last(data_format) else x


def to_back(x: Tensor, data_format: str) -> Tensor:
    """The tensor with its channels where ``data_format`` has them; the inverse of ``to_front``."""
    return x.movedim(1, -1) if channels_last(data_format) else x


def several(value: Any, count: int) -> list[int]:
    """An integer once a dimension, or the integers of a sequence or of a tensor."""
    if isinstance(value, Tensor):
        value = value.reshape(-1).tolist()
    if isinstance(value, Sequence):
        values = [int(one) for one in value]
        return values * count if len(values) == 1 else values
    return [int(value)] * count


def pairs_of(padding: Any, sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], last: bool) -> Pairs:
    """The padding of a convolution or pooling in any of Paddle's spellings.

    ``window`` is the extent of the kernel with its dilation. ``"SAME"`` pads so that the output has the size of the
    input divided by the stride, rounded up; the odd element goes to the end.
    """
    count = len(sizes)
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0)] * count
        spare = [
            max((-(-size // step) - 1) * step + extent - size, 0)
            for size, step, extent in zip(sizes, stride, window, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in spare]
    if isinstance(padding, Sequence) and padding and isinstance(padding[0], Sequence):
        inner = padding[1:-1] if last else padding[2:]
        return [(int(before), int(after)) for before, after in inner]
    values = several(padding, count)
    if len(values) == 2 * count:
        return list(zip(values[0::2], values[1::2], strict=True))
    return [(value, value) for value in values]


def padded(x: Tensor, pairs: Pairs, value: float = 0.0) -> Tensor:
    """The trailing dimensions padded with a constant."""
    if not any(before or after for before, after in pairs):
        return x
    return functional.pad(x, [amount for pair in reversed(pairs) for amount in pair], value=value)


def reduced(loss: Tensor, reduction: str | None) -> Tensor:
    """The mean, the sum or all elements of a loss."""
    one_of("reduction", reduction, "mean", "sum", "none", None)
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def unravelled(index: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The positions along each dimension of indices into the flattened ``sizes``."""
    found: list[Tensor] = []
    for size in reversed(sizes):
        found.append(index % size)
        index = torch.div(index, size, rounding_mode="floor")
    return found[::-1]


def ravelled(positions: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Indices into the flattened ``sizes`` from the positions along each dimension."""
    index = positions[0]
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        index = index * size + position
    return index
