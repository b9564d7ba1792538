"""Functions that are computed whole in our way, above autograd: those in which torch would round a number of its own to
float64 before a wide tensor sees it (attention scales by ``1 / sqrt(width)``, the normal distribution by
``1 / sqrt(2)``), and those whose backward is easier derived than written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from trueline.frameworks.torch.wide.windows import WINDOWS

NEAREST = 1
"""As torch counts the ways of grid_sample."""


class WholeFunctions(TorchFunctionMode):
    """Inside it, our way of computing these functions is taken."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = WHOLE.get(function)
        return (function if ours is None else ours)(*args, **(kwargs or {}))


def _number(value: float, like: torch.Tensor) -> torch.Tensor:
    """A number as a tensor, so that what is computed from it is computed wide."""
    return torch.full((), value, dtype=like.dtype)


def _pi(like: torch.Tensor) -> torch.Tensor:
    return torch.acos(_number(-1.0, like))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention as its definition says, with the scale in full."""
    if query.dtype is not torch.float64:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = query @ key.transpose(-2, -1)
    if scale is None:
        scores = scores / _number(query.shape[-1], query).sqrt()
    else:
        scores = scores * scale
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(allowed.logical_not(), -math.inf)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return (functional.dropout(weights, dropout_p) if dropout_p > 0.0 else weights) @ value


def _ndtr(input: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """The normal distribution function."""
    if out is not None or input.dtype is not torch.float64:
        return torch.special.ndtr(input, out=out)
    return torch.erfc(-input / _number(2.0, input).sqrt()) / 2


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Torch adds half the logarithm of 2 pi as a Python float."""
    loss = functional.gaussian_nll_loss(input, target, var, False, eps, "none")
    loss = loss + (2 * _pi(input)).log() / 2 if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _poisson_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> torch.Tensor:
    """Torch multiplies by 2 pi as a Python float."""
    loss = functional.poisson_nll_loss(input, target, log_input, False, size_average, eps, reduce, "none")
    if full:
        stirling = target * target.log() - target + (2 * _pi(input) * target).log() / 2
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@cache
def _two_dimensional_sampler() -> Callable[..., torch.Tensor]:
    from torch._decomp import get_decompositions

    sampler = torch.ops.aten.grid_sampler_2d.default
    return get_decompositions([sampler])[sampler]


def _grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    """Torch's own formula in Python, differentiated by autograd; its constants are all exact."""
    if input.ndim != 4 or input.dtype is not torch.float64:
        return torch.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
    sampled = _two_dimensional_sampler()(input, grid, interpolation_mode, padding_mode, align_corners)
    if interpolation_mode != NEAREST:
        return sampled
    # The nearest element does not depend on the grid, but torch gives it a gradient: zero.
    return sampled + grid.masked_fill(grid.isfinite().logical_not(), 0).sum() * 0


def _grid_sample(
    input: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> torch.Tensor:
    way, edge = ("bilinear", "nearest", "bicubic").index(mode), ("zeros", "border", "reflection").index(padding_mode)
    return _grid_sampler(input, grid, way, edge, bool(align_corners))


def _empty(*size: Any, **named: Any) -> torch.Tensor:
    """Torch's C++ fills such tensors by their memory, which wide ones do not have; Python's are for later writing."""
    if named.get("out") is not None or named.pop("memory_format", None) not in (None, torch.contiguous_format):
        return torch.empty(*size, **named)
    return torch.zeros(*size, **named)


def _vander(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> torch.Tensor:
    """By the definition: torch's C++ writes the powers into memory that it makes itself."""
    if x.dtype is not torch.float64:
        return torch.vander(x, N, increasing)
    size = x.shape[-1] if N is None else N
    rising = [x.unsqueeze(-1).pow(power) for power in range(size)]
    made = torch.cat(rising, -1) if rising else x.unsqueeze(-1)[..., :0]
    return made if increasing else made.flip(-1)


WHOLE: dict[Any, Callable[..., Any]] = {
    **WINDOWS,
    functional.scaled_dot_product_attention: _attention,
    torch.special.ndtr: _ndtr,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    functional.poisson_nll_loss: _poisson_nll_loss,
    functional.grid_sample: _grid_sample,
    torch.empty: _empty,
    torch.vander: _vander,
    torch.grid_sampler: _grid_sampler,
    torch.grid_sampler_2d: _grid_sampler,
}
