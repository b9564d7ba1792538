"""Honest sums, means, variances, softmaxes and norms that are computed in other orders and forms than torch's."""

import math

import torch

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, widened
from benchmarks.power.wild.orders import (
    kahan_sum,
    merged_moments,
    online_softmax_parts,
    pairwise_sum,
    reduced,
    reversed_sum,
    sequential_sum,
    streamed_moments,
)
from benchmarks.power.wild.parts import with_gradient
from benchmarks.power.wild.ways import all_finite


@honest(
    "torch.sum",
    "one element after another",
    "Higham 2002, (4.4): (n - 1) u of the sum of absolute values",
    lambda d: call(d.normal(500)),
    lambda d: call(d.normal(7, 300), 1),
    lambda d: call(d.normal(3, 5, 4), (0, 2), True),
    bound=absolute(lambda a: a.args[0].numel()),
)
def sum_sequential(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, sequential_sum, input, dim, keepdim, dtype)


@honest(
    "torch.sum",
    "pairwise, down to single elements",
    "Higham 2002, (4.6): log2(n) u of the sum of absolute values",
    lambda d: call(d.normal(1000)),
    lambda d: call(d.normal(7, 65), -1),
    lambda d: call(d.normal(3, 5, 4), (0, 1)),
    bound=absolute(lambda a: 2 + math.log2(1 + a.args[0].numel())),
)
def sum_pairwise(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, pairwise_sum, input, dim, keepdim, dtype)


@honest(
    "torch.sum",
    "compensated by Kahan",
    "Higham 2002, (4.8): 2 u + O(n u^2) of the sum of absolute values",
    lambda d: call(d.normal(400)),
    lambda d: call(d.normal(4, 129), 1),
    bound=absolute(4),
)
def sum_compensated(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, kahan_sum, input, dim, keepdim, dtype)


@honest(
    "torch.sum",
    "from the last element to the first",
    "Higham 2002, (4.4)",
    lambda d: call(d.normal(500)),
    lambda d: call(d.normal(7, 300), 0),
    bound=absolute(lambda a: a.args[0].numel()),
)
def sum_from_the_end(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, reversed_sum, input, dim, keepdim, dtype)


