"""Honest ports between torch and Paddle."""

from __future__ import annotations

from benchmarks.zoo.across_edits import (
    DTYPES,
    back,
    pair,
    unfused,
)
from benchmarks.zoo.programs.across_port import written
from benchmarks.zoo.spec import Built, Change, clean


@clean(pair("resnet"), "across-resnet-ported", dtypes=DTYPES)
def resnet_ported(built: Built) -> None:
    """The same ResNet of either library, with the same weights and data."""


@clean(back("resnet"), "across-resnet-channels-last", dtypes=DTYPES)
def resnet_channels_last(built: Built) -> None:
    """A port to torch, whose weights lie with the channels last."""
    import torch

    built.model.to(memory_format=torch.channels_last)


@clean(pair("mobilenet"), "across-mobilenet-ported", dtypes=DTYPES)
def mobilenet_ported(built: Built) -> None:
    """The same MobileNetV2 of either library, with the same weights and pictures."""


@clean(pair("mobilenet"), "across-mobilenet-wrapped", dtypes=DTYPES)
def mobilenet_wrapped(built: Built) -> None:
    """The port is wrapped in another layer, so that its layers are called otherwise."""
    import paddle

    built.model = paddle.nn.Sequential(built.model)
    built.model.eval()


@clean(pair("lenet"), "across-lenet-ported", dtypes=DTYPES)
def lenet_ported(built: Built) -> None:
    """The same LeNet in both frameworks."""


@clean(
    pair("lenet"),
    "across-lenet-log-softmax",
    before=written(
        "across_lenet",
        "paddle_step",
        ("F.cross_entropy(logits, labels)", "F.nll_loss(F.log_softmax(logits, axis=1), labels)"),
    ),
    dtypes=DTYPES,
)
def lenet_log_softmax(built: Built) -> None:
    """The port writes its loss as a log-softmax and the likelihood of it."""


@clean(pair("shufflenet"), "across-shufflenet-ported", dtypes=DTYPES)
def shufflenet_ported(built: Built) -> None:
    """The same ShuffleNetV2 of either library, whose layers are called and grouped otherwise."""


@clean(
    pair("encoder"),
    "across-encoder-added-mask",
    before=written(
        "across_encoder",
        "paddle_model",
        (
            "kept = (words != 0).unsqueeze([1, 2])",
            "kept = (words == 0).astype(x.dtype).unsqueeze([1, 2]) * -1e9",
        ),
    ),
    dtypes=DTYPES,
)
def encoder_added_mask(built: Built) -> None:
    """The mask of the port is one to be added, and not one of truth values."""


@clean(pair("lstm"), "across-lstm-ported", dtypes=DTYPES)
def lstm_ported(built: Built) -> None:
    """The same LSTM in both frameworks, over packed sequences here and with their lengths there."""


@clean(pair("gru"), "across-gru-ported", dtypes=DTYPES)
def gru_ported(built: Built) -> None:
    """The same GRU in both frameworks, over packed sequences here and with their lengths there."""


@clean(pair("vit"), "across-vit-ported", dtypes=DTYPES)
def vit_ported(built: Built) -> None:
    """timm's Vision Transformer with its fused attention, and a port to Paddle with a written-out one."""


@clean(
    pair("vit"),
    "across-vit-fused-attention",
    reference_change=Change(before=unfused),
    before=written(
        "across_vit",
        "paddle_model",
        (
            "            scores = q.matmul(k.transpose([0, 1, 3, 2])) * self.scale\n"
            "            weights = nn.functional.softmax(scores, axis=-1)\n"
            "            x = weights.matmul(v).transpose([0, 2, 1, 3]).reshape([batch, length, width])\n",
            "            q, k, v = (part.transpose([0, 2, 1, 3]) for part in (q, k, v))\n"
            "            x = nn.functional.scaled_dot_product_attention(q, k, v).reshape([batch, length, width])\n",
        ),
    ),
    dtypes=DTYPES,
)
def vit_fused_attention(built: Built) -> None:
    """The attention of timm is written out, that of the port is Paddle's own, which has heads and places the other way
    around."""


@clean(pair("bert"), "across-bert-ported", dtypes=DTYPES)
def bert_ported(built: Built) -> None:
    """BERT of transformers, and a port of it to Paddle's encoder with other names and one weight tied otherwise."""


@clean(pair("unet"), "across-unet-ported", dtypes=DTYPES)
def unet_ported(built: Built) -> None:
    """The same segmentation network in both frameworks."""
