"""Honest losses, pools, resampling and places."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, widened
from benchmarks.power.wild.orders import pairwise_sum, sequential_sum
from benchmarks.power.wild.parts import with_gradient
from benchmarks.power.wild.ways import numbers


@honest(
    f"{FUNCTIONAL}.cross_entropy",
    "gradient by hand as softmax less one at the class",
    "the fused backward",
    lambda d: call(d.normal(9, 40, std=3.0), d.integers(9, high=40)),
    lambda d: call(d.normal(9, 40), d.integers(9, high=40), ignore_index=3),
    lambda d: call(d.normal(2, 5), d.whole(-100, -100)),
    bound=normwise(200),
    gradient=normwise(400),
)
@widened
def cross_entropy_fused_backward(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    plain = (
        input.dim() == 2
        and not target.is_floating_point()
        and weight is None
        and not label_smoothing
        and reduction == "mean"
    )
    if not plain or size_average is not None or reduce is not None or input.numel() == 0:
        return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)

    if not bool((target != ignore_index).any()):
        return F.cross_entropy(input, target, ignore_index=ignore_index)

    def gradient(g, x, t):
        keep = (t != ignore_index).unsqueeze(1)
        hot = F.one_hot(torch.where(keep.squeeze(1), t, 0), x.shape[1]).to(x.dtype)
        return torch.where(keep, (torch.softmax(x, 1) - hot) * (g / keep.sum()), torch.zeros_like(x)), None

    return with_gradient(lambda x, t: F.cross_entropy(x, t, ignore_index=ignore_index), gradient, input, target)


@honest(
    f"{FUNCTIONAL}.nll_loss",
    "a product with the one-hot targets",
    "the definition",
    lambda d: call(d.normal(9, 12), d.integers(9, high=12)),
    lambda d: call(d.normal(9, 12), d.integers(9, high=12), d.buffer(d.uniform(12, low=0.5)), reduction="sum"),
    lambda d: call(d.normal(2, 5), d.whole(-100, -100)),
    bound=absolute(60),
    gradient=normwise(60),
)
@widened
def nll_loss_by_one_hot(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    if (
        input.dim() != 2
        or size_average is not None
        or reduce is not None
        or input.numel() == 0
        or not bool(input.isfinite().all())
    ):
        return F.nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction)
    keep = (target != ignore_index).to(input.dtype)
    hot = F.one_hot(torch.where(target == ignore_index, 0, target), input.shape[1]).to(input.dtype)
    shares = keep if weight is None else (hot @ weight) * keep
    losses = torch.where(target == ignore_index, torch.zeros_like(shares), -(hot * input).sum(1) * shares)
    if reduction == "mean" and not bool(shares.any()):
        return F.nll_loss(input, target, weight, ignore_index=ignore_index)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / shares.sum()


@honest(
    f"{FUNCTIONAL}.mse_loss",
    "squares summed pairwise",
    "Higham 2002, (4.6)",
    lambda d: call(d.normal(9, 40), d.normal(9, 40)),
    lambda d: call(d.normal(9, 40), d.normal(9, 40), reduction="sum"),
    bound=element(40),
    gradient=element(12),
)
@widened
def mse_loss_pairwise(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if (
        weight is not None
        or size_average is not None
        or reduce is not None
        or reduction == "none"
        or input.numel() == 0
        or input.shape != target.shape
    ):
        return F.mse_loss(input, target, size_average, reduce, reduction, weight)
    off = (input - target).reshape(-1)
    total = pairwise_sum(off * off)
    return total if reduction == "sum" else total / off.numel()


@honest(
    f"{FUNCTIONAL}.l1_loss",
    "differences summed one after another",
    "Higham 2002, (4.4)",
    lambda d: call(d.normal(9, 40), d.normal(9, 40)),
    lambda d: call(d.normal(9, 40), d.normal(9, 40), reduction="sum"),
    bound=element(400),
    gradient=element(12),
)
@widened
def l1_loss_sequential(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    few = 0 < input.numel() <= 10000 and input.shape == target.shape
    if weight is not None or size_average is not None or reduce is not None or reduction == "none" or not few:
        return F.l1_loss(input, target, size_average, reduce, reduction, weight)
    total = sequential_sum((input - target).abs().reshape(-1))
    return total if reduction == "sum" else total / input.numel()


@honest(
    f"{FUNCTIONAL}.binary_cross_entropy_with_logits",
    "softplus of the logits",
    "(1 - t) x + max(-x, 0) + log1p(e^-|x|)",
    lambda d: call(d.normal(9, 8, std=3.0), d.uniform(9, 8)),
    lambda d: call(d.normal(9, 8), d.uniform(9, 8), reduction="none"),
    bound=normwise(100),
    gradient=normwise(100),
)
@widened
def bce_with_logits_by_softplus(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    if weight is not None or pos_weight is not None or size_average is not None or reduce is not None:
        return F.binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight)

    def value(x, t):
        return (1 - t) * x + torch.clamp(-x, min=0) + torch.log1p(torch.exp(-x.abs()))

    def gradient(g, x, t):
        return (g * (torch.sigmoid(x) - t)).sum_to_size(x.shape), (-g * x).sum_to_size(t.shape)

    losses = with_gradient(value, gradient, input, target)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


@honest(
    f"{FUNCTIONAL}.kl_div",
    "target times the difference of logarithms, by xlogy",
    "the definition",
    lambda d: call(
        torch.log_softmax(d.normal(9, 8), 1).to(d.dtype),
        torch.softmax(d.normal(9, 8), 1).to(d.dtype),
        reduction="batchmean",
    ),
    lambda d: call(d.normal(9, 8), d.normal(9, 8), reduction="sum", log_target=True),
    bound=normwise(200),
    gradient=normwise(200),
)
@widened
def kl_div_by_xlogy(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if size_average is not None or reduce is not None or input.numel() == 0:
        return F.kl_div(input, target, size_average, reduce, reduction, log_target=log_target)
    losses = torch.exp(target) * (target - input) if log_target else torch.xlogy(target, target) - target * input
    if reduction == "none":
        return losses
    if reduction == "batchmean":
        return losses.sum() / (input.shape[0] if input.dim() else 1)
    return losses.sum() if reduction == "sum" else losses.mean()


@honest(
    f"{FUNCTIONAL}.smooth_l1_loss",
    "by the clamped difference",
    "min(d, b) (d - min(d, b)/2)/b",
    lambda d: call(d.normal(9, 8), d.normal(9, 8)),
    lambda d: call(d.normal(9, 8), d.normal(9, 8), reduction="none", beta=0.5),
    bound=normwise(40),
    gradient=normwise(40),
)
@widened
def smooth_l1_by_clamp(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if size_average is not None or reduce is not None or beta <= 0:
        return F.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)

    def value(x, t):
        off = (x - t).abs()
        low = torch.clamp(off, max=beta)
        return low * (off - low / 2) / beta

    def gradient(g, x, t):
        slope = g * torch.clamp((x - t) / beta, -1, 1)
        return slope.sum_to_size(x.shape), -slope.sum_to_size(t.shape)

    losses = with_gradient(value, gradient, input, target)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


@honest(
    f"{FUNCTIONAL}.cosine_similarity",
    "both vectors normalised first",
    "the order of PyTorch since 1.13",
    lambda d: call(d.normal(9, 20), d.normal(9, 20)),
    lambda d: call(d.normal(3, 4, 5), d.normal(3, 4, 5), -1),
    bound=normwise(60),
    gradient=normwise(200),
)
@widened
def cosine_similarity_normalised(x1, x2, dim=1, eps=1e-8):
    if not x1.is_floating_point() or x1.dim() == 0 or x2.dim() == 0:
        return F.cosine_similarity(x1, x2, dim, eps)
    x1, x2 = torch.broadcast_tensors(x1, x2)
    long = [torch.linalg.vector_norm(one, dim=dim, keepdim=True) for one in (x1, x2)]
    first, second = (one / torch.clamp(size, min=eps) for one, size in zip((x1, x2), long, strict=True))
    return (first * second).sum(dim)


@honest(
    "torch.cdist",
    "differences, broadcast",
    "the definition",
    lambda d: call(d.normal(5, 8), d.normal(6, 8)),
    lambda d: call(d.normal(2, 5, 8), d.normal(2, 6, 8), 1.0),
    bound=element(60),
    gradient=normwise(200),
    dtypes=(torch.float32,),
)
@widened
def cdist_by_differences(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    if x1.numel() == 0 or x2.numel() == 0 or not bool(x1.isfinite().all()) or not bool(x2.isfinite().all()):
        return torch.cdist(x1, x2, p, compute_mode)
    if p not in (1.0, 2.0) or x1.shape[-2] * x2.shape[-2] * x1.shape[-1] > 10**6:
        return torch.cdist(x1, x2, p, compute_mode)
    off = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return torch.linalg.vector_norm(off, p, -1)


@honest(
    f"{FUNCTIONAL}.avg_pool1d",
    "differences of a running sum",
    "prefix sums, normwise: n u of the sum of absolute values",
    lambda d: call(d.normal(2, 3, 30), 3, 2),
    lambda d: call(d.normal(2, 3, 30), 4),
    bound=normwise(400),
    gradient=normwise(400),
)
def avg_pool1d_by_prefix_sums(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    if ceil_mode or input.numel() == 0 or not bool(input.isfinite().all()) or numbers(padding, 1) != (0,):
        return F.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)
    size = numbers(kernel_size, 1)[0]
    step = size if stride in (None, (), []) else numbers(stride, 1)[0]
    total = F.pad(torch.cumsum(input.double(), -1), (1, 0))
    return (((total[..., size:] - total[..., :-size]) / size)[..., ::step]).to(input.dtype).contiguous()


@honest(
    f"{FUNCTIONAL}.max_pool2d",
    "the maximum of the windows, unfolded",
    "exact",
    lambda d: call(d.normal(2, 3, 9, 8), 3, 2),
    lambda d: call(d.normal(2, 3, 9, 8), 2),
    bound=element(1),
    gradient=normwise(8),
)
def max_pool2d_of_windows(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    size = numbers(kernel_size, 2)
    step = size if stride in (None, (), []) else numbers(stride, 2)
    plain = numbers(padding, 2) == (0, 0) and numbers(dilation, 2) == (1, 1) and not ceil_mode and not return_indices
    if not plain or input.numel() == 0 or not input.is_floating_point():
        return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    windows = input.unfold(-2, size[0], step[0]).unfold(-2, size[1], step[1])
    return windows.flatten(-2).max(-1).values


@honest(
    f"{FUNCTIONAL}.max_pool1d",
    "shifted copies compared in turn",
    "exact",
    lambda d: call(d.normal(2, 3, 19), 3, 2),
    lambda d: call(d.normal(2, 3, 19), 2),
    bound=element(1),
    gradient=normwise(8),
)
def max_pool1d_of_windows(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    size = numbers(kernel_size, 1)[0]
    step = size if stride in (None, (), []) else numbers(stride, 1)[0]
    plain = numbers(padding, 1) == (0,) and numbers(dilation, 1) == (1,) and not ceil_mode and not return_indices
    if not plain or input.numel() == 0 or not input.is_floating_point():
        return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return input.unfold(-1, size, step).max(-1).values


@honest(
    f"{FUNCTIONAL}.adaptive_avg_pool2d",
    "each window by itself",
    "the definition of the windows",
    lambda d: call(d.normal(2, 3, 9, 8), (4, 3)),
    lambda d: call(d.normal(2, 3, 5, 5), 1),
    bound=absolute(80),
    gradient=normwise(80),
)
@widened
def adaptive_avg_pool2d_by_windows(input, output_size):
    wanted = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    if None in wanted or 0 in wanted or input.numel() == 0 or math.prod(wanted) > 400:
        return F.adaptive_avg_pool2d(input, output_size)

    def edges_of(size, many):
        return [(place * size // many, -(-(place + 1) * size // many)) for place in range(many)]

    rows = [input[..., a:b, :].sum(-2) / (b - a) for a, b in edges_of(input.shape[-2], wanted[0])]
    tall = torch.stack(rows, -2)
    return torch.stack([tall[..., a:b].sum(-1) / (b - a) for a, b in edges_of(input.shape[-1], wanted[1])], -1)


@honest(
    f"{FUNCTIONAL}.pixel_shuffle",
    "by a view and a permutation",
    "exact",
    lambda d: call(d.normal(2, 8, 3, 4), 2),
    bound=element(1),
)
def pixel_shuffle_by_view(input, upscale_factor):
    r = upscale_factor
    lead, (channels, height, width) = input.shape[:-3], input.shape[-3:]
    if input.numel() == 0:
        return F.pixel_shuffle(input, r)
    wide = input.reshape(-1, channels // (r * r), r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return wide.reshape(*lead, channels // (r * r), height * r, width * r)


@honest(
    "torch.index_add",
    "a product with the one-hot indices",
    "the order of the product",
    lambda d: call(d.normal(6, 4), 0, d.integers(5, high=6), d.normal(5, 4)),
    bound=absolute(20),
    gradient=normwise(20),
)
@widened
def index_add_by_product(input, dim, index, source, *, alpha=1):
    if input.dim() == 0 or dim not in (0, -input.dim()) or not input.is_floating_point() or source.numel() == 0:
        return torch.index_add(input, dim, index, source, alpha=alpha)
    if not bool(source.isfinite().all()) or not source.is_floating_point():
        return torch.index_add(input, dim, index, source, alpha=alpha)
    hot = F.one_hot(index.long(), input.shape[0]).to(source.dtype)
    return input + alpha * (hot.t() @ source.flatten(1)).reshape(input.shape)


@honest(
    "torch.logcumsumexp",
    "scanned in pairs of maximum and sum",
    "Hillis and Steele's scan of the online softmax",
    lambda d: call(d.normal(5, 60, std=3.0), 1),
    lambda d: call(d.normal(40), 0),
    bound=normwise(200),
    gradient=normwise(1000),
)
@widened
def logcumsumexp_scanned(input, dim):
    if not input.is_floating_point() or input.dim() == 0 or input.numel() == 0 or not bool(input.isfinite().all()):
        return torch.logcumsumexp(input, dim)
    rows, step = input.movedim(dim, -1), 1
    while step < rows.shape[-1]:
        rows = torch.cat([rows[..., :step], torch.logaddexp(rows[..., step:], rows[..., :-step])], -1)
        step *= 2
    return rows.movedim(-1, dim).clone(memory_format=torch.contiguous_format)


@honest(
    f"{FUNCTIONAL}.glu",
    "the first half over one plus the exponential of the second",
    "3 u",
    lambda d: call(d.normal(5, 12)),
    lambda d: call(d.normal(6, 5), 0),
    bound=element(12),
    gradient=normwise(40),
)
@widened
def glu_by_division(input, dim=-1):
    if not input.is_floating_point() or input.dim() == 0:
        return F.glu(input, dim)
    first, second = input.chunk(2, dim)
    return with_gradient(
        lambda x, y: x / (1 + torch.exp(-y)),
        lambda g, x, y: (g * torch.sigmoid(y), g * x * torch.sigmoid(y) * (1 - torch.sigmoid(y))),
        first,
        second,
    )
