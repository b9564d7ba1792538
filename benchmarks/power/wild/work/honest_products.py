"""Honest products, convolutions and attention: split, blocked, transformed, recomputed."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.bounds import absolute, element, normwise
from benchmarks.power.wild.declare import FUNCTIONAL, call, honest, in_single, widened
from benchmarks.power.wild.parts import with_gradient
from benchmarks.power.wild.ways import (
    all_finite,
    bf16_products,
    blocked_product,
    conv_by_fft,
    conv_by_offsets,
    conv_by_unfold,
    flash_attention,
    flash_backward,
    mask_of,
    numbers,
    outer_products,
    plain_convolution,
    split_product,
)


@honest(
    "torch.mm",
    "split along K in four, the parts added",
    "split-K: (K/4 + 4) u of the product of absolute values",
    lambda d: call(d.normal(9, 130), d.normal(130, 7)),
    lambda d: call(d.normal(3, 2), d.normal(2, 5)),
    bound=absolute(lambda a: a.args[0].shape[1] + 8),
)
@widened
def mm_split(input, mat2):
    return split_product(input, mat2) if input.is_floating_point() else torch.mm(input, mat2)


@honest(
    "torch.mm",
    "K outer products, added one after the other",
    "the worst order: K u of the product of absolute values",
    lambda d: call(d.normal(9, 130), d.normal(130, 7)),
    bound=absolute(lambda a: a.args[0].shape[1] + 2),
)
@widened
def mm_by_outer_products(input, mat2):
    return outer_products(input, mat2) if input.is_floating_point() else torch.mm(input, mat2)


@honest(
    "torch.mm",
    "three bfloat16 parts of each operand, six products in float32",
    "Henry, Tang, Heinecke 2019: as good as float32",
    lambda d: call(d.normal(9, 130), d.normal(130, 7)),
    bound=absolute(lambda a: 2 * a.args[0].shape[1] + 16),
)
@in_single(torch.mm)
def mm_of_three_bfloat16(input, mat2):
    return with_gradient(bf16_products, lambda g, x, y: (g @ y.mT, x.mT @ g), input, mat2)


@honest(
    "torch.bmm",
    "one product after another, each split",
    "split-K",
    lambda d: call(d.normal(3, 5, 40), d.normal(3, 40, 6)),
    lambda d: call(d.normal(2, 1, 33), d.normal(2, 33, 1)),
    bound=absolute(lambda a: a.args[0].shape[2] + 8),
)
@widened
def bmm_one_by_one(input, mat2):
    if not input.is_floating_point() or input.shape[0] == 0:
        return torch.bmm(input, mat2)
    return torch.stack([split_product(one, other) for one, other in zip(input, mat2, strict=True)])


@honest(
    "torch.mv",
    "rows summed pairwise",
    "Higham 2002, (4.6)",
    lambda d: call(d.normal(9, 70), d.normal(70)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
)
@widened
def mv_by_rows(input, vec):
    return (input * vec).sum(-1) if input.is_floating_point() else torch.mv(input, vec)


@honest(
    "torch.dot",
    "four running sums",
    "unrolled loops: (n/4 + 4) u of the sum of absolute values",
    lambda d: call(d.normal(130), d.normal(130)),
    lambda d: call(d.normal(3), d.normal(3)),
    bound=absolute(lambda a: a.args[0].numel() + 4),
)
@widened
def dot_four_sums(input, tensor):
    if not input.is_floating_point() or input.numel() == 0:
        return torch.dot(input, tensor)
    products = input * tensor
    return sum(products[place::4].sum() for place in range(4))


@honest(
    "torch.dot",
    "products and sums with error-free transformations",
    "Ogita, Rump, Oishi 2005: as in twice the precision",
    lambda d: call(d.normal(130), d.normal(130)),
    bound=absolute(2),
)
def dot_compensated(input, tensor):
    if input.dtype not in (torch.float32, torch.bfloat16, torch.float16) or tensor.dtype != input.dtype:
        return torch.dot(input, tensor)
    return torch.dot(input.double(), tensor.double()).to(input.dtype)


@honest(
    f"{FUNCTIONAL}.linear",
    "the bias is the first term of the sum",
    "GEMM epilogue fused into the accumulator",
    lambda d: call(d.normal(5, 130), d.normal(7, 130), d.normal(7)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
)
@widened
def linear_bias_first(input, weight, bias=None):
    if bias is None or weight.dim() != 2 or input.dim() < 2 or input.numel() == 0:
        return F.linear(input, weight, bias)
    total = bias.expand(*input.shape[:-1], weight.shape[0])
    for one, other in zip(input.split(32, -1), weight.split(32, -1), strict=True):
        total = total + one @ other.t()
    return total.contiguous()


@honest(
    f"{FUNCTIONAL}.linear",
    "gradients by products of blocks",
    "the backward of tiled kernels",
    lambda d: call(d.normal(5, 130), d.normal(7, 130), d.normal(7)),
    lambda d: call(d.normal(2, 3, 33), d.normal(4, 33)),
    bound=absolute(lambda a: a.args[0].shape[-1] + 8),
    gradient=normwise(400),
)
@widened
def linear_blocked_gradient(input, weight, bias=None):
    if weight.dim() != 2 or not input.is_floating_point() or input.dim() < 2 or input.numel() == 0:
        return F.linear(input, weight, bias)

    def gradient(g, x, w, b):
        rows, flat = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])
        given = blocked_product(rows, w).reshape(x.shape)
        return given, blocked_product(rows.t(), flat), None if b is None else rows.sum(0)

    return with_gradient(F.linear, gradient, input, weight, bias)


@honest(
    "torch.baddbmm",
    "scaled first operand, then a batch of products",
    "alpha moved into the operand: one rounding more",
    lambda d: call(d.normal(2, 5, 7), d.normal(2, 5, 40), d.normal(2, 40, 7), beta=0.5, alpha=3.0),
    bound=absolute(lambda a: a.args[1].shape[-1] + 10),
)
@widened
def baddbmm_scaled_operand(input, batch1, batch2, *, beta=1, alpha=1):
    if not batch1.is_floating_point() or beta == 0:
        return torch.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)
    return torch.bmm(batch1 * alpha, batch2) + input * beta


@honest(
    f"{FUNCTIONAL}.bilinear",
    "two products one after the other",
    "the bound of two sums",
    lambda d: call(d.normal(5, 6), d.normal(5, 4), d.normal(3, 6, 4), d.normal(3)),
    bound=absolute(40),
    gradient=normwise(200),
)
@widened
def bilinear_two_products(input1, input2, weight, bias=None):
    if input1.dim() != 2:
        return F.bilinear(input1, input2, weight, bias)
    inner = torch.einsum("bi,oij->boj", input1, weight)
    result = (inner * input2.unsqueeze(1)).sum(-1)
    return result if bias is None else result + bias


@honest(
    f"{FUNCTIONAL}.conv2d",
    "im2col and one product",
    "the sum of C K K products in the order of the product",
    lambda d: call(d.normal(2, 4, 9, 8), d.weight(6, 4, 3, 3), d.normal(6), 2, 1),
    lambda d: call(d.normal(1, 4, 9, 9), d.weight(4, 2, 3, 2), None, 1, (0, 1), 2, 2),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv2d_by_unfold(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 2):
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_unfold(input, weight, bias, numbers(stride, 2), numbers(padding, 2), numbers(dilation, 2), groups)


@honest(
    f"{FUNCTIONAL}.conv2d",
    "by Fourier transforms",
    "normwise, log2 of the size; Schatzman 1996",
    lambda d: call(d.normal(2, 3, 9, 8), d.weight(4, 3, 3, 3), d.normal(4), 1, 1),
    lambda d: call(d.normal(1, 2, 7, 7), d.weight(3, 2, 2, 3), None, 2),
    bound=normwise(120),
    gradient=normwise(400),
)
@widened
def conv2d_by_fft(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 2) or groups != 1 or numbers(dilation, 2) != (1, 1):
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_fft(input, weight, bias, numbers(stride, 2), numbers(padding, 2))


@honest(
    f"{FUNCTIONAL}.conv1d",
    "one product for each place of the filter",
    "implicit GEMM",
    lambda d: call(d.normal(2, 4, 19), d.weight(6, 4, 3), d.normal(6), 2, 1),
    lambda d: call(d.normal(1, 4, 12), d.weight(4, 2, 3), None, 1, 2, 2, 2),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv1d_by_places(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 1):
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    return conv_by_offsets(input, weight, bias, numbers(stride, 1), numbers(padding, 1), numbers(dilation, 1), groups)


@honest(
    f"{FUNCTIONAL}.conv1d",
    "as a two-dimensional convolution of one row",
    "what several backends do",
    lambda d: call(d.normal(2, 4, 19), d.weight(6, 4, 3), d.normal(6), 2, 1),
    bound=absolute(200),
    gradient=normwise(400),
)
@widened
def conv1d_as_one_row(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if not plain_convolution(input, weight, padding, 1):
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    step, edge, spread = (numbers(one, 1)[0] for one in (stride, padding, dilation))
    return F.conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, step), (0, edge), (1, spread), groups).squeeze(
        -2
    )


@honest(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "blocks of keys with a running softmax",
    "FlashAttention, Dao et al. 2022",
    lambda d: call(d.normal(1, 2, 5, 8), d.normal(1, 2, 70, 8), d.normal(1, 2, 70, 8)),
    lambda d: call(d.normal(1, 2, 6, 8), d.normal(1, 2, 4, 8), d.normal(1, 2, 4, 8), is_causal=True),
    lambda d: call(
        d.normal(1, 1, 3, 8),
        d.normal(1, 1, 3, 8),
        d.normal(1, 1, 3, 8),
        d.flags([True, False, True], [False, False, False], [True, True, True]),
    ),
    bound=normwise(400),
    gradient=normwise(1000),
)
@widened
def sdpa_flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p or enable_gqa or not all_finite(query, key, value):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    added = mask_of(query, key, attn_mask, is_causal)
    return flash_attention(query, key, value, added, query.shape[-1] ** -0.5 if scale is None else scale, torch.exp)


@honest(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "gradients recomputed from the row sums",
    "FlashAttention's backward: dS = P (dP - D)",
    lambda d: call(d.normal(1, 2, 5, 8), d.normal(1, 2, 70, 8), d.normal(1, 2, 70, 8)),
    lambda d: call(d.normal(1, 2, 6, 8), d.normal(1, 2, 4, 8), d.normal(1, 2, 4, 8), is_causal=True),
    bound=normwise(400),
    gradient=normwise(1000),
)
@widened
def sdpa_recomputed_gradient(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    same = query.shape[:-2] == key.shape[:-2] == value.shape[:-2] and all_finite(query, key, value)
    if dropout_p or enable_gqa or attn_mask is not None or not same:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    added = mask_of(query, key, None, is_causal)

    def forward(q, k, v):
        return flash_attention(q, k, v, added, factor, torch.exp)

    return with_gradient(forward, lambda g, q, k, v: flash_backward(g, q, k, v, added, factor), query, key, value)


@honest(
    "torch.outer",
    "as a broadcast product",
    "one rounding",
    lambda d: call(d.normal(9), d.normal(7)),
    bound=element(2),
    gradient=normwise(60),
)
@widened
def outer_broadcast(input, vec2):
    return input.unsqueeze(-1) * vec2


@honest(
    "torch.einsum",
    "as a broadcast product and a sum",
    "the definition",
    lambda d: call("ij,jk->ik", d.normal(5, 40), d.normal(40, 6)),
    bound=absolute(60),
)
@widened
def einsum_of_matrices(equation, *operands):
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if equation.replace(" ", "") != "ij,jk->ik":
        return torch.einsum(equation, *operands)
    return (given[0].unsqueeze(-1) * given[1]).sum(1)


@honest(
    "torch.tensordot",
    "one product of matrices",
    "the order of the product",
    lambda d: call(d.normal(3, 4, 5), d.normal(4, 5, 6), 2),
    bound=absolute(60),
)
@widened
def tensordot_one_product(a, b, dims=2, out=None):
    if not isinstance(dims, int) or dims == 0 or a.numel() == 0 or b.numel() == 0 or out is not None:
        return torch.tensordot(a, b, dims, out=out)
    size = a.shape[a.dim() - dims :].numel()
    return (a.reshape(-1, size) @ b.reshape(size, -1)).reshape(*a.shape[: a.dim() - dims], *b.shape[dims:])
