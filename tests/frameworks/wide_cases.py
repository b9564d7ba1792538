"""Calls that together reach every entry of the table of wide operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tests.frameworks.wide_cases_layers import indexing, layers, losses, made, norms, shapes
from tests.frameworks.wide_inputs import GENERATOR, Cases, aten, c, definite, i, mask, n, p, triangular, u

special = torch.special
linalg = torch.linalg


def elementwise() -> Cases:
    anywhere = "abs neg exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh floor ceil trunc frac sign sgn sigmoid "
    anywhere += "isnan isinf isposinf isneginf signbit logical_not conj_physical deg2rad rad2deg erf erfc sinc round "
    anywhere += "relu nan_to_num angle i0 square positive isfinite"
    for name in anywhere.split():
        yield name, getattr(torch, name), (n(4, 5),)
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma".split():
        yield name, getattr(torch, name), (p(4, 5),)
    for name in "asin acos atanh erfinv".split():
        yield name, getattr(torch, name), (u(4, 5),)
    yield "acosh", torch.acosh, (u(4, 5, low=1.1, high=4.0),)
    yield "lgamma of negatives", torch.lgamma, (u(6, low=-3.8, high=-0.1),)
    for name in "erfcx i0e i1 i1e log_ndtr entr ndtr".split():
        yield name, getattr(special, name), (p(3, 4),)
    yield "ndtri", special.ndtri, (u(3, 4, low=0.01, high=0.99),)
    pairs = "eq ne lt le gt ge logical_and logical_or logical_xor mul atan2 hypot maximum minimum fmax fmin copysign"
    for name in pairs.split():
        yield name, getattr(torch, name), (n(4, 5), n(5))
    for name in "add sub div fmod remainder logaddexp logaddexp2 xlogy pow ldexp".split():
        yield name, getattr(torch, name), (p(4, 5), p(4, 1))
    yield "floor_divide", torch.floor_divide, (p(4, 5).detach(), p(4, 1).detach())
    yield "heaviside", torch.heaviside, (n(9).detach(), p(9).detach())
    yield "add with alpha", lambda x, y: torch.add(x, y, alpha=0.3), (n(3), n(3))
    yield "sub with alpha", lambda x, y: torch.sub(x, y, alpha=2), (n(3), n(3))
    yield "rsub", lambda x: torch.rsub(x, 1.7), (n(3),)
    yield "xlog1py", special.xlog1py, (p(4), p(4))
    yield "div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), (n(5), p(5))
    yield "div floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), (n(5), p(5))
    yield "pow of a number", lambda x: torch.pow(2.5, x), (n(5),)
    yield "pow to a number", lambda x: torch.pow(x, 2.5) + torch.pow(x, 2) + torch.pow(x, 0.5), (p(5),)
    yield "round to decimals", lambda x: torch.round(x, decimals=2), (n(5),)
    yield "clamp", lambda x: torch.clamp(x, -0.5, 0.7), (n(9),)
    yield "clamp_min", lambda x: torch.clamp_min(x, 0.1), (n(9),)
    yield "clamp_max", lambda x: torch.clamp_max(x, 0.1), (n(9),)
    yield "where", torch.where, (mask(4, 5), n(4, 5), n(5))
    yield "masked_fill", lambda x, m: x.masked_fill(m, 0.3), (n(4, 5), mask(4, 5))
    yield "addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.3), (n(4), n(4), n(4))
    yield "addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.3), (n(4), n(4), p(4))
    yield "lerp", torch.lerp, (n(4), n(4), p(4))
    yield "logit", torch.logit, (u(5, low=0.1, high=0.9),)
    yield "logit with eps", lambda x: torch.logit(x, 0.2), (u(9, low=0.1, high=0.9),)
    yield "nextafter", torch.nextafter, (n(4).detach(), n(4).detach())
    yield "frexp", torch.frexp, (n(4).detach(),)
    yield "isin", lambda x: [torch.isin(x, x[:2]), torch.isin(x, 0.5), torch.isin(0.5, x)], (n(6).detach(),)
    yield "conj_physical in place", lambda x: x.clone().conj_physical_(), (c(4),)
    yield "complex", torch.complex, (n(4), n(4))
    yield "polar", torch.polar, (p(4), n(4))
    yield "to another type and back", lambda x: x.to(torch.float32).to(torch.float64), (n(4),)
    yield "to bfloat16", lambda x: x.to(torch.bfloat16), (n(4).detach(),)
    for name in "exp log sin cos tanh sqrt abs angle sgn sigmoid reciprocal conj_physical".split():
        yield f"complex {name}", getattr(torch, name), (c(4),)
    yield "complex arithmetic", lambda x, y: (x * y - x / y).conj() + x.real * y.imag, (c(4), c(4))


def functions() -> Cases:
    for (
        name
    ) in "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0".split():
        yield name, getattr(special, name), (u(4, low=0.5, high=1.5).detach(),)
    for (
        name
    ) in "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai".split():
        yield name, getattr(special, name), (u(4, low=0.5, high=1.5).detach(),)
    kinds = "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    kinds += "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    kinds += "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
    for name in (kinds + "legendre_polynomial_p").split():
        yield name, getattr(special, name), (u(4).detach(), torch.tensor([0.0, 1.0, 3.0, 5.0], dtype=torch.float64))
    yield "polygamma 0", lambda x: torch.polygamma(0, x), (p(4),)
    yield "polygamma 2", lambda x: torch.polygamma(2, x), (p(4),)
    yield "mvlgamma", lambda x: torch.mvlgamma(x, 3), (u(4, low=2.0, high=5.0),)
    yield "zeta", special.zeta, (u(4, low=1.5, high=5.0).detach(), p(4).detach())
    yield "igamma", torch.igamma, (p(4).detach(), p(4))
    yield "igammac", torch.igammac, (p(4).detach(), p(4))


def activations() -> Cases:
    kinds = "leaky_relu gelu silu mish softplus logsigmoid elu celu selu hardtanh relu6 hardsigmoid hardswish "
    for name in (kinds + "hardshrink softshrink softsign tanhshrink relu threshold_").split():
        if name == "threshold_":
            yield "threshold", lambda x: F.threshold(x, 0.1, 2.0), (n(12),)
        else:
            yield name, getattr(F, name), (n(12) * 2,)
    yield "gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (n(12),)
    yield "elu in place", lambda x: F.elu(x * 1, inplace=True), (n(12),)
    yield "prelu", F.prelu, (n(3, 4), n(4))
    yield "rrelu", lambda x: F.rrelu(x, training=True), (n(12),)
    yield "rrelu at rest", F.rrelu, (n(12),)
    yield "glu", F.glu, (n(3, 6),)
    yield "native_dropout_backward", lambda x, m: aten.native_dropout_backward(x, m, 2.0), (n(5).detach(), mask(5))


def reductions() -> Cases:
    names = "sum nansum mean var std amax amin prod all any count_nonzero argmax argmin median nanmedian logsumexp "
    for name in names.split():
        yield name, lambda x, name=name: getattr(torch, name)(x, 1), (n(3, 4),)
        if name not in ("logsumexp",):
            yield f"{name} of all", getattr(torch, name), (n(3, 4),)
    for name in "max min mode cummax cummin cumsum cumprod logcumsumexp softmax log_softmax aminmax".split():
        named = "dim" if name == "aminmax" else ""
        yield (
            name,
            (lambda x, name=name: getattr(torch, name)(x, dim=1))
            if named
            else (lambda x, name=name: getattr(torch, name)(x, 1)),
            (n(3, 4),),
        )
    yield "max of all", torch.max, (n(3, 4),)
    yield "min of all", torch.min, (n(3, 4),)
    yield "max out", lambda x: torch.max(x, out=torch.zeros((), dtype=torch.float64)), (n(3, 4).detach(),)
    yield "min out", lambda x: torch.min(x, out=torch.zeros((), dtype=torch.float64)), (n(3, 4).detach(),)
    for name in "max min median nanmedian".split():
        yield (
            f"{name} out",
            lambda x, name=name: getattr(torch, name)(
                x, 1, out=(torch.zeros(3, dtype=x.dtype), torch.zeros(3, dtype=torch.int64))
            ),
            (n(3, 4).detach(),),
        )
    yield (
        "sort out",
        lambda x: torch.sort(
            x, stable=True, out=(torch.zeros(3, 4, dtype=x.dtype), torch.zeros(3, 4, dtype=torch.int64))
        ),
        (n(3, 4).detach(),),
    )
    for name in "var_mean std_mean".split():
        yield name, lambda x, name=name: getattr(torch, name)(x, dim=(0, 2), correction=0), (n(3, 4, 2),)
    for order in (0, 1, 2, 3.5, float("inf"), float("-inf")):
        yield f"norm {order}", lambda x, order=order: linalg.vector_norm(x, order, dim=1), (n(3, 4),)
    yield "norm of old", lambda x: torch.norm(x, 3, 1), (n(3, 4),)
    yield "dist", torch.dist, (n(4), n(4))
    yield "sort", lambda x: torch.sort(x, 1, descending=True), (n(3, 5),)
    yield "sort stable", lambda x: torch.sort(x, stable=True, dim=0), (n(3, 5),)
    yield "argsort", torch.argsort, (n(5),)
    yield "topk", lambda x: torch.topk(x, 2), (n(3, 5),)
    yield "kthvalue", lambda x: torch.kthvalue(x, 2), (n(3, 5),)
    yield "_safe_softmax", lambda x: aten._safe_softmax(x, -1), (n(3, 5),)
    yield "renorm", lambda x: torch.renorm(x, 2, 0, 1.0), (n(3, 5),)
    yield "histc", lambda x: torch.histc(x, 5, -2.0, 2.0), (n(30).detach(),)
    yield "bincount", torch.bincount, (i(4, 9), n(9).detach())
    yield (
        "bucketize",
        lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)),
        (n(9).detach(),),
    )
    yield "bucketize a number", lambda x: torch.bucketize(0.3, x.sort()[0]), (n(9).detach(),)
    yield "searchsorted a number", lambda x: torch.searchsorted(x.sort()[0], 0.3), (n(9).detach(),)
    yield "searchsorted", lambda x, y: torch.searchsorted(x.sort()[0], y), (n(3, 5).detach(), n(3, 2).detach())
    yield "unique", lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True), (n(9).detach(),)
    yield "unique_consecutive", lambda x: torch.unique_consecutive(x.round(), return_counts=True), (n(9).detach(),)
    yield "unique along a dimension", lambda x: torch.unique(x.round(), return_counts=True, dim=0), (n(9, 1).detach(),)


def products() -> Cases:
    yield "mm", torch.mm, (n(3, 4), n(4, 5))
    yield "bmm", torch.bmm, (n(2, 3, 4), n(2, 4, 5))
    yield "matmul", torch.matmul, (n(2, 3, 4), n(4))
    yield "mv", torch.mv, (n(3, 4), n(4))
    yield "dot", torch.dot, (n(6), n(6))
    yield "vdot", torch.vdot, (c(6), c(6))
    yield "addmm", lambda x, y, z: torch.addmm(x, y, z, beta=0.3, alpha=0.7), (n(5), n(3, 4), n(4, 5))
    yield "baddbmm", lambda x, y, z: torch.baddbmm(x, y, z, beta=0), (n(2, 3, 5), n(2, 3, 4), n(2, 4, 5))
    yield "addmv", torch.addmv, (n(3), n(3, 4), n(4))
    yield "addbmm", torch.addbmm, (n(3, 5), n(2, 3, 4), n(2, 4, 5))
    yield "addr", torch.addr, (n(3, 4), n(3), n(4))
    yield "linear", F.linear, (n(2, 3, 4), n(5, 4), n(5))
    yield "_addmm_activation", lambda x, y, z: aten._addmm_activation(x, y, z, use_gelu=True), (
        n(5).detach(), n(3, 4).detach(), n(4, 5).detach(),
    )  # fmt: skip
    yield "cross", linalg.cross, (n(4, 3), n(4, 3))
    yield "bilinear", F.bilinear, (n(3, 4), n(3, 5), n(2, 4, 5), n(2))
    yield "einsum", lambda x, y: torch.einsum("bij,bjk->ik", x, y), (n(2, 3, 4), n(2, 4, 5))
    yield "attention", F.scaled_dot_product_attention, (n(2, 2, 3, 4), n(2, 2, 5, 4), n(2, 2, 5, 4))
    yield "attention, causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), (
        n(2, 2, 5, 4), n(2, 2, 5, 4), n(2, 2, 5, 4),
    )  # fmt: skip
    yield "attention, masked", F.scaled_dot_product_attention, (n(2, 3, 4), n(2, 5, 4), n(2, 5, 4), n(3, 5))
    yield "attention of a layer", _multihead, (n(3, 2, 4),)
    yield "flash attention", lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0], (
        n(2, 2, 3, 4), n(2, 2, 5, 4), n(2, 2, 5, 4),
    )  # fmt: skip
    yield "cdist", torch.cdist, (n(3, 4), n(5, 4))
    yield "cdist 1.5", lambda x, y: torch.cdist(x, y, p=1.5), (n(3, 4), n(5, 4))
    yield "cdist large", lambda x, y: torch.cdist(x, y), (n(30, 4).detach(), n(30, 4).detach())
    yield "pdist", F.pdist, (n(5, 3),)


def _multihead(x: torch.Tensor) -> torch.Tensor:
    weight = torch.linspace(-1, 1, 48, dtype=torch.float64).reshape(12, 4)
    bias = torch.zeros(12, dtype=torch.float64)
    answer = F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, bias, None, None, False, 0.0, weight[:4], bias[:4], need_weights=False
    )
    return answer[0]


def factorisations() -> Cases:
    for name in "det slogdet inv cholesky eigh eigvalsh svd svdvals qr lu_factor lu pinv matrix_exp".split():
        yield name, getattr(linalg, name), (definite(4),)
    yield "eig", linalg.eig, (torch.tensor([[1.0, 2.0, 0.3], [0.1, 4.0, 1.0], [0.5, 0.2, 9.0]], dtype=torch.float64),)
    yield "eigvals", linalg.eigvals, (torch.tensor([[1.0, 2.0], [0.1, 4.0]], dtype=torch.float64).requires_grad_(),)
    yield "qr of a wide matrix", lambda x: linalg.qr(x, mode="r")[1], (n(3, 5).detach(),)
    yield "qr complete", lambda x: linalg.qr(x, mode="complete"), (n(5, 3).detach(),)
    yield "svd full", lambda x: linalg.svd(x, full_matrices=True), (n(4, 3).detach(),)
    yield "solve", linalg.solve, (definite(4), n(4, 2))
    yield "solve of a batch", linalg.solve, (n(2, 3, 3), n(2, 3, 2))
    yield "solve from the right", lambda a, b: linalg.solve(a, b, left=False), (definite(4), n(2, 4))
    yield "lu_solve", lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), (n(4, 4), n(4, 2))
    yield "lu_unpack", lambda a: torch.lu_unpack(*linalg.lu_factor(a)), (n(4, 4),)
    yield "solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=False), (triangular(4), n(4, 2))
    yield "triangular_solve", lambda b, a: torch.triangular_solve(b, a, upper=False), (n(4, 2), triangular(4))
    yield "cholesky of old", torch.cholesky, (definite(4),)
    yield "cholesky upper", lambda x: linalg.cholesky(x, upper=True), (definite(4),)
    yield "cholesky_solve", torch.cholesky_solve, (n(4, 2), triangular(4))
    yield "cholesky_inverse", torch.cholesky_inverse, (triangular(4),)
    yield "geqrf", torch.geqrf, (n(4, 3).detach(),)
    yield "householder_product", lambda x: linalg.householder_product(*torch.geqrf(x)), (n(4, 3).detach(),)
    yield "ormqr", lambda x, y: torch.ormqr(*torch.geqrf(x), y), (n(4, 3).detach(), n(4, 2).detach())
    yield "lstsq", lambda a, b: linalg.lstsq(a, b).solution, (n(5, 3), n(5, 2))
    yield "lstsq gelsd", lambda a, b: linalg.lstsq(a, b, driver="gelsd"), (n(5, 3).detach(), n(5, 2).detach())
    yield "matrix_norm nuclear", lambda x: linalg.matrix_norm(x, "nuc"), (n(4, 3),)
    yield "complex solve", linalg.solve, (c(3, 3), c(3, 2))
    yield "fft", torch.fft.fft, (n(6),)
    yield "rfft2", torch.fft.rfft2, (n(4, 6),)
    yield "irfft", torch.fft.irfft, (c(5),)
    yield "ifftn ortho", lambda x: torch.fft.ifftn(x, norm="ortho"), (c(3, 4),)


def cases() -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """All of them, with the same numbers each time."""
    GENERATOR.manual_seed(7)
    groups = (
        elementwise, functions, activations, reductions, products, factorisations, layers, norms, losses, indexing,
        shapes, made,
    )  # fmt: skip
    return [case for group in groups for case in group()]
