"""Cases on language models of PaddleFormers."""

from __future__ import annotations

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-llama",
    "paddle-llama-rope-base",
    Where("state", ("matmul",), ("*",), names=("*inv_freq",)),
    Where("argument", ("pow", "rpow", "matmul"), ("model.rotary_emb",)),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/9334",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("transformers.llama.modeling").LlamaRotaryEmbedding,
        "compute_default_rope_parameters",
        ('base = config.rope_parameters["rope_theta"]', "base = 500000.0"),
    ),
)
def llama_rope_base(built: Built) -> None:
    """The base of the rotary positions is that of another model."""


@fault(
    "paddle-llama",
    "paddle-llama-norm-epsilon",
    Where("argument", ("add",), ("model.layers.0.input_layernorm", "model.layers.0")),
    source="https://github.com/PaddlePaddle/PaddleCustomDevice/pull/1069",
    dtypes=("float32",),
)
def llama_norm_epsilon(built: Built) -> None:
    """One norm has an epsilon of 0.00001 instead of 0.000001."""
    edits.at(built, "model.layers.0.input_layernorm").variance_epsilon = 1e-5


@fault(
    "paddle-gemma",
    "paddle-gemma-window-one-wider",
    Where(
        "argument",
        ("setitem", "set_value"),
        ("model",),
    ),
    Where("region", ("setitem", "set_value", "getitem", "unsqueeze", "tile"), ("model",), calls=25),
    source="https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/2656",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("generation.utils"),
        "_make_sliding_window_mask",
        ("start = max(0, current_pos - window_size + 1)", "start = max(0, current_pos - window_size)"),
    ),
)
def gemma_window_one_wider(built: Built) -> None:
    """The sliding window holds one word more than it should."""


@fault(
    "paddle-gemma",
    "paddle-gemma-gelu-exact",
    Where(
        "argument",
        ("gelu", "tanh"),
        ("model.layers.*.mlp", "model.layers.*.mlp.act_fn"),
    ),
    source="https://github.com/pytorch/pytorch/issues/39853",
    dtypes=("float32",),
)
def gemma_gelu_exact(built: Built) -> None:
    """The exact GELU stands where the model was trained with its approximation by tanh."""
    from paddle import nn

    for index in range(3):
        edits.put(built, f"model.layers.{index}.mlp.act_fn", nn.GELU())


@fault(
    "paddle-gemma",
    "paddle-gemma-layer-kinds-exchanged",
    Where("argument", ("add", "getitem", "slice"), ("model.layers.0.self_attn", "model.layers.0")),
    Where("data", ("add", "getitem", "slice"), ("model.layers.0.self_attn", "model.layers.0"), names=("*",)),
    Where("call", ("add", "getitem", "slice"), ("model.layers.0.self_attn",)),
    source="https://arxiv.org/abs/2503.19786",
    dtypes=("float32",),
)
def gemma_layer_kinds_exchanged(built: Built) -> None:
    """The first two layers have each other's kind of attention: full where a window should be, and the reverse."""
    first, second = built.model.model.layers[0], built.model.model.layers[1]
    first.attention_type, second.attention_type = second.attention_type, first.attention_type


@fault(
    "paddle-ernie",
    "paddle-ernie-accumulation-not-divided",
    Where("missing", ("div", "divide", "truediv", "scale"), ("",)),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/9602",
    dtypes=("float32",),
    before=lambda _: edits.edit_program("paddle_formers", "accumulate", ("        loss = loss / parts\n", "")),
)
def ernie_accumulation_not_divided(built: Built) -> None:
    """The losses of the parts are not divided by their number before their gradients are added."""


@fault(
    "paddle-ernie",
    "paddle-ernie-angles-not-interleaved",
    Where("missing", ("repeat_interleave", "getitem", "slice"), ("model.layers.*.self_attn",), calls=4),
    Where("call", ("repeat_interleave", "mul"), ("model.layers.*.self_attn",)),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/8470",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("transformers.ernie4_5.modeling"),
        "apply_rotary_pos_emb",
        ("cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, axis=-1)", "pass"),
        ("sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, axis=-1)", "pass"),
    ),
)
def ernie_angles_not_interleaved(built: Built) -> None:
    """The angles are laid out for halves, while the rotation takes neighbours for pairs."""


@fault(
    "paddle-ernie",
    "paddle-ernie-dropout-rate",
    Where("argument", ("dropout",), ("model.layers.1.hidden_dropout", "model.layers.1")),
    Where("randomness", ("dropout",), ("model.layers.1.hidden_dropout", "model.layers.1")),
    source="https://github.com/PaddlePaddle/Paddle/pull/24177",
    dtypes=("float32",),
)
def ernie_dropout_rate(built: Built) -> None:
    """One layer drops twice as much as the others."""
    edits.at(built, "model.layers.1.hidden_dropout").p = 0.2


@fault(
    "paddle-ernie",
    "paddle-ernie-gate-exchanged",
    Where("argument", ("chunk", "split", "silu", "swish", "mul"), ("model.layers.0.mlp", "model.layers.0.mlp.act_fn")),
    Where(
        "region",
        ("chunk", "split", "silu", "swish", "mul"),
        ("model.layers.0.mlp", "model.layers.0.mlp.act_fn"),
        calls=3,
    ),
    Where("call", ("silu", "swish", "mul"), ("model.layers.0.mlp", "model.layers.0.mlp.act_fn")),
    source="https://github.com/PaddlePaddle/PaddleFormers/pull/4399",
    dtypes=("float32",),
)
def ernie_gate_exchanged(built: Built) -> None:
    """One layer takes the second half of its joined projection for the gate."""
    edits.edit_one(edits.at(built, "model.layers.0.mlp"), ("gate, x = proj_layer(x)", "x, gate = proj_layer(x)"))


@clean("paddle-llama", "paddle-llama-layers-recomputed", dtypes=("float32",))
def llama_layers_recomputed(built: Built) -> None:
    """The layers are recomputed in the backward pass."""
    edits.recompute_layers(built, "model.layers")


@clean("paddle-llama", "paddle-llama-heads-interleaved", dtypes=("float32",))
def llama_heads_interleaved(built: Built) -> None:
    """The heads of keys and values are repeated by repeat_interleave."""
    edit_function(
        edits.formers("nn.attention.eager_attention"),
        "repeat_kv",
        (
            "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
            "hidden_states.repeat_interleave(n_rep, axis=1)",
        ),
    )


@clean("paddle-gemma", "paddle-gemma-loss-in-pieces", dtypes=("float32",))
def gemma_loss_in_pieces(built: Built) -> None:
    """The loss is computed for eight words at a time by the option of the library."""
    criterion = built.model.criterion
    criterion.loss_subbatch_sequence_length, criterion.use_subbatch = 8, True
