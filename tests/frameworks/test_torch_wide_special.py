"""The special functions in longdouble, over the whole of their domains, against mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
mpmath = pytest.importorskip("mpmath")

from trueline.frameworks.torch.wide import special as special  # noqa: E402
from trueline.frameworks.torch.wide.table import ENTRIES, NoWideGold  # noqa: E402

mp = mpmath.mp.clone()
mp.dps = 60


def phi(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def number(value: Any) -> Any:
    """A longdouble as an mpmath number of this context."""
    mantissa, exponent = np.frexp(value)
    return mp.ldexp(mp.mpf(int(np.ldexp(mantissa, 64))), int(exponent) - 64)


def worst(function: Callable[..., Any], wanted: Callable[..., Any], points: Any) -> float:
    points = np.asarray(points).astype(np.longdouble)
    with np.errstate(all="ignore"):
        found = function(points)
    return max(float(abs(number(one) / wanted(number(x)) - 1)) for x, one in zip(points, found, strict=True))


EVERYWHERE = np.concatenate([np.linspace(-6, 6, 60), [0.999, 1.0, 1.001, -1.0, 5.99, 6.01, 1e-12, -1e-5, 9.5]])
POSITIVE = np.concatenate([np.linspace(0.01, 5, 60), [1e-8, 1 + 1e-9, 2 - 1e-9, 3.999, 4.001, 23.9, 24.1, 1e3, 1e15]])
ZERO = np.concatenate([np.linspace(1.41, 1.52, 40), [1.4616, 1.4616321449683622, 1.4616321449683625]])  # of digamma
TABLE: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "erf": (special.erf, mp.erf, EVERYWHERE),
    "erfc": (special.erfc, mp.erfc, np.concatenate([EVERYWHERE, [15, 26.5]])),
    "erfcx": (special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), np.concatenate([EVERYWHERE, [26.5, 1e4]])),
    "ndtr": (special.ndtr, phi, np.concatenate([EVERYWHERE, [-37.0]])),
    "log_ndtr": (special.log_ndtr, lambda x: mp.log(phi(x)), np.concatenate([EVERYWHERE, [-37.0, -200.0]])),
    "lgamma": (special.lgamma, lambda x: mp.re(mp.loggamma(x)), POSITIVE[POSITIVE != 1]),
    "digamma": (special.digamma, mp.digamma, np.concatenate([POSITIVE, ZERO, [-0.3, -4.7]])),
    "polygamma 1": (lambda x: special.polygamma(1, x), lambda x: mp.psi(1, x), POSITIVE[:-1]),
    "polygamma 4": (lambda x: special.polygamma(4, x), lambda x: mp.psi(4, x), POSITIVE[:-1]),
    "zeta": (lambda x: special.hurwitz_zeta(np.longdouble(3), x), lambda x: mp.zeta(3, x), POSITIVE[:-1]),
    "zeta of a large order": (
        lambda x: special.hurwitz_zeta(np.asarray(50, np.longdouble), x),
        lambda x: mp.zeta(50, x),
        [0.3, 1.5, 9.0],
    ),
    "j0": (ENTRIES["special_bessel_j0"], lambda x: mp.besselj(0, x), [0.5, 3.2, 6.4, 9.0, 30.0]),
    "y1": (ENTRIES["special_bessel_y1"], lambda x: mp.bessely(1, x), [0.5, 3.2, 6.4, 9.0, 30.0]),
    "airy": (ENTRIES["special_airy_ai"], mp.airyai, [-3.0, 0.5, 3.2]),
}


@pytest.mark.parametrize("name", TABLE)
def test_agrees_with_mpmath(name: str) -> None:
    function, wanted, points = TABLE[name]
    assert worst(function, wanted, points) < 1e-17


@pytest.mark.parametrize("p", [1e-300, 1e-20, 1e-3, 0.04, 0.06, 0.3, 0.4999, 0.7, 0.999, 1 - 1e-12])
def test_quantiles_are_the_inverse(p: float) -> None:
    with np.errstate(all="ignore"):
        quantile, inverse = (one(np.array([p], np.longdouble))[0] for one in (special.ndtri, special.erfinv))
    x, y = number(quantile), number(inverse)
    # An error of x shows in log p multiplied by density / p.
    slope = mp.npdf(x) / phi(x) * abs(x)
    assert float(abs(mp.log(phi(x)) - mp.log(mp.mpf(p))) / slope) < 1e-17
    assert float(abs(mp.erf(y) - mp.mpf(p)) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y) * y)) < 1e-17


def test_edges() -> None:
    inf, nan = np.inf, np.nan
    points = np.array([inf, -inf, nan, 0.0], np.longdouble)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(special.erf(points), np.array([1, -1, nan, 0]))
        np.testing.assert_array_equal(special.erfc(points), np.array([0, 2, nan, 1]))
        np.testing.assert_array_equal(special.ndtr(points), np.array([1, 0, nan, 0.5]))
        np.testing.assert_array_equal(special.lgamma(points), np.array([inf, inf, nan, inf]))
        np.testing.assert_array_equal(
            special.digamma(np.array([inf, nan, 0.0, -2.0], np.longdouble)), [inf, nan, -inf, nan]
        )
        ends = np.array([0.0, 1.0, 0.5, -0.1, 1.1, nan], np.longdouble)
        np.testing.assert_array_equal(special.ndtri(ends), [-inf, inf, 0, nan, nan, nan])
        np.testing.assert_array_equal(
            special.erfinv(np.array([1.0, -1.0, 0.0, 1.1], np.longdouble)), [inf, -inf, 0, nan]
        )


def test_numbers_travel_unharmed_to_mpmath_and_back() -> None:
    values = np.array(["1.1", "-3.7e-4000", "9.9e4000", "1e-30"], np.longdouble)
    same = special.by_mpmath(lambda x: x, values)
    np.testing.assert_array_equal(same, values)


def test_too_many_elements_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special, "MPMATH_LIMIT", 3)
    with pytest.raises(NoWideGold, match="too many"):
        special.by_mpmath(lambda x: x, np.ones(4, np.longdouble))
