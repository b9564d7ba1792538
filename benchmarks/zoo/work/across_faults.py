"""Mistakes of porting a model between torch and Paddle."""

from __future__ import annotations

from benchmarks.zoo.across_edits import (
    DTYPES,
    OPTIMIZER,
    back,
    layers,
    pair,
    rewrite,
)
from benchmarks.zoo.programs.across_port import written
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    pair("resnet"),
    "across-resnet-shortcut-epsilon",
    Where("argument", apis=("batch_norm",), modules=("layer2.0.downsample.1", "layer2.0.downsample")),
    source="https://github.com/qqwweee/keras-yolo3/issues/451",
    dtypes=DTYPES,
)
def shortcut_epsilon(built: Built) -> None:
    """The BatchNorm of one shortcut has Keras's epsilon of 1e-3 and not 1e-5."""
    built.model.layer2[0].downsample[1]._epsilon = 1e-3


@fault(
    pair("resnet"),
    "across-resnet-pool-without-padding",
    Where(
        "argument", apis=("max_pool2d", "max_pool2d_with_index", "pool2d", "boolean_dispatch"), modules=("maxpool", "")
    ),
    source="https://github.com/jwyang/faster-rcnn.pytorch/issues/343",
    dtypes=DTYPES,
)
def pool_without_padding(built: Built) -> None:
    """The first pooling takes a last window of its own in place of the padding; the shapes are the same."""
    import paddle

    built.model.maxpool = paddle.nn.MaxPool2D(3, stride=2, padding=0, ceil_mode=True)


@fault(
    pair("resnet"),
    "across-resnet-nesterov",
    Where("update", apis=OPTIMIZER, names=("*",)),
    source="https://github.com/zhanghang1989/ResNeSt/issues/69",
    before=written("across_resnet", "paddle_optimizer", ("momentum=0.9,", "momentum=0.9, use_nesterov=True,")),
    dtypes=DTYPES,
)
def nesterov(built: Built) -> None:
    """The port trains with Nesterov's momentum, the original with the plain one."""


@fault(
    back("resnet"),
    "across-resnet-momentum-in-torch",
    Where("argument", apis=("batch_norm",), modules=("bn1", "")),
    Where("state", names=("bn1.*_mean", "bn1.*_variance", "bn1.running_*")),
    source="https://github.com/kazuto1011/deeplab-pytorch/issues/79",
    dtypes=DTYPES,
)
def momentum_in_torch(built: Built) -> None:
    """A port to torch gives its first BatchNorm the momentum 0.9 of the original, where torch's means the share of the
    new."""
    built.model.bn1.momentum = 0.9


@fault(
    pair("resnet"),
    "across-resnet-decay-of-weights-only",
    Where("update", apis=OPTIMIZER, names=("*bn*", "*downsample.1*", "*bias")),
    source="https://github.com/vturrisi/solo-learn/pull/289",
    dtypes=DTYPES,
)
def decay_of_weights_only(built: Built) -> None:
    """The port spares the BatchNorms from the decay of the weights, the original does not."""
    import paddle

    for parameter in built.model.parameters():
        if parameter.ndim == 1:
            parameter.regularizer = paddle.regularizer.L2Decay(0.0)


@fault(
    pair("mobilenet"),
    "across-mobilenet-left-in-training",
    Where("argument", apis=("batch_norm",), modules=("features.*",)),
    Where("call", apis=("batch_norm",), modules=("features.*",)),
    source="https://github.com/pytorch/pytorch/issues/5406",
    dtypes=DTYPES,
)
def left_in_training(built: Built) -> None:
    """Nobody called eval(): the BatchNorms of the port take the statistics of the batch, and its dropout drops."""
    built.model.train()


@fault(
    pair("mobilenet"),
    "across-mobilenet-relu",
    Where("call", apis=("relu6", "relu", "hardtanh", "clip", "clamp"), modules=("features.*",)),
    source="https://github.com/microsoft/MMdnn/issues/72",
    dtypes=DTYPES,
)
def relu(built: Built) -> None:
    """The port has a plain ReLU where the original cuts off at six."""
    import paddle

    for _, layer in layers(built, "ConvNormActivation"):
        layer[2] = paddle.nn.ReLU()


