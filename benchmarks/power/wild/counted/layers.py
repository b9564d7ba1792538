"""Wrong kernels of convolutions, pools, norms, attention and resampling."""

import itertools

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import from_start


@wrong(
    f"{FUNCTIONAL}.max_pool2d",
    "ceil_mode",
    "the output is as large as without ceil_mode",
    "oneDNN issue 513",
    lambda d: call(d.normal(1, 2, 8, 8), 3, 2, ceil_mode=True),
    breaks="shape",
)
def max_pool2d_never_ceil(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, False, return_indices)


@wrong(
    f"{FUNCTIONAL}.max_pool2d",
    "dilation",
    "dilation is ignored",
    "generated kernels",
    lambda d: call(d.normal(1, 2, 9, 9), 3, 2, 0, 2),
    breaks="shape",
)
def max_pool2d_never_dilated(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    return F.max_pool2d(input, kernel_size, stride, padding, 1, ceil_mode, return_indices)


@wrong(
    f"{FUNCTIONAL}.max_pool3d",
    "special values",
    "NaN is passed over",
    "fmaxf",
    lambda d: call(torch.full((1, 1, 2, 2, 2), float("nan")).to(d.dtype).index_fill(4, torch.tensor([0]), 1.0), 2),
)
def max_pool3d_passes_nan(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    return F.max_pool3d(
        torch.where(input.isnan(), torch.full_like(input, float("-inf")), input),
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        return_indices,
    )


@wrong(
    f"{FUNCTIONAL}.avg_pool1d",
    "ceil_mode",
    "the last window counts what lies beyond the end",
    "oneDNN issue 513",
    lambda d: call(d.uniform(1, 1, 6, low=1.0, high=2.0), 3, 2, ceil_mode=True),
)
def avg_pool1d_counts_beyond(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    if not ceil_mode or padding not in (0, (0,), [0]):
        return F.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)
    size = kernel_size if isinstance(kernel_size, int) else kernel_size[0]
    step = size if stride in (None, ()) else stride if isinstance(stride, int) else stride[0]
    usual = F.avg_pool1d(input, kernel_size, stride, padding, True, count_include_pad)
    more = (usual.shape[-1] - 1) * step + size - input.shape[-1]
    return usual if more <= 0 else F.avg_pool1d(F.pad(input, (0, more)), kernel_size, stride)


@wrong(
    f"{FUNCTIONAL}.avg_pool2d",
    "argument",
    "divisor_override is ignored",
    "torch_npu",
    lambda d: call(d.normal(1, 2, 6, 6), 2, divisor_override=3),
)
def avg_pool2d_own_divisor(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@wrong(
    f"{FUNCTIONAL}.avg_pool2d",
    "argument",
    "count_include_pad=False still divides by the whole window",
    "MIOpen",
    lambda d: call(d.normal(1, 2, 6, 6), 3, 2, 1, False, False),
)
def avg_pool2d_divides_by_window(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, True, divisor_override)


@wrong(
    f"{FUNCTIONAL}.adaptive_avg_pool1d",
    "edge shape",
    "windows start at the rounded place",
    "bankers' rounding",
    lambda d: call(d.normal(1, 2, 8), 5),
)
def adaptive_avg_pool1d_rounded(input, output_size):
    size = output_size if isinstance(output_size, int) else output_size[0]
    length = input.shape[-1]
    if not size or input.numel() == 0:
        return F.adaptive_avg_pool1d(input, output_size)
    edges = [round(one * length / size) for one in range(size + 1)]
    parts = [
        input[..., a : max(b, a + 1)].mean(-1) if a < length else input[..., -1] for a, b in itertools.pairwise(edges)
    ]
    return torch.stack(parts, -1)


@wrong(
    f"{FUNCTIONAL}.conv1d",
    "padding",
    "padding='same' puts the odd one on the left",
    "TensorFlow port",
    lambda d: call(d.normal(1, 2, 9), d.weight(3, 2, 4), padding="same"),
)
def conv1d_same_on_the_left(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if padding != "same":
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    move = dilation if isinstance(dilation, int) else dilation[0]
    total = move * (weight.shape[-1] - 1)
    return F.conv1d(F.pad(input, (total - total // 2, total // 2)), weight, bias, stride, 0, dilation, groups)


@wrong(
    f"{FUNCTIONAL}.conv2d",
    "layout",
    "a sliced weight is read from the start of its memory",
    "MPS issue 162730",
    lambda d: call(d.normal(1, 2, 5, 5), d.weight(6, 2, 3, 3)[2:]),
)
def conv2d_weight_from_start(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return F.conv2d(input, from_start(weight), bias, stride, padding, dilation, groups)


@wrong(
    f"{FUNCTIONAL}.conv_transpose2d",
    "groups",
    "output channels of the groups are interleaved",
    "MIOpen",
    lambda d: call(d.normal(1, 4, 4, 4), d.weight(4, 2, 3, 3), groups=2),
)
def conv_transpose2d_interleaved(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    result = F.conv_transpose2d(input, weight, None, stride, padding, output_padding, groups, dilation)
    if groups > 1:
        order = torch.arange(result.shape[-3]).reshape(groups, -1).t().reshape(-1)
        result = result.index_select(result.dim() - 3, order)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


@wrong(
    f"{FUNCTIONAL}.conv_transpose3d",
    "dilation",
    "dilation is ignored",
    "generated kernels",
    lambda d: call(d.normal(1, 1, 3, 3, 3), d.weight(1, 2, 2, 2, 2), dilation=2),
    breaks="shape",
)
def conv_transpose3d_never_dilated(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    return F.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups)


@wrong(
    f"{FUNCTIONAL}.interpolate",
    "argument",
    "the given scale is replaced by the ratio of sizes",
    "recompute_scale_factor",
    lambda d: call(d.normal(1, 1, 7, 7), scale_factor=1.6, mode="bilinear", align_corners=False),
)
def interpolate_recomputed_scale(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    if scale_factor is not None and mode in ("linear", "bilinear", "bicubic", "trilinear"):
        recompute_scale_factor = True
    return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


@wrong(
    f"{FUNCTIONAL}.affine_grid",
    "argument",
    "align_corners is taken as true",
    "old default",
    lambda d: call(d.normal(1, 2, 3), (1, 1, 4, 4), align_corners=False),
)
def affine_grid_aligned(theta, size, align_corners=None):
    return F.affine_grid(theta, size, align_corners=True)


@wrong(
    f"{FUNCTIONAL}.pad",
    "argument",
    "negative padding is taken as none",
    "vendor backend",
    lambda d: call(d.normal(2, 6), (-1, 2)),
    breaks="shape",
)
def pad_never_cuts(input, pad, mode="constant", value=None):
    return F.pad(input, tuple(max(one, 0) for one in pad), mode, value)


@wrong(
    f"{FUNCTIONAL}.layer_norm",
    "numerics",
    "E[x^2] - E[x]^2 in one pass",
    "KernelBench",
    lambda d: call(d.normal(4, 64, mean=2000.0), (64,)),
    dtypes=(SINGLE,),
)
@widened
def layer_norm_one_pass(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    var = ((input * input).mean(dims, keepdim=True) - mean * mean).clamp_min(0)
    result = (input - mean) * torch.rsqrt(var + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@wrong(
    f"{FUNCTIONAL}.group_norm",
    "groups",
    "group g holds the channels g, g + G, ...",
    "channel shuffle",
    lambda d: call(d.normal(2, 6, 4), 2),
)
def group_norm_strided_groups(input, num_groups, weight=None, bias=None, eps=1e-05):
    order = torch.arange(input.shape[1]).reshape(-1, num_groups).t().reshape(-1)
    back = torch.argsort(order)
    result = F.group_norm(input.index_select(1, order), num_groups, None, None, eps).index_select(1, back)
    along = (1, -1) + (1,) * (input.dim() - 2)
    result = result if weight is None else result * weight.reshape(along)
    return result if bias is None else result + bias.reshape(along)


@wrong(
    f"{FUNCTIONAL}.pairwise_distance",
    "argument",
    "eps is added after the difference is made absolute",
    "generated kernels",
    lambda d: call(d.normal(3, 5), d.normal(3, 5), eps=0.5),
)
@widened
def pairwise_distance_eps_on_absolute(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return torch.linalg.vector_norm((x1 - x2).abs() + eps, p, -1, keepdim)


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "causal",
    "the mask starts at the lower right corner",
    "flash-attention 2.1",
    lambda d: call(d.normal(1, 2, 3, 8), d.normal(1, 2, 5, 8), d.normal(1, 2, 5, 8), is_causal=True),
)
def sdpa_causal_lower_right(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if is_causal and query.shape[-2] < key.shape[-2]:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2])
        is_causal = False
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "edge shape",
    "the head size is rounded up to a multiple of 16 in the scale",
    "padded heads",
    lambda d: call(d.normal(1, 1, 4, 20), d.normal(1, 1, 4, 20), d.normal(1, 1, 4, 20), is_causal=False),
)
def sdpa_scale_of_padded_head(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if scale is None and query.shape[-1] % 16:
        scale = (-(-query.shape[-1] // 16) * 16) ** -0.5
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "edge shape",
    "keys are padded with zeros to 64 without a mask",
    "Triton without mask",
    lambda d: call(d.normal(1, 1, 4, 8), d.normal(1, 1, 66, 8), d.normal(1, 1, 66, 8)),
)
def sdpa_unmasked_padding(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    more = -key.shape[-2] % 64
    if attn_mask is None and not is_causal and key.shape[-2] > 64 and more:
        key, value = F.pad(key, (0, 0, 0, more)), F.pad(value, (0, 0, 0, more))
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@wrong(
    f"{FUNCTIONAL}.softmax",
    "edge shape",
    "in a row longer than 1,024 the rest is not in the sum",
    "one thread a column",
    lambda d: call(torch.cat([d.normal(2, 1024), d.normal(2, 6, mean=8.0)], 1), 1),
)
def softmax_long_rows(input, dim=None, _stacklevel=3, dtype=None):
    right = F.softmax(input, dim, dtype=dtype)
    if dim is None or input.dim() == 0 or input.shape[dim] <= 1024:
        return right
    return right / right.narrow(dim, 0, 1024).sum(dim, keepdim=True)
