"""Cases on sequence models of Paddle."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-causal-mask-missing",
    Where("missing", ("add", "softmax"), ("transformer.decoder.layers.*.self_attn",)),
    Where("argument", ("add", "softmax"), ("transformer.decoder.layers.*.self_attn", "transformer")),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/4616",
    dtypes=("float32",),
)
def seq2seq_causal_mask_missing(built: Built) -> None:
    """The decoder gets no mask against later words."""
    edits.edit_model(built, ("tgt_mask=later", "tgt_mask=None"))


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-causal-mask-one-late",
    Where("argument", ("triu",), ("", "transformer")),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/4638",
    dtypes=("float32",),
)
def seq2seq_causal_mask_one_late(built: Built) -> None:
    """The mask of the decoder lets each word see the next one."""
    from paddle import nn

    edit_function(nn.Transformer, "generate_square_subsequent_mask", ("        1,\n", "        2,\n"))


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-scale-of-all-heads",
    Where("argument", ("mul", "multiply", "scale", "matmul"), ("transformer.decoder.layers.1.cross_attn",)),
    source="https://github.com/PaddlePaddle/models/pull/1316",
    dtypes=("float32",),
)
def seq2seq_scale_of_all_heads(built: Built) -> None:
    """One attention over the source divides by the root of the whole width instead of that of a head."""
    attention = edits.at(built, "transformer.decoder.layers.1.cross_attn")
    edits.edit_one(attention, ("self.head_dim**-0.5", "self.embed_dim**-0.5"))


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-mean-over-padding",
    Where("region", ("sum", "mean", "div"), ("",), calls=3),
    Where("call", ("sum", "mean", "div"), ("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/23708",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "smoothed_loss",
        ("paddle.sum(costs * weights) / paddle.sum(weights)", "paddle.mean(costs * weights)"),
    ),
)
def seq2seq_mean_over_padding(built: Built) -> None:
    """The mean of the loss counts the padding, whose loss is zero."""


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-last-norm-skipped",
    Where("missing", ("layer_norm",), ("transformer.encoder.norm", "transformer.encoder")),
    source="https://arxiv.org/abs/2002.04745",
    dtypes=("float32",),
)
def seq2seq_last_norm_skipped(built: Built) -> None:
    """The norm after the last layer of the encoder is left out, though the layers normalise their inputs only."""
    encoder = edits.at(built, "transformer.encoder")
    edits.edit_one(encoder, ("if self.norm is not None:", "if self.norm is None:"))


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-dropout-not-upscaled",
    Where(
        "argument",
        ("dropout",),
        ("transformer.encoder.layers.0.dropout1", "transformer.encoder.layers.0"),
    ),
    source="https://github.com/PaddlePaddle/Paddle/issues/22988",
    dtypes=("float32",),
)
def seq2seq_dropout_not_upscaled(built: Built) -> None:
    """One dropout does not scale up what it keeps, as was Paddle's old default."""
    edits.at(built, "transformer.encoder.layers.0.dropout1").mode = "downscale_in_infer"


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-default-beta",
    Where("update", ("adam", "step"), ("*",), names=("*",)),
    source="https://arxiv.org/abs/1706.03762",
    dtypes=("float32",),
)
def seq2seq_default_beta(built: Built) -> None:
    """Adam has the default second decay rate of 0.999 instead of 0.98."""
    built.optimizer._beta2 = 0.999


@fault(
    "paddle-encoder",
    "paddle-encoder-gelu-by-tanh",
    Where("argument", ("gelu",), ("encoder.layers.*",)),
    source="https://github.com/PaddlePaddle/Paddle2ONNX/pull/531",
    dtypes=("float32",),
)
def encoder_gelu_by_tanh(built: Built) -> None:
    """The layers use the approximation of GELU by tanh."""
    import paddle

    for layer in edits.at(built, "encoder.layers"):
        layer.activation = functools.partial(paddle.nn.functional.gelu, approximate=True)


