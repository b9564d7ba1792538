"""Wide entries for the functions of mathematical physics: gamma and its kin, Bessel's, orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide import special as special
from trueline.frameworks.torch.wide.table import PI, REAL, Array, Entry, NoWideGold, Number, enter_all, entry, promoted

LONGEST_RECURRENCE = 20_000
LARGE_ORDER = 60
"""Beyond it the series for zeta would need more terms than mpmath."""


def _by(function: Callable[..., Any]) -> Entry:
    """An entry computed by mpmath; the function is given mpmath and the number."""

    def computed(x: Array) -> Array:
        mpmath = special._mpmath()
        return special.by_mpmath(lambda one: function(mpmath, one), np.asarray(promoted(x), REAL))

    return computed


def _positive(function: Callable[..., Any], at_zero: float) -> Entry:
    """As ``_by``, for a function of positive numbers with a pole at zero."""
    computed = _by(function)

    def guarded(x: Array) -> Array:
        x = promoted(x)
        result = computed(np.where(x > 0, x, 1))
        return np.where(x > 0, result, np.where(x == 0, at_zero, np.nan))

    return guarded


enter_all(
    {
        "i0": _by(lambda m, x: m.besseli(0, x)),
        "special_i0e": _by(lambda m, x: m.besseli(0, x) * m.exp(-abs(x))),
        "special_i1": _by(lambda m, x: m.besseli(1, x)),
        "special_i1e": _by(lambda m, x: m.besseli(1, x) * m.exp(-abs(x))),
        "special_modified_bessel_i0": _by(lambda m, x: m.besseli(0, x)),
        "special_modified_bessel_i1": _by(lambda m, x: m.besseli(1, x)),
        "special_modified_bessel_k0": _positive(lambda m, x: m.besselk(0, x), np.inf),
        "special_modified_bessel_k1": _positive(lambda m, x: m.besselk(1, x), np.inf),
        "special_scaled_modified_bessel_k0": _positive(lambda m, x: m.besselk(0, x) * m.exp(x), np.inf),
        "special_scaled_modified_bessel_k1": _positive(lambda m, x: m.besselk(1, x) * m.exp(x), np.inf),
        "special_bessel_j0": _by(lambda m, x: m.besselj(0, x)),
        "special_bessel_j1": _by(lambda m, x: m.besselj(1, x)),
        "special_bessel_y0": _positive(lambda m, x: m.bessely(0, x), -np.inf),
        "special_bessel_y1": _positive(lambda m, x: m.bessely(1, x), -np.inf),
        "special_spherical_bessel_j0": lambda x: np.where(x == 0, REAL(1), np.sin(x) / np.where(x == 0, 1, x)),
        "special_airy_ai": _by(lambda m, x: m.airyai(x)),
    }
)


@entry("polygamma")
def polygamma(n: int, self: Array) -> Array:
    x = promoted(self)
    if n == 0:
        return special.digamma(np.asarray(x, REAL))
    return special.polygamma(n, np.asarray(x, REAL))


@entry("mvlgamma")
def mvlgamma(self: Array, p: int) -> Array:
    x = promoted(self)
    total = np.full(x.shape, REAL(p * (p - 1)) / 4 * np.log(PI), REAL)
    for index in range(p):
        total = total + special.lgamma(x - REAL(index) / 2)
    return total


@entry("special_zeta")
def zeta(self: Number, other: Number) -> Array:
    """Hurwitz's zeta, with the answers that torch gives outside of its domain."""
    mpmath = special._mpmath()
    x, q = np.broadcast_arrays(np.asarray(self, REAL), np.asarray(other, REAL))
    pole = (q <= 0) & (q == np.floor(q))
    fine = (x > 1) & ((q > 0) | ((x == np.floor(x)) & ~pole))
    easy = fine & (q > 0) & (x < LARGE_ORDER)
    result = special.hurwitz_zeta(np.where(easy, x, 2), np.where(easy, q, 1))
    hard = fine & ~easy
    if hard.any():
        result[hard] = special.by_mpmath(mpmath.zeta, x[hard], q[hard])
    return np.where(fine, result, np.where((x == 1) | ((x > 1) & pole), np.inf, np.nan))


def _incomplete(self: Array, other: Array, upper: bool) -> Array:
    mpmath = special._mpmath()
    a, x = np.broadcast_arrays(np.asarray(self, REAL), np.asarray(other, REAL))
    fine = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)

    def one(shape: Any, place: Any) -> Any:
        if upper:
            return mpmath.gammainc(shape, place, mpmath.inf, regularized=True)
        return mpmath.gammainc(shape, 0, place, regularized=True)

    result = special.by_mpmath(one, np.where(fine, a, 1), np.where(fine, x, 1))
    below, above = (1, 0) if upper else (0, 1)
    edge = np.where((x == 0) & (a > 0), below, np.where((a == 0) & (x > 0) | np.isposinf(x) & (a > 0), above, np.nan))
    edge = np.where(np.isposinf(a) & np.isfinite(x) & (x >= 0), below, edge)
    return np.where(fine, result, edge)


@entry("igamma")
def igamma(self: Array, other: Array) -> Array:
    return _incomplete(self, other, False)


@entry("igammac")
def igammac(self: Array, other: Array) -> Array:
    return _incomplete(self, other, True)


def _recurrence(first: Callable[[Array], Array], following: Callable[..., Array], shifted: bool = False) -> Entry:
    """Orthogonal polynomials: the one of degree 1, and each from the two before it; zero for negative degrees."""

    def computed(x: Number, n: Number) -> Array:
        x, n = np.broadcast_arrays(np.asarray(x, REAL), np.trunc(np.asarray(n, REAL)))
        highest = int(np.max(n, initial=0))
        if highest > LONGEST_RECURRENCE:
            raise NoWideGold("orthogonal polynomials", f"of degree {highest} take too long")
        at = 2 * x - 1 if shifted else x
        before, current = np.ones(x.shape, REAL), first(at)
        result = np.where(n == 0, before, np.where(n == 1, current, 0))
        for degree in range(1, highest):
            before, current = current, following(at, degree, current, before)
            result = np.where(n == degree + 1, current, result)
        return result

    return computed


def _chebyshev(x: Array, degree: int, current: Array, before: Array) -> Array:
    return 2 * x * current - before


POLYNOMIALS: dict[str, Callable[[Array], Array]] = {
    "chebyshev_polynomial_t": lambda x: x,
    "chebyshev_polynomial_u": lambda x: 2 * x,
    "chebyshev_polynomial_v": lambda x: 2 * x - 1,
    "chebyshev_polynomial_w": lambda x: 2 * x + 1,
}
for _name, _first in POLYNOMIALS.items():
    entry(f"special_{_name}")(_recurrence(_first, _chebyshev))
    entry(f"special_shifted_{_name}")(_recurrence(_first, _chebyshev, True))

enter_all(
    {
        "special_hermite_polynomial_h": _recurrence(
            lambda x: 2 * x, lambda x, degree, current, before: 2 * x * current - 2 * degree * before
        ),
        "special_hermite_polynomial_he": _recurrence(
            lambda x: x, lambda x, degree, current, before: x * current - degree * before
        ),
        "special_laguerre_polynomial_l": _recurrence(
            lambda x: 1 - x,
            lambda x, degree, current, before: ((2 * degree + 1 - x) * current - degree * before) / (degree + 1),
        ),
        "special_legendre_polynomial_p": _recurrence(
            lambda x: x,
            lambda x, degree, current, before: ((2 * degree + 1) * x * current - degree * before) / (degree + 1),
        ),
    }
)
