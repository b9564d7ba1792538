"""Wrong kernels: what each fault computes instead of the honest result.

Functions whose first parameter is ``out`` change an honest result (for ``planting.result``); those whose first
parameter is ``original`` run the real function otherwise (for ``planting.effect``); the others compute a result from
the arguments alone (for ``planting.instead``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def scaled(factor: float) -> Callable[..., Tensor]:
    return lambda out, *args, **kwargs: out * factor


def shifted(offset: float) -> Callable[..., Tensor]:
    return lambda out, *args, **kwargs: out + offset


def negated(out: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return -out


def first_argument(first: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The operation was left out."""
    return first


def element(value: float | None = None, add: float = 0.0, share: float = 0.37) -> Callable[..., Tensor]:
    """One element is set to ``value`` or moved by ``add``."""

    def change(out: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        flat = out.reshape(-1)
        place = int(share * flat.numel())
        flat[place] = value if value is not None else flat[place] + add
        return flat.reshape(out.shape)

    return change


def zero_rows(share: float) -> Callable[..., Tensor]:
    def change(out: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        rows = out.reshape(-1, out.shape[-1]).clone()
        order = torch.randperm(rows.shape[0], generator=torch.Generator().manual_seed(3))
        rows[order[: max(1, int(share * rows.shape[0]))]] = 0
        return rows.reshape(out.shape)

    return change


def some_scaled(share: float, factor: float) -> Callable[..., Tensor]:
    """That share of the elements is multiplied by ``factor``."""

    def change(out: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        chosen = torch.rand(out.shape, generator=torch.Generator().manual_seed(4)) < share
        return torch.where(chosen, out * factor, out)

    return change


def tile(size: int) -> Callable[..., Tensor]:
    """One tile of the output holds what belongs to another tile."""

    def change(out: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        matrix = out.reshape(-1, out.shape[-1]).clone()
        matrix[size : 2 * size, size : 2 * size] = matrix[:size, :size]
        return matrix.reshape(out.shape)

    return change


def linear_in(dtype: torch.dtype) -> Callable[..., Tensor]:
    """Operands and result in a smaller type."""

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        small = None if bias is None else bias.to(dtype)
        return F.linear(x.to(dtype), weight.to(dtype), small).float()

    return function


def _accumulate(parts: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Adds up partial sums in a register of that type."""
    total = torch.zeros_like(parts[0], dtype=dtype)
    for part in parts:
        total = (total.float() + part).to(dtype)
    return total.float()


def matmul_accumulated(dtype: torch.dtype, chunk: int = 8) -> Callable[..., Tensor]:
    def function(a: Tensor, b: Tensor) -> Tensor:
        pairs = zip(a.split(chunk, -1), b.split(chunk, -2), strict=True)
        return _accumulate([left @ right for left, right in pairs], dtype)

    return function


def linear_accumulated(dtype: torch.dtype, chunk: int = 8) -> Callable[..., Tensor]:
    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        out = matmul_accumulated(dtype, chunk)(x, weight.t())
        return out if bias is None else out + bias

    return function


def conv_accumulated(dtype: torch.dtype) -> Callable[..., Tensor]:
    """Partial sums over groups of four input channels are added in a smaller type."""

    def function(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *rest: Any) -> Tensor:
        pairs = zip(x.split(4, 1), weight.split(4, 1), strict=True)
        out = _accumulate([F.conv2d(left, right, None, stride, padding) for left, right in pairs], dtype)
        return out if bias is None else out + bias[:, None, None]

    return function


def sum_accumulated(dtype: torch.dtype) -> Callable[..., Tensor]:
    return lambda x, dim: _accumulate(x.unbind(dim), dtype)


def linear_without_bias(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight)


def linear_transposed(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight.t(), bias)


def layer_norm_eps(eps: float) -> Callable[..., Tensor]:
    return lambda x, shape, weight, bias, _eps: F.layer_norm(x, shape, weight, bias, eps)


def layer_norm_one_pass_half(x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Mean and variance from sums kept in bfloat16."""
    mean = x.mean(-1, keepdim=True).bfloat16().float()
    square = x.square().mean(-1, keepdim=True).bfloat16().float()
    return (x - mean) * torch.rsqrt(square - mean.square() + eps) * weight + bias


def softmax_unshifted(x: Tensor, dim: int, *args: Any, **kwargs: Any) -> Tensor:
    """Without subtracting the maximum: right until something is large."""
    powers = torch.exp(x)
    return powers / powers.sum(dim, keepdim=True)


def cross_entropy_unsmoothed(
    logits: Tensor, labels: Tensor, weight: Any, average: Any, ignore_index: int, *rest: Any
) -> Tensor:
    """Label smoothing is ignored."""
    return F.cross_entropy(logits, labels, ignore_index=ignore_index)


def cross_entropy_counting_all(
    logits: Tensor, labels: Tensor, weight: Any, average: Any, ignore_index: int, *rest: Any
) -> Tensor:
    """Ignored positions count as class 0."""
    return F.cross_entropy(logits, torch.where(labels == ignore_index, 0, labels), label_smoothing=rest[-1])


def batch_norm_eps(eps: float) -> Callable[..., Tensor]:
    def function(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        return F.batch_norm(x, None, None, weight, bias, True, 0.1, eps)

    return function


def batch_norm_unbiased(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool, momentum: float, eps: float
) -> Tensor:
    """Normalises with the unbiased variance."""
    spread, centre = torch.var_mean(x, (0, 2, 3), correction=1, keepdim=True)
    return (x - centre) * torch.rsqrt(spread + eps) * weight[:, None, None] + bias[:, None, None]


def batch_norm_stale(original: Callable[..., Tensor], x: Tensor, mean: Tensor, var: Tensor, *rest: Any) -> Tensor:
    """The running statistics are not updated."""
    return original(x, mean.clone(), var.clone(), *rest)


def batch_norm_momentum(momentum: float) -> Callable[..., Tensor]:
    def function(original: Callable[..., Tensor], *args: Any) -> Tensor:
        return original(*args[:6], momentum, args[7])

    return function


def max_pool_zero_padding(x: Tensor, size: int, stride: int, padding: int, *rest: Any, **kwargs: Any) -> Tensor:
    return F.max_pool2d(F.pad(x, (padding,) * 4), size, stride, 0)


def avg_pool_uncounted_padding(x: Tensor, size: int, stride: int, padding: int, *rest: Any, **kwargs: Any) -> Tensor:
    return F.avg_pool2d(x, size, stride, padding, count_include_pad=False)


def conv_replicated_border(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, *rest: Any) -> Tensor:
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), weight, bias, stride)


def conv_flipped(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *rest: Any) -> Tensor:
    return F.conv2d(x, weight.flip(-1, -2), bias, stride, padding)


def conv_without_bias(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *rest: Any) -> Tensor:
    return F.conv2d(x, weight, None, stride, padding)


def pool_in_half(x: Tensor, size: int) -> Tensor:
    """The mean of each channel from a running sum in float16."""
    return (_accumulate(x.flatten(2).unbind(-1), torch.float16) / x[0, 0].numel())[..., None, None]


def mask_off_by_one(scores: Tensor, mask: Tensor, value: float) -> Tensor:
    """Every position also sees the one after it."""
    return torch.masked_fill(scores, torch.triu(mask, 2), value)


def rms_norm_eps(eps: float) -> Callable[..., Tensor]:
    return lambda x, shape, weight, _eps: F.rms_norm(x, shape, weight, eps)


def rolled_table(x: Tensor, table: Tensor) -> Tensor:
    """The rotary table of the step before: each position gets its neighbour's angle."""
    return torch.mul(x, table.roll(1, 0))


def cat_swapped(parts: Sequence[Tensor], dim: int) -> Tensor:
    return torch.cat(tuple(reversed(tuple(parts))), dim)


def hard_silu(x: Tensor, inplace: bool = False) -> Tensor:
    return x * F.hardsigmoid(x)


def embedding_off_by_one(tokens: Tensor, weight: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    """One token of the batch reads the row after its own."""
    tokens = tokens.clone()
    tokens.view(-1)[17] = (tokens.view(-1)[17] + 1) % weight.shape[0]
    return F.embedding(tokens, weight)


def gru_stale_state(original: Callable[..., Any], *args: Any) -> Any:
    """The last hidden state is that of the step before the last."""
    out, hidden = original(*args)
    hidden.data.copy_(out.detach()[:, -2][None])
    return out, hidden


def summed_over(dim: int) -> Callable[..., Tensor]:
    return lambda x, **kwargs: torch.sum(x, dim=dim)


def cumsum_exclusive(x: Tensor, dim: int) -> Tensor:
    return torch.cumsum(x, dim) - x


def truncated_to_bfloat16(x: Tensor) -> Tensor:
    """Cut instead of rounded to nearest even."""
    return (x.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32).bfloat16()


def attention(scale: float | None = None, causal: bool = False) -> Callable[..., Tensor]:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)

    return function


def group_norm_other(groups: int | None = None, eps: float | None = None) -> Callable[..., Tensor]:
    def function(x: Tensor, own_groups: int, weight: Tensor, bias: Tensor, own_eps: float) -> Tensor:
        return F.group_norm(x, groups or own_groups, weight, bias, eps or own_eps)

    return function


def log_softmax_in_bfloat16(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return F.log_softmax(x.bfloat16(), dim=-1).float()


def only(positions: Callable[[int], bool]) -> Callable[..., None]:
    """A foreach or fused call that leaves some parameters of its lists out."""

    def function(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        length = len(args[0])

        def cut(value: Any) -> Any:
            if isinstance(value, (list, tuple)) and len(value) == length:
                return [item for position, item in enumerate(value) if positions(position)]
            return value

        return original(*(cut(value) for value in args), **{name: cut(value) for name, value in kwargs.items()})

    return function


def without(position: int) -> Callable[..., None]:
    return only(lambda candidate: candidate != position)


def with_argument(place: int, value: Any) -> Callable[..., Any]:
    """The call runs with another value for one positional argument."""
    return lambda original, *args, **kwargs: original(*args[:place], value, *args[place + 1 :], **kwargs)


def with_keyword(**other: Any) -> Callable[..., Any]:
    return lambda original, *args, **kwargs: original(*args, **{**kwargs, **other})


def nothing_in_place(original: Callable[..., Any], first: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """An in-place call that does not happen."""
    return first


def step_size_without_correction(original: Callable[..., Any], *args: Any) -> Any:
    """Adam's step sizes as if the bias correction were 1 (the learning rate of the programs is 1e-3)."""
    return original(*args[:3], [-1e-3] * len(args[0]))


def norms_without(position: int) -> Callable[..., Any]:
    """One parameter's gradient counts as zero in the total norm."""

    def function(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        norms = list(original(*args, **kwargs))
        norms[position] = torch.zeros_like(norms[position])
        return type(norms)(norms)

    return function


def tanh_gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate="none" if approximate == "tanh" else "tanh")


def variance_other_bias(x: Tensor, dim: int, unbiased: bool) -> Tensor:
    return torch.var(x, dim=dim, unbiased=not unbiased)


def unscaled_bce(logits: Tensor, labels: Tensor, *rest: Any) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, labels)


def unweighted_nll(logits: Tensor, labels: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return F.nll_loss(logits, labels)


def normalized_by_sum(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The 1-norm where the 2-norm is meant."""
    return F.normalize(x, p=1.0, dim=-1)
