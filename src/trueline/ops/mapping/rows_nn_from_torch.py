"""Rows from torch to Paddle for layers whose row in the other direction needs a composite."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row


def _to(paddle: str, torch: str, names: str, order: str = "") -> Row:
    """A row from ``torch.nn.functional`` to ``paddle.nn.functional``, or to one of Paddle's composites."""
    home = paddle if "." in paddle else f"paddle.nn.functional.{paddle}"
    return row(home, f"torch.nn.functional.{torch}", names, order=order)


def _own(torch: str, names: str) -> Row:
    """A composite on Paddle's side, with torch's own parameters."""
    return Row(f"composite.{torch}", f"torch.nn.functional.{torch}", {name: name for name in names.split()})


_TRANSPOSED = "x:input weight bias stride padding output_padding dilation groups"
_TRANSPOSED_ORDER = "input weight bias stride padding output_padding groups dilation"
_MAXIMUM = "input kernel_size stride padding dilation ceil_mode return_indices"
_LOSS_ORDER = "size_average reduce reduction"

ROWS: tuple[Row, ...] = ()

FROM_TORCH = (
    *(_to(f"conv{rank}d_transpose", f"conv_transpose{rank}d", _TRANSPOSED, _TRANSPOSED_ORDER) for rank in (1, 2, 3)),
    *(_own(f"max_pool{rank}d", _MAXIMUM) for rank in (1, 2, 3)),
    _own("avg_pool1d", "input kernel_size stride padding ceil_mode count_include_pad"),
    *(_own(f"avg_pool{rank}d", "input kernel_size stride padding ceil_mode count_include_pad divisor_override")
      for rank in (2, 3)),
    *(_to(f"adaptive_avg_pool{rank}d", f"adaptive_avg_pool{rank}d", "x:input output_size") for rank in (1, 2, 3)),
    *(Row("composite.adaptive_max_pool", f"torch.nn.functional.adaptive_max_pool{rank}d",
          {name: name for name in ("input", "output_size", "return_indices")}) for rank in (1, 2, 3)),
    *(_to(f"max_unpool{rank}d", f"max_unpool{rank}d", "x:input indices kernel_size stride padding output_size")
      for rank in (1, 2, 3)),
    _own("layer_norm", "input normalized_shape weight bias eps"),
    _own("group_norm", "input num_groups weight bias eps"),
    _own("batch_norm", "input running_mean running_var weight bias training momentum eps"),
    _own("instance_norm", "input running_mean running_var weight bias use_input_stats momentum eps"),
    _to("local_response_norm", "local_response_norm", "x:input size alpha beta k"),
    _own("gelu", "input approximate"),
    _own("hardsigmoid", "input inplace"),
    _to("prelu", "prelu", "x:input weight"),
    _to("selu", "selu", "x:input"),
    _own("embedding", "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse"),
    _own("one_hot", "tensor num_classes"),
    _own("bilinear", "input1 input2 weight bias"),
    _to("cosine_similarity", "cosine_similarity", "x1 x2 axis:dim eps"),
    _to("dropout2d", "dropout2d", "x:input p training"),
    _to("dropout3d", "dropout3d", "x:input p training"),
    _to("alpha_dropout", "alpha_dropout", "x:input p training"),
    _to("pixel_shuffle", "pixel_shuffle", "x:input upscale_factor"),
    _to("pixel_unshuffle", "pixel_unshuffle", "x:input downscale_factor"),
    _to("channel_shuffle", "channel_shuffle", "x:input groups"),
    _own("interpolate", "input size scale_factor mode align_corners recompute_scale_factor antialias"),
    _to("hardtanh", "hardtanh", "x:input min:min_val max:max_val"),
    _own("affine_grid", "theta size align_corners"),
    _own("grid_sample", "input grid mode padding_mode align_corners"),
    _own("fold", "input output_size kernel_size dilation padding stride"),
    _own("cross_entropy", "input target weight size_average ignore_index reduce reduction label_smoothing"),
    _own("smooth_l1_loss", "input target size_average reduce reduction beta"),
    _to("smooth_l1_loss", "huber_loss", "input label:target reduction delta"),
    _to("cosine_embedding_loss", "cosine_embedding_loss", "input1 input2 label:target margin reduction",
        f"input1 input2 target margin {_LOSS_ORDER}"),
    _to("margin_ranking_loss", "margin_ranking_loss", "input:input1 other:input2 label:target margin reduction",
        f"input1 input2 target margin {_LOSS_ORDER}"),
    row("paddle.rand", "torch.rand", "shape:size dtype"),
    row("paddle.randn", "torch.randn", "shape:size dtype"),
    row("paddle.bernoulli", "torch.bernoulli", "x:input"),
)  # fmt: skip
