"""Cases on image models of Paddle."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-resnet",
    "paddle-resnet-batchnorm-epsilon",
    Where("argument", ("batch_norm",), ("layer2.0.bn1", "layer2.0")),
    source="https://github.com/PaddlePaddle/Paddle/issues/5548",
    dtypes=("float32",),
)
def resnet_batchnorm_epsilon(built: Built) -> None:
    """One batch norm has TensorFlow's epsilon of 0.001 instead of 0.00001."""
    edits.at(built, "layer2.0.bn1")._epsilon = 1e-3


@fault(
    "paddle-resnet",
    "paddle-resnet-residual-missing",
    Where("missing", ("add", "iadd"), ("layer3.1",)),
    Where("call", ("add", "iadd", "relu"), ("layer3.1", "layer3.1.relu")),
    source="https://arxiv.org/abs/1512.03385",
    dtypes=("float32",),
)
def resnet_residual_missing(built: Built) -> None:
    """One block does not add its input to its output."""
    edits.edit_one(edits.at(built, "layer3.1"), ("    out += identity\n", ""))


@fault(
    "paddle-resnet",
    "paddle-resnet-pool-ceil-mode",
    Where("argument", ("max_pool2d",), ("maxpool", "")),
    source="https://github.com/PaddlePaddle/Paddle/issues/8650",
    dtypes=("float32",),
)
def resnet_pool_ceil_mode(built: Built) -> None:
    """The first pooling rounds the size of its output up instead of down."""
    edits.at(built, "maxpool").ceil_mode = True


@fault(
    "paddle-resnet",
    "paddle-resnet-channels-reversed",
    Where("data", ("conv2d", "conv_nd"), ("*",), names=("*",)),
    source="https://github.com/jbohnslav/opencv_transforms/issues/15",
    dtypes=("float32",),
)
def resnet_channels_reversed(built: Built) -> None:
    """The images come with their colours in the order of OpenCV, blue first."""
    built.batches = [(pictures.flip([1]), labels) for pictures, labels in built.batches]


@fault(
    "paddle-resnet",
    "paddle-resnet-norms-not-decayed",
    Where("update", ("momentum", "step"), ("*",), names=("*bn*", "*downsample.1*")),
    source="https://github.com/vturrisi/solo-learn/pull/289",
    dtypes=("float32",),
)
def resnet_norms_not_decayed(built: Built) -> None:
    """The parameters of the batch norms are exempt from the weight decay of the optimizer."""
    import paddle

    for name, parameter in built.model.named_parameters():
        if "bn" in name or "downsample.1" in name:
            parameter.regularizer = paddle.regularizer.L2Decay(0.0)


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-hardsigmoid-slope",
    Where("argument", ("hardsigmoid", "hard_sigmoid"), ("blocks.*.mid_se.scale_activation", "blocks.*.mid_se")),
    source="https://github.com/PaddlePaddle/Paddle/issues/44820",
    dtypes=("float32",),
)
def mobilenet_hardsigmoid_slope(built: Built) -> None:
    """The gates of squeeze and excitation use a hard sigmoid of slope 0.2, the old default, instead of one sixth."""
    from paddle import nn

    edit_function(nn.Hardsigmoid, "forward", ("F.hardsigmoid(x, ", "F.hardsigmoid(x, slope=0.2, "))


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-swish-head",
    Where("call", ("hardswish", "swish", "silu"), ("classifier.1", "classifier")),
    source="https://arxiv.org/abs/1905.02244",
    dtypes=("float32",),
)
def mobilenet_swish_head(built: Built) -> None:
    """The activation of the head is swish instead of its piecewise form."""
    from paddle import nn

    edits.put(built, "classifier.1", nn.Swish())


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-dropout-off",
    Where("argument", ("dropout",), ("classifier.2", "classifier")),
    Where("missing", ("dropout",), ("classifier.2", "classifier")),
    Where("randomness", ("dropout",), ("classifier.2", "classifier")),
    source="https://github.com/PaddlePaddle/Paddle/issues/25201",
    dtypes=("float32",),
)
def mobilenet_dropout_off(built: Built) -> None:
    """The dropout of the head was left in evaluation mode."""
    edits.at(built, "classifier.2").eval()


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-tensorflow-padding",
    Where("argument", ("conv2d", "conv_nd", "pad"), ("conv.0", "conv")),
    source="https://github.com/PaddlePaddle/PaConvert/issues/371",
    dtypes=("float32",),
)
def mobilenet_tensorflow_padding(built: Built) -> None:
    """The first convolution pads only below and on the right, as TensorFlow does with a stride of two."""
    edits.at(built, "conv.0")._updated_padding = [0, 1, 0, 1]


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-labels-not-smoothed",
    Where("region", ("cross_entropy", "label_smooth", "one_hot"), ("",), calls=4),
    Where("missing", ("label_smooth", "one_hot"), ("",), calls=3),
    Where("argument", ("cross_entropy",), ("",)),
    source="https://arxiv.org/abs/1512.00567",
    dtypes=("float32",),
)
def mobilenet_labels_not_smoothed(built: Built) -> None:
    """The option for smoothed labels did not reach the loss."""
    built.options["smoothing"] = 0.0


