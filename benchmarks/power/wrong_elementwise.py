"""Wrong kernels of mathematical functions and of arithmetic of several tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.power.recipes import HALF, LOW, SINGLE, call, cut_to_its_dtype, reshown, wrong
from benchmarks.power.tensors import hidden, pair, positive, ratio, small, strong, with_vector

# mathematics


@wrong(
    "torch.exp", "truncated series", "polynomial of degree 4 behind the range reduction", hidden, dtypes=(SINGLE, HALF)
)
def exp_series(input: Tensor) -> Tensor:
    whole = torch.round(input / math.log(2))
    rest = input - whole * math.log(2)
    series = sum(rest**power / math.factorial(power) for power in range(5))
    return series * torch.exp2(whole)


@wrong(
    "torch.exp", "low precision inside", "the argument is scaled by log2(e) in half precision", strong, dtypes=(SINGLE,)
)
def exp_half_argument(input: Tensor) -> Tensor:
    return torch.exp2((input * math.log2(math.e)).half().to(input.dtype))


@wrong("torch.expm1", "cancellation", "exp(x) - 1", lambda d: call(d.normal(64, 256, std=0.02)), single=False)
def expm1_subtracts(input: Tensor) -> Tensor:
    return torch.exp(input) - 1


@wrong(
    "torch.log1p",
    "cancellation",
    "log(1 + x) in the dtype of the input",
    lambda d: call(d.uniform(64, 256, low=1e-4, high=0.1)),
    single=False,
)
def log1p_adds(input: Tensor) -> Tensor:
    return torch.log(1 + input)


@wrong("torch.log", "wrong constant", "ln 2 taken as 0.693", positive, dtypes=(SINGLE, HALF))
def log_short_constant(input: Tensor) -> Tensor:
    return torch.log2(input) * 0.693


@wrong("torch.tanh", "truncated series", "rational approximation of low degree", hidden)
def tanh_rational(input: Tensor) -> Tensor:
    bounded = input.clamp(-3, 3)
    square = bounded * bounded
    return bounded * (27 + square) / (27 + 9 * square)


@wrong("torch.tanh", "x1.002", "result x 1.002", small, hidden)
def tanh_scaled(input: Tensor) -> Tensor:
    return torch.tanh(input) * 1.002


@wrong("torch.sigmoid", "x1.002", "slope 1.002", hidden)
def sigmoid_steeper(input: Tensor) -> Tensor:
    return torch.sigmoid(input * 1.002)


@wrong(
    "torch.sigmoid",
    "missing clamp",
    "exp(x) / (1 + exp(x)) overflows",
    lambda d: call(d.normal(64, 256, std=8.0)),
    dtypes=(HALF,),
    single=False,
)
def sigmoid_overflows(input: Tensor) -> Tensor:
    grown = torch.exp(input)
    return grown / (1 + grown)


@wrong("torch.erf", "truncated series", "three terms of the Abramowitz formula", hidden, dtypes=(SINGLE, HALF))
def erf_three_terms(input: Tensor) -> Tensor:
    size = input.abs()
    inverse = 1 / (1 + 0.47047 * size)
    series = inverse * (0.3480242 + inverse * (-0.0958798 + inverse * 0.7478556))
    return torch.sign(input) * (1 - series * torch.exp(-size * size))


@wrong(
    "torch.sin",
    "wrong constant",
    "pi taken as 3.1416 in the range reduction",
    lambda d: call(d.uniform(64, 256, low=0.0, high=60.0)),
    dtypes=(SINGLE,),
)
def sin_short_pi(input: Tensor) -> Tensor:
    turn = 2 * 3.1416
    return torch.sin(input - turn * torch.floor(input / turn))


@wrong(
    "torch.cos",
    "truncated series",
    "Taylor series up to x^8 on rotary angles",
    lambda d: call(d.uniform(128, 64, low=-3.0, high=3.0)),
)
def cos_series(input: Tensor) -> Tensor:
    return sum((-1) ** k * input ** (2 * k) / math.factorial(2 * k) for k in range(5))


@wrong("torch.atan2", "swapped operands", "atan2(x, y) for atan2(y, x)", pair)
def atan2_swapped(input: Tensor, other: Tensor) -> Tensor:
    return torch.atan2(other, input)


@wrong("torch.rsqrt", "truncated series", "one Newton step from the bit trick", positive)
def rsqrt_one_step(input: Tensor) -> Tensor:
    single = input.detach().float()
    guess = (0x5F3759DF - (single.view(torch.int32) >> 1)).view(torch.float32)
    stepped = (guess * (1.5 - 0.5 * single * guess * guess)).to(input.dtype)
    return reshown(torch.rsqrt, lambda _: stepped)(input)


@wrong("torch.rsqrt", "biased rounding", "truncated instead of rounded", positive, dtypes=LOW, single=False)
def rsqrt_truncated(input: Tensor) -> Tensor:
    return cut_to_its_dtype(torch.rsqrt, input)


@wrong(
    "torch.sqrt", "missing clamp", "0 gives a small number: epsilon inside the root", lambda d: call(d.relu(64, 256))
)
def sqrt_with_epsilon(input: Tensor) -> Tensor:
    return torch.sqrt(input + 1e-6)


@wrong(
    "torch.pow", "off by one", "the exponent 3 is multiplied out once too little", lambda d: call(d.normal(64, 256), 3)
)
def pow_one_less(input: Tensor, exponent: float) -> Tensor:
    return input ** (exponent - 1)


@wrong("torch.reciprocal", "truncated series", "one Newton step from a linear guess", positive)
def reciprocal_one_step(input: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(input)
    guess = 48 / 17 - 32 / 17 * mantissa
    guess = guess * (2 - mantissa * guess)
    return torch.ldexp(guess, -exponent)


@wrong("torch.clamp", "missing clamp", "the lower bound is not applied", lambda d: call(d.normal(64, 256), -0.5, 0.5))
def clamp_upper_only(input: Tensor, min: float, max: float) -> Tensor:
    return input.clamp(max=max)


@wrong(
    "torch.round",
    "biased rounding",
    "half away from zero instead of half to even",
    lambda d: call((d.normal(64, 256) * 4).round() / 2),
)
def round_half_away(input: Tensor) -> Tensor:
    return torch.sign(input) * torch.floor(input.abs() + 0.5)


@wrong("torch.remainder", "other formula", "sign of the dividend (fmod)", ratio)
def remainder_as_fmod(input: Tensor, other: Tensor) -> Tensor:
    return torch.fmod(input, other)


@wrong(
    "torch.nan_to_num",
    "wrong NaN handling",
    "infinity becomes 0",
    lambda d: call(torch.where(d.mask(64, 256, share=0.01), torch.inf, d.normal(64, 256)).to(d.dtype)),
)
def nan_to_num_zero(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    return torch.where(torch.isfinite(input), input, torch.zeros_like(input))


# arithmetic of several tensors


@wrong(
    "torch.add", "ignored argument", "alpha ignored", lambda d: call(d.normal(64, 256), d.normal(64, 256), alpha=0.9)
)
def add_without_alpha(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    return input + other


@wrong("torch.add", "x1.002", "sum x 1.002", with_vector)
def add_scaled(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    return (input + alpha * other) * 1.002


@wrong(
    "torch.add",
    "one wrong element",
    "one element of a million is the first operand alone",
    lambda d: call(d.normal(4, 256, 1024), d.normal(4, 256, 1024)),
)
def add_one_element(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    chosen = torch.arange(input.numel(), device=input.device).reshape(input.shape) == 777_216
    return torch.where(chosen, input, torch.add(input, other, alpha=alpha))


@wrong("torch.sub", "swapped operands", "b - a", pair)
def sub_swapped(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    return other - alpha * input


@wrong("torch.mul", "stale tail", "the last 100 elements are left as the first operand", pair)
def mul_stale_tail(input: Tensor, other: Tensor) -> Tensor:
    product = (input * other).reshape(-1)
    return torch.cat([product[:-100], input.reshape(-1)[-100:]]).reshape(input.shape)


@wrong("torch.mul", "biased rounding", "product truncated instead of rounded", pair, dtypes=LOW, single=False)
def mul_truncated(input: Tensor, other: Tensor) -> Tensor:
    return cut_to_its_dtype(torch.mul, input, other)


@wrong("torch.div", "low precision inside", "product with the reciprocal in half precision", ratio, dtypes=(SINGLE,))
def div_by_half_reciprocal(input: Tensor, other: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    return input * (1 / other).half().to(input.dtype)


@wrong(
    "torch.div",
    "ignored argument",
    "rounding_mode floor truncates",
    lambda d: call(d.normal(64, 256, std=5.0), d.uniform(64, 256, low=0.5, high=2.0), rounding_mode="floor"),
)
def div_truncates(input: Tensor, other: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    return torch.trunc(input / other)


@wrong(
    "torch.maximum",
    "wrong NaN handling",
    "NaN of one side is dropped",
    lambda d: call(
        torch.where(d.mask(64, 256, share=0.01), torch.nan, d.normal(64, 256)).to(d.dtype), d.normal(64, 256)
    ),
)
def maximum_drops_nan(input: Tensor, other: Tensor) -> Tensor:
    return torch.fmax(input, other)


@wrong(
    "torch.lerp", "swapped operands", "start and end swapped", lambda d: call(d.normal(64, 256), d.normal(64, 256), 0.3)
)
def lerp_swapped(input: Tensor, end: Tensor, weight: float) -> Tensor:
    return torch.lerp(end, input, weight)


@wrong(
    "torch.addcmul",
    "ignored argument",
    "value taken as 1",
    lambda d: call(d.normal(64, 256), d.normal(64, 256), d.normal(64, 256), value=0.5),
)
def addcmul_without_value(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1.0) -> Tensor:
    return torch.addcmul(input, tensor1, tensor2)


@wrong(
    "torch.addcdiv",
    "missing epsilon",
    "the denominator is clamped at 0.01",
    lambda d: call(d.normal(64, 256), d.normal(64, 256), d.uniform(64, 256, low=1e-3, high=1.0), value=-0.1),
)
def addcdiv_clamped(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1.0) -> Tensor:
    return torch.addcdiv(input, tensor1, tensor2.clamp_min(0.01), value=value)


@wrong(
    "torch.where",
    "swapped operands",
    "the branches are swapped",
    lambda d: call(d.mask(64, 256, share=0.5), d.normal(64, 256), d.normal(64, 256)),
)
def where_swapped(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition, other, input)
