"""Wrong kernels of reductions, scans, orders and distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.power.recipes import BRAIN, HALF, SINGLE, Arguments, Draw, call, wrong


def rows(d: Draw) -> Arguments:
    return call(d.normal(64, 500), -1)


def offset_rows(d: Draw) -> Arguments:
    """Values that do not cancel, such as losses and squares."""
    return call(d.uniform(64, 500), -1)


def every(d: Draw) -> Arguments:
    return call(d.normal(64, 500))


def losses(d: Draw) -> Arguments:
    return call(d.uniform(4096))


def added_in(dtype: torch.dtype, value: Tensor, block: int) -> Tensor:
    """The sum over the last dimension, partial sums over ``block`` elements added in ``dtype``."""
    total = torch.zeros((), dtype=dtype, device=value.device)
    for part in value.split(block, -1):
        total = total + part.sum(-1).to(dtype)
    return total.to(value.dtype)


@wrong("torch.sum", "low-precision accumulation", "added in bfloat16 by fours", offset_rows)
def sum_bf16(input: Tensor, dim: int) -> Tensor:
    return added_in(BRAIN, input, 4)


@wrong("torch.sum", "low-precision accumulation", "added in float16 by fours", offset_rows, rows, dtypes=(SINGLE,))
def sum_fp16(input: Tensor, dim: int) -> Tensor:
    return added_in(HALF, input, 4)


@wrong("torch.sum", "dropped tail", "the last block of 500 - 480 elements is not summed", rows)
def sum_without_tail(input: Tensor, dim: int) -> Tensor:
    return input[..., :480].sum(dim)


@wrong("torch.sum", "wrong dimension", "over the first dimension", lambda d: call(d.normal(64, 64), -1))
def sum_other_dimension(input: Tensor, dim: int) -> Tensor:
    return input.sum(0)


@wrong("torch.mean", "wrong denominator", "divided by n - 1", rows, every)
def mean_of_one_less(input: Tensor, *dim: int) -> Tensor:
    total = input.sum(*dim)
    return total / (input.numel() // total.numel() - 1)


@wrong(
    "torch.mean",
    "low-precision accumulation",
    "added in bfloat16 by sixteens",
    losses,
    lambda d: call(d.uniform(64, 512), -1),
)
def mean_bf16(input: Tensor, *dim: int) -> Tensor:
    return added_in(BRAIN, input, 16) / input.shape[-1]


@wrong(
    "torch.mean",
    "fp16 overflow in intermediate",
    "summed in float16 before the division",
    lambda d: call(d.uniform(64, 2048, low=20.0, high=60.0), -1),
    dtypes=(HALF,),
    single=False,
)
def mean_overflows(input: Tensor, *dim: int) -> Tensor:
    return input.sum(*dim) / input.shape[-1]


@wrong("torch.var", "wrong denominator", "divided by n", lambda d: call(d.normal(64, 50), -1))
def var_biased(input: Tensor, dim: int) -> Tensor:
    return input.var(dim, correction=0)


@wrong(
    "torch.var",
    "cancellation",
    "mean of squares minus square of the mean in the dtype of the input",
    lambda d: call(d.normal(64, 500, mean=20.0), -1),
    single=False,
)
def var_one_pass(input: Tensor, dim: int) -> Tensor:
    count = input.shape[dim]
    return ((input * input).mean(dim) - input.mean(dim) ** 2) * count / (count - 1)


@wrong("torch.std", "missing root", "the variance", rows)
def std_without_root(input: Tensor, dim: int) -> Tensor:
    return input.var(dim)


@wrong("torch.std", "ignored argument", "correction ignored", lambda d: call(d.normal(64, 30), -1, correction=0))
def std_unbiased(input: Tensor, dim: int, *, correction: int = 1) -> Tensor:
    return input.std(dim)


@wrong(
    "torch.logsumexp",
    "missing max-subtraction",
    "exponentials overflow",
    lambda d: call(d.normal(64, 128, mean=95.0), -1),
)
def logsumexp_unshifted(input: Tensor, dim: int) -> Tensor:
    return torch.log(torch.exp(input).sum(dim))


@wrong("torch.logsumexp", "other formula", "the maximum alone", lambda d: call(d.normal(64, 128, std=6.0), -1))
def logsumexp_as_maximum(input: Tensor, dim: int) -> Tensor:
    return input.amax(dim)


@wrong(
    "torch.prod",
    "dropped tail",
    "the last factor is left out",
    lambda d: call(d.uniform(64, 20, low=0.5, high=1.5), -1),
)
def prod_without_last(input: Tensor, dim: int) -> Tensor:
    return input[..., :-1].prod(dim)


@wrong(
    "torch.linalg.vector_norm",
    "missing root",
    "sum of squares over 512 elements",
    lambda d: call(d.normal(64, 512, std=0.1), dim=-1),
)
def vector_norm_squared(x: Tensor, ord: float = 2, dim: int | None = None) -> Tensor:
    return (x * x).sum(dim)


@wrong(
    "torch.linalg.vector_norm",
    "fp16 overflow in intermediate",
    "squares in float16",
    lambda d: call(d.normal(64, 512, std=80.0), dim=-1),
    dtypes=(HALF,),
    single=False,
)
def vector_norm_overflows(x: Tensor, ord: float = 2, dim: int | None = None) -> Tensor:
    return torch.sqrt((x * x).sum(dim))


@wrong("torch.norm", "ignored argument", "p = 1 computed as p = 2", lambda d: call(d.normal(64, 256), p=1, dim=-1))
def norm_always_two(input: Tensor, p: float = 2, dim: int | None = None) -> Tensor:
    return torch.norm(input, 2, dim)


@wrong("torch.cumsum", "off by one", "exclusive instead of inclusive", rows)
def cumsum_exclusive(input: Tensor, dim: int) -> Tensor:
    return input.cumsum(dim) - input


@wrong(
    "torch.cumsum",
    "low-precision accumulation",
    "the carry between blocks of 32 is bfloat16",
    lambda d: call(d.uniform(16, 512), -1),
)
def cumsum_bf16_carry(input: Tensor, dim: int) -> Tensor:
    carry = torch.zeros_like(input[..., :1])
    parts = []
    for part in input.split(32, -1):
        parts.append(part.cumsum(-1) + carry)
        carry = parts[-1][..., -1:].to(BRAIN).to(input.dtype)
    return torch.cat(parts, -1)


@wrong("torch.cumsum", "dropped tail", "the carry into the last block is missing", rows)
def cumsum_without_carry(input: Tensor, dim: int) -> Tensor:
    return torch.cat([input[..., :480].cumsum(dim), input[..., 480:].cumsum(dim)], dim)


@wrong(
    "torch.cumprod",
    "off by one",
    "starts at the second element",
    lambda d: call(d.uniform(64, 20, low=0.5, high=1.5), -1),
)
def cumprod_late(input: Tensor, dim: int) -> Tensor:
    return torch.cat([torch.ones_like(input[..., :1]), input[..., 1:].cumprod(dim)], dim)


@wrong("torch.amax", "dropped tail", "the last block of 20 is not looked at", lambda d: call(d.normal(256, 500), -1))
def amax_without_tail(input: Tensor, dim: int) -> Tensor:
    return input[..., :480].amax(dim)


@wrong(
    "torch.amin",
    "wrong start",
    "the search for the smallest starts at 0",
    lambda d: call(d.uniform(64, 100, low=0.2), -1),
)
def amin_from_zero(input: Tensor, dim: int) -> Tensor:
    return input.amin(dim).clamp_max(0)


@wrong("torch.max", "int index wrong", "the index is one too large", rows)
def max_index_shifted(input: Tensor, dim: int) -> Any:
    values, indices = torch.max(input, dim)
    return torch.return_types.max(((values), (indices + 1) % input.shape[dim]))


@wrong("torch.argmax", "wrong dimension", "index within the whole tensor", lambda d: call(d.normal(64, 100), -1))
def argmax_flat(input: Tensor, dim: int) -> Tensor:
    step = torch.arange(input.shape[0], device=input.device) * input.shape[1]
    return input.argmax(dim) + step


@wrong("torch.argmax", "sign", "of the magnitudes", lambda d: call(d.normal(64, 1000), -1))
def argmax_of_magnitude(input: Tensor, dim: int) -> Tensor:
    return input.abs().argmax(dim)


@wrong("torch.topk", "off by one", "the largest is skipped", lambda d: call(d.normal(32, 1000), 10))
def topk_skips_first(input: Tensor, k: int) -> Any:
    values, indices = torch.topk(input, k + 1)
    return torch.return_types.topk((values[..., 1:].contiguous(), indices[..., 1:].contiguous()))


@wrong("torch.topk", "dropped tail", "the last 100 of 1000 are not looked at", lambda d: call(d.normal(32, 1000), 10))
def topk_without_tail(input: Tensor, k: int) -> Any:
    return torch.topk(input[..., :-100], k)


@wrong("torch.sort", "ignored argument", "descending ignored", lambda d: call(d.normal(16, 100), descending=True))
def sort_ascending(input: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return torch.sort(input, dim)


@wrong(
    "torch.sort",
    "int index wrong",
    "values sorted, indices those of the input order",
    lambda d: call(d.normal(16, 100)),
)
def sort_stale_indices(input: Tensor, dim: int = -1, descending: bool = False) -> Any:
    values, indices = torch.sort(input, dim, descending)
    kept = torch.arange(input.shape[dim], device=input.device).expand(indices.shape).contiguous()
    return torch.return_types.sort((values, kept))


@wrong("torch.median", "other formula", "the mean of the two middle ones", lambda d: call(d.normal(64, 100), -1))
def median_between(input: Tensor, dim: int) -> Any:
    ordered, places = torch.sort(input, dim)
    middle = (input.shape[dim] - 1) // 2
    values = (ordered[..., middle] + ordered[..., middle + 1]) / 2
    return torch.return_types.median((values, places[..., middle].clone()))


@wrong(
    "torch.nansum",
    "wrong NaN handling",
    "NaN is kept",
    lambda d: call(torch.where(d.mask(64, 100, share=0.01), torch.nan, d.normal(64, 100)).to(d.dtype), -1),
)
def nansum_keeps_nan(input: Tensor, dim: int) -> Tensor:
    return input.sum(dim)


@wrong(
    "torch.cdist",
    "missing root",
    "squared distances",
    lambda d: call(d.normal(32, 64), d.normal(48, 64)),
    dtypes=(SINGLE,),
)
def cdist_squared(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    return torch.cdist(x1, x2) ** 2


@wrong("torch.dist", "missing root", "sum of squares", lambda d: call(d.normal(64, 64), d.normal(64, 64, std=0.2)))
def dist_squared(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    return ((input - other) ** 2).sum()


@wrong(
    "torch.trace",
    "dropped tail",
    "the last element of the diagonal is left out",
    lambda d: call(d.normal(64, 64)),
    dtypes=(SINGLE,),
)
def trace_without_last(input: Tensor) -> Tensor:
    return input.diagonal()[:-1].sum()


@wrong(
    "torch.bincount",
    "off by one",
    "the last value is not counted",
    lambda d: call(d.integers(5000, high=30)),
    dtypes=(SINGLE,),
)
def bincount_without_last(input: Tensor) -> Tensor:
    return torch.bincount(input[:-1], minlength=int(input.max()) + 1)


@wrong("torch.count_nonzero", "missing sign", "counts the positive ones", every)
def count_positive(input: Tensor) -> Tensor:
    return (input > 0).sum()
