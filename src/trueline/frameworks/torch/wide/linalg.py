"""Wide factorisations that have one answer: triangular solves, LU, Cholesky, QR, and what is solved with them.

Written for one matrix and applied to each of a batch; the pivots and signs are those that LAPACK chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.table import REAL, Array, entry


def adjoint(matrix: Array) -> Array:
    return np.conj(matrix.swapaxes(-2, -1))


def each(function: Callable[..., Any], *batches: Array) -> Any:
    """Applies a function of matrices to each of a batch; a tuple of results is stacked piece by piece."""
    leading = np.broadcast_shapes(*(one.shape[:-2] for one in batches))
    if not leading:
        return function(*batches)
    count = int(np.prod(leading))
    spread = [np.broadcast_to(one, (*leading, *one.shape[-2:])).reshape(count, *one.shape[-2:]) for one in batches]
    if len(spread[0]) == 0:
        # An empty batch has shapes too: those of the results for matrices of zeros, none of them.
        sample = function(*(np.eye(*one.shape[-2:], dtype=one.dtype) for one in batches))
        pieces = sample if isinstance(sample, tuple) else (sample,)
        empty = tuple(np.zeros((*leading, *np.shape(one)), np.asarray(one).dtype) for one in pieces)
        return empty if isinstance(sample, tuple) else empty[0]
    answers = [function(*matrices) for matrices in zip(*spread, strict=True)]
    if isinstance(answers[0], tuple):
        return tuple(
            np.stack([np.asarray(one[part]) for one in answers]).reshape(*leading, *np.shape(answers[0][part]))
            for part in range(len(answers[0]))
        )
    return np.stack(answers).reshape(*leading, *np.shape(answers[0]))


def substituted(matrix: Array, right: Array, upper: bool, unit: bool = False) -> Array:
    """Solves a triangular system from one end."""
    size = matrix.shape[0]
    result = np.zeros(right.shape, np.result_type(matrix, right))
    for row in range(size - 1, -1, -1) if upper else range(size):
        known = slice(row + 1, size) if upper else slice(0, row)
        rest = right[row] - matrix[row, known] @ result[known]
        result[row] = rest if unit else rest / matrix[row, row]
    return result


def _lu_one(matrix: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    """Both factors in one matrix, the rows that were exchanged (from 1), and the first zero pivot (0: none)."""
    lu = matrix.copy()
    rows, columns = lu.shape
    count = min(rows, columns)
    pivots = np.arange(1, count + 1).astype(np.int32)
    info = 0
    for step in range(count):
        best = step + int(np.argmax(_size(lu[step:, step]))) if pivot else step
        pivots[step] = best + 1
        if lu[best, step] == 0:
            info = info or step + 1
            continue
        lu[[step, best]] = lu[[best, step]]
        lu[step + 1 :, step] /= lu[step, step]
        lu[step + 1 :, step + 1 :] -= np.multiply.outer(lu[step + 1 :, step], lu[step, step + 1 :])
    return lu, pivots, np.array(info, np.int32)


def _size(values: Array) -> Array:
    """By what LAPACK compares pivots."""
    return np.abs(values.real) + np.abs(values.imag) if np.iscomplexobj(values) else np.abs(values)


def _order(pivots: Array, size: int) -> Array:
    order = np.arange(size)
    for step, other in enumerate(pivots):
        order[[step, other - 1]] = order[[other - 1, step]]
    return order


def _sign(pivots: Array) -> int:
    return -1 if int((pivots != np.arange(1, len(pivots) + 1)).sum()) % 2 else 1


def _solve_one(matrix: Array, right: Array) -> Array:
    lu, pivots, _ = _lu_one(matrix)
    return _lu_solve_one(lu, pivots[None], right)


def _lu_solve_one(lu: Array, pivots: Array, right: Array) -> Array:
    lower = substituted(lu, right[_order(pivots[0], len(lu))], False, True)
    return substituted(lu, lower, True)


@entry("linalg_lu_factor_ex")
def lu_factor(A: Array, pivot: bool = True, check_errors: bool = False) -> tuple[Array, Array, Array]:
    return each(lambda one: _lu_one(one, pivot), A)


def _unpacked(lu: Array) -> tuple[Array, Array]:
    count = min(lu.shape[-2:])
    lower = np.tril(lu[..., :count], -1) + np.eye(lu.shape[-2], count, dtype=lu.dtype)
    return lower, np.triu(lu[..., :count, :])


def _permutation(pivots: Array, size: int, dtype: Any) -> Array:
    return each(lambda one: np.eye(size, dtype=dtype)[:, _order(one[0], size)], pivots[..., None, :])


@entry("lu_unpack")
def lu_unpack(
    LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Array, Array, Array]:
    empty = np.zeros(0, LU_data.dtype)
    permutation = _permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else empty
    return (permutation, *(_unpacked(LU_data) if unpack_data else (empty, empty)))


@entry("linalg_lu")
def lu(A: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    factors, pivots, _ = lu_factor(A, pivot)
    permutation = _permutation(pivots, A.shape[-2], A.dtype) if pivot else np.zeros(0, A.dtype)
    return (permutation, *_unpacked(factors))


@entry("linalg_lu_solve")
def lu_solve(LU: Array, pivots: Array, B: Array, left: bool = True, adjoint: bool = False) -> Array:
    if not left:
        return _transposed(lu_solve(LU, pivots, _transposed(np.conj(B)), True, not adjoint), True)
    if not adjoint:
        return each(_lu_solve_one, LU, pivots[..., None, :], B)

    def solve(one: Array, exchanged: Array, right: Array) -> Array:
        first = substituted(np.conj(one.T), right, False)
        second = substituted(np.conj(one.T), first, True, True)
        result = np.empty_like(second)
        result[_order(exchanged[0], len(one))] = second
        return result

    return each(solve, LU, pivots[..., None, :], B)


def _transposed(matrix: Array, conjugate: bool = False) -> Array:
    return adjoint(matrix) if conjugate else matrix.swapaxes(-2, -1)


@entry("_linalg_solve_ex")
def solve(A: Array, B: Array, left: bool = True, check_errors: bool = False) -> tuple[Array, Array, Array, Array]:
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    right = B[..., None] if vector else B
    lu, pivots, info = lu_factor(A if left else _transposed(A))
    answer = each(_lu_solve_one, lu, pivots[..., None, :], right if left or vector else _transposed(right))
    answer = answer[..., 0] if vector else answer if left else _transposed(answer)
    factors, exchanged, _ = lu_factor(A)
    return answer, factors, exchanged, info


@entry("linalg_inv_ex")
def inverse(A: Array, check_errors: bool = False) -> tuple[Array, Array]:
    def one(matrix: Array) -> tuple[Array, Array]:
        lu, pivots, info = _lu_one(matrix)
        return _lu_solve_one(lu, pivots[None], np.eye(len(matrix), dtype=matrix.dtype)), info

    return each(one, A)


def _factored(A: Array) -> Array:
    """What the factors belong to that torch keeps for the backward of a determinant: the transpose, for real matrices
    that lie in rows."""
    return _transposed(A) if A.flags.c_contiguous and not np.iscomplexobj(A) else A


@entry("_linalg_det")
def det(A: Array) -> tuple[Array, Array, Array]:
    def one(matrix: Array) -> tuple[Array, Array, Array]:
        lu, pivots, _ = _lu_one(matrix)
        return np.asarray(np.prod(np.diagonal(lu)) * _sign(pivots)), lu, pivots

    return each(one, _factored(A))


@entry("_linalg_slogdet")
def slogdet(A: Array) -> tuple[Array, Array, Array, Array]:
    def one(matrix: Array) -> tuple[Array, Array, Array, Array]:
        lu, pivots, _ = _lu_one(matrix)
        diagonal = np.diagonal(lu)
        size = np.abs(diagonal)
        direction = np.prod(np.where(size == 0, 0, diagonal / np.where(size == 0, 1, size))) * _sign(pivots)
        return np.asarray(direction), np.asarray(np.log(size).sum()), lu, pivots

    return each(one, _factored(A))


@entry("linalg_solve_triangular")
def solve_triangular(self: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    if not left:
        return _transposed(solve_triangular(_transposed(self), _transposed(B), not upper, True, unitriangular))
    return each(lambda matrix, right: substituted(matrix, right, upper, unitriangular), self, B)


@entry("triangular_solve")
def triangular_solve(
    self: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    matrix = _transposed(A) if transpose else A
    leading = np.broadcast_shapes(self.shape[:-2], A.shape[:-2])
    copied = np.broadcast_to(A, (*leading, *A.shape[-2:])).copy()
    return solve_triangular(matrix, self, upper != transpose, True, unitriangular), copied


def _cholesky_one(matrix: Array) -> tuple[Array, Array]:
    size = len(matrix)
    lower = np.zeros_like(matrix)
    for step in range(size):
        rest = matrix[step:, step] - lower[step:, :step] @ np.conj(lower[step, :step])
        pivot = rest[0].real
        if not pivot > 0:
            return lower, np.array(step + 1, np.int32)
        lower[step:, step] = rest / np.sqrt(pivot)
        lower[step, step] = np.sqrt(pivot)
    return lower, np.array(0, np.int32)


@entry("linalg_cholesky_ex")
def cholesky_ex(self: Array, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    lower, info = each(_cholesky_one, adjoint(self) if upper else self)
    return (adjoint(lower) if upper else lower), info


@entry("cholesky")
def cholesky(self: Array, upper: bool = False) -> Array:
    return cholesky_ex(self, upper)[0]


@entry("cholesky_solve")
def cholesky_solve(self: Array, A: Array, upper: bool = False) -> Array:
    lower = adjoint(A) if upper else A
    return solve_triangular(adjoint(lower), solve_triangular(lower, self, False), True)


@entry("cholesky_inverse")
def cholesky_inverse(self: Array, upper: bool = False) -> Array:
    factor = np.triu(self) if upper else np.tril(self)
    return cholesky_solve(np.broadcast_to(np.eye(self.shape[-1], dtype=self.dtype), self.shape), factor, upper)


def _reflect_one(matrix: Array) -> tuple[Array, Array]:
    """Householder's reflections below the diagonal, R above it, and their factors, as LAPACK's geqrf."""
    result = matrix.copy()
    rows, columns = result.shape
    count = min(rows, columns)
    factors = np.zeros(count, matrix.dtype)
    for step in range(count):
        column = result[step:, step]
        alpha, below = column[0], np.sqrt((np.abs(column[1:]) ** 2).sum())
        if below == 0 and np.imag(alpha) == 0:
            continue
        beta = -np.copysign(np.sqrt(np.abs(alpha) ** 2 + below**2), np.real(alpha))
        factors[step] = (beta - alpha) / beta
        vector = np.concatenate([np.ones(1, matrix.dtype), column[1:] / (alpha - beta)])
        rest = result[step:, step + 1 :]
        rest -= np.multiply.outer(np.conj(factors[step]) * vector, np.conj(vector) @ rest)
        result[step:, step] = np.concatenate([np.array([beta], matrix.dtype), vector[1:]])
    return result, factors


def _product_one(reflected: Array, factors: Array, columns: int) -> Array:
    """The first columns of the product of reflections."""
    rows = reflected.shape[0]
    result = np.eye(rows, columns, dtype=reflected.dtype)
    for step in range(len(factors) - 1, -1, -1):
        vector = np.concatenate([np.ones(1, reflected.dtype), reflected[step + 1 :, step]])
        rest = result[step:]
        rest -= np.multiply.outer(factors[step] * vector, np.conj(vector) @ rest)
    return result


def qr_one(matrix: Array, complete: bool = False) -> tuple[Array, Array]:
    reflected, factors = _reflect_one(matrix)
    count = matrix.shape[0] if complete else min(matrix.shape)
    return _product_one(reflected, factors, count), np.triu(reflected[:count])


@entry("linalg_qr")
def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    q, r = each(lambda one: qr_one(one, mode == "complete"), A)
    return (np.zeros(0, A.dtype), r) if mode == "r" else (q, r)


@entry("geqrf")
def geqrf(self: Array) -> tuple[Array, Array]:
    return each(_reflect_one, self)


@entry("linalg_householder_product")
def householder_product(input: Array, tau: Array) -> Array:
    return each(lambda one, factors: _product_one(one, factors[0], one.shape[1]), input, tau[..., None, :])


@entry("ormqr")
def ormqr(self: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False) -> Array:
    def one(reflected: Array, factors: Array, other: Array) -> Array:
        size = reflected.shape[0]
        turn = _product_one(reflected, factors[0], size)
        turn = np.conj(turn.T) if transpose else turn
        return turn @ other if left else other @ turn

    return each(one, self, input2[..., None, :], input3)


@entry("linalg_matrix_exp")
def matrix_exp(self: Array) -> Array:
    """Taylor's series of the matrix halved until it is small, squared back."""

    def one(matrix: Array) -> Array:
        size = np.abs(matrix).sum(axis=0).max(initial=REAL(0))
        halvings = max(int(np.ceil(np.log2(max(size, REAL("1e-300"))))) + 4, 0)
        small = matrix / REAL(2) ** halvings
        term = np.eye(len(matrix), dtype=matrix.dtype)
        total = term.copy()
        for index in range(1, 20):
            term = term @ small / index
            total = total + term
        for _ in range(halvings):
            total = total @ total
        return total

    return each(one, self)
