"""Wide products of matrices and vectors, and attention."""

from __future__ import annotations

import math

import numpy as np

from trueline.frameworks.torch.wide.products import product
from trueline.frameworks.torch.wide.reductions import logsumexp
from trueline.frameworks.torch.wide.table import REAL, Array, Number, entry


@entry("mm", "bmm")
def mm(self: Array, mat2: Array) -> Array:
    return product(self, mat2)


@entry("mv")
def mv(self: Array, vec: Array) -> Array:
    return product(self, vec)


@entry("dot")
def dot(self: Array, tensor: Array) -> Array:
    return np.asarray(np.dot(self, tensor))


@entry("vdot")
def vdot(self: Array, other: Array) -> Array:
    return np.asarray(np.dot(np.conj(self), other))


def _plus(self: Array, product: Array, beta: Number, alpha: Number) -> Array:
    """beta self + alpha product; with beta 0 what is in self does not matter, not even NaN."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (self if beta == 1 else self * beta)


@entry("addmm", "baddbmm", "addmv")
def addmm(self: Array, mat1: Array, mat2: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    return _plus(self, product(mat1, mat2), beta, alpha)


@entry("_addmm_activation")
def addmm_activation(
    self: Array, mat1: Array, mat2: Array, beta: Number = 1, alpha: Number = 1, use_gelu: bool = False
) -> Array:
    from trueline.frameworks.torch.wide.activations import gelu

    result = addmm(self, mat1, mat2, beta, alpha)
    return gelu(result) if use_gelu else np.maximum(result, 0)


@entry("addbmm")
def addbmm(self: Array, batch1: Array, batch2: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    return _plus(self, product(batch1, batch2).sum(axis=0), beta, alpha)


@entry("addr")
def addr(self: Array, vec1: Array, vec2: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    return _plus(self, np.multiply.outer(vec1, vec2), beta, alpha)


@entry("linalg_cross")
def cross(self: Array, other: Array, dim: int = -1) -> Array:
    a, b = np.broadcast_arrays(self, other)
    a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    result = np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
    return np.moveaxis(result, 0, dim)


@entry("_trilinear")
def trilinear(
    i1: Array,
    i2: Array,
    i3: Array,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Array:
    first, second, third = (
        np.expand_dims(one, tuple(dims)) for one, dims in ((i1, expand1), (i2, expand2), (i3, expand3))
    )
    return (first * second * third).sum(axis=tuple(sumdim))


def _scale(query: Array, scale: float | None) -> Number:
    return 1 / np.sqrt(REAL(query.shape[-1])) if scale is None else scale


def _scores(query: Array, key: Array, causal: bool, mask: Array | None, scale: float | None) -> Array:
    scores = product(query, key.swapaxes(-2, -1)) * _scale(query, scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if mask is not None and mask.dtype == bool:
        return np.where(mask, scores, -np.inf)
    return scores if mask is None else scores + mask


@entry("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    scores = _scores(query, key, is_causal, attn_mask, scale)
    total = logsumexp(scores, -1, True)
    weights = np.where(np.isneginf(total), 0, np.exp(scores - np.where(np.isneginf(total), 0, total)))
    return product(weights, value), total[..., 0]


@entry("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    scores = _scores(query, key, is_causal, attn_mask, scale)
    total = np.where(np.isneginf(logsumexp), math.inf, logsumexp)[..., None]
    weights = np.exp(scores - total)
    inner = product(grad_out, value.swapaxes(-2, -1))
    inner = weights * (inner - (grad_out * out).sum(axis=-1, keepdims=True)) * _scale(query, scale)
    return (
        product(inner, key),
        product(inner.swapaxes(-2, -1), query),
        product(weights.swapaxes(-2, -1), grad_out),
    )
