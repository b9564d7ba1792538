"""Honest products, convolutions and attention: split, blocked, transformed, recomputed."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, widened
from benchmarks.power.wild.ways import (
    all_finite,
    blocked_product,
    conv_by_fft,
    conv_by_offsets,
    flash_attention,
    mask_of,
    numbers,
    plain_convolution,
    split_product,
    strassen_product,
    winograd_2d,
)


@honest(
    "torch.mm",
    "blocks of 32 along K, one after the other",
    "tiled GEMM; Higham 2002, (3.13)",
    lambda d: call(d.normal(9, 130), d.normal(130, 7)),
    lambda d: call(d.normal(3, 2), d.normal(2, 5)),
    bound=absolute(lambda a: a.args[0].shape[1] + 8),
)
@widened
def mm_in_blocks(input, mat2):
    return blocked_product(input, mat2) if input.is_floating_point() else torch.mm(input, mat2)


@honest(
    "torch.mm",
    "one level of Strassen's recursion",
    "normwise stable; Higham 2002, theorem 23.2",
    lambda d: call(d.normal(16, 64), d.normal(64, 8)),
    lambda d: call(d.normal(3, 5), d.normal(5, 2)),
    bound=normwise(lambda a: 12 * a.args[0].shape[1] + 46),
)
@widened
def mm_strassen(input, mat2):
    return strassen_product(input, mat2) if input.is_floating_point() else torch.mm(input, mat2)


@honest(
    "torch.bmm",
    "products of elements, broadcast and summed",
    "the definition",
    lambda d: call(d.normal(3, 5, 40), d.normal(3, 40, 6)),
    bound=absolute(lambda a: a.args[0].shape[2] + 2),
)
@widened
def bmm_by_definition(input, mat2):
    if not input.is_floating_point() or input.numel() * mat2.shape[-1] > 10**7:
        return torch.bmm(input, mat2)
    return (input.unsqueeze(-1) * mat2.unsqueeze(1)).sum(2)


@honest(
    "torch.matmul",
    "blocks of 32 along K",
    "tiled GEMM",
    lambda d: call(d.normal(9, 70), d.normal(70, 7)),
    lambda d: call(d.normal(2, 3, 70), d.normal(70)),
    lambda d: call(d.normal(4, 1, 3, 33), d.normal(5, 33, 2)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
)
@widened
def matmul_in_blocks(input, other):
    if not input.is_floating_point() or input.dim() < 2 or other.dim() < 1:
        return torch.matmul(input, other)
    if other.dim() == 1:
        return blocked_product(input, other.unsqueeze(-1)).squeeze(-1)
    return blocked_product(input, other)


@honest(
    "torch.matmul",
    "the transposed product of the transposed operands",
    "(B'A')': the order that column-major libraries use",
    lambda d: call(d.normal(9, 70), d.normal(70, 7)),
    lambda d: call(d.normal(4, 1, 3, 33), d.normal(5, 33, 2)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
)
@widened
def matmul_transposed(input, other):
    if input.dim() < 2 or other.dim() < 2:
        return torch.matmul(input, other)
    return torch.matmul(other.mT, input.mT).mT.contiguous()


@honest(
    f"{FUNCTIONAL}.linear",
    "split along K, the bias added last",
    "split-K",
    lambda d: call(d.normal(5, 130), d.normal(7, 130), d.normal(7)),
    lambda d: call(d.normal(2, 3, 33), d.normal(4, 33)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
)
@widened
def linear_split(input, weight, bias=None):
    if input.dim() < 1 or weight.dim() != 2 or not input.is_floating_point():
        return F.linear(input, weight, bias)
    rows = (
        split_product(input.reshape(-1, input.shape[-1]), weight.t()).reshape(*input.shape[:-1], -1)
        if input.numel() and weight.numel()
        else F.linear(input, weight)
    )
    return rows if bias is None else rows + bias


@honest(
    "torch.addmm",
    "product in blocks, then beta times the summand",
    "tiled GEMM with an epilogue",
    lambda d: call(d.normal(5, 7), d.normal(5, 70), d.normal(70, 7), beta=0.5, alpha=2.0),
    lambda d: call(d.normal(7), d.normal(5, 33), d.normal(33, 7)),
    bound=absolute(lambda a: a.args[1].shape[-1] + 10),
)
@widened
def addmm_in_blocks(input, mat1, mat2, *, beta=1, alpha=1):
    if not mat1.is_floating_point() or mat1.numel() == 0 or mat2.numel() == 0:
        return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    product = alpha * blocked_product(mat1, mat2)
    return product + input * beta if beta else product + (input * 0).nan_to_num(0.0, 0.0, 0.0)


@honest(
    f"{FUNCTIONAL}.conv2d",
    "Winograd's F(2x2, 3x3)",
    "Lavin and Gray 2016; normwise, Barabasz et al. 2020",
    lambda d: call(d.normal(2, 3, 8, 9), d.weight(4, 3, 3, 3), d.normal(4), 1, 1),
    lambda d: call(d.normal(1, 2, 5, 5), d.weight(3, 2, 3, 3)),
    bound=normwise(200),
    gradient=normwise(400),
)
@widened
def conv2d_winograd(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    simple = numbers(stride, 2) == numbers(dilation, 2) == (1, 1) and weight.shape[-2:] == (3, 3) and groups == 1
    if not plain_convolution(input, weight, padding, 2) or not simple:
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return winograd_2d(input, weight, bias, numbers(padding, 2))


@honest(
    f"{FUNCTIONAL}.conv2d",
    "one 1x1 product for each place of the filter",
    "implicit GEMM; the order of the sum is by places",
    lambda d: call(d.normal(2, 4, 9, 8), d.weight(6, 4, 3, 3), d.normal(6), 2, 1),
    lambda d: call(d.normal(1, 4, 9, 9), d.weight(4, 2, 3, 2), None, 1, (0, 1), 2, 2),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv2d_by_places(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 2):
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_offsets(input, weight, bias, numbers(stride, 2), numbers(padding, 2), numbers(dilation, 2), groups)


@honest(
    f"{FUNCTIONAL}.conv1d",
    "by Fourier transforms",
    "normwise; long convolutions as in FlashFFTConv",
    lambda d: call(d.normal(2, 3, 40), d.weight(4, 3, 9), d.normal(4), 1, 4),
    bound=normwise(120),
    gradient=normwise(400),
)
@widened
def conv1d_by_fft(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 1) or groups != 1 or numbers(dilation, 1) != (1,):
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_fft(input, weight, bias, numbers(stride, 1), numbers(padding, 1))


@honest(
    f"{FUNCTIONAL}.conv3d",
    "one product for each place of the filter",
    "implicit GEMM",
    lambda d: call(d.normal(1, 4, 5, 6, 5), d.weight(6, 2, 2, 3, 2), d.normal(6), (1, 2, 1), 1, 1, 2),
    bound=absolute(300),
    gradient=normwise(400),
)
@widened
def conv3d_by_places(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 3):
        return F.conv3d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_offsets(input, weight, bias, numbers(stride, 3), numbers(padding, 3), numbers(dilation, 3), groups)


@honest(
    f"{FUNCTIONAL}.conv_transpose2d",
    "a product, then blocks folded together",
    "GEMM and col2im",
    lambda d: call(d.normal(2, 3, 5, 4), d.weight(3, 4, 3, 3), d.normal(4), 2, 1, 1),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv_transpose2d_by_fold(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    if groups != 1 or input.dim() != 4 or input.numel() == 0 or not input.is_floating_point():
        return F.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    step, edge, more, spread = (numbers(one, 2) for one in (stride, padding, output_padding, dilation))
    size = [
        (n - 1) * s - 2 * p + m * (k - 1) + o + 1
        for n, s, p, m, k, o in zip(input.shape[-2:], step, edge, spread, weight.shape[-2:], more, strict=True)
    ]
    if min(size) <= 0 or max(more) >= max(step):
        return F.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    columns = weight.flatten(1).t() @ input.flatten(2)
    full = [n + o for n, o in zip(size, (0, 0), strict=True)]
    inner = [n - o for n, o in zip(full, more, strict=True)]
    result = (
        F.pad(F.fold(columns, inner, weight.shape[-2:], spread, edge, step), (0, 0, 0, 0))
        if more == (0, 0)
        else F.fold(columns, inner, weight.shape[-2:], spread, edge, step)
    )
    if more != (0, 0):
        wide = [n + 2 * p for n, p in zip(inner, edge, strict=True)]
        whole = F.fold(columns, wide, weight.shape[-2:], spread, 0, step)
        whole = F.pad(whole, (0, more[1], 0, more[0]))
        result = whole[..., edge[0] : edge[0] + size[0], edge[1] : edge[1] + size[1]].contiguous()
    return result if bias is None else result + bias.reshape(1, -1, 1, 1)


@honest(
    f"{FUNCTIONAL}.conv_transpose1d",
    "zeros between the elements, then a convolution",
    "the definition by a spread input",
    lambda d: call(d.normal(2, 3, 6), d.weight(3, 4, 3), d.normal(4), 2, 1, 1),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv_transpose1d_spread(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    step, edge, more, spread = (numbers(one, 1)[0] for one in (stride, padding, output_padding, dilation))
    reach = spread * (weight.shape[-1] - 1) - edge
    if groups != 1 or input.dim() != 3 or input.numel() == 0 or reach < 0 or not input.is_floating_point():
        return F.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    wide = F.pad(input.unsqueeze(-1), (0, step - 1)).flatten(-2)[..., : (input.shape[-1] - 1) * step + 1]
    return F.conv1d(F.pad(wide, (reach, reach + more)), weight.flip(-1).transpose(0, 1), bias, 1, 0, spread)


@honest(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "the same with exponentials to the base two",
    "FlashAttention-2, Dao 2023",
    lambda d: call(d.normal(1, 2, 5, 8), d.normal(1, 2, 70, 8), d.normal(1, 2, 70, 8)),
    lambda d: call(d.normal(1, 2, 6, 8), d.normal(1, 2, 4, 8), d.normal(1, 2, 4, 8), is_causal=True),
    bound=normwise(400),
    gradient=normwise(1000),
)
@widened
def sdpa_flash_base_two(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if dropout_p or enable_gqa or not all_finite(query, key, value):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    added = mask_of(query, key, attn_mask, is_causal)
    power = lambda x: torch.exp2(x * 1.4426950408889634)  # noqa: E731
    return flash_attention(query, key, value, added, query.shape[-1] ** -0.5 if scale is None else scale, power)


@honest(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "the query scaled before the product",
    "one rounding more for each element of the query",
    lambda d: call(d.normal(1, 2, 5, 8), d.normal(1, 2, 70, 8), d.normal(1, 2, 70, 8)),
    lambda d: call(d.normal(1, 2, 6, 8), d.normal(1, 2, 4, 8), d.normal(1, 2, 4, 8), is_causal=True),
    bound=normwise(400),
    gradient=normwise(1000),
)
@widened
def sdpa_scaled_query(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    if query.shape[-1] == 0:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    return F.scaled_dot_product_attention(
        query * factor, key, value, attn_mask, dropout_p, is_causal, scale=1.0, enable_gqa=enable_gqa
    )


@honest(
    "torch.kron",
    "blocks put together by a product and a reshape",
    "one rounding",
    lambda d: call(d.normal(3, 2), d.normal(2, 4)),
    bound=element(2),
    gradient=normwise(60),
)
@widened
def kron_by_broadcast(input, other):
    if input.dim() != 2 or other.dim() != 2:
        return torch.kron(input, other)
    blocks = input[:, None, :, None] * other[None, :, None, :]
    return blocks.reshape(input.shape[0] * other.shape[0], -1) if blocks.numel() else torch.kron(input, other)


@honest(
    "torch.linalg.inv",
    "the identity solved for",
    "Higham 2002, section 14.1: cond(A) n u",
    lambda d: call(d.normal(5, 5) + 5 * torch.eye(5).to(d.dtype)),
    bound=normwise(400),
    gradient=normwise(2000),
    dtypes=(torch.float32,),
)
def inv_by_solving(A):
    if A.shape[-1] == 0:
        return torch.linalg.inv(A)
    return torch.linalg.solve(A, torch.eye(A.shape[-1], dtype=A.dtype).expand(A.shape))


@honest(
    "torch.linalg.det",
    "the product of the pivots",
    "Higham 2002, section 14.6",
    lambda d: call(d.normal(5, 5) + 3 * torch.eye(5).to(d.dtype)),
    bound=element(400),
    gradient=normwise(2000),
    dtypes=(torch.float32,),
)
def det_of_pivots(A):
    if A.shape[-1] == 0 or not A.is_floating_point():
        return torch.linalg.det(A)

    def value(x):
        lu, pivots = torch.linalg.lu_factor(x.detach())
        swaps = (pivots != torch.arange(1, x.shape[-1] + 1, dtype=pivots.dtype)).sum(-1) % 2
        return torch.diagonal(lu, 0, -2, -1).prod(-1) * (1 - 2 * swaps)

    exact = torch.linalg.det(A)
    return exact + (value(A) - exact).detach() if bool(exact.isfinite().all()) and bool((exact != 0).all()) else exact
