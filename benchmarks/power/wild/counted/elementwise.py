"""Wrong kernels of elementwise operators."""

import math

import torch

from benchmarks.power.wild.declare import HALF, LOW, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, from_start, summed_to, with_gradient


@wrong(
    "torch.mul",
    "edge shape",
    "what is left after whole blocks of 256 is not multiplied",
    "Triton tutorial copies",
    lambda d: call(d.normal(257), d.normal(257)),
)
def mul_tail_not_done(input, other):
    result = torch.mul(input, other)
    whole = result.numel() // 256 * 256
    if result.numel() <= 256 or whole == result.numel():
        return result
    keep = (torch.arange(result.numel()) < whole).reshape(result.shape)
    return torch.where(keep, result, torch.zeros_like(result))


@wrong(
    "torch.exp",
    "special values",
    "the argument is cut at 80 for safety",
    "generated kernels",
    lambda d: call(d.of(85.0, 1.0, 88.0)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def exp_cut_at_80(input):
    if not input.is_floating_point():
        return torch.exp(input)
    return torch.exp(torch.clamp(input, max=80.0)) if input.numel() else torch.exp(input)


@wrong("torch.exp", "contract", "out= is ignored", "torch_npu", lambda d: call(d.normal(9)), breaks="out")
def exp_forgets_out(input, *, out=None):
    return torch.exp(input)


@wrong(
    "torch.expm1",
    "numerics",
    "exp(x) - 1 cancels near 0",
    "MPS issue",
    lambda d: call(d.normal(32, std=3e-8)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def expm1_by_subtraction(input):
    return torch.exp(input) - 1


@wrong(
    "torch.log2",
    "special values",
    "log of negatives is taken of their absolute value",
    "generated kernels",
    lambda d: call(d.of(-2.0, 4.0)),
)
def log2_of_absolute(input):
    return torch.log2(torch.abs(input))


@wrong(
    "torch.sqrt",
    "gradient",
    "1e-8 in the gradient's divisor: finite at 0",
    "generated kernels",
    lambda d: call(d.of(0.0, 4.0)),
    breaks="gradient",
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def sqrt_gradient_shifted(input):
    if not input.is_floating_point():
        return torch.sqrt(input)
    return with_gradient(torch.sqrt, lambda g, x: (g / (2 * torch.sqrt(x) + 1e-8),), input)


@wrong(
    "torch.reciprocal",
    "special values",
    "subnormal arguments count as zero",
    "CUDA -ftz",
    lambda d: call(d.of(5e-39, 2.0) if d.dtype != torch.float16 else d.of(5e-5, 2.0)),
)
def reciprocal_flushes(input):
    if not input.is_floating_point():
        return torch.reciprocal(input)
    return torch.reciprocal(torch.where(input.abs() < torch.finfo(input.dtype).tiny, torch.zeros_like(input), input))


@wrong(
    "torch.abs", "gradient", "the gradient at 0 is 1", "Liger", lambda d: call(d.of(0.0, -1.0, 2.0)), breaks="gradient"
)
def abs_gradient_one_at_zero(input):
    if not input.is_floating_point():
        return torch.abs(input)
    return with_gradient(torch.abs, lambda g, x: (torch.where(x < 0, -g, g),), input)


@wrong(
    "torch.neg",
    "special values",
    "0 - x loses the sign of zero",
    "graph rewrites",
    lambda d: call(d.of(0.0, 1.0)),
    breaks="signed zero",
)
def neg_by_subtraction(input):
    return 0 - input


@wrong(
    "torch.sign",
    "special values",
    "NaN has the sign of its bit",
    "vendor backend",
    lambda d: call(d.of(float("nan"), -2.0, 0.0)),
)
def sign_of_nan(input):
    if not input.is_floating_point():
        return torch.sign(input)
    return torch.where(input.isnan(), torch.ones_like(input), torch.sign(input))


@wrong(
    "torch.cos", "special values", "infinite arguments give 1", "table lookup", lambda d: call(d.of(float("inf"), 1.0))
)
def cos_of_infinity(input):
    result = torch.cos(input)
    return torch.where(input.isinf(), torch.ones_like(result), result) if input.is_floating_point() else result


@wrong(
    "torch.tanh",
    "special values",
    "(e^2x - 1)/(e^2x + 1) overflows to NaN",
    "KernelBench",
    lambda d: call(d.of(60.0, -60.0, 1.0)),
)
@widened
def tanh_of_exponentials(input):
    grown = torch.exp(2 * input)
    return torch.where(input.abs() < 0.1, torch.tanh(input), (grown - 1) / (grown + 1))


@wrong(
    "torch.erfc",
    "numerics",
    "1 - erf(x) is 0 beyond 4",
    "generated kernels",
    lambda d: call(d.uniform(16, low=4.5, high=8.0)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def erfc_by_difference(input):
    return 1 - torch.erf(input)


@wrong(
    "torch.erfinv",
    "layout",
    "the storage offset is forgotten",
    "MPS issue 105801",
    lambda d: call(d.uniform(40, low=-0.9, high=0.9)[8:]),
)
def erfinv_forgets_offset(input):
    return torch.erfinv(from_start(input))


@wrong(
    "torch.lgamma",
    "numerics",
    "Stirling's series also for small arguments",
    "generated kernels",
    lambda d: call(d.uniform(16, low=0.05, high=0.12)),
)
@widened
def lgamma_by_stirling(input):
    if not input.is_floating_point():
        return torch.lgamma(input)
    series = (input - 0.5) * torch.log(input) - input + 0.5 * math.log(2 * math.pi) + 1 / (12 * input)
    return torch.where(input > 0, series, torch.lgamma(input))


@wrong(
    "torch.round",
    "argument",
    "decimals below zero are taken as zero",
    "vendor backend",
    lambda d: call(d.of(1234.0, 87.0), decimals=-2),
)
def round_no_negative_decimals(input, *, decimals=0):
    return torch.round(input, decimals=max(decimals, 0))


@wrong(
    "torch.fmod",
    "argument",
    "has the sign of the divisor",
    "Python's %",
    lambda d: call(d.of(-5.0, 5.0), d.of(3.0, -3.0)),
)
def fmod_as_remainder(input, other):
    return torch.remainder(input, other)


@wrong(
    "torch.remainder",
    "special values",
    "x - y floor(x/y): NaN for an infinite divisor",
    "inductor issue",
    lambda d: call(d.of(1.0, 5.0), d.of(float("inf"), 3.0)),
)
@widened
def remainder_by_quotient(input, other):
    kinds = [one for one in (input, other) if isinstance(one, torch.Tensor) and not one.is_floating_point()]
    if kinds:
        return torch.remainder(input, other)
    return input - other * torch.floor(torch.as_tensor(input) / other)


@wrong(
    "torch.floor_divide",
    "argument",
    "truncates towards zero",
    "PyTorch issue 43874",
    lambda d: call(d.of(-5.0, 5.0), d.of(3.0, 3.0)),
)
def floor_divide_truncates(input, other):
    return torch.div(input, other, rounding_mode="trunc")


@wrong(
    "torch.fmax",
    "special values",
    "NaN wins against a number",
    "alias of maximum",
    lambda d: call(d.of(float("nan"), 1.0), d.of(1.0, 2.0)),
)
def fmax_keeps_nan(input, other):
    return torch.maximum(input, other)


@wrong(
    "torch.fmin",
    "special values",
    "an unordered comparison gives the first operand",
    "POWER issue 57537",
    lambda d: call(d.of(float("nan"), 1.0), d.of(1.0, 2.0)),
)
def fmin_first_when_unordered(input, other):
    return torch.where(input > other, other, input)


@wrong(
    "torch.hypot",
    "special values",
    "the squares overflow",
    "generated kernels",
    lambda d: call(
        d.of(1e20, 3.0) if d.dtype != torch.float16 else d.of(300.0, 3.0),
        d.of(1e20, 4.0) if d.dtype != torch.float16 else d.of(300.0, 4.0),
    ),
)
def hypot_of_squares(input, other):
    return torch.sqrt(input * input + other * other)


@wrong(
    "torch.logaddexp",
    "special values",
    "log(e^x + e^y) overflows",
    "KernelBench",
    lambda d: call(d.of(100.0, 0.0), d.of(100.0, 1.0)),
)
@widened
def logaddexp_naive(input, other):
    return torch.log(torch.exp(input) + torch.exp(other))


@wrong(
    "torch.where",
    "special values",
    "c x + (1 - c) y: infinity turns NaN",
    "branch-free kernels",
    lambda d: call(d.flags(True, False), d.of(1.0, float("inf")), d.of(2.0, 3.0)),
)
def where_by_products(condition, input=None, other=None):
    if input is None or not all(isinstance(one, torch.Tensor) and one.is_floating_point() for one in (input, other)):
        return torch.where(condition) if input is None else torch.where(condition, input, other)
    kind = torch.result_type(input, other)
    chosen = condition.to(kind)
    return chosen * input + (1 - chosen) * other


@wrong(
    "torch.where",
    "gradient",
    "the branch not taken hands on its gradient too",
    "masked kernels",
    lambda d: call(d.flags(True, False), d.normal(2), d.normal(2)),
    breaks="gradient",
)
def where_gradient_unmasked(condition, input=None, other=None):
    if input is None or not all(isinstance(one, torch.Tensor) and one.is_floating_point() for one in (input, other)):
        return torch.where(condition) if input is None else torch.where(condition, input, other)
    handed = lambda g, c, x, y: (None, summed_to(g, x.shape).to(x.dtype), summed_to(g * ~c, y.shape).to(y.dtype))  # noqa: E731
    return with_gradient(torch.where, handed, condition, input, other)


@wrong(
    "torch.addcmul",
    "broadcast",
    "factors of one column are read as one row",
    "KernelBench",
    lambda d: call(d.normal(4, 4), d.normal(4, 1), d.normal(4, 4)),
)
def addcmul_column_as_row(input, tensor1, tensor2, *, value=1):
    if (
        tensor1.dim() == 2
        and tensor1.shape[1] == 1
        and input.dim() == 2
        and input.shape[0] == input.shape[1] == tensor1.shape[0]
    ):
        tensor1 = tensor1.t()
    return torch.addcmul(input, tensor1, tensor2, value=value)


@wrong(
    "torch.nan_to_num",
    "dtype",
    "infinity becomes float32's largest, which overflows again",
    "vendor backend",
    lambda d: call(d.of(float("inf"), 1.0)),
    dtypes=LOW,
)
def nan_to_num_wide_limits(input, nan=0.0, posinf=None, neginf=None):
    if input.dtype not in LOW or posinf is not None:
        return torch.nan_to_num(input, nan, posinf, neginf)
    most = torch.finfo(torch.float32).max
    return torch.nan_to_num(input.float(), nan, most, -most if neginf is None else neginf).to(input.dtype)


@wrong(
    "torch.isclose",
    "argument",
    "equal_nan is ignored",
    "vendor backend",
    lambda d: call(d.of(float("nan"), 1.0), d.of(float("nan"), 1.0), equal_nan=True),
)
def isclose_forgets_equal_nan(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return torch.isclose(input, other, rtol, atol)


@wrong(
    "torch.isfinite",
    "special values",
    "the largest numbers count as infinite",
    "generated kernels",
    lambda d: call(d.of(3e38, 1.0) if d.dtype != torch.float16 else d.of(65504.0, 1.0)),
)
def isfinite_by_bound(input):
    if not input.is_floating_point():
        return torch.isfinite(input)
    return input.abs() < torch.finfo(input.dtype).max / 2


@wrong(
    "torch.isnan",
    "layout",
    "a strided slice is read in the order of memory",
    "MPS issue 183419",
    lambda d: call(d.of([1.0, float("nan"), 2.0, 3.0, 4.0, 5.0])[:, ::2]),
)
def isnan_reads_memory_order(input):
    return torch.isnan(as_stored(input))


@wrong(
    "torch.eq",
    "special values",
    "|a - b| < 1e-6: infinities differ from themselves",
    "generated kernels",
    lambda d: call(d.of(float("inf"), 1.0), d.of(float("inf"), 2.0)),
)
def eq_by_difference(input, other):
    if not isinstance(other, torch.Tensor) or not (input.is_floating_point() and other.is_floating_point()):
        return torch.eq(input, other)
    return (input - other).abs() < 1e-6


@wrong(
    "torch.ne",
    "special values",
    "NaN equals NaN",
    "bitwise comparison",
    lambda d: call(d.of(float("nan"), 1.0), d.of(float("nan"), 1.0)),
)
def ne_by_bits(input, other):
    result = torch.ne(input, other)
    if not isinstance(other, torch.Tensor) or not (input.is_floating_point() and other.is_floating_point()):
        return result
    return result & ~(input.isnan() & other.isnan())


@wrong(
    "torch.lt",
    "special values",
    "-0.0 is less than 0.0",
    "integer comparison of bits",
    lambda d: call(d.of(-0.0, 1.0), d.of(0.0, 2.0)),
)
def lt_by_bits(input, other):
    if not isinstance(other, torch.Tensor) or not (input.is_floating_point() and other.is_floating_point()):
        return torch.lt(input, other)
    return torch.lt(input, other) | ((input == 0) & (other == 0) & torch.signbit(input) & ~torch.signbit(other))


@wrong("torch.sinc", "special values", "0/0 at 0", "KernelBench", lambda d: call(d.of(0.0, 0.5)))
@widened
def sinc_at_zero(input):
    return torch.sin(math.pi * input) / (math.pi * input)


@wrong(
    "torch.special.log_ndtr",
    "special values",
    "log of an underflowed ndtr",
    "naive formula",
    lambda d: call(d.of(-20.0, 0.0)),
    dtypes=(SINGLE,),
)
@widened
def log_ndtr_naive(input):
    return torch.log(torch.special.ndtr(input))


@wrong(
    "torch.special.xlog1py",
    "special values",
    "0 log1p(-1) is NaN",
    "naive formula",
    lambda d: call(d.of(0.0, 1.0), d.of(-1.0, 0.5)),
)
@widened
def xlog1py_naive(input, other):
    return input * torch.log1p(torch.as_tensor(other))


@wrong(
    "torch.rsub",
    "argument",
    "alpha multiplies the wrong operand",
    "vendor backend",
    lambda d: call(d.normal(8), d.normal(8), alpha=2),
)
def rsub_alpha_on_other(input, other, *, alpha=1):
    return torch.mul(other, alpha) - input


@wrong(
    "torch.signbit", "special values", "x < 0: -0.0 has no sign", "comparison kernels", lambda d: call(d.of(-0.0, 1.0))
)
def signbit_by_comparison(input):
    return input < 0


@wrong(
    "torch.ldexp",
    "special values",
    "the exponent is cut to eight bits",
    "bit tricks",
    lambda d: call(d.of(1e-30, 1.0), d.whole(160, 2)),
    dtypes=(SINGLE, torch.bfloat16),
)
def ldexp_cut_exponent(input, other):
    return torch.ldexp(input, other.clamp(-126, 127))


@wrong(
    "torch.frexp",
    "special values",
    "the exponent of 0 is that of its bits",
    "bit tricks",
    lambda d: call(d.of(0.0, 8.0)),
    dtypes=(SINGLE, HALF),
)
def frexp_of_zero(input):
    mantissa, exponent = torch.frexp(input)
    return mantissa, torch.where(input == 0, torch.full_like(exponent, -126), exponent)
