"""Special functions in longdouble: erf and its kin, gamma and its kin by formulas of our own, the others by mpmath.

All take and return longdouble arrays. Their error is a few units of the 64th bit; ``tests/frameworks`` holds them to
mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.table import LN2, PI, REAL, SQRT2, SQRT_2PI, SQRT_PI, Array, NoWideGold

MPMATH_LIMIT = 100_000
"""The most elements that are handed to mpmath one by one; each takes from ten microseconds to a millisecond."""

STEP = REAL("0.375")
NODES = np.arange(1, 24).astype(REAL) * STEP
"""The trapezoidal rule for erfc: with this step its error is exp(-(pi/step)^2), 3e-31."""

STIRLING_FROM = 24
DIGAMMA_ZERO = REAL("1.4616321449683623412626595423257213")
DIGAMMA_ZERO_REST = REAL("-1.8257096315963484214601e-20")
"""Where digamma is zero: a longdouble, and what it is short of."""
EULER = REAL("0.57721566490153286060651209008240243104215933593992")
BERNOULLI = [
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798), (-174611, 330),
    (854513, 138),
]  # fmt: skip
"""B(2), B(4), ... as fractions."""


@cache
def _mpmath() -> Any:
    try:
        return import_module("mpmath")
    except ImportError:
        raise NoWideGold("special functions", "mpmath is not installed; pip install mpmath") from None


def to_exact(value: Any) -> Any:
    """A longdouble as an mpmath number, every bit kept."""
    mpmath = _mpmath()
    if not np.isfinite(value):
        return mpmath.mpf(float(value))
    mantissa, exponent = np.frexp(value)
    return mpmath.ldexp(mpmath.mpf(int(np.ldexp(mantissa, 64))), int(exponent) - 64)


def from_exact(value: Any) -> Any:
    """An mpmath number rounded to a longdouble; NaN where it is not real."""
    mpmath = _mpmath()
    if isinstance(value, mpmath.mpc):
        if value.imag != 0:
            return REAL("nan")
        value = value.real
    if not mpmath.isfinite(value):
        return REAL(float(value))
    return REAL(mpmath.nstr(value, 25, strip_zeros=False))


def by_mpmath(function: Callable[..., Any], *arrays: Array, digits: int = 32) -> Array:
    """Calls a function of mpmath numbers on each element; NaN in gives NaN out, poles give infinity."""
    mpmath = _mpmath()
    spread = np.broadcast_arrays(*arrays)
    if spread[0].size > MPMATH_LIMIT:
        raise NoWideGold("special functions", f"{spread[0].size} elements are too many to be computed one by one")
    result = np.empty(spread[0].shape, REAL)
    flat = result.reshape(-1)
    with mpmath.workdps(digits):
        for place, values in enumerate(zip(*(one.reshape(-1) for one in spread), strict=True)):
            if any(np.isnan(value) for value in values):
                flat[place] = np.nan
                continue
            try:
                flat[place] = from_exact(function(*map(to_exact, values)))
            except (ZeroDivisionError, OverflowError):
                flat[place] = np.inf
            except (ValueError, mpmath.libmp.NoConvergence):
                flat[place] = np.nan
    return result


def _where(mask: Array, array: Array, function: Callable[[Array], Array], result: Array) -> None:
    """Fills the masked elements of ``result`` with the function of those of ``array``."""
    if mask.any():
        result[mask] = function(array[mask])


def _exp_minus_square(x: Array, divisor: int = 1) -> Array:
    """exp(-x^2 / divisor) without the error that rounding the square would make."""
    head = np.ldexp(np.rint(np.ldexp(x, 20)), -20)
    tail = x - head
    result = np.exp(-head * head / divisor) * np.exp(-tail * (x + head) / divisor)
    return np.where(np.isinf(x), 0, result)


def _erf_series(x: Array) -> Array:
    """erf for |x| < 1: every term has the sign of x, so that nothing cancels."""
    square = x * x
    term = x.copy()
    total = x.copy()
    for index in range(1, 30):
        term = term * square * 2 / (2 * index + 1)
        total = total + term
    return total * np.exp(-square) * 2 / SQRT_PI


def _erfcx_positive(x: Array) -> Array:
    """exp(x^2) erfc(x) for x >= 1, by the trapezoidal rule with the residue of its pole."""
    square = x * x
    total = 1 / square
    for node in NODES:
        total = total + 2 * np.exp(-node * node) / (square + node * node)
    result = STEP * x * total / PI
    near = x < 6
    _where(near, x, lambda z: result[near] - 2 / (np.expm1(2 * PI * z / STEP) * _exp_minus_square(z)), result)
    result[np.isposinf(x)] = 0
    return result


def erf(x: Array) -> Array:
    result = np.empty(x.shape, REAL)
    small = np.abs(x) < 1
    _where(small, x, _erf_series, result)
    _where(~small, x, lambda z: np.sign(z) * (1 - _erfc_positive(np.abs(z))), result)
    return result


def _erfc_positive(x: Array) -> Array:
    return _erfcx_positive(x) * _exp_minus_square(np.minimum(x, 200))


def erfc(x: Array) -> Array:
    result = np.empty(x.shape, REAL)
    small, large = np.abs(x) < 1, x >= 1
    _where(small, x, lambda z: 1 - _erf_series(z), result)
    _where(large, x, _erfc_positive, result)
    _where(~(small | large), x, lambda z: 2 - _erfc_positive(-z), result)
    return result


def erfcx(x: Array) -> Array:
    result = np.empty(x.shape, REAL)
    large = x >= 1
    _where(large, x, _erfcx_positive, result)
    _where(~large, x, lambda z: erfc(z) / _exp_minus_square(z), result)
    return result


def ndtr(x: Array) -> Array:
    """The normal distribution function, Phi."""
    result = np.empty(x.shape, REAL)
    low = x < -SQRT2
    _where(low, x, lambda z: _erfcx_positive(-z / SQRT2) * _exp_minus_square(z, 2) / 2, result)
    _where(~low, x, lambda z: erfc(-z / SQRT2) / 2, result)
    return result


def normal_density(x: Array) -> Array:
    return _exp_minus_square(x, 2) / SQRT_2PI


def log_ndtr(x: Array) -> Array:
    result = np.empty(x.shape, REAL)
    low = x < -1
    _where(low, x, lambda z: np.log(erfcx(-z / SQRT2) / 2) - z * z / 2, result)
    _where(~low, x, lambda z: np.log1p(-ndtr(-z)), result)
    return result


def _newton(start: Array, step: Callable[[Array], Array]) -> Array:
    """Newton's steps from a double-precision start; two would do."""
    for _ in range(4):
        moved = start - step(start)
        start = np.where(np.isfinite(moved), moved, start)
    return start


