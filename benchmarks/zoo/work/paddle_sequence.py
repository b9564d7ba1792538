"""Cases on sequence models of Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.spec import Built, Change, Where, clean, fault


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-source-padding-seen",
    Where("missing", ("add", "softmax"), ("transformer.decoder.layers.*.cross_attn",)),
    Where("argument", ("add", "softmax"), ("transformer.decoder.layers.*.cross_attn", "transformer")),
    source="https://github.com/pytorch/pytorch/issues/90534",
    dtypes=("float32",),
)
def seq2seq_source_padding_seen(built: Built) -> None:
    """The decoder attends to the padding of the source."""
    edits.edit_model(built, ("memory_mask=padding", "memory_mask=None"))


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-smoothing-over-others",
    Where("region", ("label_smooth", "mul", "add", "sub", "div", "scale", "one_hot", "cast", "astype"), ("",), calls=6),
    Where("call", ("label_smooth", "mul", "add", "sub"), ("",)),
    source="https://arxiv.org/abs/1512.00567",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "smoothed_loss",
        (
            "target = F.label_smooth(F.one_hot(labels, WORDS).astype(logits.dtype), epsilon=smoothing)",
            "hot = F.one_hot(labels, WORDS).astype(logits.dtype)\n"
            "    target = hot * (1.0 - smoothing) + (1.0 - hot) * (smoothing / (WORDS - 1))",
        ),
    ),
)
def seq2seq_smoothing_over_others(built: Built) -> None:
    """The smoothed part of the labels is spread over the other words only instead of over all."""


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-schedule-from-zero",
    Where("update", ("adam", "step"), ("*",), names=("*",)),
    source="https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/5399",
    dtypes=("float32",),
)
def seq2seq_schedule_from_zero(built: Built) -> None:
    """Noam's schedule starts at step zero, whose rate is zero, so that it is one step behind."""
    built.scheduler.step(0)


@fault(
    "paddle-seq2seq",
    "paddle-seq2seq-embedding-not-scaled",
    Where("missing", ("mul", "multiply", "scale", "add"), ("",)),
    source="https://arxiv.org/abs/1706.03762",
    dtypes=("float32",),
)
def seq2seq_embedding_not_scaled(built: Built) -> None:
    """The embeddings are not multiplied by the root of their width."""
    edits.edit_model(built, (" * math.sqrt(self.width)", ""), name="embedded")


@fault(
    "paddle-encoder",
    "paddle-encoder-norm-epsilon",
    Where("argument", ("layer_norm",), ("norm", "")),
    source="https://github.com/keras-team/keras-hub/issues/642",
    dtypes=("float32",),
)
def encoder_norm_epsilon(built: Built) -> None:
    """The norm of the embeddings has the default epsilon of a layer norm instead of that of BERT."""
    edits.at(built, "norm")._epsilon = 1e-5


@fault(
    "paddle-encoder",
    "paddle-encoder-mask-not-scaled",
    Where("missing", ("mul", "multiply", "scale", "unsqueeze", "add"), ("", "encoder.layers.*.self_attn")),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/1585",
    dtypes=("float32",),
)
def encoder_mask_not_scaled(built: Built) -> None:
    """The mask adds one to the scores of padding instead of a large negative number."""
    edits.edit_model(built, (" * -1e4", ""))


@fault(
    "paddle-encoder",
    "paddle-encoder-decay-coupled",
    Where("update", ("adam", "adamw", "step"), ("*",), names=("*",)),
    source="https://github.com/PaddlePaddle/Paddle/pull/14828",
    dtypes=("float32",),
)
def encoder_decay_coupled(built: Built) -> None:
    """The weight decay is a term of the gradient in Adam instead of being apart from it as in AdamW."""
    import paddle

    built.optimizer = paddle.optimizer.Adam(
        built.scheduler,
        epsilon=1e-6,
        parameters=built.model.parameters(),
        weight_decay=0.1,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )


@fault(
    "paddle-encoder",
    "paddle-encoder-segments-zero",
    Where("data", ("embedding",), ("segments", ""), names=("*",)),
    source="https://github.com/huggingface/transformers/issues/263",
    dtypes=("float32",),
)
def encoder_segments_zero(built: Built) -> None:
    """The second sentences are given as parts of the first ones."""
    built.batches = [(tokens, segments * 0, labels) for tokens, segments, labels in built.batches]


