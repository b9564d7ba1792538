"""Honest losses, pools, resampling and places."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, widened
from benchmarks.power.wild.orders import online_softmax_parts, sequential_sum
from benchmarks.power.wild.ways import all_finite, numbers


@honest(
    f"{FUNCTIONAL}.cross_entropy",
    "online logarithm of the sum less the logit of the class",
    "Liger's and Apex's fused loss",
    lambda d: call(d.normal(9, 40, std=3.0), d.integers(9, high=40)),
    lambda d: call(d.normal(9, 40), d.integers(9, high=40), ignore_index=3, reduction="sum"),
    lambda d: call(d.normal(9, 40), d.integers(9, high=40), reduction="none"),
    lambda d: call(d.normal(2, 5), d.whole(-100, -100)),
    bound=normwise(200),
    gradient=normwise(400),
)
@widened
def cross_entropy_online(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    plain = input.dim() == 2 and not target.is_floating_point() and weight is None and not label_smoothing
    if not plain or size_average is not None or reduce is not None or input.numel() == 0:
        return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    top, total = online_softmax_parts(input)
    keep = target != ignore_index
    chosen = input.gather(1, torch.where(keep, target, 0).unsqueeze(1)).squeeze(1)
    losses = torch.where(keep, torch.log(total) + (top - chosen), torch.zeros_like(chosen))
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / keep.sum()


@honest(
    f"{FUNCTIONAL}.normalize",
    "product with the reciprocal of the norm",
    "two roundings",
    lambda d: call(d.normal(9, 20)),
    lambda d: call(d.normal(3, 4, 5), 1.0, -1),
    bound=element(40),
    gradient=normwise(200),
)
@widened
def normalize_by_reciprocal(input, p=2.0, dim=1, eps=1e-12, out=None):
    if out is not None or not input.is_floating_point():
        return F.normalize(input, p, dim, eps, out)
    norm = torch.linalg.vector_norm(input, p, dim, keepdim=True)
    return (
        input / torch.clamp(norm, min=eps) if bool((norm < 1e-20).any()) else input * (1 / torch.clamp(norm, min=eps))
    )


@honest(
    f"{FUNCTIONAL}.avg_pool2d",
    "a convolution with equal weights",
    "the sum of the window in the order of the product",
    lambda d: call(d.normal(2, 3, 9, 8), 3, 2, 1),
    lambda d: call(d.normal(2, 3, 9, 8), 2),
    bound=absolute(40),
    gradient=normwise(60),
)
@widened
def avg_pool2d_by_convolution(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    if (
        input.dim() != 4
        or ceil_mode
        or not count_include_pad
        or divisor_override
        or input.numel() == 0
        or not bool(input.isfinite().all())
    ):
        return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    size = numbers(kernel_size, 2)
    step = size if stride in (None, (), []) else numbers(stride, 2)
    many = input.shape[1]
    weight = torch.full((many, 1, *size), 1 / math.prod(size), dtype=input.dtype)
    return F.conv2d(input, weight, None, step, numbers(padding, 2), 1, many)


@honest(
    f"{FUNCTIONAL}.interpolate",
    "bilinear by two products with matrices of weights",
    "the separable form",
    lambda d: call(d.normal(2, 3, 5, 6), size=(8, 9), mode="bilinear", align_corners=False),
    lambda d: call(d.normal(2, 3, 5, 6), size=(3, 4), mode="bilinear", align_corners=True),
    bound=normwise(200),
    gradient=normwise(200),
)
@widened
def interpolate_bilinear_by_matrices(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    if mode != "bilinear" or size is None or antialias or input.numel() == 0 or not bool(input.isfinite().all()):
        return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)

    def weights(many, before):
        place = torch.arange(many, dtype=torch.float64)
        if align_corners:
            place = place * ((before - 1) / (many - 1)) if many > 1 else place * 0
        else:
            place = ((place + 0.5) * (before / many) - 0.5).clamp_min(0)
        low = place.floor().clamp_max(before - 1)
        share = place - low
        matrix = torch.zeros(many, before, dtype=torch.float64)
        matrix.scatter_add_(1, low.long().unsqueeze(1), (1 - share).unsqueeze(1))
        matrix.scatter_add_(1, (low.long() + 1).clamp_max(before - 1).unsqueeze(1), share.unsqueeze(1))
        return matrix.to(input.dtype)

    wanted = numbers(size, 2)
    return weights(wanted[0], input.shape[-2]) @ input @ weights(wanted[1], input.shape[-1]).t()


@honest(
    f"{FUNCTIONAL}.interpolate",
    "nearest by picking rows and columns",
    "exact",
    lambda d: call(d.normal(2, 3, 5, 6), size=(8, 9)),
    lambda d: call(d.normal(2, 3, 5, 6), size=(3, 4)),
    bound=element(1),
    gradient=normwise(20),
)
@widened
def interpolate_nearest_by_index(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    if mode != "nearest" or size is None or input.dim() != 4 or input.numel() == 0 or not input.is_floating_point():
        return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    wanted = numbers(size, 2)
    places = [
        (torch.arange(many).float() * torch.tensor(before / many).float()).floor().long().clamp_max(before - 1)
        for many, before in zip(wanted, input.shape[-2:], strict=True)
    ]
    return input[:, :, places[0]][..., places[1]].contiguous()


@honest(
    f"{FUNCTIONAL}.embedding",
    "a product with the one-hot indices",
    "exact: one term of the sum is not zero",
    lambda d: call(d.integers(7, high=9), d.normal(9, 4)),
    lambda d: call(d.integers(3, 5, high=9), d.normal(9, 4)),
    bound=element(1),
    gradient=normwise(20),
)
@widened
def embedding_by_one_hot(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if (
        padding_idx is not None
        or max_norm is not None
        or scale_grad_by_freq
        or sparse
        or not bool(weight.isfinite().all())
        or weight.shape[0] > 10000
    ):
        return F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    return F.one_hot(input.long(), weight.shape[0]).to(weight.dtype) @ weight + 0.0


@honest(
    "torch.scatter_add",
    "elements added in the opposite order",
    "the order of atomics is open",
    lambda d: call(d.normal(6, 4), 0, d.integers(5, 4, high=6), d.normal(5, 4)),
    bound=absolute(20),
    gradient=element(4),
)
def scatter_add_in_other_order(input, dim, index, src):
    if input.dim() == 0 or index.numel() == 0:
        return torch.scatter_add(input, dim, index, src)
    for place, size in enumerate(index.shape):
        src = src.narrow(place, 0, size)
    return torch.scatter_add(input, dim, index.flip(dim), src.flip(dim))


@honest(
    "torch.take_along_dim",
    "by gather of the broadcast operands",
    "exact",
    lambda d: call(d.normal(6, 4), d.integers(3, 4, high=6), 0),
    bound=element(1),
    gradient=normwise(8),
)
def take_along_dim_by_gather(input, indices, dim=None):
    if dim is None or input.dim() != indices.dim() or (input.shape != indices.shape and dim not in (0, -input.dim())):
        return torch.take_along_dim(input, indices, dim)
    return (
        torch.gather(input, dim, indices)
        if input.shape[1:] == indices.shape[1:]
        else torch.take_along_dim(input, indices, dim)
    )


@honest(
    "torch.sort",
    "by ranking after a stable sort of the negatives",
    "ties kept in order",
    lambda d: call(d.normal(9)),
    lambda d: call(d.of([2.0, 1.0, 2.0], [0.0, 0.0, -1.0]), stable=True),
    bound=element(1),
)
def sort_by_argsort(input, dim=-1, descending=False, stable=False):
    if input.dim() == 0 or input.is_complex():
        return torch.sort(input, dim=dim, descending=descending, stable=stable)
    order = torch.argsort(input.detach(), dim=dim, descending=descending, stable=True)
    return torch.return_types.sort((torch.gather(input, dim, order), order))


@honest(
    "torch.topk",
    "the head of a full sort",
    "exact where no elements are equal",
    lambda d: call(d.normal(30), 4),
    lambda d: call(d.normal(5, 12), 3, 0, False),
    bound=element(1),
)
def topk_by_sort(input, k, dim=-1, largest=True, sorted=True):
    if input.dim() == 0 or not input.is_floating_point() or torch.unique(input).numel() < input.numel():
        return torch.topk(input, k, dim, largest, sorted)
    values, indices = torch.sort(input, dim=dim, descending=largest)
    return torch.return_types.topk((values.narrow(dim, 0, k).contiguous(), indices.narrow(dim, 0, k).contiguous()))


@honest(
    "torch.cumprod",
    "the scan of products in pairs",
    "log2(n) roundings an element",
    lambda d: call(d.uniform(5, 40, low=0.8, high=1.25), 1),
    bound=element(120),
    gradient=normwise(2000),
)
@widened
def cumprod_scanned(input, dim, *, dtype=None):
    if not input.is_floating_point() or dtype is not None or input.dim() == 0 or not all_finite(input):
        return torch.cumprod(input, dim, dtype=dtype)
    rows, step = input.movedim(dim, -1), 1
    while step < rows.shape[-1]:
        rows = torch.cat([rows[..., :step], rows[..., step:] * rows[..., :-step]], -1)
        step *= 2
    return rows.movedim(-1, dim).clone(memory_format=torch.contiguous_format)


@honest(
    "torch.trace",
    "the sum of the diagonal from its end",
    "Higham 2002, (4.4)",
    lambda d: call(d.normal(9, 7)),
    bound=absolute(12),
)
@widened
def trace_from_the_end(input):
    return torch.diagonal(input).flip(0).sum() if input.is_floating_point() else torch.trace(input)


@honest(
    "torch.nansum",
    "NaN replaced, then a sequential sum",
    "Higham 2002, (4.4)",
    lambda d: call(d.normal(9, 7)),
    lambda d: call(d.of(1.0, float("nan"), 3.0)),
    bound=absolute(80),
)
def nansum_sequential(input, dim=None, keepdim=False, *, dtype=None):
    if (
        not input.is_floating_point()
        or dim is not None
        or keepdim
        or dtype is not None
        or not 0 < input.numel() <= 10000
        or input.dim() == 0
    ):
        return torch.nansum(input, dim, keepdim, dtype=dtype)
    flat = input.reshape(-1).float() if input.dtype in (torch.bfloat16, torch.float16) else input.reshape(-1)
    return sequential_sum(torch.where(flat.isnan(), torch.zeros_like(flat), flat)).to(input.dtype)
