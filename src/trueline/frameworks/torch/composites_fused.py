"""Paddle's fused operators, written with torch as the steps that they fuse. Names are Paddle's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.base import CannotExecute
from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_nn import dropout, flash_attention


@composite
def fused_matmul_bias(
    x: Tensor, y: Tensor, bias: Tensor | None = None, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    left = x.transpose(-1, -2) if transpose_x else x
    right = y.transpose(-1, -2) if transpose_y else y
    out = left @ right
    return out if bias is None else out + bias


@composite
def fused_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, transpose_weight: bool = False) -> Tensor:
    return fused_matmul_bias(x, weight, bias, False, transpose_weight)


@composite
def fused_dropout_add(
    x: Tensor, y: Tensor, p: float = 0.5, training: bool = True, mode: str = "upscale_in_train"
) -> Tensor:
    if training and 0.0 < p < 1.0:
        raise CannotExecute("which elements are dropped is drawn at random, and cannot be seen in the sum")
    return dropout(x, p, None, training, mode=mode) + y


@composite
def softmax_mask_fuse(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x + mask, -1)


@composite
def flash_attn_qkvpacked(
    qkv: Tensor, dropout: float = 0.0, causal: bool = False, return_softmax: bool = False,
    fixed_seed_offset: Any = None, rng_name: str = "", training: bool = True,
) -> Any:  # fmt: skip
    """Queries in groups, then keys, then values, along the third dimension from the end."""
    query, key, value = qkv[:, :, :-2].flatten(2, 3), qkv[:, :, -2], qkv[:, :, -1]
    groups = query.shape[2] // key.shape[2]
    key, value = (one.repeat_interleave(groups, 2) for one in (key, value))
    return flash_attention(query, key, value, dropout, causal, return_softmax, training=training)


@composite
def embedding_renorm_(x: Tensor, weight: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """The rows that are looked up are shortened to the norm allowed, in place."""
    with torch.no_grad():
        rows = x.long().unique()
        norm = torch.linalg.vector_norm(weight[rows], norm_type, 1, keepdim=True)
        weight[rows] *= torch.where(norm > max_norm, max_norm / (norm + 1e-7), 1.0)
    return weight
