"""Factorizations: a factor is fixed only up to signs, phases or a choice of basis.

What the factors multiply to is compared, and that they have the shape they must have: orthonormal columns. Gradients
of factors are those of the chosen signs; two executions that chose differently computed different functions.
"""

from __future__ import annotations

import numpy as np

from trueline.ops.rules.trial import Array, Comparable, Trial, untouched

FREE_SIGNS = "the sign or phase of a column is free; its product with the other factors is compared"
PHASES = "complex columns have a free phase, on which these gradients depend"
SIGNS_DIFFER = "the executions chose other signs for columns, on which these gradients depend"


def singular_values(trial: Trial) -> Comparable:
    """svd: U, S and V (or V adjoint): S as it is, U S Vh and the orthonormality of U and V."""
    left, values, right = (trial.outputs[f"out.{place}"] for place in range(3))
    adjoint = "linalg" not in trial.api
    count = values.shape[-1]
    right = _adjoint(right) if adjoint else right
    result = _without_factors(trial, ("out.0", "out.2"))
    if not left.size or not right.size:
        return result
    product = (left[..., :count] * values[..., None, :]) @ right[..., :count, :]
    result = result.with_output("out.0:product", product)
    result = result.with_output("out.0:columns", _adjoint(left) @ left)
    result = result.with_output("out.2:columns", right @ _adjoint(right))
    return _with_signs(result, trial, left[..., :count], ("out.0", "out.2"))


def symmetric_eigen(trial: Trial) -> Comparable:
    """eigh: eigenvalues as they are, V diag(w) Vh and the orthonormality of V."""
    values, vectors = trial.outputs["out.0"], trial.outputs["out.1"]
    result = _without_factors(trial, ("out.1",))
    if not vectors.size:
        return result
    result = result.with_output("out.1:product", (vectors * values[..., None, :]) @ _adjoint(vectors))
    result = result.with_output("out.1:columns", _adjoint(vectors) @ vectors)
    return _with_signs(result, trial, vectors, ("out.1",))


def general_eigen(trial: Trial) -> Comparable:
    """eig: eigenvalues in any order, vectors with any phase; V diag(w) V⁻¹ is the matrix again."""
    values, vectors = trial.outputs["out.0"], trial.outputs["out.1"]
    result = _without_factors(trial, ("out.1",))
    result = result.with_output("out.0", _ordered(values))
    for path in trial.gradients:
        result = result.without(path, PHASES)
    if not vectors.size or not np.isfinite(vectors).all():
        return result
    wide = vectors.astype(np.complex128)
    product = (wide * values[..., None, :]) @ np.linalg.pinv(wide)
    return result.with_output("out.1:product", product)


def eigenvalues(trial: Trial) -> Comparable:
    """eigvals: in any order. The gradient arriving at a value depends on its place, so it is not comparable."""
    result = untouched(trial).with_output("out", _ordered(trial.outputs["out"]))
    for path in trial.gradients:
        result = result.without(path, "the order of the eigenvalues is free, on which these gradients depend")
    return result


def orthogonal_triangular(trial: Trial) -> Comparable:
    """qr: with R's diagonal made positive both factors are unique; columns of Q beyond that are any basis."""
    first, second = trial.outputs["out.0"], trial.outputs["out.1"]
    if not first.size or not second.size:
        return untouched(trial).without("out.0", "mode 'r' makes no Q") if not first.size else untouched(trial)
    count = min(second.shape[-2:])
    diagonal = np.diagonal(second, axis1=-2, axis2=-1)[..., :count]
    magnitude = np.abs(diagonal)
    signs = np.where(magnitude > 0, diagonal / np.where(magnitude > 0, magnitude, 1), 1)
    result = _without_factors(trial, ("out.0", "out.1"))
    result = result.with_output("out.0:signed", first[..., :count] * signs[..., None, :])
    result = result.with_output("out.1:signed", second[..., :count, :] * np.conj(signs)[..., :, None])
    result = result.with_output("out.0:columns", _adjoint(first) @ first)
    return _with_signs(result, trial, signs[..., None, :], ("out.0", "out.1"))


