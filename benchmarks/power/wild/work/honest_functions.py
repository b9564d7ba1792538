"""Honest elementwise functions: other formulas, rational approximations, all within a few ulp."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, LOW, call, edges, honest, in_single, widened
from benchmarks.power.wild.parts import with_gradient


@honest(
    "torch.tanh",
    "a rational function of degrees 13 and 6",
    "Eigen and XLA's float32 tanh: 5 ulp",
    lambda d: call(d.normal(2000)),
    lambda d: call(d.normal(500, std=1e-3)),
    edges,
    bound=element(12),
    gradient=element(2000),
)
@in_single(torch.tanh)
def tanh_by_rational_function(input):
    def value(given):
        x = given.clamp(-7.90531110763549805, 7.90531110763549805)
        z = x * x
        top = torch.full_like(z, -2.76076847742355e-16)
        for one in (
            2.00018790482477e-13,
            -8.60467152213735e-11,
            5.12229709037114e-08,
            1.48572235717979e-05,
            6.37261928875436e-04,
            4.89352455891786e-03,
        ):
            top = top * z + one
        bottom = (
            (1.19825839466702e-06 * z + 1.18534705686654e-04) * z + 2.26843463243900e-03
        ) * z + 4.89352518554385e-03
        return torch.where(
            given.abs() < 4e-4,
            given,
            torch.where(given.abs() > 9.1, torch.sign(given), (x * top / bottom).clamp(-1, 1)),
        )

    return with_gradient(value, lambda g, x: (g * (1 - torch.tanh(x) ** 2),), input)


@honest(
    "torch.exp",
    "Cody and Waite's reduction and a polynomial",
    "Cephes expf: 2 ulp",
    lambda d: call(d.normal(2000, std=10.0)),
    edges,
    bound=element(8),
)
@in_single(torch.exp)
def exp_by_polynomial(input):
    def value(x):
        y = x.nan_to_num(0.0, 200.0, -200.0).clamp(-110, 95)
        n = torch.round(y * 1.44269504088896341)
        r = (y - n * 0.693359375) + n * 2.12194440e-4
        p = torch.full_like(r, 1.9875691500e-4)
        for one in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            p = p * r + one
        half = torch.floor(n / 2)
        result = (p * r * r + r + 1) * torch.exp2(half) * torch.exp2(n - half)
        return torch.where(x.isnan(), x, torch.where(x == float("inf"), x, result))

    return with_gradient(value, lambda g, x: (g * value(x),), input)


@honest(
    "torch.exp",
    "2 to the power of a product in two parts",
    "the product is kept to twice the precision: 2 ulp",
    lambda d: call(d.normal(2000, std=10.0)),
    edges,
    bound=element(12),
)
@in_single(torch.exp)
def exp_by_exp2_in_two_parts(input):
    def value(x):
        y = x.nan_to_num(0.0, 200.0, -200.0).clamp(-200, 200)
        whole = torch.round(y * 1.4426950408889634)
        rest = (y.double() * 1.4426950408889634 - whole.double()).to(x.dtype)
        low = torch.floor(whole / 2)
        return torch.where(x.isnan(), x, torch.exp2(rest) * torch.exp2(low) * torch.exp2(whole - low))

    return with_gradient(value, lambda g, x: (g * value(x),), input)


@honest(
    "torch.log",
    "fdlibm's polynomial in f/(2 + f)",
    "fdlibm e_logf.c: 1 ulp",
    lambda d: call(d.uniform(2000, low=1e-3, high=50.0)),
    lambda d: call(d.uniform(300, low=0.9, high=1.1)),
    edges,
    bound=element(8),
)
@in_single(torch.log)
def log_by_polynomial(input):
    def value(x):
        safe = torch.where((x > 0) & x.isfinite(), x, torch.ones_like(x))
        m, e = torch.frexp(safe)
        low = m < 0.70710678
        m, e = torch.where(low, m * 2, m), torch.where(low, e - 1, e).to(x.dtype)
        f = m - 1
        s = f / (2 + f)
        z = s * s
        r = z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)))
        half = 0.5 * f * f
        result = e * 0.69313812256 - ((half - (s * (half + r) + e * 9.0580006145e-06)) - f)
        return torch.where((x > 0) & x.isfinite(), result, torch.log(x))

    return with_gradient(value, lambda g, x: (g / x,), input)


@honest(
    "torch.log1p",
    "x log(u)/(u - 1) with u = 1 + x",
    "Kahan; Higham 2002, section 1.14.1: 5 u",
    lambda d: call(d.normal(2000, std=1e-4)),
    lambda d: call(d.uniform(300, high=5.0)),
    edges,
    bound=element(12),
)
@widened
def log1p_of_kahan(input):
    if not input.is_floating_point():
        return torch.log1p(input)

    def value(x):
        u = 1 + x
        usual = (u > 0) & u.isfinite() & (u != 1)
        safe = torch.where(usual, u, torch.full_like(u, 2.0))
        return torch.where(usual, x * (torch.log(safe) / (safe - 1)), torch.where(u == 1, x, torch.log(u)))

    return with_gradient(value, lambda g, x: (g / (x + 1),), input)


@honest(
    "torch.expm1",
    "(u - 1) x / log(u) with u = e^x",
    "Kahan; Higham 2002, section 1.14.1: 5 u",
    lambda d: call(d.normal(2000, std=1e-3)),
    lambda d: call(d.normal(300, std=3.0)),
    edges,
    bound=element(12),
    gradient=element(24),
)
@widened
def expm1_of_kahan(input):
    if not input.is_floating_point():
        return torch.expm1(input)

    def value(x):
        u = torch.exp(x)
        usual = (u != 1) & (u - 1 != -1) & u.isfinite() & (x.abs() < 1)
        safe = torch.where(usual, u, torch.full_like(u, 2.0))
        return torch.where(usual, (safe - 1) * x / torch.log(safe), torch.where(u == 1, x, u - 1))

    return with_gradient(value, lambda g, x: (g * torch.exp(x),), input)


@honest(
    "torch.rsqrt",
    "one over the root",
    "two roundings: 2 u",
    lambda d: call(d.uniform(2000, low=0.1, high=50.0)),
    edges,
    bound=element(6),
    gradient=element(12),
)
@widened
def rsqrt_by_division(input):
    return 1 / torch.sqrt(input) if input.is_floating_point() else torch.rsqrt(input)


@honest(
    "torch.rsqrt",
    "a coarse start and four steps of Newton's iteration",
    "each step squares the error; the last one rounds 4 times",
    lambda d: call(d.uniform(2000, low=0.1, high=50.0)),
    edges,
    bound=element(8),
    gradient=element(24),
)
@in_single(torch.rsqrt)
def rsqrt_by_newton(input):
    def value(x):
        usual = (x > 1e-30) & (x < 1e30)
        safe = torch.where(usual, x, torch.ones_like(x))
        y = (0x5F3759DF - (safe.contiguous().view(torch.int32) >> 1)).view(torch.float32)
        for _ in range(4):
            y = y * (1.5 - 0.5 * safe * y * y)
        return torch.where(usual, y, torch.rsqrt(x))

    return with_gradient(value, lambda g, x: (-0.5 * g * torch.rsqrt(x) ** 3,), input)


@honest(
    "torch.div",
    "product with the reciprocal, corrected by one residual",
    "Markstein 1990: within 1 ulp",
    lambda d: call(d.normal(2000), d.uniform(2000, low=0.3, high=4.0)),
    lambda d: call(d.of(0.0, 1.0, -1.0, float("inf")), d.of(1.0, 0.0, 0.0, 2.0)),
    bound=element(4),
    gradient=element(8),
)
def div_corrected_reciprocal(input, other, *, rounding_mode=None):
    both = [one for one in (input, other) if isinstance(one, torch.Tensor) and one.dtype == torch.float32]
    if rounding_mode is not None or len(both) < 2:
        return torch.div(input, other, rounding_mode=rounding_mode)

    def value(x, y):
        x, y = torch.broadcast_tensors(x, y)
        usual = (y.abs() > 1e-15) & (y.abs() < 1e15) & (x.abs() < 1e15) & (x.abs() > 1e-15)
        safe = torch.where(usual, y, torch.ones_like(y))
        inverse = 1 / safe
        first = x * inverse
        return torch.where(usual, first + (x.double() - first.double() * safe.double()).float() * inverse, x / y)

    def gradient(g, x, y):
        return (g / y).sum_to_size(x.shape), (-g * x / y / y).sum_to_size(y.shape)

    return with_gradient(value, gradient, input, other)


@honest(
    "torch.hypot",
    "scaled by the larger side",
    "Blue 1978: 4 u",
    lambda d: call(d.normal(500), d.normal(500)),
    lambda d: call(d.of(0.0, float("inf"), 1.0), d.of(0.0, float("nan"), 0.0)),
    bound=element(10),
    gradient=element(20),
)
@widened
def hypot_scaled(input, other):
    def value(x, y):
        x, y = torch.broadcast_tensors(x.abs(), y.abs())
        top, low = torch.fmax(x, y), torch.fmin(x, y)
        usual = (top > 0) & top.isfinite() & low.isfinite() & ~x.isnan() & ~y.isnan()
        safe = torch.where(usual, top, torch.ones_like(top))
        ratio = torch.where(usual, low / safe, torch.zeros_like(low))
        return torch.where(usual, safe * torch.sqrt(1 + ratio * ratio), torch.hypot(x, y))

    def gradient(g, x, y):
        length = torch.hypot(x, y)
        return (g * (x / length)).sum_to_size(x.shape), (g * (y / length)).sum_to_size(y.shape)

    return with_gradient(value, gradient, input, other)


@honest(
    "torch.cosh",
    "half the sum of e^|x| and its inverse",
    "fdlibm e_cosh.c: 2 u",
    lambda d: call(d.normal(500, std=3.0)),
    edges,
    bound=element(10),
    gradient=element(20),
)
@widened
def cosh_of_two_exponentials(input):
    if not input.is_floating_point():
        return torch.cosh(input)

    def value(x):
        half = torch.exp(x.abs() / 2)
        return torch.where(x.abs() < 20, (torch.exp(x.abs()) + torch.exp(-x.abs())) / 2, half * 0.5 * half)

    return with_gradient(value, lambda g, x: (g * torch.sinh(x),), input)


@honest(
    "torch.atanh",
    "half of log1p(2x/(1 - x))",
    "fdlibm e_atanh.c: 3 u",
    lambda d: call(d.uniform(500, low=-0.95, high=0.95)),
    lambda d: call(d.normal(500, std=1e-3)),
    lambda d: call(d.of(0.0, 1.0, -1.0, 2.0)),
    bound=element(12),
    gradient=element(60),
)
@widened
def atanh_by_log1p(input):
    if not input.is_floating_point():
        return torch.atanh(input)

    def value(x):
        a = x.abs()
        return torch.copysign(0.5 * torch.log1p(2 * a / (1 - a)), x)

    return with_gradient(value, lambda g, x: (g / (1 - x * x),), input)


@honest(
    f"{FUNCTIONAL}.gelu",
    "x/2 erfc(-x/sqrt 2)",
    "no cancellation in the lower tail: 4 u and the condition of erfc",
    lambda d: call(d.normal(2000, std=2.0)),
    edges,
    bound=element(80),
    gradient=normwise(60),
)
def gelu_by_erfc(input, approximate="none"):
    if approximate != "none" or not input.is_floating_point():
        return F.gelu(input, approximate=approximate)
    kind = input.dtype
    input = input.float() if kind in LOW else input

    def value(x):
        return torch.where(x == float("-inf"), F.gelu(x), 0.5 * x * torch.erfc(-x * math.sqrt(0.5)))

    return with_gradient(
        lambda x: value(x).to(kind),
        lambda g, x: (
            g * (0.5 * torch.erfc(-x * math.sqrt(0.5)) + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)),
        ),
        input,
    )


@honest(
    f"{FUNCTIONAL}.gelu",
    "the tanh form as x sigmoid(2u)",
    "the identity (1 + tanh u)/2 = sigmoid(2u)",
    lambda d: call(d.normal(2000, std=2.0), approximate="tanh"),
    bound=element(200),
    gradient=normwise(60),
)
def gelu_tanh_by_sigmoid(input, approximate="none"):
    if approximate != "tanh" or not input.is_floating_point():
        return F.gelu(input, approximate=approximate)
    kind = input.dtype
    input = input.float() if kind in LOW else input
    inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)
    return (input * torch.sigmoid(2 * inner)).to(kind)


@honest(
    f"{FUNCTIONAL}.logsigmoid",
    "min(x, 0) - log1p(e^-|x|)",
    "Mächler 2012",
    lambda d: call(d.normal(2000, std=5.0)),
    edges,
    bound=element(16),
    gradient=element(16),
)
@widened
def logsigmoid_by_log1p(input):
    def value(x):
        return torch.clamp(x, max=0) - torch.log1p(torch.exp(-x.abs()))

    return with_gradient(value, lambda g, x: (g * torch.sigmoid(-x),), input)


@honest(
    "torch.addcmul",
    "computed exactly and rounded once, as a fused multiply-add",
    "IEEE 754 fma",
    lambda d: call(d.normal(500), d.normal(500), d.normal(500), value=0.5),
    bound=element(1.01),
    gradient=element(4),
)
def addcmul_fused(input, tensor1, tensor2, *, value=1):
    if not all(one.dtype in (torch.float32, torch.bfloat16, torch.float16) for one in (input, tensor1, tensor2)):
        return torch.addcmul(input, tensor1, tensor2, value=value)
    kind = torch.promote_types(torch.promote_types(input.dtype, tensor1.dtype), tensor2.dtype)
    return torch.addcmul(input.double(), tensor1.double(), tensor2.double(), value=value).to(kind)


@honest(
    "torch.addcdiv",
    "the quotient first, then the product with value",
    "three roundings",
    lambda d: call(d.normal(500), d.normal(500), d.uniform(500, low=0.5), value=0.3),
    bound=absolute(8),
    gradient=normwise(20),
)
@widened
def addcdiv_quotient_first(input, tensor1, tensor2, *, value=1):
    return input + value * (tensor1 / tensor2)


@honest(
    "torch.sinc",
    "sin(pi x)/(pi x) with the argument reduced to half a turn",
    "the reduction is exact in float32",
    lambda d: call(d.normal(500, std=2.0)),
    lambda d: call(d.of(0.0, 0.5, 3.0)),
    bound=absolute(40),
    gradient=normwise(4000),
    dtypes=(torch.float32,),
)
def sinc_reduced(input):
    if input.dtype != torch.float32:
        return torch.sinc(input)
    return with_gradient(
        lambda x: torch.sinc(x.double()).float(),
        lambda g, x: (
            torch.where(
                x == 0,
                torch.zeros_like(g),
                (
                    g.double()
                    * (torch.cos(math.pi * x.double()) - torch.sinc(x.double()))
                    / torch.where(x == 0, torch.ones_like(x), x).double()
                ).float(),
            ),
        ),
        input,
    )
