"""torch.special: error functions, gamma functions, Bessel functions and orthogonal polynomials."""

from __future__ import annotations

from trueline.ops.catalogue.language import I, Row, T, binary, first_constant, forward, op, unary

_S = "torch.special."


def _names(text: str) -> str:
    return " ".join(_S + name for name in text.split())


_BESSEL = "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1"
_BESSEL_POSITIVE = "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1"
_POLYNOMIALS = """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w"""

ROWS: list[Row] = [
    *unary(
        _names("erf erfc expit exp2 expm1 sinc i0 i0e i1 i1e ndtr"),
        extremes=("uniform(-10, 10)", "small", "normal nan inf"),
    ),
    *unary(_names("erfcx"), of="uniform(-4, 20)", extremes=("uniform(-5, 100)",)),
    *unary(_names("log_ndtr"), of="uniform(-30, 5)", extremes=("small",)),
    *unary(_names("entr"), of="positive", extremes=("uniform(0, 1) zeros(0.2)", "wide magnitude")),
    *unary(_names("gammaln psi digamma"), of="positive", extremes=("uniform(1, 60)", "uniform(0.9, 1.1)")),
    *unary(_names("log1p"), of="uniform(-0.9, 8)", extremes=("small",)),
    *unary(_names("erfinv"), of="unit_open", extremes=("small",)),
    *unary(_names("logit ndtri"), of="probability", extremes=("uniform(0.001, 0.01)",)),
    *unary(_names("round"), extremes=("halves",)),
    *binary(_names("xlogy"), of="normal zeros(0.3)", other="positive", extremes=()),
    *binary(_names("xlog1py"), of="normal zeros(0.3)", other="uniform(-0.9, 8)", extremes=()),
    *first_constant(
        binary(_names("gammainc gammaincc"), of="positive", other="positive", extremes=("uniform(5, 20)",))
    ),
    op(_S + "polygamma", 1, T(8, 33, of="positive")),
    op(_S + "polygamma", 3, T(8, of="positive")),
    op(_S + "multigammaln", T(8, 9, of="uniform(3, 8)"), 3),
    op(_S + "logit", T(6, 11, of="uniform(0, 1)"), 1e-3),
    *[
        row
        for name in _BESSEL.split()
        for row in (
            forward(_S + name, T(16, 33, of="uniform(0.1, 12)")),
            forward(_S + name, T(9, of="uniform(12, 60)")),
        )
    ],
    *[forward(_S + name, T(16, 33, of="uniform(-12, -0.1)")) for name in ("bessel_j0", "bessel_j1")],
    *[
        row
        for name in _BESSEL_POSITIVE.split()
        for row in (
            forward(_S + name, T(16, 33, of="uniform(0.1, 12)")),
            forward(_S + name, T(9, of="uniform(12, 40)")),
        )
    ],
    *[forward(_S + "spherical_bessel_j0", T(16, 33, of=of)) for of in ("uniform(-20, 20)", "small")],
    *[forward(_S + "airy_ai", T(16, 33, of=of)) for of in ("uniform(-8, 3)", "normal")],
    *[
        forward(_S + name, T(16, 33, of="uniform(0.05, 0.95)"), I(16, 33, of="index(7)"))
        for name in _POLYNOMIALS.split()
    ],
    forward(_S + "zeta", T(16, 33, of="uniform(1.1, 8)"), T(16, 33, of="positive")),
    forward(_S + "zeta", T(9, of="uniform(1.1, 8)"), 1.0),
]