def erfinv(y: Array) -> Array:
    """The inverse of erf: near 1 by its complement, so that nothing is lost there."""
    tail = np.log1p(-np.minimum(np.abs(y), 1)) + np.log1p(np.minimum(np.abs(y), 1))
    scale = tail / 2 + 2 / (PI * REAL("0.147"))
    start = np.sign(y) * np.sqrt(np.maximum(np.sqrt(scale * scale - tail / REAL("0.147")) - scale, 0))
    size = np.abs(y)
    central = size < REAL("0.5")

    def step(x: Array) -> Array:
        density = 2 / SQRT_PI * _exp_minus_square(x)
        off = np.where(central, erf(x) - y, np.sign(y) * ((1 - size) - erfc(np.abs(x))))
        return off / (density + x * off)

    result = _newton(start, step)
    result = np.where(size == 1, np.sign(y) * np.inf, result)
    return np.where((size > 1) | np.isnan(y), np.nan, result)


def ndtri(p: Array) -> Array:
    """The quantile of the normal distribution: the root of log Phi(x) = log p in the lower half, mirrored."""
    lower = np.minimum(p, 1 - p)
    wanted = np.log(lower)

    def step(x: Array) -> Array:
        ratio = SQRT_PI / SQRT2 * erfcx(-x / SQRT2)
        return (log_ndtr(x) - wanted) * ratio

    start = np.where(lower > REAL("0.05"), SQRT2 * erfinv(2 * lower - 1), -np.sqrt(np.maximum(-2 * wanted - 2, 0)))
    result = _newton(_newton(start, step), step)
    result = np.where(p < REAL("0.5"), result, -result)
    result = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.where(p == REAL("0.5"), 0, result)))
    return np.where((p < 0) | (p > 1) | np.isnan(p), np.nan, result)


