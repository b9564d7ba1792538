"""Mistakes of porting a model between torch and Paddle."""

from __future__ import annotations

from benchmarks.zoo.across_edits import (
    DTYPES,
    OPTIMIZER,
    RECURRENT,
    back,
    corners_free,
    flatten_channels_last,
    layers,
    pair,
    rewrite,
    shuffle_otherwise,
    swap_branches,
)
from benchmarks.zoo.programs.across_port import written
from benchmarks.zoo.spec import Built, Change, Where, fault


@fault(
    pair("resnet"),
    "across-resnet-momentum-taken-over",
    Where("argument", apis=("batch_norm",), modules=("bn1", "layer*", "")),
    Where("state", names=("*_mean", "*_variance", "*running_mean", "*running_var")),
    source="https://github.com/PaddlePaddle/Paddle/issues/32810",
    dtypes=DTYPES,
)
def momentum_taken_over(built: Built) -> None:
    """The momentum 0.1 of torch's BatchNorm was taken over, where Paddle's means one minus that."""
    for _, layer in layers(built, "BatchNorm2D"):
        layer._momentum = 0.1


@fault(
    pair("mobilenet"),
    "across-mobilenet-blue-first",
    Where("data", names=("x", "input*", "image*", "batch*", "arg*", "0")),
    source="https://github.com/PaddlePaddle/PaddleClas/pull/1312",
    before=written(
        "across_mobilenet", "paddle_input", ("scaled = picture / 255.0", "scaled = picture[..., ::-1] / 255.0")
    ),
    dtypes=DTYPES,
)
def blue_first(built: Built) -> None:
    """The pictures of the port come with the blue channel first, as OpenCV reads them."""


@fault(
    pair("mobilenet"),
    "across-mobilenet-statistics-not-loaded",
    Where("state", names=("*_mean", "*_variance", "*running_mean", "*running_var")),
    source="https://github.com/cleinc/bts/issues/90",
    dtypes=DTYPES,
)
def statistics_not_loaded(built: Built) -> None:
    """The running statistics are called otherwise in Paddle, were skipped in loading and are still zero and one."""
    import paddle

    for _, layer in layers(built, "BatchNorm2D"):
        layer._mean.set_value(paddle.zeros_like(layer._mean))
        layer._variance.set_value(paddle.ones_like(layer._variance))


@fault(
    pair("squeezenet"),
    "across-squeezenet-first-padding",
    Where("argument", apis=("conv2d", "conv_nd"), modules=("_conv", "features.0", "features", "")),
    source="https://github.com/pytorch/vision/issues/2286",
    before=written("across_squeezenet", "paddle_model", ("padding=0", "padding=1")),
    dtypes=DTYPES,
)
def first_padding(built: Built) -> None:
    """The first convolution pads by one, as Paddle's own SqueezeNet 1.1 does and torchvision's does not."""


@fault(
    pair("squeezenet"),
    "across-squeezenet-pool-rounds-down",
    Where(
        "argument",
        apis=("max_pool2d", "max_pool2d_with_index", "pool2d", "boolean_dispatch"),
        modules=("_pool", "features.[258]", "features", ""),
    ),
    source="https://github.com/torch/nn/issues/116",
    before=written("across_squeezenet", "paddle_model", (", ceil_mode=True", "")),
    dtypes=DTYPES,
)
def pool_rounds_down(built: Built) -> None:
    """The poolings round the number of their windows down and leave out the last one."""


@fault(
    pair("squeezenet"),
    "across-squeezenet-branches-swapped",
    Where("region", apis=("concat", "cat"), modules=("_conv[1-8]", "features.*")),
    Where("argument", apis=("concat", "cat"), modules=("_conv[1-8]", "features.*")),
    Where("call", apis=("concat", "cat"), modules=("_conv[1-8]", "features.*")),
    source="https://github.com/PINTO0309/openvino2tensorflow/issues/48",
    before=swap_branches,
    dtypes=DTYPES,
)
def branches_swapped(built: Built) -> None:
    """The fire modules join their two branches in the other order."""


@fault(
    pair("lenet"),
    "across-lenet-flattened-channels-last",
    Where("extra", apis=("transpose", "flatten", "permute"), modules=("",)),
    Where("region", apis=("transpose", "flatten", "permute"), modules=("",)),
    source="https://github.com/microsoft/MMdnn/issues/250",
    before=flatten_channels_last,
    dtypes=DTYPES,
)
def flattened_channels_last(built: Built) -> None:
    """The features are flattened with the channels last, where the weights expect them first."""


