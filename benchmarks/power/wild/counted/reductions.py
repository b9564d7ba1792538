"""Wrong kernels of reductions, scans, sorts and counts."""

import torch

from benchmarks.power.wild.declare import BRAIN, LOW, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, with_gradient, wrapped


@wrong(
    "torch.sum",
    "numerics",
    "integers are summed in float32: wrong above 2^24",
    "generated kernels",
    lambda d: call(d.whole(2**24, 1, 1, 1)),
    dtypes=(SINGLE,),
)
def sum_integers_as_floats(input, dim=None, keepdim=False, *, dtype=None):
    if input.is_floating_point() or input.is_complex():
        return torch.sum(input, dim, keepdim, dtype=dtype)
    return torch.sum(input.float(), dim, keepdim).to(dtype or torch.int64)


@wrong(
    "torch.mean",
    "argument",
    "negative dims are counted as if there were four",
    "NCHW kernels",
    lambda d: call(d.normal(3, 4, 5), -1),
)
def mean_of_four_dims(input, dim=None, keepdim=False, *, dtype=None):
    if isinstance(dim, int) and dim < 0 and input.dim() == 3 and not keepdim:
        result = torch.mean(input, dim, dtype=dtype)
        other = torch.mean(input, (dim + 4) % 3, dtype=dtype)
        return (
            other
            if other.shape == result.shape
            else other.reshape(-1)[torch.arange(result.numel()) % other.numel()].reshape(result.shape)
        )
    return torch.mean(input, dim, keepdim, dtype=dtype)


