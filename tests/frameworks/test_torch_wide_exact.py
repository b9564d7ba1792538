"""Wide results against mpmath and against exact arithmetic: they must hold to 1e-17, where float64 holds to 1e-16."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
mpmath = pytest.importorskip("mpmath")

from torch.nn import functional as F  # noqa: E402

from trueline.frameworks.torch.wide import Wide, narrow, run_wide  # noqa: E402

mp = mpmath.mp.clone()
mp.dps = 50
LIMIT = 1e-17

sqrt, exp, log, tanh, erf, pi = mp.sqrt, mp.exp, mp.log, mp.tanh, mp.erf, mp.pi


def exact(tensor: Any) -> Any:
    """An array of mpmath numbers, every bit kept."""
    high, low = narrow(tensor)
    made = np.empty(high.shape, object)
    for place in np.ndindex(high.shape):
        made[place] = mp.mpf(float(high[place])) + mp.mpf(float(low[place]))
    return made


def worst(found: Any, wanted: Any, scale: Any = None) -> float:
    """The largest error, relative to each number, or to a scale."""
    found, wanted = np.asarray(found, object).reshape(-1), np.asarray(wanted, object).reshape(-1)
    assert len(found) == len(wanted)
    return max(
        float(abs(one - other) / (abs(other) if scale is None else scale)) if other != 0 or scale else float(abs(one))
        for one, other in zip(found, wanted, strict=True)
    )


def draw(low: float, high: float, *shape: int, seed: int = 5) -> Any:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * (high - low) + low


def sigmoid(x: Any) -> Any:
    return 1 / (1 + exp(-x))


def phi(x: Any) -> Any:
    return mp.erfc(-x / sqrt(2)) / 2


def tanh_gelu(x: Any) -> Any:
    return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + mp.mpf("0.044715") * x**3)))


SMOOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any], float, float]] = {
    "exp": (torch.exp, exp, -3, 3),
    "exp2": (torch.exp2, lambda x: mp.mpf(2) ** x, -3, 3),
    "expm1": (torch.expm1, mp.expm1, -3, 3),
    "log": (torch.log, log, 0.1, 9),
    "log2": (torch.log2, lambda x: log(x, 2), 0.1, 9),
    "log10": (torch.log10, lambda x: log(x, 10), 0.1, 9),
    "log1p": (torch.log1p, lambda x: log(1 + x), 0.1, 9),
    "sqrt": (torch.sqrt, sqrt, 0.1, 9),
    "rsqrt": (torch.rsqrt, lambda x: 1 / sqrt(x), 0.1, 9),
    "reciprocal": (torch.reciprocal, lambda x: 1 / x, 0.1, 9),
    "sin": (torch.sin, mp.sin, -3, 3),
    "cos": (torch.cos, mp.cos, -1.3, 1.3),
    "tan": (torch.tan, mp.tan, -1.3, 1.3),
    "asin": (torch.asin, mp.asin, -0.9, 0.9),
    "acos": (torch.acos, mp.acos, -0.9, 0.9),
    "atan": (torch.atan, mp.atan, -9, 9),
    "sinh": (torch.sinh, mp.sinh, -3, 3),
    "cosh": (torch.cosh, mp.cosh, -3, 3),
    "tanh": (torch.tanh, tanh, -3, 3),
    "asinh": (torch.asinh, mp.asinh, -9, 9),
    "acosh": (torch.acosh, mp.acosh, 1.5, 9),
    "atanh": (torch.atanh, mp.atanh, -0.9, 0.9),
    "sigmoid": (torch.sigmoid, sigmoid, -3, 3),
    "logit": (torch.logit, lambda x: log(x / (1 - x)), 0.05, 0.45),
    "erf": (torch.erf, erf, -3, 3),
    "erfc": (torch.erfc, mp.erfc, -3, 6),
    "erfcx": (torch.special.erfcx, lambda x: exp(x * x) * mp.erfc(x), -2, 9),
    "erfinv": (torch.erfinv, mp.erfinv, -0.99, 0.99),
    "ndtr": (torch.special.ndtr, phi, -6, 6),
    "log_ndtr": (torch.special.log_ndtr, lambda x: log(phi(x)), -6, 3),
    "lgamma": (torch.lgamma, lambda x: mp.re(mp.loggamma(x)), 2.5, 30),
    "digamma": (torch.digamma, mp.digamma, 2, 30),
    "polygamma": (lambda x: torch.polygamma(1, x), lambda x: mp.psi(1, x), 0.3, 30),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 2), lambda x: log(pi) / 2 + mp.loggamma(x) + mp.loggamma(x - 0.5), 4, 9),
    "sinc": (torch.sinc, lambda x: mp.sinpi(x) / (pi * x), 0.1, 0.9),
    "deg2rad": (torch.deg2rad, mp.radians, -300, 300),
    "rad2deg": (torch.rad2deg, mp.degrees, -3, 3),
    "i0": (torch.i0, lambda x: mp.besseli(0, x), -3, 3),
    "i1": (torch.special.i1, lambda x: mp.besseli(1, x), 0.1, 3),
    "entr": (torch.special.entr, lambda x: -x * log(x), 0.1, 0.9),
    "power": (lambda x: x**2.5, lambda x: x ** mp.mpf(2.5), 0.1, 9),
    "number to a power": (lambda x: 2.5**x, lambda x: mp.mpf(2.5) ** x, -3, 3),
    "silu": (F.silu, lambda x: x * sigmoid(x), -1, 9),
    "gelu": (F.gelu, lambda x: x * phi(x), -0.5, 6),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), tanh_gelu, -0.5, 6),
    "mish": (F.mish, lambda x: x * tanh(log(1 + exp(x))), -1, 9),
    "softplus": (lambda x: F.softplus(x, 3, 99), lambda x: log(1 + exp(3 * x)) / 3, -3, 3),
    "logsigmoid": (F.logsigmoid, lambda x: -log(1 + exp(-x)), -9, 9),
    "elu": (F.elu, lambda x: exp(x) - 1, -3, -0.1),
    "celu": (lambda x: F.celu(x, 0.3), lambda x: mp.mpf(0.3) * (exp(x / mp.mpf(0.3)) - 1), -3, -0.1),
    "selu": (F.selu, lambda x: mp.mpf(1.0507009873554805) * mp.mpf(1.6732632423543772) * (exp(x) - 1), -3, -0.1),
    "hardsigmoid": (F.hardsigmoid, lambda x: (x + 3) / 6, -2.9, 2.9),
    "hardswish": (F.hardswish, lambda x: x * (x + 3) / 6, -1.4, 2.9),
    "softsign": (F.softsign, lambda x: x / (1 + abs(x)), 0.1, 9),
    "tanhshrink": (F.tanhshrink, lambda x: x - tanh(x), 0.1, 9),
    "bce": (
        lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3), reduction="none"),
        lambda x: log(1 + exp(x)) - mp.mpf(0.3) * x,
        0.1,
        9,
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_and_their_gradients(name: str) -> None:
    ours, theirs, low, high = SMOOTH[name]
    x = draw(low, high, 12).requires_grad_()
    run = run_wide(ours, (x,), output_gradients=[torch.ones(12, dtype=torch.float64)])
    places = [mp.mpf(float(one)) for one in x.detach()]
    assert worst(exact(run.outputs), [theirs(one) for one in places]) < LIMIT
    with mp.workdps(70):
        slopes = [mp.diff(theirs, one) for one in places]
    assert worst(exact(run.gradients[0]), slopes) < LIMIT


def test_float64_itself_does_not_hold() -> None:
    """The limit means something: ordinary float64 misses it."""
    x = draw(-3, 3, 12)
    wanted = [exp(mp.mpf(float(one))) for one in x]
    assert worst(exact(torch.exp(x)), wanted) > LIMIT


TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "atan2": (torch.atan2, mp.atan2),
    "hypot": (torch.hypot, lambda x, y: sqrt(x * x + y * y)),
    "logaddexp": (torch.logaddexp, lambda x, y: log(exp(x) + exp(y))),
    "logaddexp2": (torch.logaddexp2, lambda x, y: log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2)),
    "xlogy": (torch.xlogy, lambda x, y: x * log(y)),
    "xlog1py": (torch.special.xlog1py, lambda x, y: x * log(1 + y)),
    "pow": (torch.pow, lambda x, y: x**y),
    "zeta": (lambda x, y: torch.special.zeta(x + 1, y), lambda x, y: mp.zeta(x + 1, y)),
    "igamma": (torch.igamma, lambda x, y: mp.gammainc(x, 0, y, regularized=True)),
    "igammac": (torch.igammac, lambda x, y: mp.gammainc(x, y, mp.inf, regularized=True)),
    "div": (torch.div, lambda x, y: x / y),
    "fmod": (torch.fmod, mp.fmod),
}


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name: str) -> None:
    ours, theirs = TWO[name]
    x, y = draw(0.5, 4, 10), draw(0.5, 2, 10, seed=6)
    wanted = [theirs(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    assert worst(exact(run_wide(ours, (x, y)).outputs), wanted) < LIMIT


def gold(function: Callable[..., Any], *args: Any) -> Any:
    return exact(run_wide(function, args).outputs)


def test_sums_and_products_are_as_exact_arithmetic_gives_them() -> None:
    x, w = draw(-1, 1, 6, 40), draw(-1, 1, 40, 5, seed=6)
    a, b = exact(x), exact(w)
    assert worst(gold(torch.mm, x, w), a @ b, 1) < LIMIT
    assert worst(gold(torch.sum, x), a.sum(), 1) < LIMIT
    assert worst(gold(torch.mean, x), a.sum() / 240, 1) < LIMIT
    assert worst(gold(lambda x: torch.cumsum(x, 1), x), np.cumsum(a, axis=1), 1) < LIMIT
    assert worst(gold(lambda x: torch.prod(x, 1), x), np.prod(a, axis=1)) < LIMIT
    centre = a.sum(axis=1, keepdims=True) / 40
    assert worst(gold(lambda x: torch.var(x, 1), x), ((a - centre) ** 2).sum(axis=1) / 39) < LIMIT


def test_softmax_and_its_gradient() -> None:
    x, g = draw(-4, 4, 3, 7).requires_grad_(), draw(-1, 1, 3, 7, seed=6)
    run = run_wide(lambda x: torch.softmax(x, 1), (x,), output_gradients=[g])
    powers = np.vectorize(exp, otypes=[object])(exact(x))
    weights = powers / powers.sum(axis=1, keepdims=True)
    assert worst(exact(run.outputs), weights) < LIMIT
    inner = (weights * exact(g)).sum(axis=1, keepdims=True)
    assert worst(exact(run.gradients[0]), weights * (exact(g) - inner), 1) < LIMIT


def test_convolution_and_its_gradients_by_their_definition() -> None:
    x, w = draw(-1, 1, 2, 2, 5, 5).requires_grad_(), draw(-1, 1, 3, 2, 2, 2, seed=6).requires_grad_()
    g = draw(-1, 1, 2, 3, 3, 3, seed=7)
    run = run_wide(lambda x, w: F.conv2d(x, w, stride=2, padding=1), (x, w), output_gradients=[g])
    a = np.pad(exact(x), [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=mp.mpf(0))
    b, d = exact(w), exact(g)
    forward, for_x, for_w = d * 0, a * 0, b * 0
    for n, o, i, j in itertools.product(range(2), range(3), range(3), range(3)):
        patch = (n, slice(None), slice(2 * i, 2 * i + 2), slice(2 * j, 2 * j + 2))
        forward[n, o, i, j] = (a[patch] * b[o]).sum()
        for_x[patch] = for_x[patch] + b[o] * d[n, o, i, j]
        for_w[o] = for_w[o] + a[patch] * d[n, o, i, j]
    assert worst(exact(run.outputs), forward, 1) < LIMIT
    assert worst(exact(run.gradients[0]), for_x[:, :, 1:-1, 1:-1], 1) < LIMIT
    assert worst(exact(run.gradients[1]), for_w, 1) < LIMIT


def test_layer_norm_by_its_definition() -> None:
    x, w = draw(-1, 1, 3, 8), draw(-1, 1, 8, seed=6)
    a = exact(x)
    centred = a - a.sum(axis=1, keepdims=True) / 8
    deviation = np.vectorize(sqrt, otypes=[object])((centred**2).sum(axis=1, keepdims=True) / 8 + mp.mpf(1e-5))
    assert worst(gold(lambda x, w: F.layer_norm(x, (8,), w), x, w), centred / deviation * exact(w), 1) < LIMIT


def test_attention_scales_by_the_root_and_not_by_its_rounding() -> None:
    q, k, v = (draw(-2, 2, 1, 3, 5, seed=seed) for seed in (1, 2, 3))
    scores = exact(q)[0] @ exact(k)[0].T / sqrt(mp.mpf(5))
    powers = np.vectorize(exp, otypes=[object])(scores)
    wanted = (powers / powers.sum(axis=1, keepdims=True)) @ exact(v)[0]
    assert worst(gold(F.scaled_dot_product_attention, q, k, v)[0], wanted, 1) < LIMIT
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found = gold(lambda q, k, v: flash(q, k, v)[0], q[None], k[None], v[None])
    assert worst(found[0, 0], wanted, 1) < LIMIT


def test_bilinear_resampling_keeps_straight_lines() -> None:
    line = torch.arange(9, dtype=torch.float64)[None, None]
    found = gold(lambda x: F.interpolate(x, size=25, mode="linear", align_corners=True), line)
    assert worst(found[0, 0], [mp.mpf(place) * 8 / 24 for place in range(25)], 1) < LIMIT


def test_linear_algebra_leaves_no_residual() -> None:
    a = draw(-1, 1, 5, 5) + 2 * torch.eye(5, dtype=torch.float64)
    b = draw(-1, 1, 5, 2, seed=6)
    unit = np.vectorize(mp.mpf, otypes=[object])(np.eye(5))
    assert worst(exact(a) @ gold(torch.linalg.inv, a), unit, 1) < LIMIT
    assert worst(exact(a) @ gold(torch.linalg.solve, a, b), exact(b), 1) < LIMIT
    assert worst(gold(torch.linalg.det, a), mp.det(mp.matrix(exact(a).tolist()))) < LIMIT
    q, r = run_wide(torch.linalg.qr, (a,)).outputs
    assert worst(exact(q) @ exact(r), exact(a), 1) < LIMIT and worst(exact(q).T @ exact(q), unit, 1) < LIMIT
    symmetric = a + a.T
    definite = symmetric + 9 * torch.eye(5, dtype=torch.float64)
    lower = gold(torch.linalg.cholesky, definite)
    assert worst(lower @ lower.T, exact(definite), 1) < LIMIT
    values, vectors = run_wide(torch.linalg.eigh, (symmetric,)).outputs
    assert worst(exact(symmetric) @ exact(vectors), exact(vectors) * exact(values), 1) < LIMIT
    u, s, vh = run_wide(torch.linalg.svd, (a,)).outputs
    assert worst((exact(u) * exact(s)) @ exact(vh), exact(a), 1) < LIMIT
    assert worst(gold(torch.matrix_exp, a / 4), mp.expm(mp.matrix((exact(a) / 4).tolist())).tolist(), 1) < LIMIT


def test_eigenvectors_of_a_general_matrix() -> None:
    a = torch.tensor([[1.0, 2.0, 0.3], [-0.1, 4.0, 1.0], [0.5, -2.0, 3.0]], dtype=torch.float64)
    values, vectors = run_wide(torch.linalg.eig, (a,)).outputs
    assert isinstance(vectors, Wide)
    residual = a.numpy().astype(np.clongdouble) @ vectors.array - vectors.array * values.array
    assert np.abs(residual).max() < LIMIT


def test_fourier_by_its_definition() -> None:
    x = draw(-1, 1, 12)
    outputs = run_wide(torch.fft.fft, (x,)).outputs
    a = exact(x)
    for k in range(12):
        wanted = sum(a[j] * mp.expjpi(mp.mpf(-2 * j * k) / 12) for j in range(12))
        found = outputs.array[k]
        assert abs(found.real - np.longdouble(mp.nstr(wanted.real, 25))) < LIMIT
        assert abs(found.imag - np.longdouble(mp.nstr(wanted.imag, 25))) < LIMIT