def _bernoulli_tail(x: Array, weights: Callable[[int], float], first_power: int) -> Array:
    """The sum over k of B(2k) / weights(k) / x^(2k - 2 + first_power)."""
    square = 1 / (x * x)
    total = np.zeros_like(x)
    for place in range(len(BERNOULLI), 0, -1):
        above, below = BERNOULLI[place - 1]
        total = total * square + REAL(above) / (REAL(below) * REAL(weights(place)))
    return total / x**first_power


def _raised(x: Array) -> tuple[Array, Array]:
    """How often the recurrence must be used until Stirling's series holds, and where that ends."""
    steps = np.maximum(np.ceil(STIRLING_FROM - x), 0)
    return steps, x + steps


def _lgamma_large(x: Array) -> Array:
    steps, high = _raised(x)
    product = np.ones_like(x)
    for index in range(STIRLING_FROM):
        product = np.where(index < steps, product * (x + index), product)
    head = (high - REAL("0.5")) * np.log(high) - high + np.log(2 * PI) / 2
    result = head + _bernoulli_tail(high, lambda k: 2 * k * (2 * k - 1), 1) - np.log(product)
    return np.where(np.isposinf(x), np.inf, result)


@cache
def _zeta_coefficients() -> Array:
    """zeta(k) - 1 for k from 0; the first two are not used."""
    orders = np.maximum(np.arange(48), 2).astype(REAL)
    return hurwitz_zeta(orders, np.full(orders.shape, 2, REAL))


def _lgamma_near_two(t: Array) -> Array:
    """lgamma(2 + t) for |t| <= 1/2, which is proportional to t."""
    total = np.zeros_like(t)
    coefficients = _zeta_coefficients()
    for order in range(len(coefficients) - 1, 1, -1):
        total = -t * (total + coefficients[order] / order * t)
    # Horner's scheme has turned the sign of each term; the sum begins with the positive square.
    return (1 - EULER) * t - total


def _lgamma_small(x: Array) -> Array:
    """Between 0 and 4, by the series around 2 and the recurrence; nothing cancels, not even at the zeros 1 and 2."""
    result = np.zeros_like(x)
    for _ in range(2):
        high = x > 2.5
        result = np.where(high, result + np.log(np.where(high, x - 1, 1)), result)
        x = np.where(high, x - 1, x)
    for _ in range(2):
        low = x < 1.5
        logarithm = np.where(x < 0.5, np.log(x), np.log1p(np.where(low, x - 1, 0)))
        result = np.where(low, result - logarithm, result)
        x = np.where(low, x + 1, x)
    return result + _lgamma_near_two(x - 2)


def lgamma(x: Array) -> Array:
    """log |Gamma(x)|; by mpmath for negative numbers."""
    result = np.empty(x.shape, REAL)
    easy, small = x >= 4, (x > 0) & (x < 4)
    _where(easy, x, _lgamma_large, result)
    _where(small, x, _lgamma_small, result)
    _where(~(easy | small), x, lambda z: by_mpmath(lambda one: _mpmath().re(_mpmath().loggamma(one)), z), result)
    result[(x <= 0) & (x == np.floor(x))] = np.inf
    return result


