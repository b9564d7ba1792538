"""Cases on image models of Paddle."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-resnet",
    "paddle-resnet-batchnorm-momentum",
    Where("argument", ("batch_norm",), ("bn1", "*.bn1", "*.bn2", "*.downsample.1", "layer*", "")),
    Where("state", ("batch_norm",), ("*",), names=("*_mean", "*_variance")),
    source="https://github.com/PaddlePaddle/Paddle/issues/32810",
    dtypes=("float32",),
)
def resnet_batchnorm_momentum(built: Built) -> None:
    """The momentum of the batch norms is given as PyTorch counts it, 0.1, where Paddle keeps 0.9 of the old value."""
    import paddle

    for layer in built.model.sublayers():
        if isinstance(layer, paddle.nn.BatchNorm2D):
            layer._momentum = 0.1


@fault(
    "paddle-resnet",
    "paddle-resnet-schedule-before-optimizer",
    Where("update", ("momentum", "step"), ("*",), names=("*",)),
    source="https://github.com/cfchen-duke/ProtoPNet/issues/22",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_vision",
        "classify",
        ("    if built.scheduler is not None:\n        built.scheduler.step()\n", ""),
        (
            "    built.optimizer.step()\n",
            "    if built.scheduler is not None:\n        built.scheduler.step()\n    built.optimizer.step()\n",
        ),
    ),
)
def resnet_schedule_before_optimizer(built: Built) -> None:
    """The schedule makes its step before the optimizer does, so that the first rate is never used."""


@fault(
    "paddle-resnet",
    "paddle-resnet-norm-frozen",
    Where("argument", ("batch_norm",), ("layer4.0.bn2", "layer4.0")),
    source="https://github.com/PaddlePaddle/docs/pull/6125",
    dtypes=("float32",),
)
def resnet_norm_frozen(built: Built) -> None:
    """One batch norm normalises by its running statistics while training."""
    edits.at(built, "layer4.0.bn2")._use_global_stats = True


@fault(
    "paddle-lenet",
    "paddle-lenet-shuffled",
    Where("data", ("conv2d", "conv_nd", "cross_entropy"), ("*",), names=("*",)),
    Where("randomness", ("conv2d", "conv_nd"), ("*",), names=("*",)),
    source="https://arxiv.org/abs/1206.5533",
    dtypes=("float32",),
)
def lenet_shuffled(built: Built) -> None:
    """The loader shuffles the images."""
    built.options["shuffle"] = True


@fault(
    "paddle-lenet",
    "paddle-lenet-weight-reshaped",
    Where("state", ("linear",), ("*",), names=("fc.1.weight",)),
    source="https://github.com/PaddlePaddle/PaddleMIX/issues/239",
    dtypes=("float32",),
)
def lenet_weight_reshaped(built: Built) -> None:
    """A weight that another framework stores transposed was reshaped instead of transposed when it was loaded."""
    edits.set_value(edits.at(built, "fc.1").weight, lambda value: value.T.copy().reshape(value.shape))


@fault(
    "paddle-lenet",
    "paddle-lenet-beta-power",
    Where("update", ("adam", "step"), ("*",), names=("*",)),
    Where("state", ("adam", "step"), ("*",), names=("*beta2_pow*", "*")),
    source="https://github.com/PaddlePaddle/Paddle/pull/33472",
    dtypes=("float32",),
)
def lenet_beta_power(built: Built) -> None:
    """Adam starts the power of its second decay rate with the first one, so that the bias correction is wrong."""
    import paddle

    edit_function(paddle.optimizer.Adam, "_add_moments_pows", ("else self._beta2\n", "else self._beta1\n"))


@fault(
    "paddle-lenet",
    "paddle-lenet-normalised-by-half-range",
    Where("data", ("conv2d", "conv_nd"), ("*",), names=("*",)),
    source="https://github.com/PaddlePaddle/docs/pull/2835",
    dtypes=("float32",),
)
def lenet_normalised_by_half_range(built: Built) -> None:
    """The images are divided by half of their range instead of by their standard deviation."""
    built.options["transform"].transforms[1].std = [127.5]


@fault(
    "paddle-swin",
    "paddle-swin-shift-mask-missing",
    Where("missing", ("add", "reshape", "unsqueeze"), ("backbone.layers.*.blocks.1.attn",), calls=5),
    Where("call", ("softmax", "add"), ("backbone.layers.*.blocks.1.attn", "backbone.layers.*.blocks.1.attn.softmax")),
    source="https://github.com/zsyOAOA/ResShift/issues/81",
    dtypes=("float32",),
    before=lambda _: edit_function(
        imported("paddleseg.models.backbones.swin_transformer").SwinTransformerBlock,
        "forward",
        ("attn_mask = mask_matrix", "attn_mask = None"),
    ),
)
def swin_shift_mask_missing(built: Built) -> None:
    """The shifted windows attend across the edges that the shift brought together."""


@fault(
    "paddle-swin",
    "paddle-swin-position-bias-transposed",
    Where("argument", ("transpose", "add"), ("backbone.layers.*.blocks.*.attn",)),
    source="https://github.com/PaddlePaddle/PASSL/pull/47",
    dtypes=("float32",),
    before=lambda _: edit_function(
        imported("paddleseg.models.backbones.swin_transformer").WindowAttention,
        "forward",
        ("[2, 0, 1])  # nH, Wh*Ww, Wh*Ww", "[2, 1, 0])  # nH, Wh*Ww, Wh*Ww"),
    ),
)
def swin_position_bias_transposed(built: Built) -> None:
    """The bias of the relative positions has the places of queries and keys exchanged."""


@fault(
    "paddle-swin",
    "paddle-swin-merging-order",
    Where("argument", ("concat",), ("backbone.layers.0.downsample",)),
    source="https://github.com/berniwal/swin-transformer-pytorch/issues/22",
    dtypes=("float32",),
    before=lambda _: edit_function(
        imported("paddleseg.models.backbones.swin_transformer").PatchMerging,
        "forward",
        ("paddle.concat([x0, x1, x2, x3], -1)", "paddle.concat([x0, x2, x1, x3], -1)"),
    ),
)
def swin_merging_order(built: Built) -> None:
    """The merging of patches joins the four neighbours row by row instead of column by column."""


@fault(
    "paddle-swin",
    "paddle-swin-clipped-one-by-one",
    Where("update", ("adamw", "step", "clip_by_norm", "clip"), ("*",), names=("*",)),
    Where("region", ("clip_by_norm", "squared_l2_norm", "mul", "norm", "stack", "sum"), ("",), calls=200),
    source="https://github.com/PaddlePaddle/Paddle/issues/48125",
    dtypes=("float32",),
)
def swin_clipped_one_by_one(built: Built) -> None:
    """Each gradient is clipped by its own norm instead of all by their common one."""
    import paddle

    built.optimizer._grad_clip = paddle.nn.ClipGradByNorm(1.0)


@fault(
    "paddle-swin",
    "paddle-swin-single-weight",
    Where("state", ("linear",), ("*",), names=("backbone.layers.1.blocks.0.mlp.fc1.weight",)),
    source="https://arxiv.org/abs/2102.11245",
    dtypes=("float32",),
)
def swin_single_weight(built: Built) -> None:
    """One element of one weight has another value, as after a flipped bit."""

    def flip(value: Any) -> Any:
        value[5, 7] = value[5, 7] * 4 + 0.25
        return value

    edits.set_value(edits.at(built, "backbone.layers.1.blocks.0.mlp.fc1").weight, flip)


@clean("paddle-mobilenet", "paddle-mobilenet-hardswish-written-out", dtypes=("float32",))
def mobilenet_hardswish_written_out(built: Built) -> None:
    """Hard swish is written with relu6."""
    from paddle import nn

    edit_function(nn.Hardswish, "forward", ("F.hardswish(x, self._name)", "x * F.relu6(x + 3.0) / 6.0"))


@clean("paddle-shufflenet", "paddle-shufflenet-halves-sliced", dtypes=("float32",))
def shufflenet_halves_sliced(built: Built) -> None:
    """The units cut their input by slices, and the shuffle stacks the two branches."""
    from paddle.vision.models import shufflenetv2

    edit_function(
        shufflenetv2.InvertedResidual,
        "forward",
        (
            "paddle.split(\n"
            "        inputs,\n"
            "        num_or_sections=[inputs.shape[1] // 2, inputs.shape[1] // 2],\n"
            "        axis=1,\n"
            "    )",
            "inputs[:, : inputs.shape[1] // 2], inputs[:, inputs.shape[1] // 2 :]",
        ),
        ("out = paddle.concat([x1, x2], axis=1)", "out = paddle.stack([x1, x2], axis=2)"),
        ("return channel_shuffle(out, 2)", "return out.flatten(1, 2)"),
    )


@clean("paddle-lenet", "paddle-lenet-linear-by-einsum", dtypes=("float32",))
def lenet_linear_by_einsum(built: Built) -> None:
    """The linear layers are Einstein sums and an addition."""
    import paddle

    for layer in edits.at(built, "fc"):
        layer.forward = lambda inputs, own=layer: paddle.einsum("bi,io->bo", inputs, own.weight) + own.bias


@clean("paddle-swin", "paddle-swin-attention-fused", dtypes=("float32",))
def swin_attention_fused(built: Built) -> None:
    """The attention of the windows is scaled_dot_product_attention with the biases as its mask."""
    import paddle

    def forward(self: Any, x: Any, mask: Any = None) -> Any:
        windows, length, width = x.shape
        heads = self.num_heads
        q, k, v = self.qkv(x).reshape([windows, length, 3, heads, width // heads]).unbind(2)
        bias = paddle.index_select(self.relative_position_bias_table, self.relative_position_index.flatten())
        bias = bias.reshape([length, length, heads]).transpose([2, 0, 1]).unsqueeze(0)
        if mask is None:
            bias = bias.expand([windows, heads, length, length])
        else:
            bias = (bias + mask.unsqueeze(1).astype(bias.dtype)).tile([windows // mask.shape[0], 1, 1, 1])
        x = paddle.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.proj(x.reshape([windows, length, width]))

    imported("paddleseg.models.backbones.swin_transformer").WindowAttention.forward = forward


@clean("paddle-swin", "paddle-swin-shift-by-concat", dtypes=("float32",))
def swin_shift_by_concat(built: Built) -> None:
    """The windows are shifted by cutting and joining instead of rolling."""
    module = imported("paddleseg.models.backbones.swin_transformer")
    edit_function(
        module.SwinTransformerBlock,
        "forward",
        (
            "shifted_x = paddle.roll(\n            x, shifts=(-self.shift_size, -self.shift_size), axis=(1, 2))",
            "shifted_x = paddle.concat([x[:, self.shift_size :], x[:, : self.shift_size]], axis=1)\n"
            "        shifted_x = paddle.concat(\n"
            "            [shifted_x[:, :, self.shift_size :], shifted_x[:, :, : self.shift_size]], axis=2)",
        ),
    )