@fault(
    "paddle-encoder",
    "paddle-encoder-ignored-words-counted",
    Where("region", ("cross_entropy", "sum", "mean", "div", "mul", "cast", "astype", "ne"), ("",), calls=8),
    Where("call", ("cross_entropy", "sum", "mean", "div"), ("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/48663",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "unmask",
        ("    known = (labels != -100).astype(logits.dtype)\n", ""),
        (', reduction="none")\n    loss = (costs * known).sum() / known.sum()', ")\n    loss = costs"),
    ),
)
def encoder_ignored_words_counted(built: Built) -> None:
    """The loss is cross_entropy with ignore_index, whose mean in Paddle also counts the ignored words."""


@fault(
    "paddle-encoder",
    "paddle-encoder-warmup-short",
    Where("update", ("adamw", "step"), ("*",), names=("*",), step=1),
    source="https://github.com/PaddlePaddle/Paddle/pull/31843",
    dtypes=("float32",),
)
def encoder_warmup_short(built: Built) -> None:
    """The warm-up ends a step early."""
    built.scheduler.warmup_steps = 1


@fault(
    "paddle-encoder",
    "paddle-encoder-positions-offset",
    Where("argument", ("arange",), ("",)),
    Where("argument", ("embedding",), ("positions",)),
    source="https://github.com/huggingface/transformers/pull/15751",
    dtypes=("float32",),
)
def encoder_positions_offset(built: Built) -> None:
    """The positions are counted from two."""
    edits.edit_model(built, ("paddle.arange(tokens.shape[1],", "paddle.arange(2, tokens.shape[1] + 2,"))


@fault(
    "paddle-encoder",
    "paddle-encoder-shared-weight-detached",
    Where("call", ("matmul", "detach", "embedding"), ("", "words"), names=("words.weight",), phase="backward"),
    Where("extra", ("detach", "matmul"), ("",), phase="backward"),
    Where("update", ("adamw", "step"), ("*",), names=("words.weight",), phase="backward"),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/8836",
    dtypes=("float32",),
)
def encoder_shared_weight_detached(built: Built) -> None:
    """The head uses a detached copy of the weight that it shares with the embedding."""
    edits.edit_model(built, ("self.words.weight,", "self.words.weight.detach(),"))


@fault(
    "paddle-encoder",
    "paddle-encoder-one-layer-normalised-before",
    Where(
        "region",
        ("layer_norm", "add", "linear", "matmul"),
        ("encoder.layers.1", "encoder.layers.1.norm1", "encoder.layers.1.norm2"),
        calls=30,
    ),
    Where("extra", ("layer_norm",), ("encoder.layers.1", "encoder.layers.1.norm1")),
    source="https://arxiv.org/abs/2002.04745",
    dtypes=("float32",),
)
def encoder_one_layer_normalised_before(built: Built) -> None:
    """The second layer normalises its inputs instead of its sums."""
    edits.at(built, "encoder.layers.1").normalize_before = True


@fault(
    "paddle-encoder",
    "paddle-encoder-first-layer-frozen",
    Where("update", ("adamw", "step"), ("*",), names=("encoder.layers.0.*",), phase="backward"),
    Where(
        "missing",
        ("linear", "matmul", "layer_norm", "transpose", "reshape", "add", "softmax", "gelu"),
        ("encoder.layers.0", "encoder.layers.0.*"),
        phase="backward",
        calls=40,
    ),
    Where("state", (), ("*",), names=("encoder.layers.0.*",), phase="backward"),
    source="https://github.com/PaddlePaddle/Paddle/issues/32509",
    dtypes=("float32",),
)
def encoder_first_layer_frozen(built: Built) -> None:
    """The parameters of the first layer stop gradients, as was right in an earlier stage of the training."""
    for parameter in edits.at(built, "encoder.layers.0").parameters():
        parameter.stop_gradient = True


@fault(
    "paddle-lstm",
    "paddle-lstm-padded-on-the-left",
    Where("data", ("embedding",), ("words", ""), names=("*",)),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/6496",
    dtypes=("float32",),
)
def lstm_padded_on_the_left(built: Built) -> None:
    """The sentences are padded on the left, where the model expects padding on the right."""
    import paddle

    for index, (tokens, lengths, labels) in enumerate(built.batches):
        rows = [np.roll(row, len(row) - length) for row, length in zip(tokens.numpy(), lengths.numpy(), strict=True)]
        built.batches[index] = (paddle.to_tensor(np.stack(rows)), lengths, labels)


@fault(
    "paddle-lstm",
    "paddle-lstm-gradients-kept",
    Where("missing", ("clear_grad", "clear_gradients", "clear_gradient", "zero"), ("*",)),
    Where("update", ("adam", "step"), ("*",), names=("*",), step=1),
    Where("state", (), ("*",), names=("*",), step=1, phase="backward"),
    source="https://github.com/PaddlePaddle/PaddleFormers/pull/4347",
    dtypes=("float32",),
    before=lambda _: edits.edit_program("paddle_sequence", "update", ("    built.optimizer.clear_grad()\n", "")),
)
def lstm_gradients_kept(built: Built) -> None:
    """The gradients are not cleared, so that those of the first step are added to those of the second."""


@fault(
    "paddle-crnn",
    "paddle-crnn-blank-last",
    Where("argument", ("ctc_loss", "warpctc"), ("",)),
    source="https://github.com/SeanNaren/deepspeech.pytorch/pull/603",
    dtypes=("float32",),
    before=lambda _: edits.edit_program("paddle_sequence", "read", ("blank=0,", "blank=15,")),
)
def crnn_blank_last(built: Built) -> None:
    """The loss takes the last class for the blank instead of the first."""


@fault(
    "paddle-crnn",
    "paddle-crnn-rows-before-channels",
    Where("argument", ("transpose", "flatten"), ("",)),
    source="https://github.com/PaddlePaddle/PaddleFleet/pull/91",
    dtypes=("float32",),
)
def crnn_rows_before_channels(built: Built) -> None:
    """The columns of the maps are laid out by rows and channels instead of by channels and rows."""
    edits.edit_model(built, ("[0, 3, 1, 2]", "[0, 3, 2, 1]"))


@fault(
    "paddle-decoder",
    "paddle-decoder-cache-not-kept",
    Where("data", ("concat",), ("decoder.layers.*.self_attn",), names=("*",), step=1),
    Where("argument", ("concat",), ("decoder.layers.*.self_attn",), step=1),
    Where("call", ("concat",), ("decoder.layers.*.self_attn",), step=1),
    Where("state", ("concat",), ("*",), names=("*",), step=1),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/5535",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence", "write", ('logits, built.options["cache"] = built.model(', "logits, _ = built.model(")
    ),
)
def decoder_cache_not_kept(built: Built) -> None:
    """The caches that the decoder returns are not kept for the next word."""


