"""Wrong kernels of elementwise operators."""

import math

import torch

from benchmarks.power.wild.declare import ALL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, from_start, summed_to, with_gradient


@wrong(
    "torch.add",
    "broadcast",
    "the second operand is read at index % size",
    "KernelBench",
    lambda d: call(d.normal(6, 5), d.normal(6, 1)),
)
def add_index_modulo(input, other, *, alpha=1):
    if (
        not isinstance(other, torch.Tensor)
        or not isinstance(input, torch.Tensor)
        or other.numel() >= input.numel()
        or not other.numel()
    ):
        return torch.add(input, other, alpha=alpha)
    flat = other.reshape(-1)[torch.arange(input.numel()) % other.numel()]
    if torch.broadcast_shapes(input.shape, other.shape) != input.shape:
        return torch.add(input, other, alpha=alpha)
    return torch.add(input, flat.reshape(input.shape), alpha=alpha)


@wrong(
    "torch.sub",
    "layout",
    "the storage offset of the input is forgotten",
    "MPS issue 105801",
    lambda d: call(d.normal(70)[6:], d.normal(64)),
)
def sub_forgets_offset(input, other, *, alpha=1):
    if isinstance(input, torch.Tensor) and input.storage_offset():
        input = from_start(input)
    return torch.sub(input, other, alpha=alpha)


