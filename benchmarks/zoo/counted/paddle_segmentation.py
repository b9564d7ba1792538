"""Cases on segmentation with PaddleSeg."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-segformer",
    "paddle-segformer-corners-aligned",
    Where("argument", ("interpolate", "bilinear_interp"), ("",)),
    source="https://github.com/onnx/onnx/issues/1612",
    dtypes=("float32",),
)
def segformer_corners_aligned(built: Built) -> None:
    """The maps are enlarged with aligned corners."""
    built.model.align_corners = True


@fault(
    "paddle-segformer",
    "paddle-segformer-reduced-keys-not-normalised",
    Where("missing", ("layer_norm",), ("backbone.block1.1.attn", "backbone.block1.1.attn.norm")),
    source="https://arxiv.org/abs/2105.15203",
    dtypes=("float32",),
)
def segformer_reduced_keys_not_normalised(built: Built) -> None:
    """One attention does not normalise the reduced map from which it takes its keys and values."""
    edits.edit_one(edits.at(built, "backbone.block1.1.attn"), ("x_ = self.norm(x_)", "pass"))


@fault(
    "paddle-segformer",
    "paddle-segformer-schedule-power",
    Where("update", ("adamw", "step"), ("*",), names=("*",), step=1),
    source="https://github.com/PaddlePaddle/PaddleClas/pull/1248",
    dtypes=("float32",),
)
def segformer_schedule_power(built: Built) -> None:
    """The rate falls with a power of 0.9 instead of linearly."""
    built.scheduler.power = 0.9


@fault(
    "paddle-segformer",
    "paddle-segformer-border-replicated",
    Where("argument", ("conv2d", "conv_nd", "pad"), ("backbone.patch_embed2.proj", "backbone.patch_embed2")),
    Where("extra", ("pad",), ("backbone.patch_embed2.proj", "backbone.patch_embed2")),
    source="https://github.com/PaddlePaddle/PaConvert/issues/371",
    dtypes=("float32",),
)
def segformer_border_replicated(built: Built) -> None:
    """One embedding of patches pads with the values of the border instead of with zeros."""
    convolution = edits.at(built, "backbone.patch_embed2.proj")
    convolution._padding_mode, convolution._updated_padding = "replicate", [0, 0]
    convolution._reversed_padding_repeated_twice = [1, 1, 1, 1]


@clean("paddle-segformer", "paddle-segformer-pointwise-by-linear", dtypes=("float32",))
def segformer_pointwise_by_linear(built: Built) -> None:
    """The last convolution, of one pixel, is a linear layer over the channels."""
    import paddle

    layer = edits.at(built, "linear_pred")

    def forward(inputs: Any) -> Any:
        weight = layer.weight.flatten(1).transpose([1, 0])
        return paddle.nn.functional.linear(inputs.transpose([0, 2, 3, 1]), weight, layer.bias).transpose([0, 3, 1, 2])

    layer.forward = forward


@clean("paddle-segformer", "paddle-segformer-attention-fused", dtypes=("float32",))
def segformer_attention_fused(built: Built) -> None:
    """The attention is Paddle's scaled_dot_product_attention."""
    edit_function(
        imported("paddleseg.models.backbones.mix_transformer").Attention,
        "forward",
        (
            "attn = (q @k.transpose([0, 1, 3, 2])) * self.scale",
            "q, k, v = (one.transpose([0, 2, 1, 3]) for one in (q, k, v))",
        ),
        ("    attn = F.softmax(attn, axis=-1)\n    attn = self.attn_drop(attn)\n", ""),
        ("(attn @v).transpose([0, 2, 1, 3])", "F.scaled_dot_product_attention(q, k, v)"),
    )