@honest(
    "torch.var",
    "two passes with Chan's correction",
    "Chan, Golub, LeVeque 1983: (n + 2) u",
    lambda d: call(d.normal(300)),
    lambda d: call(d.normal(7, 100, mean=50.0), 1),
    lambda d: call(d.normal(4, 9), 1, correction=0),
    bound=element(lambda a: 2 * a.args[0].numel() + 8),
    gradient=normwise(2000),
)
def var_two_passes(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if not input.is_floating_point() or isinstance(dim, bool) or not all_finite(input):
        return (
            torch.var(input, dim, correction=less, keepdim=keepdim)
            if not isinstance(dim, bool)
            else torch.var(input, dim)
        )

    def moments(rows):
        rows = rows - rows.mean(-1, keepdim=True)
        n = rows.shape[-1]
        squares = (rows * rows).sum(-1) - rows.sum(-1) ** 2 / n
        return squares / max(n - less, 0) if n > less else squares / torch.zeros_like(squares)

    return reduced(torch.var, moments, input, dim, keepdim, None)


@honest(
    "torch.std",
    "merged by halves after Chan",
    "Chan, Golub, LeVeque 1983: log2(n) u times the condition number",
    lambda d: call(d.normal(300)),
    lambda d: call(d.normal(7, 100, mean=3.0), 1),
    bound=element(400),
    gradient=normwise(4000),
)
def std_merged(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if not input.is_floating_point() or isinstance(dim, bool) or not all_finite(input):
        return (
            torch.std(input, dim, correction=less, keepdim=keepdim)
            if not isinstance(dim, bool)
            else torch.std(input, dim)
        )

    if bool((torch.var(input.detach(), dim, correction=0) == 0).any()):
        return torch.std(input, dim, correction=less, keepdim=keepdim)

    def moments(rows):
        squares, n = merged_moments(rows)[1], rows.shape[-1]
        return torch.sqrt(squares / (n - less) if n > less else squares / torch.zeros_like(squares))

    return reduced(torch.std, moments, input, dim, keepdim, None)


@honest(
    "torch.prod",
    "as a tree",
    "n - 1 roundings in any order, Higham 2002, lemma 3.1",
    lambda d: call(d.uniform(60, low=0.8, high=1.25)),
    lambda d: call(d.uniform(5, 33, low=0.8, high=1.25), 1),
    bound=element(lambda a: a.args[0].numel()),
    gradient=element(lambda a: 4 * a.args[0].numel()),
)
def prod_as_tree(input, dim=None, keepdim=False, *, dtype=None):
    if input.is_floating_point() and not bool(input.isfinite().all()):
        return torch.prod(input, dtype=dtype) if dim is None else torch.prod(input, dim, keepdim, dtype=dtype)
    return reduced(torch.prod, lambda rows: pairwise_sum(rows, torch.mul, 1.0), input, dim, keepdim, dtype)


@honest(
    "torch.cumsum",
    "Hillis and Steele's scan",
    "log2(n) additions an element: log2(n) u of the sum of absolute values",
    lambda d: call(d.normal(300), 0),
    lambda d: call(d.normal(5, 129), 1),
    bound=absolute(lambda a: 2 + math.log2(1 + a.args[0].numel())),
)
@widened
def cumsum_scanned(input, dim, *, dtype=None):
    if not input.is_floating_point() or dtype is not None or input.dim() == 0:
        return torch.cumsum(input, dim, dtype=dtype)
    rows, step = input.movedim(dim, -1), 1
    while step < rows.shape[-1]:
        rows = torch.cat([rows[..., :step], rows[..., step:] + rows[..., :-step]], -1)
        step *= 2
    return rows.movedim(-1, dim).clone(memory_format=torch.contiguous_format)


@honest(
    "torch.cumsum",
    "blocks of 64 with a carry",
    "Blelloch 1990",
    lambda d: call(d.normal(300), 0),
    lambda d: call(d.normal(129, 5), 0),
    bound=absolute(lambda a: 66 + a.args[0].numel() / 64),
)
@widened
def cumsum_with_carry(input, dim, *, dtype=None):
    if not input.is_floating_point() or dtype is not None or input.dim() == 0 or input.numel() == 0:
        return torch.cumsum(input, dim, dtype=dtype)
    rows, carry, parts = input.movedim(dim, -1), 0.0, []
    for block in rows.split(64, -1):
        parts.append(torch.cumsum(block, -1) + carry)
        carry = parts[-1][..., -1:]
    return torch.cat(parts, -1).movedim(-1, dim).clone(memory_format=torch.contiguous_format)


@honest(
    "torch.logsumexp",
    "online, one block of 32 after another",
    "Milakov and Gimelshein 2018; Blanchard, Higham, Higham 2021",
    lambda d: call(d.normal(4, 100, std=5.0), 1),
    lambda d: call(d.of([1.0, float("-inf")], [2.0, 3.0]), 1),
    lambda d: call(d.normal(3, 4, 5), (0, 2), True),
    bound=normwise(60),
    gradient=normwise(200),
)
def logsumexp_online(input, dim, keepdim=False):
    if not input.is_floating_point() or bool((input == float("inf")).any()):
        return torch.logsumexp(input, dim, keepdim)

    def lines(rows):
        top, total = online_softmax_parts(rows)
        return torch.where(top.isinf(), top, top + torch.log(total))

    return reduced(
        lambda x, dim, keepdim, dtype=None: torch.logsumexp(x, dim, keepdim), lines, input, dim, keepdim, None
    )


@honest(
    f"{FUNCTIONAL}.softmax",
    "online over blocks of 32",
    "Milakov and Gimelshein 2018: (n + 10) u and the rounding of the argument",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    lambda d: call(d.of([1.0, float("-inf")], [2.0, 3.0]), 1),
    bound=element(400),
    gradient=normwise(400),
)
@widened
def softmax_online(input, dim=None, _stacklevel=3, dtype=None):
    if not input.is_floating_point() or dim is None or dtype is not None or input.numel() == 0 or input.dim() == 0:
        return torch.nn.functional.softmax(input, dim, dtype=dtype)
    rows = input.movedim(dim, -1)
    top, total = online_softmax_parts(rows)
    result = torch.exp(rows - top.unsqueeze(-1)) / total.unsqueeze(-1)
    return result.movedim(-1, dim).contiguous()


@honest(
    f"{FUNCTIONAL}.softmax",
    "exp2 of x log2(e), as flash attention does",
    "Dao 2023: the product is rounded, |x - max| log2(e) u",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    bound=element(400),
    gradient=normwise(400),
)
@widened
def softmax_by_exp2(input, dim=None, _stacklevel=3, dtype=None):
    if not input.is_floating_point() or dim is None or dtype is not None or input.numel() == 0:
        return torch.nn.functional.softmax(input, dim, dtype=dtype)
    top = torch.amax(input.detach(), dim, keepdim=True)
    weights = torch.exp2((input - top) * 1.4426950408889634)
    return weights / weights.sum(dim, keepdim=True)


@honest(
    f"{FUNCTIONAL}.softmax",
    "gradient as y (g - sum(g y)) by hand",
    "the backward of every fused softmax",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    bound=element(400),
    gradient=normwise(400),
)
@widened
def softmax_own_gradient(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None or dtype is not None or not input.is_floating_point():
        return torch.nn.functional.softmax(input, dim, dtype=dtype)

    def gradient(g, x):
        y = torch.softmax(x, dim)
        return (y * (g - (g * y).sum(dim, keepdim=True)),)

    return with_gradient(lambda x: torch.softmax(x, dim), gradient, input)


@honest(
    f"{FUNCTIONAL}.layer_norm",
    "two passes, biased variance from centred squares",
    "the textbook form; n u times the condition number",
    lambda d: call(d.normal(6, 96), (96,), d.gain(96), d.normal(96)),
    lambda d: call(d.normal(6, 5, 7), (5, 7)),
    bound=normwise(200),
    gradient=normwise(2000),
)
@widened
def layer_norm_two_passes(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dims, keepdim=True)
    result = centred / torch.sqrt((centred * centred).mean(dims, keepdim=True) + eps)
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias).contiguous()


@honest(
    f"{FUNCTIONAL}.layer_norm",
    "moments streamed after Welford",
    "Welford 1962, as in Apex",
    lambda d: call(d.normal(6, 96), (96,), d.gain(96), d.normal(96)),
    lambda d: call(d.normal(6, 5, 7), (5, 7)),
    bound=normwise(600),
    gradient=normwise(4000),
)
@widened
def layer_norm_streamed(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    if input.numel() == 0:
        return torch.nn.functional.layer_norm(input, normalized_shape, weight, bias, eps)
    rows = input.reshape(*input.shape[: input.dim() - len(normalized_shape)], -1)
    mean, squares = streamed_moments(rows)
    result = (rows - mean.unsqueeze(-1)) * torch.rsqrt(squares / rows.shape[-1] + eps).unsqueeze(-1)
    result = result.reshape(input.shape)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@honest(
    f"{FUNCTIONAL}.group_norm",
    "scale and shift folded into one product for each channel",
    "the fused form of PyTorch's CUDA kernel",
    lambda d: call(d.normal(2, 8, 5, 5), 4, d.gain(8), d.normal(8)),
    lambda d: call(d.normal(2, 6, 9), 3),
    bound=normwise(200),
    gradient=normwise(2000),
)
@widened
def group_norm_folded(input, num_groups, weight=None, bias=None, eps=1e-05):
    if input.numel() == 0:
        return torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)
    rows = input.reshape(input.shape[0], num_groups, -1)
    var, mean = torch.var_mean(rows, -1, correction=0, keepdim=True)
    if bool((mean.detach() ** 2 > 1e4 * (var.detach() + eps)).any()):
        return torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)
    along = (input.shape[0], input.shape[1]) + (1,) * (input.dim() - 2)
    each = input.shape[1] // num_groups
    scale = torch.rsqrt(var + eps).expand(-1, -1, each).reshape(input.shape[:2])
    shift = mean.expand(-1, -1, each).reshape(input.shape[:2])
    scale = scale if weight is None else scale * weight
    shift = -shift * scale if bias is None else bias - shift * scale
    return input * scale.reshape(along) + shift.reshape(along)
