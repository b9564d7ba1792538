"""Paddle's common layers as functions: linear maps, embeddings, padding, dropout, attention, shuffles.

Names are Paddle's; channels may be first or last.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import channels_last, several, to_back, to_front


@composite
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Paddle keeps the weight as inputs by outputs."""
    return functional.linear(x, weight.T, bias)


@composite
def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.bilinear(x1, x2, weight, None if bias is None else bias.reshape(-1))


@composite
def embedding(
    x: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    sparse: bool = False, scale_grad_by_freq: bool = False,
) -> Tensor:  # fmt: skip
    """What is looked up at ``padding_idx`` is zero in Paddle, whatever the weight holds there."""
    out = functional.embedding(x.long(), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if padding_idx is None:
        return out
    return out.masked_fill((x == padding_idx % weight.shape[0]).unsqueeze(-1), 0.0)


@composite
def one_hot(x: Tensor, num_classes: Any = -1) -> Tensor:
    """Floats, and a class that is out of range is an error, as in torch."""
    return functional.one_hot(x.long(), int(num_classes)).to(torch.get_default_dtype())


@composite
def label_smooth(label: Tensor, prior_dist: Tensor | None = None, epsilon: float = 0.1) -> Tensor:
    prior = 1.0 / label.shape[-1] if prior_dist is None else prior_dist.reshape(-1)
    return (1 - epsilon) * label + epsilon * prior


@composite
def cosine_similarity(x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    x1, x2 = torch.broadcast_tensors(x1, x2)
    size = (x1.square().sum(axis) * x2.square().sum(axis)).clamp(min=eps * eps)
    return (x1 * x2).sum(axis) / size.sqrt()


@composite
def pad(
    x: Tensor, pad: Any, mode: str = "constant", value: float = 0.0, data_format: str | None = None,
    pad_from_left_axis: bool = True,
) -> Tensor:  # fmt: skip
    """Two numbers a dimension, in one of three orders.

    As many as the spatial dimensions need: the last spatial dimension comes first, as in torch, wherever the channels
    are. Two for every dimension: the first dimension comes first, unless ``pad_from_left_axis`` is false. Any other
    number: the last dimension comes first, as in torch.
    """
    amounts = several(pad, 1)
    if mode == "constant" and not isinstance(pad, Tensor) and len(amounts) != 2 * (x.ndim - 2):
        if len(amounts) == 2 * x.ndim and pad_from_left_axis:
            amounts = [amounts[2 * dim + side] for dim in reversed(range(x.ndim)) for side in (0, 1)]
        return functional.pad(x, amounts, value=value)
    layout = data_format or "NC" + "DHW"[5 - x.ndim :]
    if mode == "constant":
        return to_back(functional.pad(to_front(x, layout), amounts, value=value), layout)
    return to_back(functional.pad(to_front(x, layout), amounts, mode=mode), layout)


@composite
def zeropad2d(x: Tensor, padding: Any, data_format: str = "NCHW") -> Tensor:
    return to_back(functional.pad(to_front(x, data_format), several(padding, 4)), data_format)


def _rims(paddings: Any) -> list[int]:
    """Up, left, down, right."""
    values = several(paddings, 4)
    return values * 2 if len(values) == 2 else values


@composite
def unfold(x: Tensor, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1) -> Tensor:
    top, left, bottom, right = _rims(paddings)
    wide = functional.pad(x, [left, right, top, bottom])
    return functional.unfold(wide, several(kernel_sizes, 2), several(dilations, 2), 0, several(strides, 2))


@composite
def fold(
    x: Tensor, output_sizes: Any, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1
) -> Tensor:
    top, left, bottom, right = _rims(paddings)
    height, width = several(output_sizes, 2)
    size = (height + top + bottom, width + left + right)
    out = functional.fold(x, size, several(kernel_sizes, 2), several(dilations, 2), 0, several(strides, 2))
    return out[..., top : top + height, left : left + width]


@composite
def dropout(
    x: Tensor, p: Any = 0.5, axis: Any = None, training: bool = True, inplace: bool = False,
    mode: str = "upscale_in_train",
) -> Tensor:  # fmt: skip
    p = float(p)
    if not training:
        return x * (1 - p) if mode == "downscale_in_infer" else x.clone()
    if axis is None:
        kept = torch.rand_like(x, dtype=torch.float32) >= p
    else:
        axes = several(axis, 1)
        kept = torch.rand([size if dim in axes else 1 for dim, size in enumerate(x.shape)]) >= p
    if mode == "downscale_in_infer" or p in (0.0, 1.0):
        return x * kept
    return x * kept / (1 - p)


@composite
def dropout_channels(x: Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCHW") -> Tensor:
    """Whole channels fall out, in any number of dimensions."""
    axes = [0, x.ndim - 1 if channels_last(data_format) else 1]
    return dropout(x, p, axes, training)


@composite
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return functional.dropout1d(input, p, training)


@composite
def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True, feature: bool = False) -> Tensor:
    """What falls out takes the value of saturation; mean and variance are kept by an affine map. All out is zero."""
    if not training:
        return x.clone()
    if p == 1:
        return x * 0.0
    low = -1.6732632423543772 * 1.0507009873554805
    slope = ((1 - p) * (1 + p * low**2)) ** -0.5
    shape = [*x.shape[:2], *[1] * (x.ndim - 2)] if feature else list(x.shape)
    kept = torch.rand(shape) >= p
    return torch.where(kept, x, low) * slope - slope * low * p


@composite
def feature_alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    return alpha_dropout(x, p, training, feature=True)


@composite
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, training: bool = True, backend: Any = None, scale: float | None = None,
    enable_gqa: bool = True,
) -> Tensor:  # fmt: skip
    """Paddle has the sequence before the heads."""
    query, key, value = (one.transpose(-3, -2) for one in (query, key, value))
    chance = dropout_p if training else 0.0
    out = functional.scaled_dot_product_attention(query, key, value, attn_mask, chance, is_causal, scale=scale,
                                                  enable_gqa=enable_gqa)  # fmt: skip
    return out.transpose(-3, -2)


@composite
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False,
    return_softmax: bool = False, fixed_seed_offset: Any = None, rng_name: str = "", training: bool = True,
) -> Any:  # fmt: skip
    """The result, and the weights where they are asked for."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / sqrt(query.shape[-1])
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    weights = functional.dropout(torch.softmax(scores, -1), dropout, training)
    return torch.einsum("bhqk,bkhd->bqhd", weights, value), (weights if return_softmax else None)


@composite
def sequence_mask(x: Tensor, maxlen: Any = None, dtype: Any = torch.int64) -> Tensor:
    length = int(x.max() if maxlen is None else maxlen)
    return (torch.arange(length) < x.unsqueeze(-1)).to(dtype)


@composite
def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """The beams followed from the last step back to the first."""
    steps = [ids[-1]]
    beam = parents[-1].long()
    for step in range(ids.shape[0] - 2, -1, -1):
        steps.append(ids[step].gather(-1, beam))
        beam = parents[step].long().gather(-1, beam)
    return torch.stack(steps[::-1])


@composite
def temporal_shift(x: Tensor, seg_num: int, shift_ratio: float = 0.25, data_format: str = "NCHW") -> Tensor:
    """One share of the channels comes from the step before, one from the step after."""
    front = to_front(x, data_format).unflatten(0, (-1, seg_num))
    first, second = int(front.shape[2] * shift_ratio), int(front.shape[2] * 2 * shift_ratio)
    past = functional.pad(front[:, :-1, :first], [0, 0, 0, 0, 0, 0, 1, 0])
    future = functional.pad(front[:, 1:, first:second], [0, 0, 0, 0, 0, 0, 0, 1])
    return to_back(torch.cat([past, future, front[:, :, second:]], 2).flatten(0, 1), data_format)


@composite
def pixel_shuffle(x: Tensor, upscale_factor: int, data_format: str = "NCHW") -> Tensor:
    return to_back(functional.pixel_shuffle(to_front(x, data_format), upscale_factor), data_format)


@composite
def pixel_unshuffle(x: Tensor, downscale_factor: int, data_format: str = "NCHW") -> Tensor:
    return to_back(functional.pixel_unshuffle(to_front(x, data_format), downscale_factor), data_format)


@composite
def channel_shuffle(x: Tensor, groups: int, data_format: str = "NCHW") -> Tensor:
    front = to_front(x, data_format)
    mixed = front.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)
    return to_back(mixed, data_format)