@fault(
    pair("lenet"),
    "across-lenet-schedule-first",
    Where("update", apis=OPTIMIZER, names=("*",)),
    source="https://github.com/ildoonet/pytorch-gradual-warmup-lr/issues/8",
    before=written(
        "across_lenet",
        "paddle_step",
        (
            "    built.optimizer.step()\n    built.scheduler.step()\n",
            "    built.scheduler.step()\n    built.optimizer.step()\n",
        ),
    ),
    dtypes=DTYPES,
)
def schedule_first(built: Built) -> None:
    """The schedule is stepped before the optimizer, so the first learning rate is never used."""


@fault(
    pair("shufflenet"),
    "across-shufflenet-shuffled-otherwise",
    Where("region", apis=("reshape", "view", "transpose"), modules=("[2-4]_*", "stage[2-4]*")),
    Where("argument", apis=("reshape", "view", "transpose"), modules=("[2-4]_*", "stage[2-4]*")),
    source="https://github.com/megvii-model/ShuffleNet-Series/issues/17",
    before=shuffle_otherwise,
    dtypes=DTYPES,
)
def shuffled_otherwise(built: Built) -> None:
    """The channels are shuffled by groups of the other size."""


@fault(
    pair("shufflenet"),
    "across-shufflenet-block-epsilon",
    Where(
        "argument",
        apis=("batch_norm",),
        modules=("3_2._conv_pw.1", "3_2._conv_pw", "stage3.1.branch2.1", "stage3.1.branch2"),
    ),
    source="https://github.com/wang-xinyu/tensorrtx/issues/209",
    dtypes=DTYPES,
)
def block_epsilon(built: Built) -> None:
    """One BatchNorm inside has an epsilon of 1e-3."""
    dict(built.model.named_sublayers())["3_2"]._conv_pw[1]._epsilon = 1e-3


@fault(
    pair("encoder"),
    "across-encoder-keys-for-queries",
    Where(
        "state",
        names=(
            "encoder.layers.1.self_attn.q_proj*",
            "encoder.layers.1.self_attn.k_proj*",
            "encoder.layers.1.self_attn.in_proj*",
        ),
    ),
    source="https://github.com/jsbaan/transformer-from-scratch/issues/1",
    dtypes=DTYPES,
)
def keys_for_queries(built: Built) -> None:
    """The packed projection of one layer was split in the wrong order, so keys and queries changed places."""
    attention = built.model.encoder.layers[1].self_attn
    for query, key in zip(attention.q_proj.parameters(), attention.k_proj.parameters(), strict=True):
        of_query, of_key = query.numpy(), key.numpy()
        query.set_value(of_key)
        key.set_value(of_query)


@fault(
    pair("encoder"),
    "across-encoder-projection-not-transposed",
    Where("state", names=("encoder.layers.0.self_attn.out_proj.weight",)),
    source="https://github.com/PaddlePaddle/PaddleMIX/issues/239",
    dtypes=DTYPES,
)
def projection_not_transposed(built: Built) -> None:
    """The square weight of one output projection was loaded without being transposed."""
    rewrite(built, "encoder.layers.0.self_attn.out_proj.weight", lambda values: values.T)


@fault(
    pair("encoder"),
    "across-encoder-clipped-each",
    Where(
        "update",
        apis=(
            *OPTIMIZER,
            "clip_grad_norm",
            "clip_by_norm",
            "ClipGradByNorm",
            "ClipGradByGlobalNorm",
            "dygraph_clip",
            "mul",
            "multiply",
        ),
        names=("*",),
    ),
    source="https://github.com/NYUMedML/headCT_foundation/issues/3",
    before=written("across_encoder", "paddle_optimizer", ("ClipGradByGlobalNorm", "ClipGradByNorm")),
    dtypes=DTYPES,
)
def clipped_each(built: Built) -> None:
    """Each gradient is clipped by its own norm, and not all of them by their common one."""


@fault(
    pair("encoder"),
    "across-encoder-decay-of-all",
    Where("update", apis=OPTIMIZER, names=("*bias", "*norm*")),
    source="https://github.com/CyberZHG/keras-bert/issues/60",
    before=written(
        "across_encoder", "paddle_optimizer", ("        apply_decay_param_fun=lambda name: name in decayed,\n", "")
    ),
    dtypes=DTYPES,
)
def decay_of_all(built: Built) -> None:
    """The port decays biases and norms as well, which the original leaves out."""