@clean(
    "paddle-seq2seq",
    "paddle-seq2seq-loss-written-out",
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "smoothed_loss",
        (
            'costs = F.cross_entropy(logits, target, soft_label=True, reduction="none").squeeze(-1)',
            "costs = -(F.log_softmax(logits, axis=-1) * target).sum(-1)",
        ),
    ),
    dtypes=("float32",),
)
def seq2seq_loss_written_out(built: Built) -> None:
    """The loss is written with log_softmax and a sum of products."""


@clean("paddle-encoder", "paddle-encoder-own-gelu", dtypes=("float32",))
def encoder_own_gelu(built: Built) -> None:
    """GELU is a PyLayer with the right derivative."""
    for layer in edits.at(built, "encoder.layers"):
        layer.activation = edits.own_gelu(True)


@clean("paddle-encoder", "paddle-encoder-attention-by-einsum", dtypes=("float32",))
def encoder_attention_by_einsum(built: Built) -> None:
    """The scores and the weighted sums of the attention are Einstein sums, and the scale comes after the first."""
    from paddle import nn

    edit_function(
        nn.MultiHeadAttention,
        "forward",
        (
            "paddle.matmul(\n        x=q * (self.head_dim**-0.5), y=k, transpose_y=True\n    )",
            'paddle.einsum("bhqd,bhkd->bhqk", q, k) * (self.head_dim**-0.5)',
        ),
        ("tensor.matmul(weights, v)", 'paddle.einsum("bhqk,bhkd->bhqd", weights, v)'),
    )


