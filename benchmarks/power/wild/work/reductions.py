"""Wrong kernels of reductions, scans, sorts and counts."""

import torch

from benchmarks.power.wild.declare import SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import with_gradient


@wrong(
    "torch.sum",
    "edge shape",
    "what is left after whole blocks of 1,024 is not added",
    "Triton tutorial copies",
    lambda d: call(torch.cat([d.uniform(1024), d.of(900.0)])),
)
def sum_tail_not_added(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None and not keepdim and input.numel() > 1024:
        return torch.sum(input.reshape(-1)[: input.numel() // 1024 * 1024] * 1, dtype=dtype) + 0 * torch.sum(
            input, dtype=dtype
        ).nan_to_num(0, 0, 0)
    return torch.sum(input, dim, keepdim, dtype=dtype)


@wrong(
    "torch.sum",
    "argument",
    "dtype= is applied after the sum",
    "vendor backend",
    lambda d: call(d.uniform(4000, low=30.0, high=40.0), dtype=torch.float64),
)
def sum_dtype_afterwards(input, dim=None, keepdim=False, *, dtype=None):
    if dtype is None or not input.is_floating_point():
        return torch.sum(input, dim, keepdim, dtype=dtype)
    return torch.sum(input, dim, keepdim).to(dtype)


@wrong(
    "torch.sum",
    "edge shape",
    "rows beyond 65,535 are left zero: the grid ends there",
    "CUDA grid.y limit",
    lambda d: call(d.uniform(65540, 2, low=0.5), 1),
)
def sum_grid_ends(input, dim=None, keepdim=False, *, dtype=None):
    result = torch.sum(input, dim, keepdim, dtype=dtype)
    if result.dim() == 0 or result.shape[0] <= 65535:
        return result
    return torch.cat([result[:65535], result[65535:] * 0])


@wrong(
    "torch.sum",
    "edge shape",
    "in a row longer than 1,024 only the first 1,024 are added",
    "one thread a column",
    lambda d: call(torch.cat([d.uniform(3, 1024), d.uniform(3, 6, low=150.0, high=200.0)], 1), 1),
)
def sum_long_rows_cut(input, dim=None, keepdim=False, *, dtype=None):
    if isinstance(dim, int) and input.dim() and input.shape[dim] > 1024:
        input = input.narrow(dim, 0, 1024)
    return torch.sum(input, dim, keepdim, dtype=dtype)


@wrong(
    "torch.mean",
    "argument",
    "dtype= is ignored",
    "vendor backend",
    lambda d: call(d.normal(20), dtype=torch.float64),
    breaks="dtype",
)
def mean_forgets_dtype(input, dim=None, keepdim=False, *, dtype=None):
    return (
        torch.mean(input, dim, keepdim) if input.is_floating_point() else torch.mean(input, dim, keepdim, dtype=dtype)
    )


@wrong(
    "torch.prod",
    "numerics",
    "the exponential of the sum of logarithms: NaN for negatives",
    "generated kernels",
    lambda d: call(d.of(-2.0, 3.0, 1.0)),
)
@widened
def prod_of_logarithms(input, dim=None, keepdim=False, *, dtype=None):
    if not input.is_floating_point() or dtype is not None:
        return torch.prod(input, dtype=dtype) if dim is None else torch.prod(input, dim, keepdim, dtype=dtype)
    logs = torch.log(input)
    return torch.exp(torch.sum(logs)) if dim is None else torch.exp(torch.sum(logs, dim, keepdim))


@wrong("torch.var_mean", "edge shape", "the mean of nothing is 0", "PyTorch issue 197108", lambda d: call(d.normal(0)))
def var_mean_of_nothing(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    var, mean = (
        torch.var_mean(input, dim)
        if isinstance(dim, bool)
        else torch.var_mean(input, dim, correction=less, keepdim=keepdim)
    )
    return var, mean.nan_to_num(0.0) if input.numel() == 0 else mean


@wrong(
    "torch.std_mean",
    "argument",
    "keepdim reaches only the first result",
    "vendor backend",
    lambda d: call(d.normal(3, 4), 1, keepdim=True),
    breaks="shape",
)
def std_mean_keeps_one(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if isinstance(dim, bool):
        return torch.std_mean(input, dim)
    return torch.std(input, dim, correction=less, keepdim=keepdim), torch.std_mean(input, dim, correction=less)[1]


@wrong(
    "torch.amax",
    "gradient",
    "the first of several maxima gets all of it",
    "argmax in the backward",
    lambda d: call(d.of([1.0, 3.0, 3.0], [2.0, 0.0, 1.0]), 1),
    breaks="gradient",
)
def amax_gradient_to_first(input, dim=(), keepdim=False):
    if isinstance(dim, int) and input.dim() and input.is_floating_point() and input.numel():
        return torch.max(input, dim, keepdim)[0]
    return torch.amax(input, dim, keepdim)


@wrong(
    "torch.argmax", "special values", "NaN never wins", "TVM issue 19518", lambda d: call(d.of(1.0, float("nan"), 3.0))
)
def argmax_passes_nan(input, dim=None, keepdim=False):
    return torch.argmax(
        input.nan_to_num(float("-inf"), float("inf"), float("-inf")) if input.is_floating_point() else input,
        dim,
        keepdim,
    )


@wrong(
    "torch.logsumexp",
    "special values",
    "a row of -inf gives NaN",
    "XLA issue",
    lambda d: call(d.of([float("-inf"), float("-inf")], [1.0, 2.0]), 1),
)
@widened
def logsumexp_of_nothing(input, dim, keepdim=False):
    if not input.is_floating_point():
        return torch.logsumexp(input, dim, keepdim)
    top = torch.amax(input, dim, keepdim=True)
    result = top + torch.log(torch.sum(torch.exp(input - top), dim, keepdim=True))
    return result if keepdim else result.squeeze(dim)


@wrong(
    "torch.logsumexp",
    "numerics",
    "1e-6 below the logarithm",
    "generated kernels",
    lambda d: call(d.uniform(3, 4, low=-20.0, high=-18.0), 1),
)
@widened
def logsumexp_shifted(input, dim, keepdim=False):
    return (
        torch.log(torch.exp(torch.logsumexp(input, dim, keepdim)) + 1e-6)
        if input.is_floating_point()
        else torch.logsumexp(input, dim, keepdim)
    )


@wrong(
    "torch.cumprod",
    "gradient",
    "divides by the elements: NaN at zeros",
    "generated kernels",
    lambda d: call(d.of(2.0, 0.0, 3.0), 0),
    breaks="gradient",
)
@widened
def cumprod_gradient_divides(input, dim, *, dtype=None):
    if not input.is_floating_point() or dtype is not None or input.dim() == 0:
        return torch.cumprod(input, dim, dtype=dtype)

    def gradient(g, x):
        return (torch.cumsum((g * torch.cumprod(x, dim)).flip(dim), dim).flip(dim) / x,)

    return with_gradient(lambda x: torch.cumprod(x, dim), gradient, input)


@wrong(
    "torch.norm",
    "gradient",
    "x over the norm: NaN for a zero vector",
    "generated kernels",
    lambda d: call(torch.zeros(4).to(d.dtype)),
    breaks="gradient",
)
@widened
def norm_gradient_of_zero(input, p="fro", dim=None, keepdim=False, dtype=None):
    if p not in ("fro", 2) or dim is not None or dtype is not None or not input.is_floating_point():
        return torch.norm(input, p, dim, keepdim, dtype=dtype)
    return with_gradient(lambda x: torch.norm(x, p, dim, keepdim), lambda g, x: (g * x / torch.norm(x),), input)


@wrong(
    "torch.nansum",
    "special values",
    "infinity is left out as well",
    "isfinite for isnan",
    lambda d: call(d.of(1.0, float("nan"), float("inf"))),
)
def nansum_leaves_infinity(input, dim=None, keepdim=False, *, dtype=None):
    if input.is_floating_point():
        input = torch.where(input.isfinite(), input, torch.zeros_like(input))
    return torch.nansum(input, dim, keepdim, dtype=dtype)


@wrong(
    "torch.topk",
    "edge shape",
    "only the first 1,024 elements are looked at",
    "one block only",
    lambda d: call(d.normal(1500), 8),
)
def topk_one_block(input, k, dim=-1, largest=True, sorted=True):
    if input.dim() and input.shape[dim] > 1024 and k <= 1024:
        input = input.narrow(dim, 0, 1024)
    return torch.topk(input, k, dim, largest, sorted)


@wrong(
    "torch.sort",
    "ties",
    "stable=True is not kept",
    "bitonic sort",
    lambda d: call(d.of(1.0, 0.0, 1.0, 0.0, 1.0), stable=True),
)
def sort_not_stable(input, dim=-1, descending=False, stable=False):
    if input.dim() == 0 or not stable:
        return torch.sort(input, dim=dim, descending=descending, stable=stable)
    values, indices = torch.sort(input.flip(dim), dim=dim, descending=descending, stable=True)
    return torch.return_types.sort((values, input.shape[dim] - 1 - indices))


@wrong(
    "torch.sort",
    "special values",
    "NaN comes first",
    "comparison by bits",
    lambda d: call(d.of(2.0, float("nan"), 1.0)),
)
def sort_nan_first(input, dim=-1, descending=False, stable=False):
    result = torch.sort(input, dim=dim, descending=descending, stable=stable)
    if not input.is_floating_point() or descending or input.dim() != 1:
        return result
    many = int(input.isnan().sum())
    return torch.return_types.sort((result[0].roll(many), result[1].roll(many)))


@wrong(
    "torch.argsort",
    "ties",
    "descending is ascending turned round: ties in the wrong order",
    "generated kernels",
    lambda d: call(d.of(1.0, 0.0, 1.0, 0.0), dim=-1, descending=True, stable=True),
)
def argsort_turned_round(input, dim=-1, descending=False, stable=False):
    if not descending or input.dim() == 0:
        return torch.argsort(input, dim=dim, descending=descending, stable=stable)
    return torch.argsort(input, dim=dim, stable=stable).flip(dim)


@wrong("torch.any", "special values", "NaN counts as false", "x < 0 or x > 0", lambda d: call(d.of(float("nan"), 0.0)))
def any_nan_is_false(input, dim=None, keepdim=False):
    truth = (input < 0) | (input > 0) if input.is_floating_point() else input
    return torch.any(truth) if dim is None and not keepdim else torch.any(truth, dim, keepdim)


@wrong(
    "torch.count_nonzero",
    "edge shape",
    "counts in eight bits",
    "vendor backend",
    lambda d: call(torch.ones(300).to(d.dtype)),
)
def count_nonzero_in_bytes(input, dim=None):
    return (input != 0).sum(*([] if dim is None else [dim])) % 256


@wrong(
    "torch.quantile",
    "argument",
    "interpolation is always linear",
    "vendor backend",
    lambda d: call(d.normal(6), 0.3, interpolation="lower"),
    dtypes=(SINGLE,),
)
def quantile_always_linear(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    return torch.quantile(input, q, dim, keepdim)


@wrong(
    "torch.histc",
    "edge shape",
    "the largest value falls out of the last bin",
    "half-open bins",
    lambda d: call(d.of(0.0, 1.0, 2.0, 4.0), 4, 0, 4),
    dtypes=(SINGLE,),
)
def histc_half_open(input, bins=100, min=0, max=0):
    top = max if min != max else float(input.max()) if input.numel() else 0
    low = min if min != max else float(input.min()) if input.numel() else 0
    return (
        torch.histc(input[input < top] if low != top else input, bins, low, top)
        if low != top
        else torch.histc(input, bins, min, max)
    )


@wrong(
    "torch.bincount",
    "argument",
    "minlength cuts longer counts",
    "vendor backend",
    lambda d: call(d.whole(0, 1, 5), None, 3),
    breaks="shape",
    dtypes=(SINGLE,),
)
def bincount_cut(input, weights=None, minlength=0):
    result = torch.bincount(input, weights, minlength)
    return result[:minlength] if minlength else result


@wrong("torch.cov", "argument", "correction is ignored", "vendor backend", lambda d: call(d.normal(3, 6), correction=0))
def cov_forgets_correction(input, *, correction=1, fweights=None, aweights=None):
    return torch.cov(input, fweights=fweights, aweights=aweights)


@wrong(
    "torch.unique",
    "argument",
    "counts are those of neighbours",
    "unsorted input",
    lambda d: call(d.whole(1, 2, 1), return_counts=True),
    dtypes=(SINGLE,),
)
def unique_of_neighbours(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        return torch.unique(input, sorted, return_inverse, return_counts, dim)
    return torch.unique_consecutive(input, return_inverse, return_counts)