@fault(
    pair("mobilenet"),
    "across-mobilenet-one-statistic-loaded-elsewhere",
    Where("state", names=("features.7.conv.1.1._*", "features.7.conv.1.1.running_*")),
    source="https://github.com/pytorch/pytorch/issues/1725",
    dtypes=DTYPES,
)
def one_statistic_loaded_elsewhere(built: Built) -> None:
    """Mean and variance of one BatchNorm were loaded in the order of the file and stand in each other's place."""
    layer = built.model.features[7].conv[1][1]
    mean, variance = layer._mean.numpy(), layer._variance.numpy()
    layer._mean.set_value(variance)
    layer._variance.set_value(abs(mean))


@fault(
    pair("squeezenet"),
    "across-squeezenet-dropout-scales",
    Where("argument", apis=("dropout", "scale", "mul", "multiply"), modules=("_drop", "classifier*", "")),
    Where("call", apis=("dropout", "scale", "mul", "multiply"), modules=("_drop", "classifier*", "")),
    source="https://github.com/PaddlePaddle/Paddle/issues/22988",
    before=written("across_squeezenet", "paddle_model", ('"upscale_in_train"', '"downscale_in_infer"')),
    dtypes=DTYPES,
)
def dropout_scales(built: Built) -> None:
    """The dropout is Paddle's own of this network, which scales down what it is given outside of training."""