@clean(
    "paddle-encoder",
    "paddle-encoder-loss-of-chosen-words",
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "unmask",
        (
            '    costs = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")\n'
            "    loss = (costs * known).sum() / known.sum()\n",
            "    chosen = known.flatten().nonzero().flatten()\n"
            "    logits_chosen = logits.flatten(0, 1).index_select(chosen)\n"
            "    loss = F.cross_entropy(logits_chosen, labels.flatten().index_select(chosen))\n",
        ),
    ),
    dtypes=("float32",),
)
def encoder_loss_of_chosen_words(built: Built) -> None:
    """The loss is the mean over the masked words, which are picked before it."""


@clean("paddle-encoder", "paddle-encoder-groups-of-parameters", dtypes=("float32",))
def encoder_groups_of_parameters(built: Built) -> None:
    """The parameters that decay and those that do not are two groups of the optimizer."""
    import paddle

    parameters, decays = built.model.parameters(), built.optimizer._apply_decay_param_fun
    built.optimizer = paddle.optimizer.AdamW(
        built.scheduler,
        epsilon=1e-6,
        parameters=[
            {"params": [one for one in parameters if decays(one.name)], "weight_decay": 0.1},
            {"params": [one for one in parameters if not decays(one.name)], "weight_decay": 0.0},
        ],
        grad_clip=None,
    )
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    step = built.optimizer.step

    def clipped() -> None:
        with paddle.no_grad():
            for parameter, gradient in clip([(one, one.grad) for one in parameters if one.grad is not None]):
                parameter.grad.set_value(gradient)
        step()

    built.optimizer.step = clipped


@clean("paddle-lstm", "paddle-lstm-cell-by-cell", dtypes=("float32",))
def lstm_cell_by_cell(built: Built) -> None:
    """The LSTM runs its cells step by step in Python instead of the fused kernel."""
    edits.at(built, "lstm").could_use_cudnn = False


@clean("paddle-lstm", "paddle-lstm-padded-further", dtypes=("float32",))
def lstm_padded_further(built: Built) -> None:
    """The sentences carry three more words of padding."""
    import paddle

    for index, (tokens, lengths, labels) in enumerate(built.batches):
        more = paddle.zeros([tokens.shape[0], 3], dtype=tokens.dtype)
        built.batches[index] = (paddle.concat([tokens, more], axis=1), lengths, labels)


@clean("paddle-crnn", "paddle-crnn-cell-by-cell", dtypes=("float32",))
def crnn_cell_by_cell(built: Built) -> None:
    """The GRU runs its cells step by step in Python instead of the fused kernel."""
    layers = edits.at(built, "gru")

    def forward(columns: Any) -> tuple[Any, None]:
        for layer in layers:
            columns, _ = layer(columns)
        return columns, None

    layers.forward = forward


@clean(
    "paddle-decoder",
    "paddle-decoder-without-cache",
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "write",
        (
            '        logits, built.options["cache"] = built.model(\n'
            '            words[:, index : index + 1], place, memory, mask, built.options["cache"]\n'
            "        )\n",
            "        model, length = built.model, place + 1\n"
            "        spots = paddle.arange(length).unsqueeze(0)\n"
            "        later = paddle.full([length, length], -1e9, memory.dtype).triu(1)\n"
            "        states = model.words(words[:, :length]) + model.positions(spots)\n"
            "        logits = model.output(model.decoder(states, memory, later, mask))[:, -1:]\n",
        ),
    ),
    dtypes=("float32",),
)
def decoder_without_cache(built: Built) -> None:
    """Each word is computed together with all before it instead of from caches."""