def pivoted_factors(trial: Trial) -> Comparable:
    """lu_factor: among pivots of equal size either may be taken; the product is the matrix again."""
    packed, pivots = trial.outputs["out.0"], trial.outputs["out.1"]
    reason = "which of two equal pivots is taken is free; the product of the factors is compared"
    result = untouched(trial).without("out.0", reason).without("out.1", reason)
    if not packed.size:
        return result
    count, rows_below = min(packed.shape[-2:]), np.arange(1, pivots.shape[-1] + 1)
    within = np.all((pivots >= rows_below) & (pivots <= packed.shape[-2]))
    result = result.with_check("out.1", within, "a row is exchanged with itself or a later one")
    lower = np.tril(packed[..., :, :count], -1) + np.eye(packed.shape[-2], count)
    product = lower @ np.triu(packed[..., :count, :])
    rows = product.reshape(-1, *product.shape[-2:]).copy()
    for matrix, exchanges in zip(rows, pivots.reshape(-1, pivots.shape[-1]), strict=True):
        for row in range(len(exchanges) - 1, -1, -1):
            other = min(max(int(exchanges[row]) - 1, 0), len(matrix) - 1)
            matrix[[row, other]] = matrix[[other, row]]
    return result.with_output("out.0:product", rows.reshape(product.shape))


def permuted_factors(trial: Trial) -> Comparable:
    """lu: P, L and U; the product is the matrix again. The older form of this name packs them and gives pivots."""
    if trial.outputs["out.1"].dtype.kind in "iu":
        return pivoted_factors(trial)
    exchange, lower, upper = (trial.outputs[f"out.{place}"] for place in range(3))
    reason = "which of two equal pivots is taken is free; the product of the factors is compared"
    result = untouched(trial)
    for place in range(3):
        result = result.without(f"out.{place}", reason)
    product = exchange @ lower @ upper if exchange.size else lower @ upper
    moved = np.isin(exchange, (0, 1)).all() and np.all(exchange.sum(-1) == 1) and np.all(exchange.sum(-2) == 1)
    result = result.with_check("out.0", moved or not exchange.size, "the first factor must exchange rows")
    triangular = np.array_equal(upper, np.triu(upper))
    result = result.with_check("out.2", triangular, "the last factor must be upper triangular")
    return result.with_output("out.1:product", product)


def free_basis(trial: Trial) -> Comparable:
    """Factorizations whose vectors are those of a random start or a pivoting of their own: only structure."""
    result = untouched(trial)
    for path in (*trial.outputs, *trial.gradients):
        result = result.without(path, "the factors depend on a free choice that no rule undoes")
    return result


def _adjoint(array: Array) -> Array:
    return np.conj(np.swapaxes(array, -1, -2))


def _ordered(values: Array) -> Array:
    """Sorted by real part, then imaginary part, after rounding away what arithmetic may add."""
    if not values.size:
        return values
    scale = float(np.max(np.abs(values))) or 1.0
    real, imaginary = np.round(values.real / scale, 3), np.round(values.imag / scale, 3)
    order = np.lexsort((imaginary, real), axis=-1)
    return np.take_along_axis(values, order, -1)


def _without_factors(trial: Trial, paths: tuple[str, ...]) -> Comparable:
    result = untouched(trial)
    for path in paths:
        result = result.without(path, FREE_SIGNS)
    return result


def _with_signs(result: Comparable, trial: Trial, columns: Array, factors: tuple[str, ...]) -> Comparable:
    """Notes the signs that were chosen, where gradients arrived at the factors."""
    arrived = [path for path in factors if path in trial.arriving and np.any(trial.arriving[path])]
    if not arrived or not trial.gradients:
        return result
    if np.iscomplexobj(columns) and not np.any(columns.imag):
        columns = columns.real
    if np.iscomplexobj(columns):
        for path in trial.gradients:
            result = result.without(path, PHASES)
        return result
    weights = np.cos(1.0 + np.arange(columns.shape[-2]))
    signs = np.sign(np.sum(columns * weights[:, None], axis=-2)).astype(np.int8)
    return Comparable(
        result.outputs, result.gradients, result.exact, result.dropped, result.checks, signs, SIGNS_DIFFER
    )
