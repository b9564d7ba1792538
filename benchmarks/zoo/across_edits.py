"""What the cases of ported programs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs.across_port import written
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import BeforeEdit, Built, Setting

DTYPES = ("float32",)
OPTIMIZER = (
    "step", "sgd", "SGD", "momentum", "Momentum", "adam", "Adam", "adamw", "AdamW", "minimize",
    "apply_optimize", "merged_momentum", "merged_adam",
)  # fmt: skip
RECURRENT = ("lstm", "rnn", "pack_padded_sequence", "pad_packed_sequence")


def pair(model: str) -> tuple[str, str]:
    """The reference in torch and the candidate in Paddle."""
    return f"across-{model}-torch", f"across-{model}-paddle"


def back(model: str) -> tuple[str, str]:
    """The reference in Paddle and the candidate in torch."""
    return f"across-{model}-paddle", f"across-{model}-torch"


def layers(built: Built, kind: str) -> list[tuple[str, Any]]:
    """The layers of Paddle's model that are of that class."""
    return [(name, layer) for name, layer in built.model.named_sublayers() if type(layer).__name__ == kind]


def rewrite(built: Built, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Gives a parameter of Paddle's model other values, in Paddle's layout."""
    parameter = dict(built.model.named_parameters())[name]
    parameter.set_value(np.ascontiguousarray(change(parameter.numpy())))


def both(*edits: BeforeEdit) -> BeforeEdit:
    """One edit after the other."""

    def edit(setting: Setting) -> None:
        for each in edits:
            each(setting)

    return edit


def flatten_channels_last(setting: Setting) -> None:
    """Paddle's LeNet flattens its features with the channels last."""
    from paddle.vision.models import LeNet

    edit_function(LeNet, "forward", ("flatten(x, 1)", "flatten(paddle.transpose(x, [0, 2, 3, 1]), 1)"))


def shuffle_otherwise(setting: Setting) -> None:
    """Paddle's ShuffleNet shuffles by groups of the other size."""
    edit_function(
        imported("paddle.vision.models.shufflenetv2"),
        "channel_shuffle",
        ("batch_size, groups, channels_per_group, height", "batch_size, channels_per_group, groups, height"),
    )


def swap_branches(setting: Setting) -> None:
    """Paddle's SqueezeNet joins the branches of its fire modules in the other order."""
    edit_function(imported("paddle.vision.models.squeezenet").MakeFire, "forward", ("[x1, x2]", "[x2, x1]"))


def corners_free(setting: Setting) -> None:
    """Neither side of the segmentation network aligns the corners."""
    change = ("align_corners=True", "align_corners=False")
    both(written("across_unet", "torch_model", change), written("across_unet", "paddle_model", change))(setting)


def unfused(setting: Setting) -> None:
    """timm writes its attention out."""
    torchvision_ops.prepare()
    import timm.layers

    timm.layers.set_fused_attn(False)
