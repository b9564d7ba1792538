"""Wrong kernels of matrix products, convolutions and attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power.recipes import (
    BRAIN,
    HALF,
    LOW,
    SINGLE,
    Arguments,
    Draw,
    call,
    cut_to_its_dtype,
    reshown,
    unfelt,
    wrong,
)

FUNCTIONAL = "torch.nn.functional"
LINEAR, CONV = f"{FUNCTIONAL}.linear", f"{FUNCTIONAL}.conv2d"
ATTENTION = f"{FUNCTIONAL}.scaled_dot_product_attention"


def layer(d: Draw) -> Arguments:
    return call(d.normal(4, 32, 256), d.weight(512, 256), d.weight(512))


def narrow_layer(d: Draw) -> Arguments:
    return call(d.normal(16, 64), d.weight(10, 64), d.weight(10))


def square_layer(d: Draw) -> Arguments:
    return call(d.normal(64, 256), d.weight(256, 256))


def long_layer(d: Draw) -> Arguments:
    """A long inner dimension, as behind the widening of a feed-forward block."""
    return call(d.normal(32, 3072), d.weight(128, 3072))


def matrices(d: Draw) -> Arguments:
    return call(d.normal(64, 512), d.normal(512, 128))


def batches(d: Draw) -> Arguments:
    return call(d.normal(16, 32, 64), d.normal(16, 64, 32))


def image(d: Draw) -> Arguments:
    return call(d.normal(2, 16, 14, 14), d.weight(32, 16, 3, 3), d.weight(32), padding=1)


def heads(d: Draw) -> Arguments:
    return call(d.normal(2, 4, 32, 64), d.normal(2, 4, 32, 64), d.normal(2, 4, 32, 64))


def causal_heads(d: Draw) -> Arguments:
    return call(*heads(d).args, is_causal=True)


def summed_in(dtype: torch.dtype, block: int, left: Tensor, right: Tensor) -> Tensor:
    """left @ right with partial sums over ``block`` kept in ``dtype``."""
    total = torch.zeros((), dtype=dtype, device=left.device)
    for start in range(0, left.shape[-1], block):
        part = left[..., start : start + block] @ right[..., start : start + block, :]
        total = (total + part.to(dtype)).to(dtype)
    return total.to(left.dtype)


# linear and matrix products


@wrong(LINEAR, "low-precision accumulation", "partial sums of 32 products added in bfloat16", layer, long_layer)
def linear_bf16_sums(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return summed_in(BRAIN, 32, input, weight.t()) + (bias if bias is not None else 0)


@wrong(
    LINEAR,
    "low-precision accumulation",
    "partial sums of 64 products added in float16",
    layer,
    long_layer,
    dtypes=(SINGLE, HALF),
)
def linear_fp16_sums(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return summed_in(HALF, 64, input, weight.t()) + (bias if bias is not None else 0)


@wrong(LINEAR, "low precision inside", "operands rounded to 10 bits, as TF32 does", layer, dtypes=(SINGLE,))
def linear_tf32(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(reshown(torch.clone, _ten_bits)(input), reshown(torch.clone, _ten_bits)(weight), bias)


def _ten_bits(value: Tensor) -> Tensor:
    return ((value.float().view(torch.int32) + 0x1000) & ~0x1FFF).view(SINGLE).to(value.dtype)


@wrong(LINEAR, "ignored argument", "bias not added", narrow_layer, layer)
def linear_without_bias(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(input, weight, unfelt(bias))


@wrong(LINEAR, "transposed weights", "x W for x W^T", square_layer)
def linear_transposed(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(input, weight.t(), bias)


@wrong(LINEAR, "dropped tail", "the last 2 of 64 inner elements are not summed", narrow_layer)
def linear_inner_tail(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(input[..., :-2], weight[:, :-2], bias)


@wrong(LINEAR, "x1.002", "result x 1.002", layer, narrow_layer)
def linear_scaled(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(input, weight, bias) * 1.002


@wrong(LINEAR, "dropped tail", "the last row of the batch is not computed", narrow_layer, layer)
def linear_last_row(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = F.linear(input, weight, bias).reshape(-1, weight.shape[0])
    return torch.cat([rows[:-1], torch.zeros_like(rows[-1:])]).reshape(*input.shape[:-1], -1)


@wrong("torch.matmul", "low-precision accumulation", "partial sums of 16 products added in bfloat16", matrices, batches)
def matmul_bf16_sums(input: Tensor, other: Tensor) -> Tensor:
    return summed_in(BRAIN, 16, input, other)


@wrong("torch.matmul", "int index wrong", "one tile of 16 x 16 is that of its neighbour", matrices)
def matmul_wrong_tile(input: Tensor, other: Tensor) -> Tensor:
    product = (input @ other).clone()
    product[..., 16:32, 16:32] = product[..., :16, 16:32]
    return product


@wrong(
    "torch.matmul",
    "one wrong element",
    "one element of a million misses its last product",
    lambda d: call(d.normal(1024, 64), d.normal(64, 1024)),
)
def matmul_one_element(input: Tensor, other: Tensor) -> Tensor:
    product = (input @ other).clone()
    product[700, 300] = (input[700, :-1] * other[:-1, 300]).sum()
    return product


@wrong(
    "torch.matmul",
    "fp16 overflow in intermediate",
    "products summed in float16, scaled afterwards",
    lambda d: call(d.normal(32, 512, mean=9.0), d.normal(512, 64, mean=15.0) / 64),
    dtypes=(HALF,),
)
def matmul_overflows(input: Tensor, other: Tensor) -> Tensor:
    return (input @ (other * 64)).half().to(input.dtype) / 64


@wrong("torch.bmm", "int index wrong", "the last batch uses the operand of the one before", batches)
def bmm_wrong_batch(input: Tensor, mat2: Tensor) -> Tensor:
    return torch.bmm(input, torch.cat([mat2[:-1], mat2[-2:-1]]))


@wrong("torch.bmm", "biased rounding", "result truncated instead of rounded", batches, dtypes=LOW, single=False)
def bmm_truncated(input: Tensor, mat2: Tensor) -> Tensor:
    return cut_to_its_dtype(torch.bmm, input, mat2)


@wrong(
    "torch.addmm",
    "ignored argument",
    "beta taken as 1",
    lambda d: call(d.normal(128), d.normal(64, 256), d.normal(256, 128), beta=0.5),
)
def addmm_without_beta(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return torch.addmm(input, mat1, mat2, alpha=alpha)


@wrong(
    "torch.addmm",
    "low-precision accumulation",
    "partial sums of 32 products added in bfloat16",
    lambda d: call(d.normal(128), d.normal(64, 512), d.normal(512, 128)),
    dtypes=(SINGLE, HALF),
)
def addmm_bf16_sums(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return beta * input + alpha * summed_in(BRAIN, 32, mat1, mat2)


@wrong(
    "torch.baddbmm",
    "missing scale",
    "alpha applied to the sum",
    lambda d: call(d.normal(16, 32, 32), d.normal(16, 32, 64), d.normal(16, 64, 32), alpha=0.125),
)
def baddbmm_scaled_sum(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    return (beta * input + torch.bmm(batch1, batch2)) * alpha


@wrong(
    "torch.mv",
    "dropped tail",
    "the last inner element is not summed",
    lambda d: call(d.normal(256, 300), d.normal(300)),
)
def mv_inner_tail(input: Tensor, vec: Tensor) -> Tensor:
    return torch.mv(input[:, :-1], vec[:-1])


@wrong("torch.outer", "swapped operands", "transposed", lambda d: call(d.normal(64), d.normal(64)))
def outer_transposed(input: Tensor, vec2: Tensor) -> Tensor:
    return torch.outer(vec2, input)


@wrong(
    "torch.einsum",
    "int index wrong",
    "queries and keys of the last head swapped",
    lambda d: call("bhqd,bhkd->bhqk", d.normal(2, 4, 32, 64), d.normal(2, 4, 32, 64)),
)
def einsum_swapped_head(equation: str, *operands: Tensor) -> Tensor:
    scores = torch.einsum(equation, *operands)
    return torch.cat([scores[:, :-1], scores[:, -1:].transpose(-1, -2)], dim=1)


@wrong(
    f"{FUNCTIONAL}.bilinear",
    "ignored argument",
    "bias not added",
    lambda d: call(d.normal(32, 16), d.normal(32, 24), d.weight(8, 16, 24), d.weight(8)),
)
def bilinear_without_bias(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.bilinear(input1, input2, weight, unfelt(bias))


# convolutions


@wrong(CONV, "ignored argument", "bias not added", image)
def conv_without_bias(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.conv2d(input, weight, unfelt(bias), **options)


@wrong(CONV, "wrong border", "padding repeats the border instead of zeros", image)
def conv_replicated(input: Tensor, weight: Tensor, bias: Tensor | None = None, padding: int = 0) -> Tensor:
    return F.conv2d(F.pad(input, (padding,) * 4, mode="replicate"), weight, bias)


@wrong(CONV, "int index wrong", "kernel flipped, as in mathematics", image)
def conv_flipped(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.conv2d(input, weight.flip(-1, -2), bias, **options)


@wrong(CONV, "low-precision accumulation", "channels summed in bfloat16 by fours", image, dtypes=(SINGLE, HALF))
def conv_bf16_sums(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    total = torch.zeros((), dtype=BRAIN, device=input.device)
    for start in range(0, weight.shape[1], 4):
        part = F.conv2d(input[:, start : start + 4], weight[:, start : start + 4], **options)
        total = total + part.to(BRAIN)
    return total.to(input.dtype) + (bias.reshape(1, -1, 1, 1) if bias is not None else 0)


@wrong(
    CONV,
    "ignored argument",
    "dilation taken as 1",
    lambda d: call(d.normal(2, 16, 14, 14), d.weight(16, 16, 3, 3), None, 1, 2, 2),
)
def conv_without_dilation(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int
) -> Tensor:
    return F.conv2d(input, weight, bias, stride, padding - 1)


@wrong(
    CONV,
    "wrong groups",
    "the two groups use each other's weights",
    lambda d: call(d.normal(2, 16, 14, 14), d.weight(32, 8, 3, 3), None, 1, 1, 1, 2),
)
def conv_swapped_groups(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int, groups: int
) -> Tensor:
    return F.conv2d(input, weight.roll(weight.shape[0] // 2, 0), bias, stride, padding, dilation, groups)


@wrong(
    CONV,
    "off by one",
    "with stride 2 the windows begin one pixel later",
    lambda d: call(d.normal(2, 16, 15, 15), d.weight(32, 16, 3, 3), None, 2),
)
def conv_shifted_stride(input: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    return F.conv2d(input.roll(-1, -1), weight, bias, stride)


@wrong(
    f"{FUNCTIONAL}.conv1d",
    "dropped tail",
    "the last tap of the kernel is not used",
    lambda d: call(d.normal(4, 32, 100), d.weight(32, 32, 5), d.weight(32), padding=2),
)
def conv1d_without_tap(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    kept = torch.cat([weight[..., :-1], torch.zeros_like(weight[..., -1:])], dim=-1)
    return F.conv1d(input, kept, bias, **options)


@wrong(
    f"{FUNCTIONAL}.conv1d",
    "x1.002",
    "result x 1.002",
    lambda d: call(d.normal(4, 32, 100), d.weight(32, 32, 5), d.weight(32), padding=2),
)
def conv1d_scaled(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.conv1d(input, weight, bias, **options) * 1.002


@wrong(
    f"{FUNCTIONAL}.conv3d",
    "int index wrong",
    "depth and width of the kernel swapped",
    lambda d: call(d.normal(1, 4, 8, 8, 8), d.weight(8, 4, 3, 3, 3), None, padding=1),
)
def conv3d_swapped_axes(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.conv3d(input, weight.transpose(2, 4), bias, **options)


@wrong(
    f"{FUNCTIONAL}.conv_transpose2d",
    "int index wrong",
    "kernel not flipped",
    lambda d: call(d.normal(2, 16, 8, 8), d.weight(16, 8, 4, 4), d.weight(8), stride=2, padding=1),
)
def conv_transpose_unflipped(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    return F.conv_transpose2d(input, weight.flip(-1, -2), bias, **options)


@wrong(
    f"{FUNCTIONAL}.conv_transpose1d",
    "dropped tail",
    "the last output position keeps only the bias",
    lambda d: call(d.normal(4, 16, 50), d.weight(16, 8, 4), d.weight(8), stride=2, padding=1),
)
def conv_transpose1d_tail(input: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    out = F.conv_transpose1d(input, weight, bias, **options)
    assert bias is not None
    return torch.cat([out[..., :-1], bias.reshape(1, -1, 1).expand(len(out), -1, 1)], dim=-1)


# attention


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None = None, low: torch.dtype | None = None
) -> Tensor:
    scores = query @ key.transpose(-1, -2) * scale
    scores = scores + bias if bias is not None else scores
    weights = torch.softmax(scores, -1)
    return (weights.to(low).to(value.dtype) if low else weights) @ value


def _causal(query: Tensor, key: Tensor, diagonal: int) -> Tensor:
    blocked = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).triu(diagonal)
    return torch.zeros(blocked.shape, device=query.device, dtype=query.dtype).masked_fill(blocked, -torch.inf)


@wrong(ATTENTION, "missing scale", "scores not divided by the root of the head size", heads)
def attention_unscaled(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    return attend(query, key, value, 1.0)


@wrong(ATTENTION, "causal mask off by one", "each token sees the next one", causal_heads)
def attention_sees_next(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return attend(query, key, value, query.shape[-1] ** -0.5, _causal(query, key, 2))


@wrong(ATTENTION, "ignored mask", "is_causal ignored", causal_heads)
def attention_not_causal(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    return attend(query, key, value, query.shape[-1] ** -0.5)


@wrong(
    ATTENTION,
    "ignored mask",
    "the additive mask is ignored for the last key",
    lambda d: call(*heads(d).args, attn_mask=d.normal(2, 4, 32, 32)),
)
def attention_mask_tail(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
    kept = torch.cat([attn_mask[..., :-1], torch.zeros_like(attn_mask[..., -1:])], dim=-1)
    return attend(query, key, value, query.shape[-1] ** -0.5, kept)


@wrong(ATTENTION, "low precision inside", "probabilities kept in bfloat16", heads, dtypes=(SINGLE, HALF))
def attention_bf16_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value, query.shape[-1] ** -0.5, low=BRAIN)


@wrong(
    ATTENTION,
    "dropped tail",
    "the last block of 8 keys is not visited",
    lambda d: call(d.normal(2, 4, 100, 64), d.normal(2, 4, 200, 64), d.normal(2, 4, 200, 64)),
)
def attention_last_block(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key[..., :-8, :], value[..., :-8, :], query.shape[-1] ** -0.5)


@wrong(ATTENTION, "wrong constant", "scaled by the size of the model instead of the head", heads)
def attention_model_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(query, key, value, (query.shape[-1] * query.shape[1]) ** -0.5)


@wrong(
    ATTENTION,
    "missing max-subtraction",
    "a running maximum that is never applied to the old sum",
    lambda d: call(d.normal(2, 4, 32, 64, std=2.0), d.normal(2, 4, 32, 64, std=2.0), d.normal(2, 4, 32, 64)),
)
def attention_stale_maximum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    first, second = scores.chunk(2, -1)
    old = first.amax(-1, keepdim=True)
    new = torch.maximum(old, second.amax(-1, keepdim=True))
    weights = torch.cat([torch.exp(first - old), torch.exp(second - new)], -1)
    return weights / weights.sum(-1, keepdim=True) @ value
