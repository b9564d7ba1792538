"""Honest elementwise functions: other formulas, rational approximations, all within a few ulp."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, edges, honest, in_single, widened
from benchmarks.power.wild.parts import with_gradient


@honest(
    "torch.tanh",
    "-t/(t + 2) with t = expm1(-2|x|)",
    "fdlibm s_tanh.c: 1 ulp and that of expm1",
    lambda d: call(d.normal(2000)),
    lambda d: call(d.normal(500, std=1e-3)),
    edges,
    bound=element(8),
    gradient=element(2000),
)
@widened
def tanh_by_expm1(input):
    if not input.is_floating_point():
        return torch.tanh(input)

    def value(x):
        t = torch.expm1(-2 * x.abs())
        return torch.copysign(-t / (t + 2), x)

    return with_gradient(value, lambda g, x: (g * (1 - torch.tanh(x) ** 2),), input)


@honest(
    "torch.sigmoid",
    "two branches, neither of which overflows",
    "1/(1 + e^-|x|) and its complement: 4 u",
    lambda d: call(d.normal(2000, std=4.0)),
    edges,
    bound=element(10),
    gradient=normwise(40),
)
@widened
def sigmoid_two_branches(input):
    if not input.is_floating_point():
        return torch.sigmoid(input)

    def value(x):
        small = torch.exp(-x.abs())
        return torch.where(x >= 0, 1 / (1 + small), small / (1 + small))

    def gradient(g, x):
        y = value(x)
        return (g * y * (1 - y),)

    return with_gradient(value, gradient, input)


@honest(
    "torch.erf",
    "a rational function of degrees 13 and 8",
    "Eigen and XLA's float32 erf: 3e-7 of one",
    lambda d: call(d.normal(2000)),
    lambda d: call(d.normal(500, std=1e-3)),
    edges,
    bound=element(16),
    gradient=element(20),
)
@in_single(torch.erf)
def erf_rational(input):
    def value(given):
        x = given.clamp(-4, 4)
        z = x * x
        top = torch.full_like(z, -2.72614225801306e-10)
        for one in (
            2.77068142495902e-08,
            -2.10102402082508e-06,
            -5.69250639462346e-05,
            -7.34990630326855e-04,
            -2.95459980854025e-03,
            -1.60960333262415e-02,
        ):
            top = top * z + one
        bottom = torch.full_like(z, -1.45660718464996e-05)
        for one in (-2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02):
            bottom = bottom * z + one
        small = given * (2 / math.sqrt(math.pi))
        return torch.where(given.abs() < 1e-4, small, (x * top / bottom).clamp(-1, 1))

    return with_gradient(value, lambda g, x: (g * (2 / math.sqrt(math.pi)) * torch.exp(-x * x),), input)


@honest(
    "torch.sqrt",
    "x times rsqrt(x)",
    "two roundings more than the root: 3 u",
    lambda d: call(d.uniform(2000, high=50.0)),
    edges,
    bound=element(8),
)
@widened
def sqrt_by_rsqrt(input):
    if not input.is_floating_point():
        return torch.sqrt(input)

    def value(x):
        usual = (x > torch.finfo(x.dtype).tiny) & x.isfinite()
        safe = torch.where(usual, x, torch.ones_like(x))
        return torch.where(usual, safe * torch.rsqrt(safe), torch.sqrt(x))

    return with_gradient(value, lambda g, x: (g / (2 * torch.sqrt(x)),), input)


@honest(
    "torch.logaddexp",
    "the larger plus log1p of the exponential of the difference",
    "the standard form: 3 u of the larger",
    lambda d: call(d.normal(500, std=5.0), d.normal(500, std=5.0)),
    lambda d: call(d.of(float("-inf"), float("inf"), 0.0), d.of(float("-inf"), float("inf"), float("-inf"))),
    bound=absolute(8),
    gradient=element(200),
)
@widened
def logaddexp_by_log1p(input, other):
    def value(x, y):
        top = torch.maximum(x, y)
        more = torch.log1p(torch.exp(-(x - y).abs()))
        return torch.where(top.isinf() & (x == y), top, top + more)

    def gradient(g, x, y):
        first, second = g / (1 + torch.exp(y - x)), g / (1 + torch.exp(x - y))
        return first.sum_to_size(x.shape), second.sum_to_size(y.shape)

    return with_gradient(value, gradient, input, other)


@honest(
    "torch.pow",
    "whole exponents by repeated squaring",
    "2 n u for an exponent of n; Higham 2002, lemma 3.1",
    lambda d: call(d.normal(500), 3),
    lambda d: call(d.normal(500, mean=2.0), 6),
    lambda d: call(d.of(0.0, -2.0, float("inf")), 2),
    bound=element(24),
    gradient=element(24),
)
@widened
def pow_by_squaring(input, exponent):
    if (
        not isinstance(input, torch.Tensor)
        or not isinstance(exponent, int)
        or not 0 < exponent < 9
        or not input.is_floating_point()
    ):
        return torch.pow(input, exponent)
    result, base, left = None, input, exponent
    while left:
        if left & 1:
            result = base * 1 if result is None else result * base
        base, left = base * base if left > 1 else base, left >> 1
    return result


@honest(
    "torch.sinh",
    "from expm1",
    "fdlibm e_sinh.c: 3 u",
    lambda d: call(d.normal(500)),
    lambda d: call(d.normal(500, std=1e-3)),
    lambda d: call(d.of(0.0, 5.0, -7.0)),
    bound=element(10),
)
@widened
def sinh_by_expm1(input):
    if not input.is_floating_point():
        return torch.sinh(input)

    def value(x):
        small = x.abs() < 20
        t = torch.expm1(torch.where(small, x.abs(), torch.zeros_like(x)))
        return torch.where(small, torch.copysign((t + t / (t + 1)) / 2, x), torch.sinh(x))

    return with_gradient(value, lambda g, x: (g * torch.cosh(x),), input)


@honest(
    "torch.asinh",
    "log1p(|x| + x^2/(1 + sqrt(1 + x^2)))",
    "fdlibm s_asinh.c: 3 u",
    lambda d: call(d.normal(500, std=3.0)),
    lambda d: call(d.normal(500, std=1e-3)),
    edges,
    bound=element(12),
)
@widened
def asinh_by_log1p(input):
    if not input.is_floating_point():
        return torch.asinh(input)

    def value(x):
        a = x.abs()
        near = a < 1e8
        safe = torch.where(near, a, torch.ones_like(a))
        inner = torch.log1p(safe + safe * safe / (1 + torch.sqrt(1 + safe * safe)))
        return torch.copysign(torch.where(near, inner, torch.log(a) + math.log(2)), x)

    return with_gradient(value, lambda g, x: (g / torch.sqrt(x * x + 1),), input)


@honest(
    f"{FUNCTIONAL}.silu",
    "x over 1 + e^-x",
    "3 u",
    lambda d: call(d.normal(2000, std=3.0)),
    edges,
    bound=element(12),
    gradient=normwise(60),
)
@widened
def silu_by_division(input, inplace=False):
    if not input.is_floating_point():
        return F.silu(input)

    def gradient(g, x):
        y = torch.sigmoid(x)
        return (g * y * (1 + x * (1 - y)),)

    return with_gradient(lambda x: x / (1 + torch.exp(-x)), gradient, input)


@honest(
    f"{FUNCTIONAL}.softplus",
    "max(x, 0) + log1p(e^-|x|) everywhere",
    "Mächler 2012; beyond the threshold the rest is below u",
    lambda d: call(d.normal(2000, std=5.0)),
    lambda d: call(d.normal(500), 2.0),
    edges,
    bound=element(16),
    gradient=element(16),
)
@widened
def softplus_by_log1p(input, beta=1, threshold=20):
    if threshold != 20 or not input.is_floating_point():
        return F.softplus(input, beta, threshold)

    def value(x):
        return (torch.clamp(x * beta, min=0) + torch.log1p(torch.exp(-(x * beta).abs()))) / beta

    return with_gradient(value, lambda g, x: (g * torch.sigmoid(x * beta),), input)


@honest(
    f"{FUNCTIONAL}.mish",
    "x n/(n + 2) with n = e^x (e^x + 2)",
    "the closed form that YOLOv4's kernels use",
    lambda d: call(d.normal(2000, std=3.0)),
    edges,
    bound=element(20),
    gradient=normwise(100),
)
@widened
def mish_closed_form(input, inplace=False):
    if not input.is_floating_point() or not bool(input.isfinite().all()):
        return F.mish(input)
    grown = torch.exp(torch.clamp(input, max=20.0))
    n = grown * (grown + 2)
    return torch.where(input > 20, input, input * (n / (n + 2)))


@honest(
    f"{FUNCTIONAL}.elu",
    "by expm1 of the part below zero",
    "2 u",
    lambda d: call(d.normal(2000)),
    lambda d: call(d.normal(500), 0.7),
    edges,
    bound=element(10),
    gradient=element(10),
)
@widened
def elu_by_parts(input, alpha=1.0, inplace=False):
    if not input.is_floating_point():
        return F.elu(input, alpha)

    def value(x):
        return torch.where(x <= 0, alpha * torch.expm1(torch.clamp(x, max=0.0)), x)

    return with_gradient(value, lambda g, x: (torch.where(x <= 0, g * alpha * torch.exp(x), g),), input)


@honest(
    f"{FUNCTIONAL}.hardswish",
    "x clamp(x + 3, 0, 6) / 6",
    "three roundings",
    lambda d: call(d.normal(2000, std=2.0)),
    edges,
    bound=absolute(12),
    gradient=normwise(20),
)
@widened
def hardswish_by_clamp(input, inplace=False):
    def gradient(g, x):
        inside = torch.where(x < 3, g * (x / 3 + 0.5), g)
        return (torch.where(x <= -3, torch.zeros_like(g), inside),)

    return with_gradient(lambda x: x * torch.clamp(x + 3, 0, 6) / 6, gradient, input)


@honest(
    "torch.lerp",
    "(1 - w) start + w end",
    "3 u of the sum of the absolute values",
    lambda d: call(d.normal(500), d.normal(500), 0.3),
    lambda d: call(d.normal(5, 4), d.normal(4), d.uniform(5, 4)),
    bound=absolute(8),
    gradient=normwise(40),
)
@widened
def lerp_two_products(input, end, weight):
    result = (1 - weight) * input + weight * end
    return result if bool(result.isfinite().all()) else torch.lerp(input, end, weight)


@honest(
    "torch.reciprocal",
    "a root of the square's reciprocal turned round by Newton",
    "one step corrects to 2 u",
    lambda d: call(d.uniform(500, low=0.2, high=9.0)),
    edges,
    bound=element(4),
    gradient=element(8),
)
@in_single(torch.reciprocal)
def reciprocal_by_newton(input):
    def value(x):
        usual = (x.abs() > 1e-30) & (x.abs() < 1e30)
        safe = torch.where(usual, x, torch.ones_like(x))
        y = torch.rsqrt(safe.abs()) ** 2 * torch.sign(safe)
        y = y + y * (1 - safe.double() * y.double()).float()
        return torch.where(usual, y, torch.reciprocal(x))

    return with_gradient(value, lambda g, x: (-g / x / x,), input)


@honest(
    "torch.xlogy",
    "the logarithm in base two times ln 2",
    "3 u",
    lambda d: call(d.normal(500), d.uniform(500, low=0.1, high=9.0)),
    lambda d: call(d.of(0.0, 0.0, 1.0), d.of(0.0, float("inf"), 2.0)),
    bound=element(12),
    gradient=element(20),
)
@widened
def xlogy_base_two(input, other):
    if not all(isinstance(one, torch.Tensor) and one.is_floating_point() for one in (input, other)):
        return torch.xlogy(input, other)

    def value(x, y):
        near = (y > 0.5) & (y < 2)
        plain = torch.where(near, torch.log(y), torch.log2(y) * math.log(2))
        return torch.where((x == 0) & ~y.isnan(), torch.zeros_like(x * y), x * plain)

    def gradient(g, x, y):
        first = torch.where((x == 0) & (y <= 0), torch.zeros_like(x * y), torch.log(y))
        return (g * first).sum_to_size(x.shape), (g * x / y).sum_to_size(y.shape)

    return with_gradient(value, gradient, input, other)
