"""Orders of summation and forms of moments, over the last dimension, that honest kernels use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.power.recipes import LOW

BLOCK = 128
ONLINE_BLOCK = 32
LEAF = 8
LONGEST = 4096
"""What is longer goes in lanes that stand side by side, each in its order, and then the lanes in theirs."""


def dims_of(value: Tensor, dim: Any) -> tuple[int, ...]:
    """The dimensions that a reduction is over, counted from the front."""
    if dim is None or dim == () or dim == []:
        return tuple(range(value.dim()))
    several = dim if isinstance(dim, tuple | list) else (dim,)
    return tuple(one % max(value.dim(), 1) for one in several)


def reduced(
    usual: Any, function: Callable[[Tensor], Tensor], value: Tensor, dim: Any, keepdim: bool, dtype: Any
) -> Tensor:
    """``function`` over the last dimension, applied to whatever dimensions are asked for.

    What such kernels do not take, integers, complex numbers, scalars, nothing at all, is left to ``usual``.
    """
    kind = value.dtype if dtype is None else dtype
    dims = dims_of(value, dim)
    if not (value.is_floating_point() and kind.is_floating_point) or value.dim() == 0 or value.numel() == 0:
        more = {} if dtype is None else {"dtype": dtype}
        return usual(value, **more) if dim is None and not keepdim else usual(value, dim, keepdim=keepdim, **more)
    value = value.to(kind)
    wide = value.float() if kind in LOW else value
    rest = [one for one in range(value.dim()) if one not in dims]
    rows = wide.permute(*rest, *dims).reshape(*(value.shape[one] for one in rest), -1)
    result = function(rows).to(kind)
    if keepdim:
        result = result.reshape([1 if one in dims else size for one, size in enumerate(value.shape)])
    return result


def _lanes(rows: Tensor) -> Tensor:
    """Rows that are too long, as ``LONGEST`` rows of lanes in the last but one dimension."""
    many = -(-rows.shape[-1] // LONGEST)
    padded = torch.nn.functional.pad(rows, (0, many * LONGEST - rows.shape[-1]))
    return padded.reshape(*rows.shape[:-1], LONGEST, many).mT


def sequential_sum(rows: Tensor) -> Tensor:
    if rows.shape[-1] > LONGEST:
        return sequential_sum(sequential_sum(_lanes(rows)))
    total = torch.zeros_like(rows[..., 0])
    for number in range(rows.shape[-1]):
        total = total + rows[..., number]
    return total


def reversed_sum(rows: Tensor) -> Tensor:
    return sequential_sum(rows.flip(-1))


def pairwise_sum(rows: Tensor, join: Callable[[Tensor, Tensor], Tensor] = torch.add, neutral: float = 0.0) -> Tensor:
    while rows.shape[-1] > 1:
        if rows.shape[-1] % 2:
            rows = torch.nn.functional.pad(rows, (0, 1), value=neutral)
        rows = join(rows[..., 0::2], rows[..., 1::2])
    return rows[..., 0]


def blocked_sum(rows: Tensor) -> Tensor:
    sums = [sequential_sum(block) for block in rows.split(BLOCK, -1)]
    return sequential_sum(torch.stack(sums, -1))


def kahan_sum(rows: Tensor) -> Tensor:
    if rows.shape[-1] > LONGEST:
        return kahan_sum(kahan_sum(_lanes(rows)))
    total, lost = torch.zeros_like(rows[..., 0]), torch.zeros_like(rows[..., 0])
    for number in range(rows.shape[-1]):
        term = rows[..., number]
        more = term - lost.detach()
        after = total + more
        lost = (after - total) - more
        total = after
    return torch.where(total.detach().isfinite(), total, rows.sum(-1))


def streamed_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations, one element after another (Welford); long rows in two passes."""
    if rows.shape[-1] > LONGEST:
        return _two_passes(rows)
    mean, squares = torch.zeros_like(rows[..., 0]), torch.zeros_like(rows[..., 0])
    for number in range(rows.shape[-1]):
        off = rows[..., number] - mean
        mean = mean + off / (number + 1)
        squares = squares + off * (rows[..., number] - mean)
    return mean, squares


def _two_passes(rows: Tensor) -> tuple[Tensor, Tensor]:
    mean = rows.mean(-1)
    return mean, ((rows - mean.unsqueeze(-1)) ** 2).sum(-1)


def merged_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations, of two halves and merged (Chan)."""
    n = rows.shape[-1]
    if n <= LEAF:
        return _two_passes(rows)
    left = n // 2
    (mean, squares), (other, more) = merged_moments(rows[..., :left]), merged_moments(rows[..., left:])
    off = other - mean
    return mean + off * ((n - left) / n), squares + more + off * off * (left * (n - left) / n)


def online_softmax_parts(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The largest element and the sum of the exponentials, in one pass over blocks.

    A block of nothing but -inf adds nothing; a row of nothing else, or one with NaN or infinity, gives NaN as torch
    does.
    """
    top = torch.full_like(rows[..., 0], float("-inf"))
    total = torch.zeros_like(top)
    for block in rows.split(ONLINE_BLOCK, -1):
        higher = torch.maximum(top, block.detach().amax(-1))
        safe = torch.where(higher == float("-inf"), torch.zeros_like(higher), higher)
        total = total * torch.exp(top - safe) + torch.exp(block - safe.unsqueeze(-1)).sum(-1)
        top = higher
    return top, total
