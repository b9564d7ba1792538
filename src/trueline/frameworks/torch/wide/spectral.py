"""Wide factorisations whose answer is free up to sign or basis: eigenvectors and singular vectors.

LAPACK's answer in float64 is taken as a start and made exact, so that of all the right answers the one nearest to
LAPACK's is given; comparing with it then means something.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide.linalg import _solve_one, adjoint, each, qr_one
from trueline.frameworks.torch.wide.table import COMPLEX, REAL, Array, NoWideGold, entry

LARGEST = 160
"""The order of matrix beyond which Jacobi's rotations in Python take too long."""
SMALL = REAL(2) ** -64


def _plain(matrix: Array) -> torch.Tensor:
    return torch.from_numpy(matrix.astype(np.complex128 if np.iscomplexobj(matrix) else np.float64))


def _wide(vectors: torch.Tensor) -> Array:
    return vectors.resolve_conj().numpy().astype(COMPLEX if vectors.is_complex() else REAL)


def _orthonormal(start: Array) -> Array:
    """The nearest basis that is orthonormal to the last bit: QR with the signs turned back."""
    q, r = qr_one(start)
    diagonal = np.diagonal(r)
    return q * (diagonal / np.abs(diagonal))


def _rotation(p: Any, q: Any, off: Any) -> tuple[Any, Any]:
    """The cosine and (complex) sine that annihilate ``off`` between real diagonals p and q."""
    if off == 0:
        return REAL(1), off
    size = np.abs(off)
    tau = (q - p) / (2 * size)
    tangent = np.copysign(REAL(1), tau) / (np.abs(tau) + np.sqrt(1 + tau * tau))
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    return cosine, tangent * cosine * off / size


def _turn(columns: Array, i: int, j: int, cosine: Any, sine: Any) -> None:
    first, second = columns[:, i].copy(), columns[:, j].copy()
    columns[:, i] = cosine * first - np.conj(sine) * second
    columns[:, j] = sine * first + cosine * second


def _eigh_one(matrix: Array, UPLO: str = "L") -> tuple[Array, Array]:
    size = len(matrix)
    if size > LARGEST:
        raise NoWideGold("linalg_eigh", f"matrices of order {size} take too long")
    if size == 0:
        return np.zeros(0, REAL), matrix
    vectors = _orthonormal(_wide(torch.linalg.eigh(_plain(matrix), UPLO=UPLO)[1]))
    for _ in range(12):
        inner = adjoint(vectors) @ matrix @ vectors
        diagonal = np.real(np.diagonal(inner))
        limit = SMALL * np.abs(diagonal).max()
        moved = False
        for i in range(size - 1):
            for j in range(i + 1, size):
                if np.abs(inner[i, j]) > limit:
                    cosine, sine = _rotation(np.real(inner[i, i]), np.real(inner[j, j]), inner[i, j])
                    _turn(vectors, i, j, cosine, sine)
                    _turn(inner, i, j, cosine, sine)
                    _turn(inner.T, i, j, cosine, np.conj(sine))
                    moved = True
        if not moved:
            break
    return diagonal.copy(), vectors