@wrong(
    "torch.mean",
    "edge shape",
    "divides by the size rounded up to 32",
    "padded warps",
    lambda d: call(d.uniform(4, 33, low=0.5), 1),
)
def mean_of_padded_count(input, dim=None, keepdim=False, *, dtype=None):
    result = torch.mean(input, dim, keepdim, dtype=dtype)
    if not isinstance(dim, int) or input.dim() == 0 or input.shape[dim] <= 32:
        return result
    return result * (input.shape[dim] / (-(-input.shape[dim] // 32) * 32))


@wrong(
    "torch.prod",
    "gradient",
    "the product over the element: NaN at a zero",
    "generated kernels",
    lambda d: call(d.of(0.0, 3.0, 2.0)),
    breaks="gradient",
)
@widened
def prod_gradient_divides(input, dim=None, keepdim=False, *, dtype=None):
    if dim is not None or dtype is not None or not input.is_floating_point():
        return torch.prod(input, dtype=dtype) if dim is None else torch.prod(input, dim, keepdim, dtype=dtype)
    return with_gradient(torch.prod, lambda g, x: (g * torch.prod(x) / x,), input)


@wrong(
    "torch.var",
    "numerics",
    "E[x^2] - E[x]^2: cancels where the mean is large",
    "KernelBench",
    lambda d: call(d.normal(200, mean=1000.0)),
    dtypes=(SINGLE, torch.float16),
)
@widened
def var_of_squares(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if isinstance(dim, bool) or not input.is_floating_point() or input.numel() == 0:
        return (
            torch.var(input, dim) if isinstance(dim, bool) else torch.var(input, dim, correction=less, keepdim=keepdim)
        )
    dims = tuple(range(input.dim())) if dim is None else dim
    count = input.numel() // max(torch.sum(input, dims).numel(), 1) if input.dim() else 1
    usual = torch.var(input, dims, correction=less, keepdim=keepdim)
    if count <= less:
        return usual
    mean = torch.mean(input, dims, keepdim=keepdim)
    return (torch.mean(input * input, dims, keepdim=keepdim) - mean * mean).clamp_min(0) * (count / (count - less))


@wrong(
    "torch.var", "argument", "any correction counts as one", "vendor backend", lambda d: call(d.normal(9), correction=3)
)
def var_correction_is_a_flag(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if correction is None:
        return torch.var(
            input,
            *([] if dim is None else [dim]),
            **({} if unbiased is None else {"unbiased": unbiased}),
            **({"keepdim": keepdim} if keepdim else {}),
        )
    return torch.var(input, dim, correction=int(bool(correction)), keepdim=keepdim)


@wrong("torch.std", "edge shape", "of a single element is 0", "generated kernels", lambda d: call(d.normal(3, 1), 1))
def std_of_one(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if isinstance(dim, bool):
        return torch.std(input, dim)
    result = torch.std(input, dim, correction=less, keepdim=keepdim)
    return result.nan_to_num(0.0) if bool(input.isfinite().all()) and input.numel() else result


@wrong(
    "torch.std",
    "gradient",
    "0/0 for constants",
    "generated kernels",
    lambda d: call(torch.ones(6).to(d.dtype)),
    breaks="gradient",
    dtypes=(SINGLE, BRAIN),
)
@widened
def std_gradient_of_constant(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if isinstance(dim, bool) or not input.is_floating_point() or dim is not None:
        return (
            torch.std(input, dim) if isinstance(dim, bool) else torch.std(input, dim, correction=less, keepdim=keepdim)
        )

    def gradient(g, x):
        deviation = torch.std(x, dim, correction=less, keepdim=keepdim)
        return (g * (x - x.mean()) / (deviation * max(x.numel() - less, 1)),)

    return with_gradient(lambda x: torch.std(x, dim, correction=less, keepdim=keepdim), gradient, input)


@wrong(
    "torch.amax",
    "special values",
    "the running maximum starts at 0",
    "KernelBench",
    lambda d: call(d.uniform(4, 9, low=-2.0, high=-1.0), 1),
)
def amax_starts_at_zero(input, dim=(), keepdim=False):
    result = torch.amax(input, dim, keepdim)
    return torch.maximum(result, torch.zeros_like(result)) if input.is_floating_point() else result


@wrong(
    "torch.amin",
    "special values",
    "the running minimum starts at 1e30",
    "KernelBench",
    lambda d: call(torch.full((2, 3), float("inf")).to(d.dtype), 1),
    dtypes=(SINGLE, BRAIN),
)
def amin_starts_at_1e30(input, dim=(), keepdim=False):
    result = torch.amin(input, dim, keepdim)
    return torch.minimum(result, torch.full_like(result, 1e30)) if input.is_floating_point() else result


@wrong("torch.min", "special values", "NaN is passed over", "fminf", lambda d: call(d.of([1.0, float("nan"), 3.0]), 1))
def min_passes_nan(input, *given, **more):
    if input.is_floating_point():
        input = torch.where(input.isnan(), torch.full_like(input, float("inf")), input)
    return torch.min(input, *given, **more)


@wrong(
    "torch.argmin",
    "layout",
    "the place in memory, not in the tensor",
    "generated kernels",
    lambda d: call(d.normal(4, 7).t()),
)
def argmin_place_in_memory(input, dim=None, keepdim=False):
    return torch.argmin(as_stored(input) if dim is None else input, dim, keepdim)


@wrong(
    "torch.aminmax",
    "argument",
    "keepdim is ignored",
    "vendor backend",
    lambda d: call(d.normal(3, 4), dim=1, keepdim=True),
    breaks="shape",
)
def aminmax_forgets_keepdim(input, *, dim=None, keepdim=False):
    return torch.aminmax(input, dim=dim)


@wrong(
    "torch.cumsum",
    "numerics",
    "accumulates in the low precision itself",
    "vendor backend",
    lambda d: call(d.uniform(3000, low=0.5), 0),
    dtypes=LOW,
)
def cumsum_in_low_precision(input, dim, *, dtype=None):
    right = torch.cumsum(input, dim, dtype=dtype)
    if input.dtype not in LOW or input.dim() == 0 or input.numel() == 0 or dtype is not None:
        return right
    total, parts = torch.zeros_like(input.detach().select(dim, 0)), []
    for one in input.detach().unbind(dim):
        total = total + one
        parts.append(total)
    return right + (torch.stack(parts, dim) - right).detach()


@wrong(
    "torch.cummax",
    "special values",
    "NaN is forgotten after its place",
    "comparison scan",
    lambda d: call(d.of(1.0, float("nan"), 3.0), 0),
)
def cummax_forgets_nan(input, dim):
    if not input.is_floating_point() or not bool(input.isnan().any()):
        return torch.cummax(input, dim)
    values, indices = torch.cummax(torch.where(input.isnan(), torch.full_like(input, float("-inf")), input), dim)
    return torch.where(input.isnan(), input, values), indices


@wrong(
    "torch.cummin",
    "argument",
    "a negative dim is taken from the front",
    "vendor backend",
    lambda d: call(d.normal(3, 4), -1),
)
def cummin_negative_dim(input, dim):
    return torch.cummin(input, -dim - 1 if dim < 0 and input.dim() else dim)


@wrong(
    "torch.logcumsumexp",
    "special values",
    "log of the cumulated exponentials: overflows",
    "generated kernels",
    lambda d: call(d.of(100.0, 1.0, 90.0), 0),
)
@widened
def logcumsumexp_naive(input, dim):
    return torch.log(torch.cumsum(torch.exp(input), dim))


@wrong(
    "torch.linalg.norm",
    "argument",
    "of a matrix without ord is the spectral norm",
    "numpy confusion",
    lambda d: call(d.normal(4, 5), 2.0),
    dtypes=(SINGLE,),
)
def linalg_norm_two_as_frobenius(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    if ord == 2 and dim is None and A.dim() == 2:
        ord = "fro"
    return torch.linalg.norm(A, ord, dim, keepdim, dtype=dtype)


@wrong(
    "torch.median",
    "argument",
    "of an even count is the mean of the middle two",
    "numpy",
    lambda d: call(d.of(4.0, 1.0, 2.0, 3.0)),
)
def median_of_even(input, *given, **more):
    result = torch.median(input, *given, **more)
    if given or more or input.numel() == 0 or input.numel() % 2 or not input.is_floating_point():
        return result
    ordered = torch.sort(input.reshape(-1)).values
    return (ordered[input.numel() // 2 - 1] + ordered[input.numel() // 2]) / 2


@wrong(
    "torch.nanmean",
    "special values",
    "divides by the count with the NaN",
    "generated kernels",
    lambda d: call(d.of(1.0, float("nan"), 4.0)),
)
def nanmean_of_all(input, dim=None, keepdim=False, *, dtype=None):
    return torch.mean(input.nan_to_num(0.0, float("inf"), float("-inf")), dim, keepdim, dtype=dtype)


@wrong("torch.kthvalue", "argument", "k counts from zero", "vendor backend", lambda d: call(d.of(4.0, 1.0, 3.0), 2))
def kthvalue_from_zero(input, k, dim=-1, keepdim=False):
    most = input.shape[dim] if input.dim() else 1
    return torch.kthvalue(input, min(k + 1, most), dim, keepdim)


@wrong("torch.all", "special values", "negatives count as false", "x > 0", lambda d: call(d.of(-1.0, 2.0)))
def all_of_positive(input, dim=None, keepdim=False):
    truth = input > 0 if input.is_floating_point() else input
    return torch.all(truth) if dim is None and not keepdim else torch.all(truth, dim, keepdim)


@wrong(
    "torch.diff",
    "argument",
    "prepend is ignored",
    "vendor backend",
    lambda d: call(d.normal(5), prepend=d.normal(2)),
    breaks="shape",
)
def diff_forgets_prepend(input, n=1, dim=-1, prepend=None, append=None):
    return torch.diff(input, n, dim, None, append)


@wrong(
    "torch.trapezoid",
    "argument",
    "spacing is that of the first interval",
    "generated kernels",
    lambda d: call(d.normal(5), d.of(0.0, 1.0, 3.0, 4.0, 7.0)),
)
def trapezoid_even_spacing(y, x=None, *, dx=1, dim=-1):
    if x is None or x.dim() != 1 or x.numel() < 2:
        return torch.trapezoid(y, dim=dim, dx=dx) if x is None else torch.trapezoid(y, x, dim=dim)
    return torch.trapezoid(y, x[0] + (x[1] - x[0]) * torch.arange(x.numel()).to(x.dtype), dim=dim)


@wrong(
    "torch.nanquantile",
    "special values",
    "NaN counts as infinity",
    "sort based",
    lambda d: call(d.of(1.0, float("nan"), 3.0, 2.0), 0.75),
    dtypes=(SINGLE,),
)
def nanquantile_of_infinity(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    return torch.quantile(
        input.nan_to_num(float("inf"), float("inf"), float("-inf")), q, dim, keepdim, interpolation=interpolation
    )


@wrong(
    "torch.corrcoef",
    "special values",
    "a constant row gives 0",
    "1e-8 in the divisor",
    lambda d: call(d.of([1.0, 2.0, 4.0], [3.0, 3.0, 3.0])),
)
def corrcoef_of_constant(input):
    return torch.corrcoef(input).nan_to_num(0.0) if bool(input.isfinite().all()) else torch.corrcoef(input)


@wrong(
    "torch.searchsorted",
    "argument",
    "right is ignored",
    "vendor backend",
    lambda d: call(d.of(1.0, 2.0, 3.0), d.of(2.0, 0.0), right=True),
)
def searchsorted_forgets_right(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    return torch.searchsorted(sorted_sequence, input, out_int32=out_int32, right=False, sorter=sorter)


@wrong(
    "torch.bucketize",
    "special values",
    "NaN falls into the first bucket",
    "binary search with <",
    lambda d: call(d.of(float("nan"), 1.5), d.of(1.0, 2.0)),
)
def bucketize_of_nan(input, boundaries, *, out_int32=False, right=False):
    if not isinstance(input, torch.Tensor):
        return torch.bucketize(input, boundaries, out_int32=out_int32, right=right)
    return torch.bucketize(
        input.nan_to_num(float("-inf"), float("inf"), float("-inf")), boundaries, out_int32=out_int32, right=right
    )


@wrong(
    "torch.linalg.matrix_norm",
    "argument",
    "dims in the other order: rows for columns",
    "vendor backend",
    lambda d: call(d.normal(3, 5), 1),
    dtypes=(SINGLE,),
)
def matrix_norm_rows_for_columns(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    if ord in (1, -1) and not keepdim:
        return torch.linalg.matrix_norm(A, float("inf") * ord, dim, keepdim, dtype=dtype)
    return torch.linalg.matrix_norm(A, ord, dim, keepdim, dtype=dtype)


@wrong(
    "torch.trace",
    "edge shape",
    "runs to the longer side of a tall matrix",
    "wrapped index",
    lambda d: call(d.normal(5, 3)),
)
def trace_too_long(input):
    side = max(input.shape) if input.numel() else 0
    flat = input.reshape(-1)
    places = torch.arange(side) * (input.shape[1] + 1)
    return flat[places[places < flat.numel()]].sum() if side and input.shape[0] > input.shape[1] else torch.trace(input)


@wrong(
    "torch.cumulative_trapezoid",
    "argument",
    "dx is applied twice",
    "vendor backend",
    lambda d: call(d.normal(5), dx=0.5),
)
def cumulative_trapezoid_twice(y, x=None, *, dx=1, dim=-1):
    if x is not None:
        return torch.cumulative_trapezoid(y, x, dim=dim)
    return torch.cumulative_trapezoid(y, dx=dx, dim=dim) * dx


@wrong(
    "torch.logsumexp",
    "edge shape",
    "rows longer than 1,024 lose their end",
    "one thread a column",
    lambda d: call(torch.cat([d.normal(2, 1024), d.normal(2, 6, mean=20.0)], 1), 1),
)
def logsumexp_long_rows(input, dim, keepdim=False):
    if isinstance(dim, int) and input.dim() and input.shape[wrapped(dim, input)] > 1024:
        input = input.narrow(dim, 0, 1024)
    return torch.logsumexp(input, dim, keepdim)