@fault(
    "paddle-mobilenet",
    "paddle-mobilenet-gate-pooled-over-batch",
    Where("argument", ("mean",), ("blocks.4.mid_se",)),
    Where("call", ("mean", "adaptive_avg_pool2d"), ("blocks.4.mid_se", "blocks.4.mid_se.avgpool")),
    Where("region", ("mean", "adaptive_avg_pool2d"), ("blocks.4.mid_se", "blocks.4.mid_se.avgpool")),
    source="https://github.com/PaddlePaddle/PaddleSeg/pull/1332",
    dtypes=("float32",),
)
def mobilenet_gate_pooled_over_batch(built: Built) -> None:
    """One gate takes the mean of its input over the images of the batch, too."""
    gate = edits.at(built, "blocks.4.mid_se")
    edits.edit_one(gate, ("self.avgpool(input)", "input.mean([0, 2, 3], keepdim=True)"), name="_scale")


@fault(
    "paddle-shufflenet",
    "paddle-shufflenet-shuffle-transposed",
    Where("argument", ("reshape", "transpose"), ("?_?",)),
    Where("region", ("reshape", "transpose"), ("?_?",), calls=3),
    source="https://github.com/megvii-model/ShuffleNet-Series/issues/17",
    dtypes=("float32",),
)
def shufflenet_shuffle_transposed(built: Built) -> None:
    """The shuffle of channels cuts them into groups of the size of the number of groups."""
    from paddle.vision.models import shufflenetv2

    edit_function(
        shufflenetv2,
        "channel_shuffle",
        ("[batch_size, groups, channels_per_group,", "[batch_size, channels_per_group, groups,"),
    )


@fault(
    "paddle-shufflenet",
    "paddle-shufflenet-branches-swapped",
    Where("argument", ("concat",), ("2_3",)),
    source="https://arxiv.org/abs/1807.11164",
    dtypes=("float32",),
)
def shufflenet_branches_swapped(built: Built) -> None:
    """One unit joins its two branches in the other order before the shuffle."""
    edits.edit_one(edits.at(built, "2_3"), ("paddle.concat([x1, x2]", "paddle.concat([x2, x1]"))


@fault(
    "paddle-shufflenet",
    "paddle-shufflenet-left-in-training",
    Where("argument", ("batch_norm",), ("_conv1.1", "_conv1", "*.1")),
    source="https://github.com/PaddlePaddle/Paddle/issues/23216",
    dtypes=("float32",),
)
def shufflenet_left_in_training(built: Built) -> None:
    """The model was not put into evaluation mode before inference."""
    built.model.train()


