"""Cases on segmentation with PaddleSeg."""

from __future__ import annotations

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    "paddle-segformer",
    "paddle-segformer-maps-joined-in-reverse",
    Where("argument", ("concat",), ("",)),
    source="https://arxiv.org/abs/2105.15203",
    dtypes=("float32",),
)
def segformer_maps_joined_in_reverse(built: Built) -> None:
    """The decoder joins the maps from fine to coarse, while its weights expect them from coarse to fine."""
    edits.edit_model(built, ("[_c4, _c3, _c2, _c1]", "[_c1, _c2, _c3, _c4]"))


@fault(
    "paddle-segformer",
    "paddle-segformer-dice-counts-ignored",
    Where("call", ("ne", "not_equal", "eq", "equal", "cast"), ("",)),
    Where("argument", ("ne", "not_equal", "cast"), ("",)),
    Where("region", ("ne", "not_equal", "eq", "equal", "cast", "unsqueeze", "ones_like", "mul"), ("",), calls=3),
    source="https://github.com/PaddlePaddle/PaddleSeg/pull/933",
    dtypes=("float32",),
    before=lambda _: edit_function(
        imported("paddleseg.models.losses").DiceLoss,
        "forward",
        ("mask = labels != self.ignore_index", "mask = labels == labels"),
    ),
)
def segformer_dice_counts_ignored(built: Built) -> None:
    """The Dice loss also judges the pixels that are to be ignored."""


@fault(
    "paddle-segformer",
    "paddle-segformer-ignored-as-background",
    Where("region", ("cross_entropy", "mul", "ne", "not_equal", "cast", "astype"), ("",), calls=4),
    Where("extra", ("mul", "ne", "not_equal", "cast", "astype"), ("",), calls=3),
    Where("argument", ("cross_entropy",), ("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/25573",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_segmentation",
        "segment",
        ("logits, maps, ignore_index=255, axis=1", 'logits, maps * (maps != 255).astype("int64"), axis=1'),
    ),
)
def segformer_ignored_as_background(built: Built) -> None:
    """For the cross entropy the pixels to be ignored are turned into background."""


@fault(
    "paddle-segformer",
    "paddle-segformer-activation-before-convolution",
    Where(
        "region",
        ("gelu", "conv2d", "depthwise_conv2d", "conv_nd", "transpose", "reshape", "flatten", "shape"),
        ("backbone.block4.0.mlp", "backbone.block4.0.mlp.*"),
        calls=8,
    ),
    Where("call", ("gelu", "conv2d", "transpose"), ("backbone.block4.0.mlp", "backbone.block4.0.mlp.*")),
    source="https://arxiv.org/abs/2105.15203",
    dtypes=("float32",),
)
def segformer_activation_before_convolution(built: Built) -> None:
    """One block applies its activation before its depthwise convolution."""
    edits.edit_one(
        edits.at(built, "backbone.block4.0.mlp"),
        ("x = self.dwconv(x, H, W)\n    x = self.act(x)", "x = self.act(x)\n    x = self.dwconv(x, H, W)"),
    )


@fault(
    "paddle-segformer",
    "paddle-segformer-dropout-of-pixels",
    Where("call", ("dropout2d", "dropout"), ("dropout", "")),
    Where("argument", ("dropout2d", "dropout"), ("dropout", "")),
    Where("randomness", ("dropout2d", "dropout"), ("dropout", "")),
    source="https://github.com/PaddlePaddle/Paddle/issues/22988",
    dtypes=("float32",),
)
def segformer_dropout_of_pixels(built: Built) -> None:
    """The decoder drops single values instead of whole maps."""
    from paddle import nn

    edits.put(built, "dropout", nn.Dropout(0.1))


@fault(
    "paddle-segformer",
    "paddle-segformer-dice-softmax-axis",
    Where("argument", ("softmax",), ("",)),
    source="https://github.com/PaddlePaddle/PaddleSeg/pull/1630",
    dtypes=("float32",),
    before=lambda _: edit_function(
        imported("paddleseg.models.losses").DiceLoss,
        "forward",
        ("F.softmax(logits, axis=1)", "F.softmax(logits)"),
    ),
)
def segformer_dice_softmax_axis(built: Built) -> None:
    """The Dice loss takes its softmax over the columns instead of over the classes."""
