"""Wrong kernels of convolutions, pools, norms, attention and resampling."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import BRAIN, FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, with_gradient


@wrong(
    f"{FUNCTIONAL}.max_pool2d",
    "layout",
    "channels-last memory is read as contiguous",
    "layout lost",
    lambda d: call(d.normal(1, 3, 6, 6).contiguous(memory_format=torch.channels_last), 2),
)
def max_pool2d_reads_memory(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    if input.dim() == 4 and input.is_contiguous(memory_format=torch.channels_last):
        input = as_stored(input)
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@wrong(
    f"{FUNCTIONAL}.max_pool1d",
    "gradient",
    "overlapping windows overwrite each other's gradient",
    "scatter without atomics",
    lambda d: call(d.of([[1.0, 5.0, 2.0, 0.0]]), 3, 1),
    breaks="gradient",
)
def max_pool1d_gradient_overwritten(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    if return_indices or not input.is_floating_point() or input.numel() == 0:
        return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def gradient(g, x):
        places = F.max_pool1d(x, kernel_size, stride, padding, dilation, ceil_mode, True)[1]
        return (torch.zeros_like(x).scatter(-1, places, g),)

    return with_gradient(lambda x: F.max_pool1d(x, kernel_size, stride, padding, dilation, ceil_mode), gradient, input)


@wrong(
    f"{FUNCTIONAL}.avg_pool3d",
    "argument",
    "stride defaults to one instead of the window",
    "generated kernels",
    lambda d: call(d.normal(1, 1, 4, 4, 4), 2),
    breaks="shape",
    dtypes=(SINGLE,),
)
def avg_pool3d_stride_one(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return F.avg_pool3d(
        input,
        kernel_size,
        1 if stride in (None, ()) else stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@wrong(
    f"{FUNCTIONAL}.adaptive_avg_pool2d",
    "edge shape",
    "windows are equal: wrong where the size is not divisible",
    "MPS",
    lambda d: call(d.normal(1, 2, 8, 8), 3),
)
def adaptive_avg_pool2d_equal_windows(input, output_size):
    wanted = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    if (
        None in wanted
        or input.numel() == 0
        or any(size < one for one, size in zip(wanted, input.shape[-2:], strict=True))
        or 0 in wanted
    ):
        return F.adaptive_avg_pool2d(input, output_size)
    step = [size // one for one, size in zip(wanted, input.shape[-2:], strict=True)]
    window = [size - (one - 1) * move for one, size, move in zip(wanted, input.shape[-2:], step, strict=True)]
    return F.avg_pool2d(input, window, step)


@wrong(
    f"{FUNCTIONAL}.adaptive_max_pool2d",
    "argument",
    "indices count within the window",
    "vendor backend",
    lambda d: call(d.normal(1, 2, 6, 6), 2, True),
    dtypes=(SINGLE,),
)
def adaptive_max_pool2d_local_indices(input, output_size, return_indices=False):
    result = F.adaptive_max_pool2d(input, output_size, return_indices)
    return (result[0], result[1] % max(input.shape[-1], 1)) if return_indices else result


@wrong(
    f"{FUNCTIONAL}.lp_pool2d",
    "special values",
    "odd powers of negatives are taken without their sign",
    "abs(x)^p",
    lambda d: call(d.normal(1, 2, 6, 6), 3.0, 2),
)
@widened
def lp_pool2d_of_absolute(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return F.lp_pool2d(input.abs(), norm_type, kernel_size, stride, ceil_mode)


@wrong(
    f"{FUNCTIONAL}.max_unpool2d",
    "argument",
    "output_size is ignored",
    "vendor backend",
    lambda d: call(d.normal(1, 1, 2, 2), d.whole(0, 2, 10, 12).reshape(1, 1, 2, 2), 2, output_size=(5, 5)),
    breaks="shape",
)
def max_unpool2d_own_size(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    return F.max_unpool2d(input, indices, kernel_size, stride, padding)


@wrong(
    f"{FUNCTIONAL}.conv1d",
    "edge shape",
    "the last few positions of a row are not computed",
    "block of 64",
    lambda d: call(d.normal(1, 2, 70), d.weight(3, 2, 3)),
)
def conv1d_row_end_missing(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    result = F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    size = result.shape[-1]
    return result * (torch.arange(size) < size // 64 * 64) if size > 64 else result


@wrong(
    f"{FUNCTIONAL}.conv2d",
    "groups",
    "channels of a group are taken with a stride",
    "PyTorch issue 19912",
    lambda d: call(d.normal(1, 4, 5, 5), d.weight(4, 2, 3, 3), groups=2),
)
def conv2d_interleaved_groups(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if groups > 1 and groups < input.shape[-3]:
        order = torch.arange(input.shape[-3]).reshape(-1, groups).t().reshape(-1)
        input = input.index_select(input.dim() - 3, order)
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


@wrong(
    f"{FUNCTIONAL}.conv2d",
    "dilation",
    "the second dilation is that of the first dimension",
    "generated kernels",
    lambda d: call(d.normal(1, 2, 9, 9), d.weight(3, 2, 3, 3), dilation=(1, 2)),
    breaks="shape",
)
def conv2d_one_dilation(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    first = dilation if isinstance(dilation, int) else (dilation[0], dilation[0])
    return F.conv2d(input, weight, bias, stride, padding, first, groups)


@wrong(
    f"{FUNCTIONAL}.conv2d",
    "edge shape",
    "channels beyond a multiple of 16 are not summed",
    "implicit GEMM tail",
    lambda d: call(d.normal(1, 19, 5, 5), d.weight(4, 19, 3, 3)),
)
def conv2d_channel_tail(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    many = weight.shape[1]
    if groups == 1 and many > 16 and many % 16:
        keep = (torch.arange(many) < many // 16 * 16).to(weight.dtype).reshape(1, -1, 1, 1)
        weight = weight * keep
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


@wrong(
    f"{FUNCTIONAL}.conv3d",
    "stride",
    "the stride of depth is taken for all",
    "cuDNN wrapper",
    lambda d: call(d.normal(1, 1, 5, 5, 5), d.weight(2, 1, 2, 2, 2), stride=(1, 2, 2)),
    breaks="shape",
)
def conv3d_one_stride(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return F.conv3d(input, weight, bias, stride if isinstance(stride, int) else stride[0], padding, dilation, groups)


@wrong(
    f"{FUNCTIONAL}.conv3d",
    "gradient",
    "the bias gets the gradient of one image only",
    "MIOpen",
    lambda d: call(d.normal(3, 1, 4, 4, 4), d.weight(2, 1, 2, 2, 2), d.normal(2)),
    breaks="gradient",
)
def conv3d_bias_of_one_image(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    result = F.conv3d(input, weight, None, stride, padding, dilation, groups)
    if bias is None or input.dim() == 4:
        return result if bias is None else result + bias.reshape(-1, 1, 1, 1)
    return with_gradient(
        lambda r, b: r + b.reshape(1, -1, 1, 1, 1), lambda g, r, b: (g, g[0].sum((1, 2, 3))), result, bias
    )


@wrong(
    f"{FUNCTIONAL}.conv_transpose1d",
    "argument",
    "output_padding is ignored",
    "torch_npu",
    lambda d: call(d.normal(1, 2, 5), d.weight(2, 3, 3), None, 2, 1, 1),
    breaks="shape",
)
def conv_transpose1d_no_output_padding(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    return F.conv_transpose1d(input, weight, bias, stride, padding, 0, groups, dilation)


@wrong(
    f"{FUNCTIONAL}.unfold",
    "argument",
    "columns of channel and window are swapped",
    "im2col port",
    lambda d: call(d.normal(1, 3, 5, 5), 2),
)
def unfold_channels_last(input, kernel_size, dilation=1, padding=0, stride=1):
    result = F.unfold(input, kernel_size, dilation, padding, stride)
    channels = input.shape[-3]
    if result.numel() == 0:
        return result
    lead, places = result.shape[:-2], result.shape[-1]
    return result.reshape(*lead, channels, -1, places).transpose(-3, -2).reshape(result.shape)


@wrong(
    f"{FUNCTIONAL}.grid_sample",
    "argument",
    "padding_mode='border' gives zeros",
    "torch_npu",
    lambda d: call(
        d.normal(1, 1, 4, 4), d.uniform(1, 2, 2, 2, low=1.2, high=1.6), padding_mode="border", align_corners=False
    ),
)
def grid_sample_always_zeros(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return F.grid_sample(input, grid, mode, "zeros", align_corners)


@wrong(
    f"{FUNCTIONAL}.pixel_unshuffle",
    "edge shape",
    "channels are ordered by place first",
    "generated kernels",
    lambda d: call(d.normal(1, 2, 4, 4), 2),
)
def pixel_unshuffle_by_place(input, downscale_factor):
    result = F.pixel_unshuffle(input, downscale_factor)
    if result.numel() == 0:
        return result
    lead, plane = result.shape[:-3], result.shape[-2:]
    return result.reshape(*lead, input.shape[-3], -1, *plane).transpose(-4, -3).reshape(result.shape)


@wrong(
    f"{FUNCTIONAL}.pad",
    "argument",
    "reflect repeats the edge",
    "numpy's symmetric",
    lambda d: call(d.normal(1, 2, 6), (2, 1), "reflect"),
)
def pad_reflect_with_edge(input, pad, mode="constant", value=None):
    if mode != "reflect" or len(pad) != 2:
        return F.pad(input, pad, mode, value)
    left, right = pad
    first = input[..., :left].flip(-1) if left > 0 else input[..., :0]
    last = input[..., input.shape[-1] - right :].flip(-1) if right > 0 else input[..., :0]
    return torch.cat([first, input, last], -1)


@wrong(
    f"{FUNCTIONAL}.layer_norm",
    "edge shape",
    "the mean is over the row padded to a power of two",
    "Triton without mask",
    lambda d: call(d.normal(4, 33, mean=1.0), (33,)),
)
@widened
def layer_norm_padded_mean(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    if len(normalized_shape) != 1 or normalized_shape[0] <= 16 or input.numel() == 0:
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    size = 2 ** math.ceil(math.log2(normalized_shape[0]))
    mean = input.sum(-1, keepdim=True) / normalized_shape[0]
    off = F.pad(input, (0, size - normalized_shape[0])) - mean
    result = (input - mean) * torch.rsqrt((off * off).sum(-1, keepdim=True) / normalized_shape[0] + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@wrong(
    f"{FUNCTIONAL}.layer_norm",
    "argument",
    "of two normalized dimensions only the last is used",
    "KernelBench",
    lambda d: call(d.normal(2, 3, 5), (3, 5)),
)
def layer_norm_last_only(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    result = F.layer_norm(input, normalized_shape[-1:], None, None, eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@wrong(
    f"{FUNCTIONAL}.rms_norm",
    "numerics",
    "the squares are summed in the low precision",
    "KernelBench",
    lambda d: call(d.uniform(3, 5000, low=0.5, high=2.0), (5000,), None, 1e-6),
    dtypes=(BRAIN,),
)
def rms_norm_low_sum(input, normalized_shape, weight=None, eps=None):
    right = F.rms_norm(input, normalized_shape, weight, eps)
    if len(normalized_shape) != 1 or eps is None or input.dtype == torch.float64 or input.numel() == 0:
        return right
    total = torch.zeros_like(input.detach()[..., 0])
    for part in input.detach().split(2, -1):
        total = total + (part * part).sum(-1)
    wrong_one = input.detach() * torch.rsqrt(total.unsqueeze(-1) / normalized_shape[0] + eps)
    return right + ((wrong_one if weight is None else wrong_one * weight.detach()) - right).detach()


@wrong(
    f"{FUNCTIONAL}.batch_norm",
    "numerics",
    "eps is added to the deviation",
    "generated kernels",
    lambda d: call(d.normal(8, 3, std=1e-3), None, None, training=True),
)
@widened
def batch_norm_eps_outside(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
):
    if not training or running_mean is not None:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    dims, along = (0, *range(2, input.dim())), (1, -1) + (1,) * (input.dim() - 2)
    mean = input.mean(dims).reshape(along)
    deviation = torch.sqrt(((input - mean) ** 2).mean(dims) + 1e-12).reshape(along)
    result = (input - mean) / (deviation + eps)
    result = result if weight is None else result * weight.reshape(along)
    return result if bias is None else result + bias.reshape(along)


@wrong(
    f"{FUNCTIONAL}.local_response_norm",
    "edge shape",
    "an even window leans to the other side",
    "Caffe port",
    lambda d: call(d.normal(1, 6, 4, std=3.0), 4, alpha=0.5),
)
@widened
def local_response_norm_leans(input, size, alpha=1e-4, beta=0.75, k=1.0):
    return F.local_response_norm(input.flip(1), size, alpha, beta, k).flip(1)


@wrong(
    f"{FUNCTIONAL}.normalize",
    "special values",
    "eps is added to the norm instead of bounding it",
    "generated kernels",
    lambda d: call(d.normal(3, 5, std=1e-9), eps=1e-8),
    dtypes=(SINGLE, BRAIN),
)
@widened
def normalize_adds_eps(input, p=2.0, dim=1, eps=1e-12):
    return input / (torch.linalg.vector_norm(input, p, dim, keepdim=True) + eps)


@wrong(
    f"{FUNCTIONAL}.cosine_similarity",
    "special values",
    "1e-8 is added to the product of the norms",
    "generated kernels",
    lambda d: call(d.normal(3, 5, std=3e-5), d.normal(3, 5, std=3e-5)),
    dtypes=(SINGLE, BRAIN),
)
@widened
def cosine_similarity_adds_eps(x1, x2, dim=1, eps=1e-8):
    x1, x2 = torch.broadcast_tensors(x1, x2)
    return (x1 * x2).sum(dim) / (torch.linalg.vector_norm(x1, dim=dim) * torch.linalg.vector_norm(x2, dim=dim) + eps)


@wrong(
    "torch.cdist",
    "numerics",
    "by products, for few rows as well: cancels for near points",
    "use_mm_for_euclid_dist",
    lambda d: call(d.normal(3, 4, mean=100.0, std=0.01), d.normal(3, 4, mean=100.0, std=0.01)),
    dtypes=(SINGLE,),
)
def cdist_by_products(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    return torch.cdist(x1, x2, p, "use_mm_for_euclid_dist" if p == 2 else compute_mode)


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "mask",
    "a mask of truth values is added as 0 and 1",
    "generated kernels",
    lambda d: call(
        d.normal(1, 1, 3, 8),
        d.normal(1, 1, 3, 8),
        d.normal(1, 1, 3, 8),
        d.flags([True, False, True], [True, True, False], [True, True, True]),
    ),
)
def sdpa_adds_truth(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = attn_mask.to(query.dtype)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "argument",
    "scale= is ignored",
    "generated kernels",
    lambda d: call(d.normal(1, 1, 4, 8), d.normal(1, 1, 4, 8), d.normal(1, 1, 4, 8), scale=1.0),
)
def sdpa_forgets_scale(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa)


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "argument",
    "shared heads are repeated in turns instead of in runs",
    "grouped-query ports",
    lambda d: call(d.normal(1, 4, 3, 8), d.normal(1, 2, 3, 8), d.normal(1, 2, 3, 8), enable_gqa=True),
)
def sdpa_heads_in_turns(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        many = query.shape[-3] // key.shape[-3]
        key, value = (torch.cat([one] * many, -3) for one in (key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "gradient",
    "the row sums of the softmax gradient are left out",
    "flash attention from memory",
    lambda d: call(d.normal(1, 1, 4, 8), d.normal(1, 1, 5, 8), d.normal(1, 1, 5, 8)),
    breaks="gradient",
)
@widened
def sdpa_gradient_without_row_sums(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if attn_mask is not None or dropout_p or is_causal or enable_gqa or query.shape[:-2] != key.shape[:-2]:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    factor = query.shape[-1] ** -0.5 if scale is None else scale

    def gradient(g, q, k, v):
        p = torch.softmax(q @ k.mT * factor, -1)
        inner = p * (g @ v.mT) * factor
        return inner @ k, inner.mT @ q, p.mT @ g

    return with_gradient(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), gradient, query, key, value
    )


@wrong(
    f"{FUNCTIONAL}.scaled_dot_product_attention",
    "mask",
    "a row with nothing to attend to gives the mean of all values",
    "-1e4 instead of -inf",
    lambda d: call(
        d.normal(1, 1, 2, 8),
        d.normal(1, 1, 3, 8),
        d.normal(1, 1, 3, 8),
        d.flags([False, False, False], [True, True, False]),
    ),
)
@widened
def sdpa_masked_by_ten_thousand(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, -1e4).to(query.dtype)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@wrong(
    f"{FUNCTIONAL}.softmax",
    "argument",
    "a middle dim is taken as the last where the sizes agree",
    "KernelBench",
    lambda d: call(d.normal(2, 4, 4), 1),
)
def softmax_always_last(input, dim=None, _stacklevel=3, dtype=None):
    if dim is not None and input.dim() == 3 and input.shape[dim] == input.shape[-1]:
        dim = -1
    return F.softmax(input, dim, dtype=dtype)


@wrong(
    f"{FUNCTIONAL}.softmin",
    "special values",
    "no maximum is subtracted",
    "generated kernels",
    lambda d: call(d.of([-100.0, 1.0, 2.0]), 1),
)
@widened
def softmin_overflows(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None or dtype is not None:
        return F.softmin(input, dim, dtype=dtype)
    weights = torch.exp(-input)
    return weights / weights.sum(dim, keepdim=True)
