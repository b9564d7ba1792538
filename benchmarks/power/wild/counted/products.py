"""Wrong kernels of products, linear algebra and Fourier transforms."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, with_gradient


@wrong(
    "torch.bmm",
    "edge shape",
    "what is left of K after whole blocks of 16 is not added",
    "robust-kbench",
    lambda d: call(d.normal(2, 3, 20), d.normal(2, 20, 4)),
)
def bmm_inner_tail(input, mat2):
    whole = input.shape[2] // 16 * 16
    return torch.bmm(input[..., :whole], mat2[:, :whole]) if input.shape[2] > 16 else torch.bmm(input, mat2)


@wrong(
    "torch.bmm",
    "layout",
    "a transposed batch is read in the order of its memory",
    "KernelBench",
    lambda d: call(d.normal(2, 5, 3).mT, d.normal(2, 5, 4)),
)
def bmm_reads_memory(input, mat2):
    return torch.bmm(as_stored(input), as_stored(mat2))


@wrong(
    "torch.matmul",
    "edge shape",
    "a vector times a matrix keeps its dimension",
    "generated kernels",
    lambda d: call(d.normal(5), d.normal(5, 3)),
    breaks="shape",
)
def matmul_keeps_dimension(input, other):
    result = torch.matmul(input, other)
    return result.unsqueeze(-2) if input.dim() == 1 and other.dim() == 2 else result


@wrong(
    "torch.addmm",
    "special values",
    "beta=0 still multiplies the summand: NaN",
    "BLAS wrappers",
    lambda d: call(d.of(float("nan"), 1.0), d.normal(3, 4), d.normal(4, 2), beta=0),
)
@widened
def addmm_beta_zero_multiplies(input, mat1, mat2, *, beta=1, alpha=1):
    return input * beta + alpha * torch.mm(mat1, mat2)


@wrong(
    "torch.addmm",
    "broadcast",
    "a column of summands is read as a row",
    "bias epilogue",
    lambda d: call(d.normal(4, 1), d.normal(4, 3), d.normal(3, 4)),
)
def addmm_column_as_row(input, mat1, mat2, *, beta=1, alpha=1):
    if input.dim() == 2 and input.shape[1] == 1 and input.shape[0] == mat2.shape[1]:
        input = input.t()
    return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


@wrong(
    "torch.addmv",
    "special values",
    "beta=0 still multiplies the summand: NaN",
    "BLAS wrappers",
    lambda d: call(d.of(float("nan"), 1.0), d.normal(2, 4), d.normal(4), beta=0),
)
@widened
def addmv_beta_zero_multiplies(input, mat, vec, *, beta=1, alpha=1):
    return input * beta + alpha * torch.mv(mat, vec)


@wrong(
    f"{FUNCTIONAL}.linear",
    "layout",
    "a transposed weight is read in the order of its memory",
    "MPS issue 162730",
    lambda d: call(d.normal(3, 4), d.normal(4, 5).t()),
)
def linear_reads_memory(input, weight, bias=None):
    return F.linear(input, as_stored(weight), bias)


@wrong(
    f"{FUNCTIONAL}.linear",
    "gradient",
    "the bias gets the gradient of the last batch dimension only",
    "fused epilogue",
    lambda d: call(d.normal(2, 3, 4), d.normal(5, 4), d.normal(5)),
    breaks="gradient",
)
def linear_bias_gradient_part(input, weight, bias=None):
    result = F.linear(input, weight)
    if bias is None or input.dim() < 3:
        return result if bias is None else result + bias
    return with_gradient(torch.add, lambda g, r, b: (g, g.flatten(0, -3)[0].sum(0)), result, bias)


@wrong(
    "torch.einsum",
    "argument",
    "an equation without an arrow keeps the order of appearance",
    "generated kernels",
    lambda d: call("ba,ac", d.normal(2, 3), d.normal(3, 4)),
    breaks="values",
)
def einsum_order_of_appearance(equation, *operands):
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    text = equation.replace(" ", "")
    if "->" in text or "." in text:
        return torch.einsum(equation, *given)
    letters = [one for one in dict.fromkeys(text.replace(",", "")) if text.count(one) == 1]
    result = torch.einsum(text + "->" + "".join(letters), *given)
    return result.flip(-1) if sorted(letters) == letters and len(letters) == 2 and text[0] > text[1] else result


@wrong(
    "torch.linalg.inv",
    "numerics",
    "1e-4 is added to the diagonal",
    "generated kernels",
    lambda d: call(d.normal(3, 3) + 3 * torch.eye(3).to(d.dtype)),
    dtypes=(SINGLE,),
)
def inv_regularised(A):
    return torch.linalg.inv(A + 1e-4 * torch.eye(A.shape[-1], dtype=A.dtype))


@wrong(
    "torch.linalg.eigvalsh",
    "argument",
    "UPLO is ignored",
    "cuSOLVER wrapper",
    lambda d: call(d.normal(3, 3), "U"),
    dtypes=(SINGLE,),
)
def eigvalsh_always_lower(A, UPLO="L"):
    return torch.linalg.eigvalsh(A)


@wrong(
    "torch.linalg.matrix_power",
    "argument",
    "negative powers are taken as positive",
    "generated kernels",
    lambda d: call(d.normal(3, 3) + 3 * torch.eye(3).to(d.dtype), -2),
    dtypes=(SINGLE,),
)
def matrix_power_never_negative(A, n):
    return torch.linalg.matrix_power(A, abs(n))


@wrong(
    "torch.linalg.pinv",
    "argument",
    "rtol is ignored",
    "vendor backend",
    lambda d: call(d.of([1.0, 0.0], [0.0, 0.01]), rtol=0.1),
    dtypes=(SINGLE,),
)
def pinv_own_tolerance(input, *, atol=None, rtol=None, hermitian=False):
    return torch.linalg.pinv(input, hermitian=hermitian)


@wrong(
    "torch.fft.irfft",
    "edge shape",
    "an odd size is rounded down to even",
    "cuFFT default",
    lambda d: call(torch.fft.rfft(d.normal(7).float()), 7),
    breaks="shape",
    dtypes=(SINGLE,),
)
def irfft_always_even(input, n=None, dim=-1, norm=None):
    return torch.fft.irfft(input, n if n is None or n < 3 else n // 2 * 2, dim, norm)


@wrong(
    "torch.fft.fftshift", "edge shape", "an odd size is shifted one too far", "ifftshift", lambda d: call(d.normal(5))
)
def fftshift_rounded_up(input, dim=None):
    return torch.fft.ifftshift(input, dim)


@wrong(
    f"{FUNCTIONAL}.bilinear",
    "argument",
    "the bias is added before the second product",
    "generated kernels",
    lambda d: call(d.normal(3, 2), d.normal(3, 4), d.normal(5, 2, 4), d.normal(5)),
)
def bilinear_bias_inside(input1, input2, weight, bias=None):
    result = F.bilinear(input1, input2, weight)
    return result if bias is None else result + bias * input2.sum(-1, keepdim=True)


@wrong(
    "torch.tensordot",
    "argument",
    "several dimensions are contracted in the opposite order",
    "generated kernels",
    lambda d: call(d.normal(2, 3, 3), d.normal(3, 3, 4), 2),
)
def tensordot_opposite_order(a, b, dims=2, out=None):
    if dims != 2 or a.dim() < 2 or b.dim() < 2 or a.shape[-1] != a.shape[-2]:
        return torch.tensordot(a, b, dims, out=out)
    return torch.tensordot(a.transpose(-1, -2), b, dims, out=out)


@wrong(
    "torch.chain_matmul",
    "edge shape",
    "of three matrices and more the last is left out where it is square",
    "generated kernels",
    lambda d: call(d.normal(2, 3), d.normal(3, 4), d.normal(4, 4)),
    dtypes=(SINGLE,),
)
def chain_matmul_stops_early(*matrices):
    given = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else matrices
    last = given[-1]
    return torch.chain_matmul(*(given[:-1] if len(given) > 2 and last.shape[0] == last.shape[1] else given))