@entry("_linalg_eigh")
def eigh(A: Array, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:
    triangle = np.tril(A, -1) if UPLO.upper() == "L" else np.triu(A, 1)
    diagonal = np.real(np.diagonal(A, axis1=-2, axis2=-1))[..., None] * np.eye(A.shape[-1], dtype=REAL)
    whole = (triangle + adjoint(triangle) + diagonal).astype(A.dtype)
    values, vectors = each(lambda one: _eigh_one(one, UPLO), whole)
    return values, vectors if compute_v else np.zeros(0, A.dtype)


def _svd_one(matrix: Array, full: bool) -> tuple[Array, Array, Array]:
    """U, the singular values and V^H; U and V complete where asked for."""
    rows, columns = matrix.shape
    if min(rows, columns) > LARGEST:
        raise NoWideGold("linalg_svd", f"matrices of order {min(rows, columns)} take too long")
    start_u, _, start_vh = torch.linalg.svd(_plain(matrix), full_matrices=full)
    u, v = _wide(start_u), adjoint(_wide(start_vh))
    if rows >= columns:
        u, values, v = _refined(matrix, u, v)
    else:
        v, values, u = _refined(adjoint(matrix), v, u)
    return u, values, adjoint(v)


def _refined(matrix: Array, u: Array, v: Array) -> tuple[Array, Array, Array]:
    """Both bases made exact, for a matrix with no more columns than rows."""
    columns = matrix.shape[1]
    if columns == 0:
        return u, np.zeros(0, REAL), v
    v = _orthonormal(v)
    images = matrix @ v
    for _ in range(12):
        if not _sweep(images, v):
            break
    values = np.sqrt((np.abs(images) ** 2).sum(axis=0))
    sure = values > values.max() * SMALL * 8
    guess = u.copy()
    guess[:, :columns] = np.where(sure, images / np.where(sure, values, 1), u[:, :columns])
    return _orthonormal(guess), values, v


def _sweep(images: Array, v: Array) -> bool:
    """One round of one-sided Jacobi rotations; False where none was needed."""
    moved = False
    size = images.shape[1]
    scale = (np.abs(images) ** 2).sum(axis=0).max() * SMALL * SMALL
    for i in range(size - 1):
        for j in range(i + 1, size):
            p, q = (np.abs(images[:, i]) ** 2).sum(), (np.abs(images[:, j]) ** 2).sum()
            off = np.conj(images[:, i]) @ images[:, j]
            if np.abs(off) > SMALL * np.sqrt(p * q) * 2 and np.abs(off) > scale:
                cosine, sine = _rotation(p, q, off)
                _turn(images, i, j, cosine, sine)
                _turn(v, i, j, cosine, sine)
                moved = True
    return moved


@entry("_linalg_svd")
def svd(
    A: Array, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> tuple[Array, Array, Array]:
    u, values, vh = each(lambda one: _svd_one(one, full_matrices), A)
    return (u, values, vh) if compute_uv else (np.zeros(0, A.dtype), values, np.zeros(0, A.dtype))


def _eig_one(matrix: Array) -> tuple[Array, Array]:
    """Newton's correction of LAPACK's vectors, quadratic where the eigenvalues are apart."""
    if len(matrix) == 0:
        return np.zeros(0, COMPLEX), matrix.astype(COMPLEX)
    start = _wide(torch.linalg.eig(_plain(matrix))[1])
    vectors = start
    wide = matrix.astype(COMPLEX)
    for _ in range(5):
        inner = _solve_one(vectors, wide @ vectors)
        values = np.diagonal(inner)
        apart = values[None, :] - values[:, None]
        np.fill_diagonal(apart, 1)
        if (np.abs(apart) <= REAL("1e-10") * np.abs(values).max()).any():
            raise NoWideGold("linalg_eig", "eigenvalues that coincide have no vectors of their own")
        change = inner / apart
        np.fill_diagonal(change, 0)
        vectors = vectors + vectors @ change
        vectors = vectors / np.sqrt((np.abs(vectors) ** 2).sum(axis=0))
    largest = np.argmax(np.abs(start), axis=0), np.arange(len(matrix))
    phase = np.conj(vectors[largest]) * np.where(np.real(start[largest]) < 0, -1, 1)
    return values.copy(), vectors * phase / np.abs(phase)


@entry("linalg_eig")
def eig(self: Array) -> tuple[Array, Array]:
    return each(_eig_one, self)


@entry("linalg_pinv.atol_rtol_tensor")
def pinv(self: Array, atol: Array | None = None, rtol: Array | None = None, hermitian: bool = False) -> Array:
    if hermitian:
        below = np.tril(self, -1)
        self = below + adjoint(below) + np.tril(np.triu(self)).real
    u, values, vh = svd(self)
    largest = values.max(axis=-1, keepdims=True, initial=0)
    absolute = np.zeros((), REAL) if atol is None else np.asarray(atol)
    default = np.finfo(np.float64).eps * max(self.shape[-2:]) if not (absolute > 0).any() else 0.0
    relative = np.asarray(default if rtol is None else rtol)
    limit = np.maximum(absolute[..., None], relative[..., None] * largest)
    kept = np.where(values > limit, 1 / np.where(values > limit, values, 1), 0)
    return adjoint(vh) @ (kept[..., None] * adjoint(u))


@entry("linalg_lstsq")
def lstsq(
    self: Array, B: Array, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """The solution of least norm; residuals where there are more equations than unknowns."""
    vector = B.ndim == 1 or (B.ndim == self.ndim - 1 and B.shape == self.shape[:-1])
    right = B[..., None] if vector else B
    rows, columns = self.shape[-2:]
    relative = np.finfo(np.float64).eps * max(rows, columns) if rcond is None else rcond
    values = svd(self, compute_uv=False)[1]
    rank = (values > relative * values.max(axis=-1, keepdims=True, initial=0)).sum(axis=-1)
    solution = pinv(self, None, np.asarray(REAL(relative))) @ right
    residuals = np.zeros(0, REAL)
    if rows > columns and (driver == "gels" or (driver in ("gelsd", "gelss") and (rank == columns).all())):
        residuals = (np.abs(self @ solution - right) ** 2).sum(axis=-2)
    with_values = driver in ("gelsd", "gelss")
    no_rank = np.zeros(0, np.int64)
    return (
        solution[..., 0] if vector else solution,
        residuals,
        no_rank if driver == "gels" else np.asarray(rank).astype(np.int64),
        values if with_values else np.zeros(0, REAL),
    )
