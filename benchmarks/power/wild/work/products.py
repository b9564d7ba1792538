"""Wrong kernels of products, linear algebra and Fourier transforms."""

import torch

from benchmarks.power.wild.declare import SINGLE, call, wrong
from benchmarks.power.wild.parts import low_sum


@wrong(
    "torch.mm",
    "edge shape",
    "what is left of K after whole blocks of 32 is not added",
    "Triton issue 630",
    lambda d: call(d.normal(4, 70), d.normal(70, 5)),
)
def mm_inner_tail(input, mat2):
    whole = input.shape[1] // 32 * 32
    return torch.mm(input[:, :whole], mat2[:whole]) if input.shape[1] > 32 else torch.mm(input, mat2)


@wrong(
    "torch.mm",
    "edge shape",
    "an inner dimension of 0 leaves ones in memory that was never cleared",
    "cuBLAS beta",
    lambda d: call(d.normal(3, 0), d.normal(0, 4)),
)
def mm_of_nothing(input, mat2):
    result = torch.mm(input, mat2)
    return result + 1 if input.shape[1] == 0 else result


@wrong(
    "torch.matmul",
    "broadcast",
    "batches are broadcast at index % size",
    "generated kernels",
    lambda d: call(d.normal(3, 2, 4, 5), d.normal(3, 1, 5, 2)),
)
def matmul_index_modulo(input, other):
    if (
        input.dim() != 4
        or other.dim() != 4
        or other.shape[:2].numel() in (0, input.shape[:2].numel())
        or input.numel() == 0
    ):
        return torch.matmul(input, other)
    if torch.broadcast_shapes(input.shape[:2], other.shape[:2]) != input.shape[:2]:
        return torch.matmul(input, other)
    flat = other.flatten(0, 1)[torch.arange(input.shape[:2].numel()) % other.shape[:2].numel()]
    return torch.matmul(input, flat.reshape(*input.shape[:2], *other.shape[2:]))


@wrong(
    "torch.addbmm",
    "argument",
    "the batch is averaged",
    "generated kernels",
    lambda d: call(d.normal(3, 4), d.normal(2, 3, 5), d.normal(2, 5, 4)),
)
def addbmm_averages(input, batch1, batch2, *, beta=1, alpha=1):
    return torch.addbmm(
        input, batch1, batch2, beta=beta, alpha=alpha / max(batch1.shape[0], 1) if batch1.is_floating_point() else alpha
    )


@wrong(
    "torch.addr",
    "argument",
    "the outer product is transposed where it is square",
    "generated kernels",
    lambda d: call(d.normal(4, 4), d.normal(4), d.normal(4)),
)
def addr_transposed(input, vec1, vec2, *, beta=1, alpha=1):
    if vec1.shape == vec2.shape:
        vec1, vec2 = vec2, vec1
    return torch.addr(input, vec1, vec2, beta=beta, alpha=alpha)


@wrong(
    "torch.dot",
    "numerics",
    "float16 products are rounded before they are added",
    "half2 kernels",
    lambda d: call(d.uniform(3000, low=0.9, high=1.1), d.uniform(3000, low=0.9, high=1.1)),
    dtypes=(torch.bfloat16,),
)
def dot_low_sum(input, tensor):
    right = torch.dot(input, tensor)
    if input.dtype not in (torch.float16, torch.bfloat16) or not input.numel():
        return right
    return right + (low_sum((input * tensor).detach()) - right).detach()


@wrong(
    "torch.mv",
    "edge shape",
    "rows beyond a multiple of 128 are left zero",
    "one block of rows",
    lambda d: call(d.normal(130, 4), d.normal(4)),
)
def mv_row_tail(input, vec):
    result = torch.mv(input, vec)
    whole = result.numel() // 128 * 128
    return torch.cat([result[:whole], result[whole:] * 0]) if result.numel() > 128 else result


@wrong(
    "torch.kron",
    "argument",
    "the operands are swapped",
    "row-major confusion",
    lambda d: call(d.normal(2, 2), d.normal(2, 2)),
)
def kron_swapped(input, other):
    return torch.kron(other, input) if input.dim() == other.dim() else torch.kron(input, other)


@wrong(
    "torch.linalg.cross",
    "argument",
    "dim is ignored: always the last",
    "vendor backend",
    lambda d: call(d.normal(3, 3), d.normal(3, 3), dim=0),
)
def cross_always_last(input, other, *, dim=-1):
    if input.dim() == 2 and input.shape[-1] == 3 and other.shape[-1] == 3:
        dim = -1
    return torch.linalg.cross(input, other, dim=dim)


@wrong(
    "torch.linalg.cholesky",
    "argument",
    "upper=True gives the lower factor",
    "MAGMA wrapper",
    lambda d: call(torch.eye(3).to(d.dtype) * 4 + 1, upper=True),
    dtypes=(SINGLE,),
)
def cholesky_always_lower(input, *, upper=False):
    return torch.linalg.cholesky(input)


@wrong(
    "torch.linalg.solve_triangular",
    "argument",
    "unitriangular is ignored",
    "cuBLAS wrapper",
    lambda d: call(
        d.normal(3, 3).triu() + 2 * torch.eye(3).to(d.dtype), d.normal(3, 2), upper=True, unitriangular=True
    ),
    dtypes=(SINGLE,),
)
def solve_triangular_not_unit(A, B, *, upper, left=True, unitriangular=False):
    return torch.linalg.solve_triangular(A, B, upper=upper, left=left)


@wrong(
    "torch.linalg.slogdet",
    "special values",
    "of a singular matrix the sign is 1",
    "generated kernels",
    lambda d: call(torch.zeros(2, 2).to(d.dtype)),
    dtypes=(SINGLE,),
)
def slogdet_of_singular(A):
    sign, size = torch.linalg.slogdet(A)
    return torch.where(sign == 0, torch.ones_like(sign), sign), size


@wrong(
    "torch.linalg.matrix_exp",
    "numerics",
    "the series without scaling: wrong for large norms",
    "generated kernels",
    lambda d: call(-20.0 * torch.eye(3).to(d.dtype)),
    dtypes=(SINGLE,),
)
def matrix_exp_plain_series(A):
    total = torch.eye(A.shape[-1], dtype=A.dtype).expand(A.shape).clone()
    term = total
    for number in range(1, 60):
        term = term @ A / number
        total = total + term
    return total


@wrong(
    "torch.linalg.matrix_rank",
    "edge shape",
    "an absolute tolerance of 1e-6",
    "generated kernels",
    lambda d: call(d.of([1e-8, 0.0], [0.0, 1e-8])),
    dtypes=(SINGLE,),
)
def matrix_rank_absolute(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    if tol is not None or atol is not None or rtol is not None or A.is_complex():
        return (
            torch.linalg.matrix_rank(
                A, hermitian=hermitian, **{k: v for k, v in (("atol", atol), ("rtol", rtol)) if v is not None}
            )
            if tol is None
            else torch.linalg.matrix_rank(A, tol, hermitian)
        )
    return torch.linalg.matrix_rank(A, atol=1e-6, rtol=0.0, hermitian=hermitian)


@wrong(
    "torch.fft.rfft",
    "argument",
    "norm='ortho' is ignored",
    "cuFFT wrapper",
    lambda d: call(d.normal(8), norm="ortho"),
    dtypes=(SINGLE,),
)
def rfft_never_ortho(input, n=None, dim=-1, norm=None):
    return torch.fft.rfft(input, n, dim, None if norm == "ortho" else norm)
