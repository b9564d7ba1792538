"""Honest sums, means, variances, softmaxes and norms that are computed in other orders and forms than torch's."""

import math

import torch

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, widened
from benchmarks.power.wild.orders import (
    blocked_sum,
    dims_of,
    pairwise_sum,
    reduced,
    sequential_sum,
    streamed_moments,
)
from benchmarks.power.wild.parts import with_gradient
from benchmarks.power.wild.ways import all_finite


@honest(
    "torch.sum",
    "blocks of 128, then the sums of the blocks",
    "blocked summation, Higham 2002, section 4.2",
    lambda d: call(d.normal(1025)),
    lambda d: call(d.normal(4, 129), 1),
    bound=absolute(lambda a: 128 + a.args[0].numel() / 128),
)
def sum_in_blocks(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, blocked_sum, input, dim, keepdim, dtype)


@honest(
    "torch.sum",
    "as a product with a vector of ones",
    "sums on matrix units (Dakkak et al. 2019)",
    lambda d: call(d.normal(500)),
    lambda d: call(d.normal(7, 300), 1),
    bound=absolute(lambda a: a.args[0].numel()),
)
def sum_by_ones(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.sum, lambda rows: rows @ rows.new_ones(rows.shape[-1]), input, dim, keepdim, dtype)


@honest(
    "torch.mean",
    "sequential sum over n",
    "Higham 2002, (4.4)",
    lambda d: call(d.normal(500)),
    lambda d: call(d.normal(7, 300), 1),
    lambda d: call(d.normal(3, 5, 4), (0, -1), True),
    bound=absolute(lambda a: a.args[0].numel() + 1),
)
def mean_sequential(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.mean, lambda rows: sequential_sum(rows) / rows.shape[-1], input, dim, keepdim, dtype)


@honest(
    "torch.mean",
    "each element divided first, then a pairwise sum",
    "Higham 2002, (4.6), and one rounding more",
    lambda d: call(d.normal(1000)),
    lambda d: call(d.normal(7, 65), -1),
    bound=absolute(lambda a: 4 + math.log2(1 + a.args[0].numel())),
)
def mean_divides_first(input, dim=None, keepdim=False, *, dtype=None):
    return reduced(torch.mean, lambda rows: pairwise_sum(rows / rows.shape[-1]), input, dim, keepdim, dtype)


@honest(
    "torch.mean",
    "running mean after Welford",
    "Chan, Golub, LeVeque 1983: n u of the mean of absolute values",
    lambda d: call(d.normal(300)),
    lambda d: call(d.normal(7, 100, mean=50.0), 1),
    bound=absolute(lambda a: 3 * a.args[0].numel()),
)
def mean_running(input, dim=None, keepdim=False, *, dtype=None):
    if input.is_floating_point() and not bool(input.isfinite().all()):
        return torch.mean(input, dim, keepdim, dtype=dtype)
    return reduced(torch.mean, lambda rows: streamed_moments(rows)[0], input, dim, keepdim, dtype)