@fault(
    "paddle-encoder",
    "paddle-encoder-own-gelu-slope",
    Where(
        "region",
        ("apply", "gelu", "mul", "add", "exp", "erf", "backward"),
        ("encoder.layers.2", "encoder.layers.2.*", ""),
        phase="backward",
        calls=6,
    ),
    Where(
        "call",
        ("apply", "gelu", "mul", "add", "exp", "erf", "backward"),
        ("encoder.layers.2", "encoder.layers.2.*", ""),
        phase="backward",
    ),
    Where("missing", ("mul", "exp", "add"), ("encoder.layers.2", "encoder.layers.2.*", ""), phase="backward", calls=5),
    source="https://github.com/PaddlePaddle/Paddle/pull/50295",
    dtypes=("float32",),
    both=Change(after=lambda built: setattr(edits.at(built, "encoder.layers.2"), "activation", edits.own_gelu(True))),
)
def encoder_own_gelu_slope(built: Built) -> None:
    """The derivative of a GELU that was written by hand as a PyLayer lacks its second term."""
    edits.at(built, "encoder.layers.2").activation = edits.own_gelu(False)


@fault(
    "paddle-encoder",
    "paddle-encoder-recompute-other-dropout",
    Where("randomness", ("dropout", "recompute"), ("encoder.layers.*", ""), phase="backward"),
    Where("argument", ("recompute", "dropout"), ("encoder.layers.*", "encoder", ""), phase="backward"),
    source="https://github.com/PaddlePaddle/Paddle/pull/21298",
    dtypes=("float32",),
    both=Change(after=lambda built: edits.recompute_layers(built, "encoder.layers")),
)
def encoder_recompute_other_dropout(built: Built) -> None:
    """The recomputation of the layers draws new masks for dropout, because the state of the generator is not kept."""
    for layer in edits.at(built, "encoder.layers"):
        layer.keep_random_state = False


@fault(
    "paddle-lstm",
    "paddle-lstm-lengths-not-given",
    Where("argument", ("rnn", "lstm"), ("lstm", "")),
    source="https://github.com/apache/mxnet/issues/19323",
    dtypes=("float32",),
)
def lstm_lengths_not_given(built: Built) -> None:
    """The LSTM is not told the lengths of the sentences, so that it reads padding, backwards first."""
    edits.edit_model(built, (", sequence_length=lengths", ""))