@fault(
    pair("encoder"),
    "across-encoder-padding-asked-for",
    Where("argument", apis=("cross_entropy", "cross_entropy_with_softmax", "mean_all", "nll_loss"), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/23708",
    before=written("across_encoder", "paddle_step", (", ignore_index=0", "")),
    dtypes=DTYPES,
)
def padding_asked_for(built: Built) -> None:
    """The loss of the port counts the padding as a tag of its own."""


@fault(
    pair("seq2seq"),
    "across-seq2seq-sines-then-cosines",
    Where("state", names=("places", "*.places")),
    Where("data", names=("places", "*.places")),
    Where("call", apis=("getitem", "slice", "add"), modules=("",)),
    source="https://github.com/kimiyoung/transformer-xl/issues/119",
    dtypes=DTYPES,
)
def sines_then_cosines(built: Built) -> None:
    """The places of the port are all sines and then all cosines, where those of the original take turns."""
    import paddle

    places = built.model.places
    built.model.places = paddle.concat([places[:, 0::2], places[:, 1::2]], axis=1)


@fault(
    pair("lstm"),
    "across-lstm-gates-in-onnx-order",
    Where("state", names=("lstm.*_l1", "lstm.1.cell_fw.*")),
    source="https://github.com/CrispStrobe/CrispASR/pull/106",
    dtypes=DTYPES,
)
def gates_in_onnx_order(built: Built) -> None:
    """The gates of the second layer lie as ONNX orders them: input, output, forget, cell."""
    import numpy as np

    for name in ("weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"):
        rewrite(built, f"lstm.{name}", lambda values: np.concatenate([np.split(values, 4)[i] for i in (0, 3, 1, 2)]))


@fault(
    pair("lstm"),
    "across-lstm-ignored-words-counted",
    Where(
        "region",
        apis=("cross_entropy", "cross_entropy_with_softmax", "mean_all", "getitem", "mean", "nll_loss"),
        modules=("",),
    ),
    Where("argument", apis=("cross_entropy", "cross_entropy_with_softmax", "mean_all"), modules=("",)),
    Where("call", apis=("cross_entropy", "cross_entropy_with_softmax", "mean_all"), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/47418",
    before=written(
        "across_lstm",
        "paddle_step",
        ("    logits_of_words, tags_of_words = logits[tags != -100], tags[tags != -100]\n", ""),
        ("cross_entropy(logits_of_words, tags_of_words)", "cross_entropy(logits.flatten(0, 1), tags.flatten())"),
    ),
    dtypes=DTYPES,
)
def ignored_words_counted(built: Built) -> None:
    """The mean of Paddle's loss counts the labels of -100, which torch leaves out of it."""


@fault(
    pair("lstm"),
    "across-lstm-second-bias-lost",
    Where("state", names=("lstm.bias_hh_l0", "lstm.0.cell_fw.bias_hh")),
    source="https://github.com/onnx/onnx/issues/1127",
    dtypes=DTYPES,
)
def second_bias_lost(built: Built) -> None:
    """The converter knew one bias per layer and left the other at zero."""
    rewrite(built, "lstm.bias_hh_l0", lambda values: 0 * values)


@fault(
    pair("lstm"),
    "across-lstm-lengths-not-told",
    Where("argument", apis=RECURRENT, modules=("lstm", "lstm.*", "")),
    Where("call", apis=("lstm", "rnn"), modules=("lstm", "lstm.*")),
    Where("region", apis=RECURRENT, modules=("lstm", "lstm.*", "")),
    source="https://github.com/pytorch/pytorch/issues/517",
    before=written("across_lstm", "paddle_model", ("self.lstm(x, sequence_length=lengths)", "self.lstm(x)")),
    dtypes=DTYPES,
)
def lengths_not_told(built: Built) -> None:
    """The port does not tell the LSTM the lengths, so its way back begins in the padding."""


@fault(
    pair("vit"),
    "across-vit-scaled-by-the-width",
    Where("argument", apis=("mul", "multiply", "scale", "scaled_dot_product_attention"), modules=("blocks.*.attn",)),
    source="https://github.com/lucidrains/vit-pytorch/issues/65",
    before=written("across_vit", "paddle_model", ("(width // heads) ** -0.5", "width**-0.5")),
    dtypes=DTYPES,
)
def scaled_by_the_width(built: Built) -> None:
    """The scores are scaled by the width of the model and not by that of a head."""


@fault(
    pair("bert"),
    "across-bert-head-gelu",
    Where("argument", apis=("gelu",), modules=("cls.predictions*",)),
    source="https://github.com/CyberZHG/keras-bert/issues/129",
    before=written(
        "across_bert", "paddle_model", ("F.gelu(self.transform(x))", "F.gelu(self.transform(x), approximate=True)")
    ),
    dtypes=DTYPES,
)
def head_gelu(built: Built) -> None:
    """The head of the port approximates its GELU by tanh."""


@fault(
    pair("bert"),
    "across-bert-second-sentence-lost",
    Where("call", apis=("embedding", "zeros_like"), modules=("bert.embeddings*", "bert", "")),
    Where("data", names=("second", "token_type_ids", "x", "input")),
    Where("argument", apis=("embedding", "zeros_like"), modules=("bert.embeddings*", "bert", "")),
    Where("extra", apis=("zeros_like",), modules=("",)),
    source="https://github.com/huggingface/transformers/issues/2506",
    before=written(
        "across_bert",
        "paddle_step",
        ('batch["second"])', 'paddle.zeros_like(batch["second"]))'),
        ("    import paddle.nn.functional as F\n", "    import paddle\n    import paddle.nn.functional as F\n"),
    ),
    dtypes=DTYPES,
)
def second_sentence_lost(built: Built) -> None:
    """The port says that all words belong to the first sentence."""


@fault(
    pair("bert"),
    "across-bert-mask-of-ones",
    Where(
        "region",
        apis=("sub", "rsub", "mul", "add", "cast", "astype", "to", "unsqueeze", "where", "softmax"),
        modules=("bert", "bert.encoder*", ""),
        calls=3,
    ),
    Where("missing", apis=("sub", "rsub", "mul", "scale"), modules=("bert", "bert.encoder*", "")),
    source="https://github.com/wzh9969/contrastive-htc/issues/30",
    before=written(
        "across_bert",
        "paddle_model",
        (
            "(1.0 - kept.astype(paddle.get_default_dtype())).unsqueeze([1, 2]) * -1e4",
            "kept.astype(paddle.get_default_dtype()).unsqueeze([1, 2])",
        ),
    ),
    dtypes=DTYPES,
)
def mask_of_ones(built: Built) -> None:
    """The mask of ones and zeros is added to the scores as it is."""


@fault(
    pair("bert"),
    "across-bert-padding-row",
    Where("argument", apis=("embedding",), modules=("bert.embeddings.word_embeddings", "bert.embeddings")),
    Where("call", apis=("embedding",), modules=("bert.embeddings.word_embeddings", "bert.embeddings")),
    source="https://github.com/PaddlePaddle/Paddle/issues/62301",
    dtypes=DTYPES,
)
def padding_row(built: Built) -> None:
    """The embedding was given torch's padding_idx, for which Paddle gives zeros whatever the row was loaded with."""
    built.model.bert.embeddings.word_embeddings._padding_idx = 0


@fault(
    pair("bert"),
    "across-bert-decay-in-the-gradient",
    Where("update", apis=OPTIMIZER, names=("*",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/14812",
    before=written("across_bert", "paddle_optimizer", ("optimizer.AdamW(", "optimizer.Adam(")),
    dtypes=DTYPES,
)
def decay_in_the_gradient(built: Built) -> None:
    """The port adds the decay to the gradients of Adam, the original takes it from the weights."""


@fault(
    pair("unet"),
    "across-unet-mode-of-tensorflow",
    Where("argument", apis=("interpolate", "bilinear_interp", "upsample_bilinear2d"), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/pull/15491",
    both=Change(before=corners_free),
    before=written("across_unet", "paddle_model", ("align_corners=False", "align_corners=False, align_mode=1")),
    dtypes=DTYPES,
)
def mode_of_tensorflow(built: Built) -> None:
    """The port enlarges with the align_mode that follows TensorFlow, where torch's is the other one."""


@fault(
    back("unet"),
    "across-unet-padding-averaged",
    Where("argument", apis=("avg_pool2d", "pool2d"), modules=("pool", "")),
    source="https://github.com/PaddlePaddle/Paddle/issues/36920",
    before=written("across_unet", "torch_model", (", count_include_pad=False", "")),
    dtypes=DTYPES,
)
def padding_averaged(built: Built) -> None:
    """The port to torch averages the padding in, which is the default there and not in Paddle."""


@fault(
    pair("unet"),
    "across-unet-unknown-pixels-averaged",
    Where(
        "region",
        apis=("cross_entropy", "cross_entropy_with_softmax", "mean", "nll_loss", "sum", "div"),
        modules=("",),
        calls=2,
    ),
    Where("argument", apis=("cross_entropy", "cross_entropy_with_softmax", "mean"), modules=("",)),
    Where("extra", apis=("mean",), modules=("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/48663",
    before=written(
        "across_unet",
        "paddle_step",
        (
            "F.cross_entropy(logits, labels, ignore_index=UNKNOWN, axis=1)",
            'F.cross_entropy(logits, labels, ignore_index=UNKNOWN, axis=1, reduction="none").mean()',
        ),
    ),
    dtypes=DTYPES,
)
def unknown_pixels_averaged(built: Built) -> None:
    """The mean of the main loss is over all pixels, also over those whose class nobody said."""