@honest(
    "torch.var",
    "streamed after Welford",
    "Welford 1962; Chan, Golub, LeVeque 1983: n u times the condition number",
    lambda d: call(d.normal(300)),
    lambda d: call(d.normal(7, 100, mean=3.0), 1),
    bound=element(lambda a: 10 * a.args[0].numel()),
    gradient=normwise(4000),
)
def var_streamed(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if not input.is_floating_point() or isinstance(dim, bool) or not all_finite(input):
        return (
            torch.var(input, dim, correction=less, keepdim=keepdim)
            if not isinstance(dim, bool)
            else torch.var(input, dim)
        )

    def moments(rows):
        squares, n = streamed_moments(rows)[1], rows.shape[-1]
        return squares / (n - less) if n > less else squares / torch.zeros_like(squares)

    return reduced(torch.var, moments, input, dim, keepdim, None)


@honest(
    f"{FUNCTIONAL}.softmax",
    "exponential of log_softmax",
    "Blanchard, Higham, Higham 2021, (3.11)",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    bound=element(400),
    gradient=normwise(400),
)
@widened
def softmax_of_logarithm(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None or dtype is not None or not input.is_floating_point():
        return torch.nn.functional.softmax(input, dim, dtype=dtype)
    return torch.exp(torch.log_softmax(input, dim))


@honest(
    f"{FUNCTIONAL}.log_softmax",
    "x - max - log(sum) with a sequential sum",
    "Blanchard, Higham, Higham 2021: relative to the largest element",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    bound=normwise(120),
    gradient=normwise(400),
)
@widened
def log_softmax_sequential(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None or dtype is not None or not input.is_floating_point() or input.numel() == 0 or input.dim() == 0:
        return torch.nn.functional.log_softmax(input, dim, dtype=dtype)
    rows = input.movedim(dim, -1)
    moved = rows - rows.detach().amax(-1, keepdim=True)
    result = moved - torch.log(sequential_sum(torch.exp(moved))).unsqueeze(-1)
    return result.movedim(-1, dim).contiguous()


@honest(
    f"{FUNCTIONAL}.log_softmax",
    "online, with exp2 and log2",
    "Milakov and Gimelshein 2018",
    lambda d: call(d.normal(4, 100, std=3.0), -1),
    lambda d: call(d.normal(3, 40, 5), 1),
    bound=normwise(120),
    gradient=normwise(400),
)
@widened
def log_softmax_base_two(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None or dtype is not None or not input.is_floating_point() or input.numel() == 0 or input.dim() == 0:
        return torch.nn.functional.log_softmax(input, dim, dtype=dtype)
    moved = input - input.detach().amax(dim, keepdim=True)
    total = torch.exp2(moved * 1.4426950408889634).sum(dim, keepdim=True)
    return moved - torch.log2(total) * 0.6931471805599453


@honest(
    f"{FUNCTIONAL}.layer_norm",
    "gradient by hand from saved mean and rstd",
    "the fused backward of Apex and Liger",
    lambda d: call(d.normal(6, 96), (96,), d.gain(96), d.normal(96)),
    lambda d: call(d.normal(6, 5, 7), (5, 7)),
    bound=normwise(200),
    gradient=normwise(2000),
)
@widened
def layer_norm_fused_backward(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    dims = tuple(range(-len(normalized_shape), 0))
    lead = tuple(range(input.dim() - len(dims)))

    def forward(x, w, b):
        return torch.nn.functional.layer_norm(x, normalized_shape, w, b, eps)

    def backward(g, x, w, b):
        mean = x.mean(dims, keepdim=True)
        rstd = torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + eps)
        hat = (x - mean) * rstd
        wg = g if w is None else g * w
        given = rstd * (wg - wg.mean(dims, keepdim=True) - hat * (wg * hat).mean(dims, keepdim=True))
        return given, None if w is None else (g * hat).sum(lead), None if b is None else g.sum(lead)

    return with_gradient(forward, backward, input, weight, bias)


@honest(
    f"{FUNCTIONAL}.rms_norm",
    "x times rsqrt of the blocked mean of squares",
    "Zhang and Sennrich 2019",
    lambda d: call(d.normal(6, 96), (96,), d.gain(96), 1e-6),
    lambda d: call(d.normal(6, 5, 7), (5, 7), None, 1e-5),
    bound=element(40),
    gradient=normwise(1000),
)
@widened
def rms_norm_blocked(input, normalized_shape, weight=None, eps=None):
    if eps is None or input.numel() == 0:
        return torch.nn.functional.rms_norm(input, normalized_shape, weight, eps)
    rows = input.reshape(*input.shape[: input.dim() - len(normalized_shape)], -1)
    mean = blocked_sum(rows * rows) / rows.shape[-1]
    result = (rows * torch.rsqrt(mean + eps).unsqueeze(-1)).reshape(input.shape)
    return result if weight is None else result * weight


@honest(
    f"{FUNCTIONAL}.group_norm",
    "each group reshaped and normalised in two passes",
    "Wu and He 2018, figure 3",
    lambda d: call(d.normal(2, 8, 5, 5), 4, d.gain(8), d.normal(8)),
    lambda d: call(d.normal(2, 6, 9), 3),
    bound=normwise(200),
    gradient=normwise(2000),
)
@widened
def group_norm_reshaped(input, num_groups, weight=None, bias=None, eps=1e-05):
    if input.numel() == 0:
        return torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)
    rows = input.reshape(input.shape[0], num_groups, -1)
    centred = rows - rows.mean(-1, keepdim=True)
    result = (centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps)).reshape(input.shape)
    along = (1, -1) + (1,) * (input.dim() - 2)
    result = result if weight is None else result * weight.reshape(along)
    return result if bias is None else result + bias.reshape(along)


@honest(
    f"{FUNCTIONAL}.batch_norm",
    "scale and shift folded, moments in two passes",
    "Ioffe and Szegedy 2015; folding as in inference engines",
    lambda d: call(d.normal(4, 6, 5, 5), None, None, d.gain(6), d.normal(6), True),
    lambda d: call(
        d.normal(4, 6), d.buffer(d.normal(6)), d.buffer(d.uniform(6, low=0.5)), d.gain(6), d.normal(6), False
    ),
    bound=normwise(300),
    gradient=normwise(2000),
)
@widened
def batch_norm_folded(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
):
    if training and running_mean is not None:
        return torch.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    along = (1, -1) + (1,) * (input.dim() - 2)
    if training:
        dims = (0, *range(2, input.dim()))
        mean = input.mean(dims)
        var = ((input - mean.reshape(along)) ** 2).mean(dims)
    else:
        mean, var = running_mean, running_var
    scale = torch.rsqrt(var + eps) if weight is None else weight * torch.rsqrt(var + eps)
    centred = (input - mean.reshape(along)) * scale.reshape(along)
    return centred if bias is None else centred + bias.reshape(along)


@honest(
    f"{FUNCTIONAL}.instance_norm",
    "two passes over each plane",
    "Ulyanov et al. 2016",
    lambda d: call(d.normal(2, 3, 6, 6)),
    lambda d: call(d.normal(2, 3, 20), weight=d.gain(3), bias=d.normal(3)),
    bound=normwise(200),
    gradient=normwise(2000),
)
@widened
def instance_norm_two_passes(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
):
    if running_mean is not None or not use_input_stats or input.numel() == 0 or input[0, 0].numel() < 2:
        return torch.nn.functional.instance_norm(
            input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
        )
    dims, along = tuple(range(2, input.dim())), (1, -1) + (1,) * (input.dim() - 2)
    centred = input - input.mean(dims, keepdim=True)
    result = centred / torch.sqrt((centred**2).mean(dims, keepdim=True) + eps)
    result = result if weight is None else result * weight.reshape(along)
    return result if bias is None else result + bias.reshape(along)


@honest(
    "torch.linalg.vector_norm",
    "scaled by the largest element, as BLAS nrm2",
    "Blue 1978; Hammarling: (n + 4) u",
    lambda d: call(d.normal(300)),
    lambda d: call(d.normal(5, 60), 2, 1),
    bound=element(lambda a: a.args[0].numel() + 8),
    gradient=normwise(600),
)
@widened
def vector_norm_scaled(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord != 2 or dtype is not None or not x.is_floating_point() or x.numel() == 0:
        return torch.linalg.vector_norm(x, ord, dim, keepdim, dtype=dtype)
    dims = dims_of(x, dim)
    if any(x.shape[one] == 0 for one in dims) or x.dim() == 0:
        return torch.linalg.vector_norm(x, ord, dim, keepdim, dtype=dtype)
    top = x.detach().abs().amax(dims, keepdim=True)
    if not bool(((top > 0) & top.isfinite()).all()):
        return torch.linalg.vector_norm(x, ord, dim, keepdim)
    result = top * torch.sqrt(((x / top) ** 2).sum(dims, keepdim=True))
    return result if keepdim else result.squeeze(dims)