@fault(
    "paddle-shufflenet",
    "paddle-shufflenet-running-mean-not-loaded",
    Where("state", ("batch_norm",), ("*",), names=("3_3._conv_pw.1._mean",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/23216",
    dtypes=("float32",),
)
def shufflenet_running_mean_not_loaded(built: Built) -> None:
    """The running mean of one batch norm was not loaded and is zero."""
    edits.set_value(edits.at(built, "3_3._conv_pw.1")._mean, lambda value: value * 0)


@fault(
    "paddle-lenet",
    "paddle-lenet-nearest-resize",
    Where("data", ("conv2d", "conv_nd", "resize", "getitem"), ("*",), names=("*",)),
    source="https://github.com/python-pillow/Pillow/issues/2718",
    dtypes=("float32",),
)
def lenet_nearest_resize(built: Built) -> None:
    """The images are resized to the nearest pixel instead of bilinearly."""
    from paddle.vision import transforms

    built.options["transform"].transforms[0] = transforms.Resize((28, 28), interpolation="nearest")


@fault(
    "paddle-swin",
    "paddle-swin-shift-not-undone",
    Where("argument", ("roll",), ("backbone.layers.1.blocks.1",)),
    source="https://github.com/huggingface/pytorch-image-models/issues/2438",
    dtypes=("float32",),
)
def swin_shift_not_undone(built: Built) -> None:
    """One block shifts its windows a second time in the same direction instead of back."""
    edits.edit_one(
        edits.at(built, "backbone.layers.1.blocks.1"),
        ("shifts=(self.shift_size, self.shift_size)", "shifts=(-self.shift_size, -self.shift_size)"),
    )


@fault(
    "paddle-swin",
    "paddle-swin-everything-decayed",
    Where("update", ("adamw", "step"), ("*",), names=("*bias", "*norm*")),
    source="https://github.com/PaddlePaddle/ERNIE/pull/614",
    dtypes=("float32",),
)
def swin_everything_decayed(built: Built) -> None:
    """The weight decay also falls on biases and norms, which should be exempt."""
    built.optimizer._apply_decay_param_fun = None


@clean("paddle-resnet", "paddle-resnet-addition-out-of-place", dtypes=("float32",))
def resnet_addition_out_of_place(built: Built) -> None:
    """The blocks add their input out of place and in the other order."""
    from paddle.vision.models import resnet

    edit_function(resnet.BasicBlock, "forward", ("out += identity", "out = identity + out"))


@clean("paddle-resnet", "paddle-resnet-pointwise-by-matmul", dtypes=("float32",))
def resnet_pointwise_by_matmul(built: Built) -> None:
    """The convolution of one shortcut, of one pixel and stride two, is a slice and a product of matrices."""
    import paddle

    layer = edits.at(built, "layer2.0.downsample.0")

    def forward(inputs: Any) -> Any:
        chosen = inputs[:, :, ::2, ::2]
        weight = layer.weight.flatten(1)
        return paddle.matmul(weight, chosen.flatten(2)).reshape([0, 0, chosen.shape[2], chosen.shape[3]])

    layer.forward = forward


@clean("paddle-mobilenet", "paddle-mobilenet-gradients-dropped", dtypes=("float32",))
def mobilenet_gradients_dropped(built: Built) -> None:
    """The gradients are removed instead of set to zero after each step."""
    clear = built.optimizer.clear_grad
    built.optimizer.clear_grad = lambda: clear(set_to_zero=False)


@clean("paddle-mobilenet", "paddle-mobilenet-pooled-by-mean", dtypes=("float32",))
def mobilenet_pooled_by_mean(built: Built) -> None:
    """The global poolings are means."""
    from paddle import nn

    for layer in built.model.sublayers():
        if isinstance(layer, nn.AdaptiveAvgPool2D):
            layer.forward = lambda inputs: inputs.mean([2, 3], keepdim=True)


@clean("paddle-lenet", "paddle-lenet-head-static", dtypes=("float32",))
def lenet_head_static(built: Built) -> None:
    """The head is turned into a static graph by paddle.jit.to_static."""
    import paddle

    head = edits.at(built, "fc")
    head.forward = paddle.jit.to_static(head.forward, full_graph=True)
