"""Composites: Paddle's functions of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_tensor import integers


@composite
def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    left = x.mT if transpose_x and x.ndim > 1 else x
    return torch.matmul(left, y.mT if transpose_y and y.ndim > 1 else y)


@composite
def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, dtype=torch.result_type(x, y))


@composite
def vecdot(x: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    kind = torch.promote_types(x.dtype, y.dtype)
    return torch.linalg.vecdot(x.to(kind), y.to(kind), dim=axis)


@composite
def outer(x: Tensor, y: Tensor) -> Tensor:
    return torch.outer(x.reshape(-1), y.reshape(-1))


@composite
def cross(x: Tensor, y: Tensor, axis: int = 9) -> Tensor:
    # Without an axis (9) Paddle takes the first dimension of size 3.
    return torch.linalg.cross(x, y, dim=list(x.shape).index(3) if axis == 9 else axis)


@composite
def tensordot(x: Tensor, y: Tensor, axes: Any = 2) -> Tensor:
    if isinstance(axes, int):
        return torch.tensordot(x, y, axes)
    pairs = [axes] if isinstance(axes, Tensor) or not len(axes) or isinstance(axes[0], int) else list(axes)
    left = integers(pairs[0])
    right = integers(pairs[1]) if len(pairs) > 1 else left
    longer = max(left, right, key=len)
    return torch.tensordot(x, y, [left + longer[len(left) :], right + longer[len(right) :]])


@composite
def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return torch.diagonal(x, offset, axis1, axis2).sum(-1)


@composite
def corrcoef(x: Tensor, rowvar: bool = True) -> Tensor:
    return torch.corrcoef(x if rowvar or x.ndim < 2 else x.T)


@composite
def cov(x: Tensor, rowvar: bool = True, ddof: bool = True, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:  # fmt: skip
    rows = x if rowvar or x.ndim < 2 else x.T
    return torch.cov(rows, correction=int(ddof), fweights=fweights, aweights=aweights)


@composite
def slogdet(x: Tensor) -> Tensor:
    return torch.stack(tuple(torch.linalg.slogdet(x)))


@composite
def pinv(x: Tensor, rcond: Any = 1e-15, hermitian: bool = False) -> Tensor:
    if hermitian or not x.numel():
        return torch.linalg.pinv(x, rtol=rcond, hermitian=hermitian)
    # The gradient of torch.linalg.pinv is that of a matrix of which nothing was cut off.
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    kept = values > rcond * values.detach().amax(-1, keepdim=True)
    inverse = torch.where(kept, 1 / torch.where(kept, values, 1.0), 0.0)
    return (right.mH * inverse.unsqueeze(-2).to(x.dtype)) @ left.mH


@composite
def cholesky_solve(x: Tensor, y: Tensor, upper: bool = False) -> Tensor:
    # Only a triangle of the factor is read; torch's own gradient fills the other one as well.
    return torch.cholesky_solve(x, y.triu() if upper else y.tril(), upper)


@composite
def cond(x: Tensor, p: Any = None) -> Tensor:
    if p is None or p in (2, -2):
        values = torch.linalg.svdvals(x)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return torch.linalg.matrix_norm(x, p) * torch.linalg.matrix_norm(torch.linalg.inv(x), p)


@composite
def triangular_solve(x: Tensor, y: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> Tensor:  # fmt: skip
    factor, up = (x.mT, not upper) if transpose else (x, upper)
    return torch.linalg.solve_triangular(factor, y, upper=up, unitriangular=unitriangular)


@composite
def lstsq(x: Tensor, y: Tensor, rcond: float | None = None, driver: str | None = None) -> Any:
    found = torch.linalg.lstsq(x, y, rcond=rcond, driver=driver)
    rank = found.rank.to(torch.int32) if driver != "gels" else found.rank
    return found.solution, found.residuals, rank, found.singular_values


@composite
def lu(x: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    factors, pivots, info = torch.linalg.lu_factor_ex(x, pivot=pivot)
    return (factors, pivots, info) if get_infos else (factors, pivots)


@composite
def lu_unpack(x: Tensor, y: Tensor, unpack_ludata: bool = True, unpack_pivots: bool = True) -> Any:
    return tuple(torch.lu_unpack(x, y.to(torch.int32), unpack_data=unpack_ludata, unpack_pivots=unpack_pivots))


@composite
def lu_solve(b: Tensor, lu: Tensor, pivots: Tensor, trans: str = "N") -> Tensor:
    return torch.linalg.lu_solve(lu, pivots.to(torch.int32), b, adjoint=trans != "N")


@composite
def matrix_rank(x: Tensor, tol: Any = None, hermitian: bool = False, atol: Any = None, rtol: Any = None) -> Tensor:
    return torch.linalg.matrix_rank(x, atol=tol if atol is None else atol, rtol=rtol, hermitian=hermitian)


@composite
def matrix_norm(x: Tensor, p: Any = "fro", axis: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    return torch.linalg.matrix_norm(x, p, integers(axis), keepdim)


@composite
def vector_norm(x: Tensor, p: float = 2.0, axis: Any = None, keepdim: bool = False,
                dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
    return torch.linalg.vector_norm(x, p, None if axis is None else integers(axis), keepdim, dtype=dtype)


@composite
def norm(x: Tensor, p: Any = None, axis: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    along = None if axis is None else integers(axis)
    if along is not None and len(along) == 2 and p not in (None, 2, 2.0) and not isinstance(p, str):
        return torch.linalg.matrix_norm(x, p, along, keepdim, dtype=dtype)
    if p == "nuc":
        return torch.linalg.matrix_norm(x, p, along or [-2, -1], keepdim, dtype=dtype)
    order = 2 if p is None or p == "fro" else p
    return torch.linalg.vector_norm(x, order, along, keepdim, dtype=dtype)


@composite
def qr(x: Tensor, mode: str = "reduced") -> Any:
    found = torch.linalg.qr(x, mode)
    return found.R if mode == "r" else tuple(found)