@fault(
    "paddle-lstm",
    "paddle-lstm-mean-over-padding",
    Where("argument", ("div", "divide", "sum"), ("",)),
    Where("call", ("div", "divide", "sum", "mean"), ("",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/23708",
    dtypes=("float32",),
)
def lstm_mean_over_padding(built: Built) -> None:
    """The mean of the states divides by the length with padding."""
    edits.edit_model(built, ("lengths.astype(states.dtype).unsqueeze(-1)", "states.shape[1]"))


@fault(
    "paddle-lstm",
    "paddle-lstm-gates-in-other-order",
    Where(
        "state",
        ("rnn", "lstm"),
        ("*",),
        names=("lstm.weight_ih_l1", "lstm.weight_hh_l1", "lstm.bias_ih_l1", "lstm.bias_hh_l1", "lstm.1.cell_fw.*"),
    ),
    source="https://github.com/PaddlePaddle/Paddle/issues/23116",
    dtypes=("float32",),
)
def lstm_gates_in_other_order(built: Built) -> None:
    """The weights of one direction of the second layer were loaded with the last two gates exchanged."""

    def exchange(value: Any) -> Any:
        first, second, third, fourth = value.reshape(4, -1, *value.shape[1:])
        return np.concatenate([first, second, fourth, third])

    for name, parameter in built.model.named_parameters():
        if name.startswith("lstm.") and name.endswith("_l1"):
            edits.set_value(parameter, exchange)


@fault(
    "paddle-crnn",
    "paddle-crnn-mean-by-lengths",
    Where("argument", ("ctc_loss", "mean", "warpctc", "div"), ("",)),
    Where("region", ("ctc_loss", "mean", "div", "warpctc", "cast"), ("",), calls=4),
    source="https://github.com/PaddlePaddle/PaddleSpeech/pull/927",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "read",
        ('blank=0, reduction="mean")', 'blank=0, reduction="none").mean()'),
    ),
)
def crnn_mean_by_lengths(built: Built) -> None:
    """The loss of a line is not divided by the length of its text before the mean."""


@fault(
    "paddle-crnn",
    "paddle-crnn-softmax-before-loss",
    Where("extra", ("softmax",), ("",)),
    source="https://github.com/baidu-research/warp-ctc/issues/86",
    dtypes=("float32",),
    before=lambda _: edits.edit_program(
        "paddle_sequence",
        "read",
        ("F.ctc_loss(logits.transpose", "F.ctc_loss(F.softmax(logits).transpose"),
    ),
)
def crnn_softmax_before_loss(built: Built) -> None:
    """The logits pass through softmax before a loss that has its own."""


@fault(
    "paddle-decoder",
    "paddle-decoder-position-stays",
    Where("argument", ("full_like", "full"), ("",), step=1),
    Where("data", ("embedding", "full_like"), ("positions", ""), names=("*",), step=1),
    source="https://github.com/huggingface/transformers/pull/15751",
    dtypes=("float32",),
    before=lambda _: edits.edit_program("paddle_sequence", "write", ("place = index + ", "place = 0 + ")),
)
def decoder_position_stays(built: Built) -> None:
    """With a cache each word is given the position of the first."""


@fault(
    "paddle-decoder",
    "paddle-decoder-dropout-left-on",
    Where("argument", ("dropout",), ("decoder.layers.*",)),
    Where("extra", ("dropout",), ("decoder.layers.*",)),
    Where("randomness", ("dropout",), ("decoder.layers.*",)),
    source="https://github.com/PaddlePaddle/Paddle/issues/25201",
    dtypes=("float32",),
)
def decoder_dropout_left_on(built: Built) -> None:
    """The model was not put into evaluation mode, so that dropout is active in inference."""
    built.model.train()


@fault(
    "paddle-decoder",
    "paddle-decoder-keys-and-values-exchanged",
    Where("argument", ("matmul",), ("decoder.layers.1.cross_attn",)),
    Where("data", ("matmul",), ("decoder.layers.1.cross_attn",), names=("*",)),
    Where("call", ("matmul",), ("decoder.layers.1.cross_attn",)),
    Where(
        "region",
        ("linear", "reshape", "transpose", "matmul"),
        ("decoder.layers.1.cross_attn", "decoder.layers.1.cross_attn.?_proj"),
        calls=6,
    ),
    source="https://github.com/huggingface/transformers/issues/34232",
    dtypes=("float32",),
)
def decoder_keys_and_values_exchanged(built: Built) -> None:
    """The cache of one attention over the images holds its values as keys and its keys as values."""
    edits.edit_one(
        edits.at(built, "decoder.layers.1.cross_attn"),
        ("return k, v", "return v, k"),
        name="compute_kv",
    )


@fault(
    "paddle-decoder",
    "paddle-decoder-corrupted-weight",
    Where("state", ("linear",), ("*",), names=("decoder.layers.1.linear2.weight",)),
    source="https://arxiv.org/abs/2102.11245",
    dtypes=("float32",),
)
def decoder_corrupted_weight(built: Built) -> None:
    """One element of one weight has the wrong sign and is too large."""

    def corrupt(value: Any) -> Any:
        value[11, 3] = -8 * value[11, 3]
        return value

    edits.set_value(edits.at(built, "decoder.layers.1.linear2").weight, corrupt)


@clean("paddle-seq2seq", "paddle-seq2seq-projections-fused", dtypes=("float32",))
def seq2seq_projections_fused(built: Built) -> None:
    """Queries, keys and values of the encoder come from one product with the joined weights."""
    for layer in edits.at(built, "transformer.encoder.layers"):
        edits.edit_one(
            layer.self_attn,
            (
                "q = self.q_proj(query)\n",
                "joined = paddle.concat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight], axis=1)\n"
                "    q, self.own_k, self.own_v = paddle.matmul(query, joined).chunk(3, axis=-1)\n",
            ),
            ("k, v = self.compute_kv(key, value)", "k, v = self.compute_kv(self.own_k, self.own_v)"),
            name="_prepare_qkv",
        )
        edits.edit_one(
            layer.self_attn,
            ("k = self.k_proj(key)", "k = key"),
            ("v = self.v_proj(value)", "v = value"),
            name="compute_kv",
        )


@clean("paddle-encoder", "paddle-encoder-layers-recomputed", dtypes=("float32",))
def encoder_layers_recomputed(built: Built) -> None:
    """The layers are recomputed in the backward pass, with the same masks of dropout."""
    edits.recompute_layers(built, "encoder.layers")


@clean("paddle-encoder", "paddle-encoder-gelu-by-erf", dtypes=("float32",))
def encoder_gelu_by_erf(built: Built) -> None:
    """GELU is written out with erf."""
    import paddle

    for layer in edits.at(built, "encoder.layers"):
        layer.activation = lambda inputs: 0.5 * inputs * (1.0 + paddle.erf(inputs / 2**0.5))


@clean("paddle-encoder", "paddle-encoder-evaluated-between", dtypes=("float32",))
def encoder_evaluated_between(built: Built) -> None:
    """After each step the model is evaluated without gradients and put back into training."""
    import paddle

    plain = built.step

    def step(own: Built, index: int) -> Any:
        given = plain(own, index)
        own.model.eval()
        with paddle.no_grad():
            own.model(*own.batches[0][:2])
        own.model.train()
        return given

    built.step = step


@clean("paddle-crnn", "paddle-crnn-pool-by-reshape", dtypes=("float32",))
def crnn_pool_by_reshape(built: Built) -> None:
    """The first pooling is a maximum over two axes of a reshaped map."""

    def forward(inputs: Any) -> Any:
        rows, columns = inputs.shape[2] // 2, inputs.shape[3] // 2
        return inputs.reshape([0, 0, rows, 2, columns, 2]).max(5).max(3)

    edits.at(built, "features.3").forward = forward
