"""The honest ways to compute attention, besides that of torch's kernel for CPUs.

They differ in what they round to the dtype of the inputs and in the order of their sums, and every one of them is in
use: which kernel runs depends on the device, the mask and the width of the heads. So what honest arithmetic may be off
is the worst of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from trueline.frameworks.base import Mode
from trueline.ops.names import canonical

_ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
_REDUCED = "allow_fp16_bf16_reduction_math_sdp"
"""Lets the plain composition of attention keep the dtype of its inputs in between; not on CUDA alone."""


def other_ways(api: str, dtype: str) -> tuple[Mode, ...]:
    """The modes in which an operator is computed honestly, besides ``honest``."""
    if canonical(api) not in _ATTENTION or dtype not in ("bfloat16", "float16", "float32"):
        return ()
    rounds = dtype != "float32" and hasattr(torch.backends.cuda, _REDUCED)
    return ("honest steps", "honest fused") if rounds else ("honest fused",)


@contextmanager
def other_way(mode: Mode) -> Iterator[None]:
    """Computes attention in the way of a mode of ``other_ways``."""
    if mode == "honest fused":
        with _FusedAttention():
            yield
        return
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


class _FusedAttention(TorchFunctionMode):
    """Attention, wherever it is called, as the fused kernels of accelerators compute it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        return func(*args, **kwargs)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """``scaled_dot_product_attention`` by ``_Fused``. Dropout is left out: what it draws is not compared."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (one.expand(*batch, *one.shape[-2:]) for one in (query, key, value))
    size = (query.shape[-2], key.shape[-2])
    added = None
    if is_causal:
        attn_mask = torch.ones(size, dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        added = attn_mask
        if attn_mask.dtype is torch.bool:
            added = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
        added = added.expand(*batch, *size)
    width = query.shape[-1] ** -0.5 if scale is None else scale
    made: torch.Tensor = _Fused.apply(query, key, value, added, width)  # type: ignore[no-untyped-call]
    return made


class _Fused(torch.autograd.Function):
    """Products and sums in float32. The weights are rounded before the product with the values, and before they are
    divided by their sum. The backward makes the weights again; takes the row sums of weight times gradient from the
    *rounded* output, so that where a row has one weight only, and nothing goes back, the rounding of two sums is left;
    and rounds what goes back through the scores after it was scaled, when in float16 little of it may be left above
    the smallest number."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> torch.Tensor:
        query, key, value, added, scale = given
        scores = _scores(query, key, added, scale)
        top = scores.amax(-1, keepdim=True)
        top = torch.where(top == -torch.inf, 0.0, top)  # a row that is masked throughout has no weights
        weights = torch.exp(scores - top)
        total = weights.sum(-1, keepdim=True)
        mixed = _product(weights.to(query.dtype), value)
        result = torch.where(total == 0.0, 0.0, mixed / total).to(query.dtype)
        ctx.save_for_backward(query, key, value, added, result, top + total.log())
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, *arrived: Any) -> Any:
        query, key, value, added, result, normalizer = ctx.saved_tensors
        gradient = arrived[0].to(query.dtype)
        weights = torch.exp(_scores(query, key, added, ctx.scale) - normalizer)
        weights = torch.where(normalizer == -torch.inf, 0.0, weights)
        of_weights = _product(gradient, value.mT)
        terms = gradient.float() * result.float()
        # Another order than that of the product, as it happens to be with other kernels.
        row_sums = terms[..., ::2].sum(-1, keepdim=True) + terms[..., 1::2].sum(-1, keepdim=True)
        of_scores = weights * (of_weights - row_sums)
        rounded = (of_scores * ctx.scale).to(query.dtype)
        return (
            _product(rounded, key).to(query.dtype),
            _product(rounded.mT, query).to(key.dtype),
            _product(weights.to(query.dtype).mT, gradient).to(value.dtype),
            None if added is None or not ctx.needs_input_grad[3] else of_scores.to(added.dtype),
            None,
        )


def _scores(query: torch.Tensor, key: torch.Tensor, added: torch.Tensor | None, scale: float) -> torch.Tensor:
    scores = _product(query, key.mT) * scale
    return scores if added is None else scores + added.float()


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A product of matrices, summed in float32. Units for matrices take no factors of float32: what they are given is
    the larger and the smaller half of the digits of each, and the product of the two smaller halves is left out."""
    if one.dtype is not torch.float32:
        return one.float() @ other.float()
    (large, small), (other_large, other_small) = _halves(one), _halves(other)
    return large @ other_small + small @ other_large + large @ other_large


def _halves(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    large = _tensor_float(value)
    return large, _tensor_float(value - large)


def _tensor_float(value: torch.Tensor) -> torch.Tensor:
    """Rounded to the eleven digits of TF32."""
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
