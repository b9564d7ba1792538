"""Rows from torch to Paddle alone: torch functions that Paddle says in another way. Composites on this side have
torch's names (``frameworks/paddle/composites``)."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row

ROWS: tuple[Row, ...] = ()


def _same(names: str, parameters: str, home: str = "torch.nn.functional") -> tuple[Row, ...]:
    """Composites that are named as the functions they stand for."""
    return tuple(row(f"composite.{name}", f"{home}.{name}", parameters, inverse=True) for name in names.split())


_LOSS = "input target weight size_average! ignore_index reduce! reduction"

FROM_TORCH: tuple[Row, ...] = (
    *_same("linear", "input weight bias"),
    *_same("conv1d conv2d conv3d", "input weight bias stride padding dilation groups"),
    *_same("rms_norm", "input normalized_shape weight eps"),
    *_same("scaled_dot_product_attention", "query key value attn_mask dropout_p is_causal scale enable_gqa!=false"),
    *_same("nll_loss", _LOSS),
    *_same("softmax log_softmax", "input dim _stacklevel- dtype"),
    *_same("softmax log_softmax", "input dim dtype", "torch"),
    *_same("pad", "input pad mode value"),
    *_same("dropout", "input p training inplace-"),
    *_same("rsub", "input other alpha", "torch"),
    *_same("addcmul addcdiv", "input tensor1 tensor2 value", "torch"),
    *_same("add_ sub_", "input other alpha", "torch.Tensor"),
    *_same("mul_ div_", "input other", "torch.Tensor"),
    *_same("addcmul_ addcdiv_", "input tensor1 tensor2 value", "torch.Tensor"),
    *_same("var_mean", "input dim correction keepdim", "torch"),
    *_same("sort", "input dim descending stable", "torch"),
    *_same("scatter", "input dim index src", "torch"),
    row("composite.max_along", "torch.max", "input dim|integer keepdim", inverse=True),
    row("composite.min_along", "torch.min", "input dim|integer keepdim", inverse=True),
    row("paddle.nn.functional.relu", "torch.relu", "x:input"),
    row("paddle.nn.functional.sigmoid", "torch.nn.functional.sigmoid", "x:input"),
    row("paddle.tanh", "torch.nn.functional.tanh", "x:input"),
    row("paddle.clip", "torch.clamp_min", "x:input min"),
    row("paddle.clip", "torch.clamp_max", "x:input max"),
    row("paddle.bmm", "torch.bmm", "x:input y:mat2"),
    row("paddle.transpose", "torch.permute", "x:input perm:dims"),
    row("paddle.clone", "torch.Tensor.contiguous", "x:input memory_format-"),
    row("paddle.nn.functional.mse_loss", "torch.nn.functional.mse_loss",
        "input label:target reduction", order="input target size_average reduce reduction"),
    row("paddle.nn.functional.l1_loss", "torch.nn.functional.l1_loss",
        "input label:target reduction", order="input target size_average reduce reduction"),
)  # fmt: skip