def digamma(x: Array) -> Array:
    """By mpmath for negative numbers."""
    result = np.empty(x.shape, REAL)
    near = np.abs(x - DIGAMMA_ZERO) <= REAL("0.05")
    easy = (x > 0) & ~near
    _where(easy, x, _digamma_large, result)
    _where(near, x, _digamma_near_zero, result)
    _where(~(easy | near), x, lambda z: by_mpmath(lambda one: _mpmath().digamma(one), z), result)
    pole = (x <= 0) & (x == np.floor(x))
    result[pole] = np.nan
    result[x == 0] = np.where(np.signbit(x[x == 0]), np.inf, -np.inf)
    return result


def _digamma_large(x: Array) -> Array:
    steps, high = _raised(x)
    below = np.zeros_like(x)
    for index in range(STIRLING_FROM):
        below = np.where(index < steps, below + 1 / (x + index), below)
    result = np.log(high) - 1 / (2 * high) - _bernoulli_tail(high, lambda k: 2 * k, 2) - below
    return np.where(np.isposinf(x), np.inf, result)


@cache
def _digamma_slopes() -> list[Any]:
    """The coefficients of the powers of x - zero, from the first."""
    orders = np.arange(2, 18).astype(REAL)
    signs = np.where(orders % 2, REAL(-1), REAL(1))
    return list(signs * hurwitz_zeta(orders, np.full(orders.shape, DIGAMMA_ZERO)))


def _digamma_near_zero(x: Array) -> Array:
    """By its series there, which is proportional to the distance: nothing cancels."""
    away = (x - DIGAMMA_ZERO) - DIGAMMA_ZERO_REST
    total = np.zeros_like(x)
    for slope in reversed(_digamma_slopes()):
        total = (total + slope) * away
    return total


def _inverse_power(base: Array, order: Array) -> Array:
    """base^-order; for whole orders that are small without the logarithm of a power, at a tenth of the time."""
    if np.ndim(order) or order != np.rint(order) or not 0 < order <= 8:
        return np.power(base, -order)
    raised = base
    for _ in range(int(order) - 1):
        raised = raised * base
    return 1 / raised


def hurwitz_zeta(s: Array, q: Array) -> Array:
    """The sum over k of (q + k)^-s for s > 1 and q > 0, by Euler and Maclaurin."""
    terms = STIRLING_FROM + int(np.max(s, initial=0))
    total = np.zeros(np.broadcast_shapes(s.shape, q.shape), REAL)
    for index in range(terms):
        total = total + _inverse_power(q + index, s)
    high = q + terms
    tail = high / (s - 1) + REAL("0.5")
    factor = s / (2 * high)
    for place, (above, below) in enumerate(BERNOULLI, 1):
        tail = tail + REAL(above) / REAL(below) * factor
        factor = factor * (s + 2 * place - 1) * (s + 2 * place) / ((2 * place + 1) * (2 * place + 2) * high * high)
    return total + np.power(high, -s) * tail


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma, n > 0; by mpmath for negative numbers."""
    result = np.empty(x.shape, REAL)
    factorial = np.prod(np.arange(1, n + 1).astype(REAL))
    sign = 1 if n % 2 else -1
    easy = x > 0
    _where(easy, x, lambda z: sign * factorial * hurwitz_zeta(np.asarray(n + 1, REAL), z), result)
    _where(~easy, x, lambda z: by_mpmath(lambda one: _mpmath().psi(n, one), z), result)
    return result


def sin_of_pi(x: Array) -> Array:
    """sin(pi x), with x reduced exactly before it is multiplied."""
    return np.sin(PI * (x - 2 * np.rint(x / 2)))


def sinc(x: Array) -> Array:
    return np.where(x == 0, REAL(1), sin_of_pi(x) / (PI * np.where(x == 0, REAL(1), x)))


def logaddexp2(x: Array, y: Array) -> Array:
    high, low = np.maximum(x, y), np.minimum(x, y)
    same = high == low
    return np.where(same, high + 1, high + np.log1p(np.exp2(np.where(same, 0, low - high))) / LN2)