@fault(
    pair("lenet"),
    "across-lenet-softmax-twice",
    Where("extra", apis=("softmax", "cross_entropy", "cross_entropy_with_softmax"), modules=("",)),
    Where("region", apis=("softmax", "cross_entropy", "cross_entropy_with_softmax"), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/31610",
    before=written(
        "across_lenet",
        "paddle_step",
        ("F.cross_entropy(logits, labels)", "F.cross_entropy(F.softmax(logits), labels)"),
    ),
    dtypes=DTYPES,
)
def softmax_twice(built: Built) -> None:
    """The loss is given probabilities and takes their softmax once more."""


@fault(
    pair("lenet"),
    "across-lenet-one-bias-frozen",
    Where("update", apis=OPTIMIZER, names=("features.3.bias",)),
    Where("missing", apis=("conv2d",), modules=("features.3", "features"), phase="backward"),
    Where("state", names=("features.3.bias",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/34712",
    dtypes=DTYPES,
)
def one_bias_frozen(built: Built) -> None:
    """requires_grad was taken over as stop_gradient, so one bias is not trained."""
    built.model.features[3].bias.stop_gradient = True


@fault(
    pair("encoder"),
    "across-encoder-mask-turned-around",
    Where(
        "call",
        apis=(
            "eq",
            "ne",
            "equal",
            "not_equal",
            "unsqueeze",
            "cast",
            "add",
            "sub",
            "mul",
            "softmax",
            "scaled_dot_product_attention",
            "masked_fill",
            "where",
            "multi_head_attention_forward",
        ),
        modules=("", "encoder", "encoder.layers.*"),
    ),
    Where(
        "region",
        apis=(
            "eq",
            "ne",
            "equal",
            "not_equal",
            "unsqueeze",
            "cast",
            "add",
            "sub",
            "mul",
            "softmax",
            "scaled_dot_product_attention",
            "masked_fill",
            "where",
            "multi_head_attention_forward",
        ),
        modules=("", "encoder", "encoder.layers.*"),
    ),
    source="https://github.com/nyu-mll/jiant/pull/465",
    before=written("across_encoder", "paddle_model", ("(words != 0)", "(words == 0)")),
    dtypes=DTYPES,
)
def mask_turned_around(built: Built) -> None:
    """The mask says which words to drop, as torch wants it, where Paddle wants those to keep."""


@fault(
    pair("encoder"),
    "across-encoder-warm-up-from-zero",
    Where("update", apis=OPTIMIZER, names=("*",)),
    source="https://github.com/pytorch/torchtitan/pull/1261",
    before=written("across_encoder", "share", ("(step + 1) / 4", "step / 4")),
    dtypes=DTYPES,
)
def warm_up_from_zero(built: Built) -> None:
    """The port warms up one step later, from a first learning rate of zero."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-not-even-itself",
    Where(
        "argument",
        apis=("tril", "triu", "add", "softmax", "scaled_dot_product_attention"),
        modules=("", "transformer", "transformer.decoder*"),
    ),
    Where(
        "region",
        apis=("tril", "triu", "add", "softmax", "scaled_dot_product_attention"),
        modules=("", "transformer", "transformer.decoder*"),
    ),
    source="https://github.com/RVC-Boss/GPT-SoVITS/issues/965",
    before=written("across_seq2seq", "paddle_model", (".tril()", ".tril(-1)")),
    dtypes=DTYPES,
)
def not_even_itself(built: Built) -> None:
    """The causal mask of the port is off by one: a word does not see itself."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-words-not-scaled",
    Where("missing", apis=("mul", "multiply", "scale", "add"), modules=("",)),
    source="https://github.com/SamLynnEvans/Transformer/issues/10",
    before=written(
        "across_seq2seq", "paddle_model", ("table(words) * math.sqrt(WIDTH) + self.", "table(words) + self.")
    ),
    dtypes=DTYPES,
)
def words_not_scaled(built: Built) -> None:
    """The port does not scale the embeddings by the root of their width."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-padding-attended",
    Where(
        "missing",
        apis=(
            "add",
            "softmax",
            "scaled_dot_product_attention",
            "multi_head_attention_forward",
            "convert_attention_mask",
            "cast",
        ),
        modules=("transformer", "transformer.decoder*"),
    ),
    Where(
        "argument",
        apis=(
            "add",
            "softmax",
            "scaled_dot_product_attention",
            "multi_head_attention_forward",
            "convert_attention_mask",
            "cast",
        ),
        modules=("transformer", "transformer.decoder*"),
    ),
    source="https://github.com/pytorch/pytorch/pull/22588",
    before=written("across_seq2seq", "paddle_model", ("                memory_mask=kept,\n", "")),
    dtypes=DTYPES,
)
def padding_attended(built: Built) -> None:
    """The decoder of the port attends to the padding of the source."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-second-beta",
    Where("update", apis=OPTIMIZER, names=("*",), step=0),
    Where("update", apis=OPTIMIZER, names=("*",), step=1),
    Where("state", names=("*",), step=0),
    source="https://arxiv.org/abs/1706.03762",
    before=written("across_seq2seq", "paddle_optimizer", ("beta2=0.98, ", "")),
    dtypes=DTYPES,
)
def second_beta(built: Built) -> None:
    """The second beta of Adam is left at its default; by the correction of its bias the first step is the same."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-smoothed-over-the-others",
    Where(
        "region",
        apis=("label_smooth", "one_hot", "mul", "add", "sub", "rsub", "multiply", "scale", "cross_entropy"),
        modules=("",),
        calls=6,
    ),
    source="https://github.com/mindspore-ai/mindspore/issues/73",
    before=written(
        "across_seq2seq",
        "paddle_step",
        (
            "smooth = F.label_smooth(F.one_hot(wanted, WORDS).astype(logits.dtype), epsilon=0.1)",
            "hot = F.one_hot(wanted, WORDS).astype(logits.dtype)\n"
            "    smooth = 0.9 * hot + 0.1 / (WORDS - 1) * (1 - hot)",
        ),
    ),
    dtypes=DTYPES,
)
def smoothed_over_the_others(built: Built) -> None:
    """The labels are smoothed over all other words, and not over all words."""


@fault(
    back("lstm"),
    "across-lstm-values-not-clipped",
    Where(
        "missing",
        apis=(
            "clip_grad_value_",
            "clip_grad_value",
            "clip",
            "clamp",
            "foreach_clamp_min",
            "foreach_clamp_max",
            *OPTIMIZER,
        ),
        modules=("",),
    ),
    Where("update", apis=(*OPTIMIZER, "clip_grad_value", "clip"), names=("*",)),
    Where("update", apis=(*OPTIMIZER, "clip_grad_value", "clip"), names=("*",), step=1),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/10960",
    before=written(
        "across_lstm", "torch_step", ("    torch.nn.utils.clip_grad_value_(built.model.parameters(), 0.02)\n", "")
    ),
    dtypes=DTYPES,
)
def values_not_clipped(built: Built) -> None:
    """Paddle's optimizer clipped the gradients by itself, and the port to torch forgot to."""


@fault(
    pair("gru"),
    "across-gru-last-place-of-padding",
    Where("region", apis=("getitem", "slice", "layer_norm"), modules=("", "norm")),
    Where("call", apis=("getitem", "slice", "layer_norm"), modules=("", "norm")),
    Where("argument", apis=("getitem", "slice"), modules=("",)),
    source="https://github.com/keitakurita/practical-torchtext/issues/5",
    before=written(
        "across_gru", "paddle_model", ("_, last = self.gru", "out, _ = self.gru"), ("last[-1]", "out[:, -1]")
    ),
    dtypes=DTYPES,
)
def last_place_of_padding(built: Built) -> None:
    """The port takes the output at the last place, which is padding in the shorter sentences."""


@fault(
    pair("gru"),
    "across-gru-gates-in-keras-order",
    Where("state", names=("gru.weight_ih_l0", "gru.0.cell.weight_ih")),
    source="https://github.com/onnx/keras-onnx/pull/33",
    dtypes=DTYPES,
)
def gates_in_keras_order(built: Built) -> None:
    """The weights of the first layer's inputs lie as Keras orders the gates, the update before the reset."""
    import numpy as np

    rewrite(
        built, "gru.weight_ih_l0", lambda values: np.concatenate([np.split(values, 3)[index] for index in (1, 0, 2)])
    )


@fault(
    pair("vit"),
    "across-vit-gelu-of-tanh",
    Where("argument", apis=("gelu",), modules=("blocks.*.mlp.act", "blocks.*.mlp")),
    source="https://github.com/tinygrad/tinygrad/pull/16162",
    before=written("across_vit", "paddle_model", ("nn.GELU()", "nn.GELU(approximate=True)")),
    dtypes=DTYPES,
)
def gelu_of_tanh(built: Built) -> None:
    """The GELU of the port is the one approximated by tanh."""


@fault(
    pair("vit"),
    "across-vit-heads-before-thirds",
    Where("region", apis=("reshape", "transpose", "permute", "unbind", "view"), modules=("blocks.*.attn",)),
    Where("argument", apis=("reshape", "transpose", "permute", "unbind", "view"), modules=("blocks.*.attn",)),
    source="https://github.com/Oneflow-Inc/libai/issues/146",
    before=written(
        "across_vit",
        "paddle_model",
        ("[batch, length, 3, self.heads, width // self.heads]", "[batch, length, self.heads, 3, width // self.heads]"),
        ("qkv.transpose([2, 0, 3, 1, 4])", "qkv.transpose([3, 0, 2, 1, 4])"),
    ),
    dtypes=DTYPES,
)
def heads_before_thirds(built: Built) -> None:
    """The port takes each head's query, key and value from where the original has all heads' queries."""


@fault(
    pair("vit"),
    "across-vit-softmax-over-queries",
    Where("argument", apis=("softmax", "scaled_dot_product_attention"), modules=("blocks.*.attn",)),
    source="https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
    before=written("across_vit", "paddle_model", ("softmax(scores, axis=-1)", "softmax(scores, axis=-2)")),
    dtypes=DTYPES,
)
def softmax_over_queries(built: Built) -> None:
    """The softmax of the port runs over the queries and not over the keys."""


@fault(
    pair("vit"),
    "across-vit-places-not-trained",
    Where("update", apis=OPTIMIZER, names=("pos_embed",)),
    Where("state", names=("pos_embed",)),
    Where("missing", apis=("add",), modules=("",), phase="backward"),
    source="https://github.com/PaddlePaddle/Paddle/issues/68707",
    dtypes=DTYPES,
)
def places_not_trained(built: Built) -> None:
    """The embedding of the places was made with stop_gradient and is never trained."""
    built.model.pos_embed.stop_gradient = True


@fault(
    pair("vit"),
    "across-vit-one-norm-epsilon",
    Where("argument", apis=("layer_norm",), modules=("blocks.1.norm2",)),
    source="https://github.com/karpathy/makemore/issues/1",
    dtypes=DTYPES,
)
def one_norm_epsilon(built: Built) -> None:
    """One norm has an epsilon of 1e-3 and not 1e-6."""
    built.model.blocks[1].norm2._epsilon = 1e-3


@fault(
    pair("bert"),
    "across-bert-embedding-epsilon",
    Where(
        "argument",
        apis=("layer_norm",),
        modules=("bert.embeddings.layer_norm", "bert.embeddings.LayerNorm", "bert.embeddings"),
    ),
    source="https://github.com/emonosuke/emoASR/issues/13",
    dtypes=DTYPES,
)
def embedding_epsilon(built: Built) -> None:
    """The norm of the embeddings has Paddle's default epsilon of 1e-5 and not 1e-12."""
    built.model.bert.embeddings.layer_norm._epsilon = 1e-5


@fault(
    pair("bert"),
    "across-bert-one-layer-loaded-twice",
    Where("state", names=("bert.encoder.layers.2.*", "bert.encoder.layer.2.*")),
    source="https://github.com/espnet/espnet/issues/1278",
    dtypes=DTYPES,
)
def one_layer_loaded_twice(built: Built) -> None:
    """The last layer was given the weights of the one before it."""
    first, second = built.model.bert.encoder.layers[1], built.model.bert.encoder.layers[2]
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        other.set_value(one)


@fault(
    pair("bert"),
    "across-bert-pooler-not-transposed",
    Where("state", names=("bert.pooler.dense.weight",)),
    source="https://github.com/PaddlePaddle/docs/pull/5945",
    dtypes=DTYPES,
)
def pooler_not_transposed(built: Built) -> None:
    """The square weight of the pooler was loaded without being transposed."""
    rewrite(built, "bert.pooler.dense.weight", lambda values: values.T)


@fault(
    pair("unet"),
    "across-unet-corners-not-aligned",
    Where("argument", apis=("interpolate", "bilinear_interp", "upsample_bilinear2d"), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/46214",
    before=written("across_unet", "paddle_model", ("align_corners=True", "align_corners=False")),
    dtypes=DTYPES,
)
def corners_not_aligned(built: Built) -> None:
    """The port enlarges with the corners not aligned, which is the default."""


@fault(
    pair("unet"),
    "across-unet-cropped-at-the-wrong-end",
    Where("region", apis=("conv_transpose2d", "conv2d_transpose", "getitem", "slice"), modules=("up", "")),
    Where("argument", apis=("conv_transpose2d", "conv2d_transpose", "getitem", "slice"), modules=("up", "")),
    Where("extra", apis=("getitem", "slice"), modules=("",)),
    source="https://github.com/Samsung/TICO/issues/420",
    before=written(
        "across_unet",
        "paddle_model",
        ("3, stride=2, padding=1, output_padding=1)", "3, stride=2)"),
        ("self.up(coarse)", "self.up(coarse)[:, :, :-1, :-1]"),
    ),
    dtypes=DTYPES,
)
def cropped_at_the_wrong_end(built: Built) -> None:
    """The transposed convolution of the port is cropped at its end, where the original's padding crops its start."""


@fault(
    pair("unet"),
    "across-unet-zeros-around",
    Where("argument", apis=("conv2d", "conv_nd", "pad"), modules=("fuse", "")),
    Where("missing", apis=("pad",), modules=("fuse", "")),
    source="https://github.com/Tencent/ncnn/issues/4835",
    before=written("across_unet", "paddle_model", (', padding_mode="reflect"', "")),
    dtypes=DTYPES,
)
def zeros_around(built: Built) -> None:
    """One convolution of the port pads with zeros, where the original reflects."""