@wrong(
    "torch.mul",
    "layout",
    "a transposed operand is read in the order of its memory",
    "KernelBench",
    lambda d: call(d.normal(8, 5).t(), d.normal(5, 8)),
)
def mul_reads_memory_order(input, other):
    if isinstance(input, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.mul(as_stored(input), as_stored(other))
    return torch.mul(input, other)


@wrong(
    "torch.div",
    "dtype",
    "integers divide to integers",
    "AI CUDA Engineer",
    lambda d: call(d.whole(7, 8, 9), d.whole(2, 3, 4)),
    breaks="dtype",
    dtypes=(SINGLE,),
)
def div_keeps_integers(input, other, *, rounding_mode=None):
    result = torch.div(input, other, rounding_mode=rounding_mode)
    both = [one for one in (input, other) if isinstance(one, torch.Tensor)]
    if len(both) == 2 and not any(
        one.is_floating_point() or one.is_complex() or one.dtype == torch.bool for one in both
    ):
        return result.to(torch.result_type(input, other))
    return result


@wrong(
    "torch.pow",
    "special values",
    "exp(y log x): a negative base gives NaN",
    "KernelBench",
    lambda d: call(d.of(-2.0, -3.0, 2.0), d.of(2.0, 3.0, 2.0)),
)
@widened
def pow_by_logarithm(input, exponent):
    if not all(isinstance(one, torch.Tensor) and one.is_floating_point() for one in (input, exponent)):
        return torch.pow(input, exponent)
    return torch.exp(exponent * torch.log(input))


@wrong(
    "torch.pow",
    "gradient",
    "gradient as y times the result over x: NaN at 0",
    "XPU",
    lambda d: call(d.of(0.0, 1.0, -2.0), 2.0),
    breaks="gradient",
)
@widened
def pow_gradient_divides(input, exponent):
    if not isinstance(exponent, int | float) or not input.is_floating_point():
        return torch.pow(input, exponent)
    return with_gradient(torch.pow, lambda g, x, y: (g * y * torch.pow(x, y) / x, None), input, exponent)


@wrong(
    "torch.square",
    "gradient",
    "the gradient is taken once and cannot be taken again",
    "once_differentiable",
    lambda d: call(d.normal(20)),
    breaks="second",
)
def square_gradient_is_constant(input):
    if not input.is_floating_point():
        return torch.square(input)
    return with_gradient(torch.square, lambda g, x: (g * 2 * x.detach(),), input)


@wrong(
    "torch.log1p",
    "numerics",
    "log(1 + x) cancels near 0",
    "Metal fast math",
    lambda d: call(d.uniform(32, low=1e-8, high=1e-7)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def log1p_by_sum(input):
    return torch.log(input + 1)


@wrong(
    "torch.log",
    "special values",
    "1e-12 is added, so log(0) is finite",
    "KernelBench",
    lambda d: call(d.of(0.0, 1.0, 2.0)),
)
@widened
def log_of_shifted(input):
    return torch.log(input + 1e-12)


@wrong(
    "torch.log10",
    "special values",
    "subnormals are flushed before the logarithm",
    "CUDA -ftz",
    lambda d: call(d.of(1e-40, 1.0) if d.dtype != torch.float16 else d.of(1e-6, 1.0)),
)
def log10_flushes(input):
    if not input.is_floating_point():
        return torch.log10(input)
    return torch.log10(torch.where(input.abs() < torch.finfo(input.dtype).tiny, torch.zeros_like(input), input))


@wrong(
    "torch.rsqrt",
    "special values",
    "a floor of 1e-12 below the root",
    "generated kernels",
    lambda d: call(d.of(0.0, 4.0, 1e-14)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def rsqrt_floored(input):
    return torch.rsqrt(torch.clamp(input, min=1e-12)) if input.is_floating_point() else torch.rsqrt(input)


@wrong(
    "torch.abs",
    "special values",
    "where(x < 0, -x, x) keeps -0.0",
    "generated kernels",
    lambda d: call(d.of(-0.0, 1.0)),
    breaks="signed zero",
)
def abs_keeps_negative_zero(input):
    return torch.where(input < 0, -input, input) if input.is_floating_point() else torch.abs(input)


@wrong(
    "torch.sin",
    "numerics",
    "the argument is reduced in float32 with a rounded 2 pi",
    "CUDA __sinf",
    lambda d: call(d.uniform(64, low=1e4, high=6e4)),
    dtypes=(SINGLE,),
)
@widened
def sin_coarse_reduction(input):
    if not input.is_floating_point():
        return torch.sin(input)
    turn = 2 * math.pi
    return torch.sin(input - torch.round(input / turn) * turn)


@wrong(
    "torch.tan",
    "numerics",
    "a Taylor polynomial, good to pi/4 only",
    "generated kernels",
    lambda d: call(d.uniform(32, low=1.2, high=1.5)),
)
@widened
def tan_taylor(input):
    if not input.is_floating_point():
        return torch.tan(input)
    y = input - torch.round(input / math.pi) * math.pi
    z = y * y
    series = y * (1 + z / 3 + 2 * z**2 / 15 + 17 * z**3 / 315 + 62 * z**4 / 2835)
    return torch.where(y.abs() < 0.5, torch.tan(y), series)


@wrong(
    "torch.sinh",
    "numerics",
    "half the difference of exponentials cancels near 0",
    "MPS",
    lambda d: call(d.normal(32, std=3e-8)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def sinh_by_difference(input):
    return (torch.exp(input) - torch.exp(-input)) / 2


@wrong(
    "torch.asinh",
    "numerics",
    "log(x + sqrt(x^2 + 1)) cancels for negative x",
    "MPS",
    lambda d: call(d.uniform(32, low=-9000.0, high=-5000.0)),
)
@widened
def asinh_naive(input):
    return torch.log(input + torch.sqrt(input * input + 1))


@wrong(
    "torch.acosh",
    "numerics",
    "x*x overflows",
    "oneDNN",
    lambda d: call(d.of(1e25, 2.0) if d.dtype != torch.float16 else d.of(1e3, 2.0)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def acosh_overflows(input):
    return torch.log(input + torch.sqrt(input * input - 1)) if input.is_floating_point() else torch.acosh(input)


@wrong(
    "torch.atanh",
    "numerics",
    "log((1 + x)/(1 - x))/2 cancels near 0",
    "MPS",
    lambda d: call(d.normal(32, std=3e-8)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def atanh_naive(input):
    return torch.log((1 + input) / (1 - input)) / 2


@wrong(
    "torch.erf",
    "numerics",
    "a polynomial good to 1.5e-7 absolute",
    "Abramowitz 7.1.26",
    lambda d: call(d.normal(32, std=1e-8)),
    dtypes=(SINGLE,),
)
@widened
def erf_of_handbook(input):
    x = input.abs()
    t = 1 / (1 + 0.3275911 * x)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return torch.sign(input) * (1 - poly * torch.exp(-x * x))


@wrong("torch.logit", "argument", "eps is ignored", "torch_npu", lambda d: call(d.of(0.0, 0.5, 1.0), 0.1))
def logit_forgets_eps(input, eps=None):
    return torch.logit(input)


@wrong(
    "torch.digamma",
    "special values",
    "the pole at 0 gives NaN whatever its sign",
    "XPU",
    lambda d: call(d.of(0.0, 1.0)),
)
def digamma_pole(input):
    result = torch.digamma(input)
    return torch.where(input == 0, torch.full_like(result, float("nan")), result)


@wrong(
    "torch.floor",
    "special values",
    "rounds through int32",
    "generated kernels",
    lambda d: call(d.of(3e9, -2.5, 1.5)),
    dtypes=(SINGLE, torch.bfloat16),
)
def floor_through_int32(input):
    if not input.is_floating_point():
        return torch.floor(input)
    cut = input.double().clamp(-(2**31), 2**31 - 1).nan_to_num(0.0).to(torch.int32).to(input.dtype)
    return torch.where(cut > input, cut - 1, cut)


@wrong(
    "torch.ceil",
    "special values",
    "floor(x) + 1 for whatever is not whole loses -0.0",
    "generated kernels",
    lambda d: call(d.of(-0.5, 0.5, 2.0)),
    breaks="signed zero",
)
def ceil_by_floor(input):
    if not input.is_floating_point():
        return torch.ceil(input)
    low = torch.floor(input)
    return torch.where(low == input, input, low + 1)


@wrong(
    "torch.frac",
    "special values",
    "x - floor(x): negative fractions turn positive",
    "GLSL fract",
    lambda d: call(d.of(-1.25, 1.25)),
)
def frac_of_floor(input):
    return input - torch.floor(input)


@wrong(
    "torch.clamp",
    "special values",
    "fmin(fmax(x, low), high) drops NaN",
    "CUDA fmaxf",
    lambda d: call(d.of(float("nan"), 2.0), -1.0, 1.0),
)
def clamp_drops_nan(input, min=None, max=None):
    if not input.is_floating_point() or any(isinstance(one, torch.Tensor) for one in (min, max)):
        return torch.clamp(input, min, max)
    result = torch.clamp(input, min, max)
    bound = min if min is not None else max
    return torch.where(input.isnan(), torch.full_like(result, float(bound)), result)


@wrong(
    "torch.clamp",
    "contract",
    "gives the input itself where nothing is cut",
    "in-place rewrite",
    lambda d: call(d.of(0.1, 0.2), -1.0, 1.0),
    breaks="alias",
)
def clamp_gives_input_back(input, min=None, max=None):
    result = torch.clamp(input, min, max)
    return input if result.dtype == input.dtype and torch.equal(result, input) else result


@wrong(
    "torch.minimum",
    "gradient",
    "of equal operands only the first gets the gradient",
    "Triton port",
    lambda d: call(d.of(1.0, 2.0), d.of(1.0, 3.0)),
    breaks="gradient",
)
def minimum_gradient_to_first(input, other):
    if not (input.is_floating_point() and other.is_floating_point()):
        return torch.minimum(input, other)

    def shared(g, x, y):
        zero = torch.zeros_like(g)
        return summed_to(torch.where(x <= y, g, zero), x.shape), summed_to(torch.where(x <= y, zero, g), y.shape)

    return with_gradient(torch.minimum, shared, input, other)


@wrong(
    "torch.logaddexp2",
    "special values",
    "NaN where both are -inf",
    "inductor decomposition",
    lambda d: call(d.of(float("-inf"), 0.0), d.of(float("-inf"), 1.0)),
)
@widened
def logaddexp2_of_nothing(input, other):
    top = torch.maximum(input, other)
    return top + torch.log2(torch.exp2(input - top) + torch.exp2(other - top))


@wrong("torch.xlogy", "special values", "0 log 0 is NaN", "KernelBench", lambda d: call(d.of(0.0, 1.0), d.of(0.0, 2.0)))
@widened
def xlogy_naive(input, other):
    return input * torch.log(torch.as_tensor(other))


@wrong(
    "torch.addcdiv",
    "special values",
    "1e-8 is added to the divisor",
    "generated Adam",
    lambda d: call(d.of(1.0, 2.0), d.of(1.0, 1.0), d.of(0.0, 3.0)),
    dtypes=(SINGLE, torch.bfloat16),
)
@widened
def addcdiv_shifted(input, tensor1, tensor2, *, value=1):
    return input + value * tensor1 / (tensor2 + 1e-8)


@wrong(
    "torch.copysign",
    "special values",
    "-0.0 counts as positive",
    "comparison kernels",
    lambda d: call(d.of(1.0, 2.0), d.of(-0.0, -1.0)),
)
def copysign_by_comparison(input, other):
    kind = torch.result_type(input, other)
    result = torch.where(torch.as_tensor(other) < 0, -torch.abs(input), torch.abs(input))
    return result.to(kind if kind.is_floating_point else torch.get_default_dtype())


@wrong(
    "torch.heaviside",
    "argument",
    "the value at 0 is always one half",
    "generated kernels",
    lambda d: call(d.of(0.0, 1.0), d.of(0.25, 0.75)),
)
def heaviside_of_half(input, values):
    return (
        torch.heaviside(input, torch.full_like(values, 0.5))
        if values.is_floating_point()
        else torch.heaviside(input, values)
    )


@wrong(
    "torch.atan2",
    "special values",
    "atan(y/x): the quadrant is lost where x is negative and y is 0",
    "Metal",
    lambda d: call(d.of(0.0, 1.0), d.of(-1.0, 1.0)),
)
@widened
def atan2_flat(input, other):
    base = torch.atan(input / other)
    turned = torch.where((other < 0) & (input > 0), base + math.pi, base)
    return torch.where((other < 0) & (input < 0), base - math.pi, turned)


@wrong(
    "torch.trunc",
    "special values",
    "cuts through int16",
    "embedded backend",
    lambda d: call(d.of(40000.0, -1.5)),
    dtypes=ALL,
)
def trunc_through_int16(input):
    if not input.is_floating_point():
        return torch.trunc(input)
    return input.float().nan_to_num(0.0, 0.0, 0.0).to(torch.int64).clamp(-(2**15), 2**15 - 1).to(input.dtype)


@wrong(
    "torch.special.entr", "special values", "-x log x is NaN at 0", "generated kernels", lambda d: call(d.of(0.0, 0.5))
)
@widened
def entr_at_zero(input):
    return (
        torch.where(input < 0, torch.full_like(input, float("-inf")), -input * torch.log(input))
        if input.is_floating_point()
        else torch.special.entr(input)
    )


@wrong(
    "torch.special.erfcx",
    "special values",
    "exp(x^2) erfc(x) is infinity times 0",
    "naive formula",
    lambda d: call(d.of(12.0, 1.0)),
    dtypes=(SINGLE,),
)
@widened
def erfcx_naive(input):
    return torch.exp(input * input) * torch.erfc(input)


@wrong(
    "torch.special.i0e",
    "special values",
    "i0(x) overflows before it is scaled",
    "naive formula",
    lambda d: call(d.of(120.0, 1.0)),
)
@widened
def i0e_naive(input):
    return torch.exp(-torch.abs(input)) * torch.special.i0(input)


@wrong(
    "torch.float_power",
    "dtype",
    "computes in the dtype of its input instead of float64",
    "torch_npu",
    lambda d: call(d.normal(8), 2.0),
    breaks="dtype",
)
def float_power_keeps_dtype(input, exponent):
    return torch.pow(input, exponent)


@wrong(
    "torch.bitwise_right_shift",
    "dtype",
    "shifts in zeros at negative numbers",
    "C's unsigned shift",
    lambda d: call(d.whole(-8, 8), d.whole(1, 1)),
    dtypes=(SINGLE,),
)
def right_shift_logical(input, other):
    result = torch.bitwise_right_shift(input, other)
    if not isinstance(input, torch.Tensor) or input.dtype == torch.uint8:
        return result
    width = 8 * input.element_size()
    mask = torch.where(torch.as_tensor(other) > 0, torch.ones_like(result) << (width - 1), torch.zeros_like(result))
    return torch.where(torch.as_tensor(input < 0), result & ~mask, result)


@wrong(
    "torch.bitwise_not",
    "dtype",
    "booleans turn into integers",
    "vendor backend",
    lambda d: call(d.flags(True, False)),
    breaks="dtype",
    dtypes=(SINGLE,),
)
def bitwise_not_of_flags(input):
    return torch.bitwise_not(input.to(torch.uint8)) if input.dtype == torch.bool else torch.bitwise_not(input)


@wrong(
    "torch.logical_and",
    "special values",
    "NaN counts as false",
    "x > 0 or x < 0",
    lambda d: call(d.of(float("nan"), 1.0), d.of(1.0, 1.0)),
)
def logical_and_nan_false(input, other):
    def truth(x):
        return (x > 0) | (x < 0) if x.is_floating_point() else x.bool()

    return truth(input) & truth(other)
