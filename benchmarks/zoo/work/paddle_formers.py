"""Cases on language models of PaddleFormers."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import paddle_edits as edits
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, clean, fault


@fault(
    "paddle-llama",
    "paddle-llama-rope-interleaved",
    Where(
        "region",
        ("getitem", "slice", "strided_slice", "concat", "cat", "stack", "flatten", "neg", "scale"),
        ("model.layers.*.self_attn",),
        calls=6,
    ),
    Where("argument", ("getitem", "slice", "strided_slice"), ("model.layers.*.self_attn",)),
    source="https://github.com/PaddlePaddle/Paddle/pull/59351",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("transformers.llama.modeling"),
        "rotate_half",
        ("x[..., : x.shape[-1] // 2]", "x[..., 0::2]"),
        ("x[..., x.shape[-1] // 2 :]", "x[..., 1::2]"),
        ("paddle.cat((-x2, x1), axis=-1)", "paddle.stack((-x2, x1), axis=-1).flatten(-2)"),
    ),
)
def llama_rope_interleaved(built: Built) -> None:
    """The rotation takes neighbours for pairs, while the angles are laid out for halves."""


@fault(
    "paddle-llama",
    "paddle-llama-query-not-rotated",
    Where(
        "missing",
        ("mul", "add", "cast", "astype", "concat", "cat", "getitem", "slice", "neg"),
        ("model.layers.*.self_attn",),
        calls=10,
    ),
    Where("call", ("add", "mul", "matmul", "astype", "cast"), ("model.layers.*.self_attn",)),
    source="https://github.com/PaddlePaddle/PaddleFleet/pull/1210",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("transformers.llama.modeling"),
        "apply_rotary_pos_emb",
        ('(q.astype("float32") * cos) + (rotate_half(q).astype("float32") * sin)', "q"),
    ),
)
def llama_query_not_rotated(built: Built) -> None:
    """The queries get no rotary positions."""


@fault(
    "paddle-llama",
    "paddle-llama-heads-tiled",
    Where(
        "region",
        ("expand", "getitem", "unsqueeze", "reshape", "tile", "slice"),
        ("model.layers.*.self_attn",),
        calls=3,
    ),
    Where("call", ("expand", "tile", "reshape"), ("model.layers.*.self_attn",)),
    source="https://github.com/PaddlePaddle/Paddle/pull/59319",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("nn.attention.eager_attention"),
        "repeat_kv",
        (
            "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
            "hidden_states.tile([1, n_rep, 1, 1])",
        ),
    ),
)
def llama_heads_tiled(built: Built) -> None:
    """The heads of keys and values are repeated as a whole instead of each one beside itself."""


@fault(
    "paddle-llama",
    "paddle-llama-rope-low-precision",
    Where("state", ("matmul",), ("*",), names=("*inv_freq",)),
    Where("precision", ("cast", "astype", "to", "matmul"), ("model.rotary_emb",)),
    source="https://github.com/PaddlePaddle/PaddleFleet/pull/91",
    dtypes=("float32",),
)
def llama_rope_low_precision(built: Built) -> None:
    """The inverse frequencies of the rotary positions were cast to bfloat16 and back."""
    rotary = edits.at(built, "model.rotary_emb")
    rotary.inv_freq.set_value(rotary.inv_freq.astype("bfloat16").astype(rotary.inv_freq.dtype))


@fault(
    "paddle-llama",
    "paddle-llama-labels-one-late",
    Where("data", ("cross_entropy", "unsqueeze"), ("criterion", "criterion.loss_func", ""), names=("*",)),
    source="https://github.com/SkyworkAI/Skywork/issues/55",
    dtypes=("float32",),
)
def llama_labels_one_late(built: Built) -> None:
    """The labels are not shifted: each word is to be predicted from itself."""
    import paddle

    built.batches = [
        (tokens, valid, paddle.where(labels == -100, labels, tokens)) for tokens, valid, labels in built.batches
    ]


@fault(
    "paddle-llama",
    "paddle-llama-gelu-in-one-layer",
    Where("call", ("silu", "swish", "gelu"), ("model.layers.1.mlp", "model.layers.1.mlp.act_fn")),
    source="https://arxiv.org/abs/2002.05202",
    dtypes=("float32",),
)
def llama_gelu_in_one_layer(built: Built) -> None:
    """One layer gates with GELU instead of SiLU."""
    from paddle import nn

    edits.put(built, "model.layers.1.mlp.act_fn", nn.GELU())


@fault(
    "paddle-llama",
    "paddle-llama-embedding-not-clipped",
    Where("update", ("adamw", "step", "clip"), ("*",), names=("*",)),
    source="https://github.com/PaddlePaddle/docs/pull/5692",
    dtypes=("float32",),
)
def llama_embedding_not_clipped(built: Built) -> None:
    """The gradient of the embedding is left out of the clipping and of the common norm."""
    built.model.model.embed_tokens.weight.need_clip = False


@fault(
    "paddle-llama",
    "paddle-llama-gradient-element",
    Where(
        "call",
        ("linear", "matmul"),
        ("model.layers.1.mlp.down_proj",),
        names=("model.layers.1.mlp.down_proj.weight",),
        phase="backward",
    ),
    Where("update", ("adamw", "step"), ("*",), names=("model.layers.1.mlp.down_proj.weight",), phase="backward"),
    Where("state", (), ("*",), names=("model.layers.1.mlp.down_proj.weight",), phase="backward"),
    source="https://arxiv.org/abs/2102.11245",
    dtypes=("float32",),
)
def llama_gradient_element(built: Built) -> None:
    """One element of the gradient of one weight comes out wrong."""
    import paddle

    weight = built.model.model.layers[1].mlp.down_proj.weight
    factor = paddle.ones(weight.shape, weight.dtype)
    factor[9, 4] = -30.0
    weight.register_hook(lambda gradient: gradient * factor)


@fault(
    "paddle-gemma",
    "paddle-gemma-norm-without-one",
    Where(
        "missing",
        ("add", "radd", "mul"),
        ("model.layers.1.self_attn.k_norm", "model.layers.1.self_attn"),
    ),
    source="https://github.com/linkedin/Liger-Kernel/issues/74",
    dtypes=("float32",),
)
def gemma_norm_without_one(built: Built) -> None:
    """The norm of the keys of one layer multiplies by its weight instead of by one more than that."""
    norm = edits.at(built, "model.layers.1.self_attn.k_norm")
    edits.edit_one(norm, ("(1.0 + self.weight.float())", "self.weight.float()"))


@fault(
    "paddle-gemma",
    "paddle-gemma-embedding-not-scaled",
    Where("missing", ("mul", "to", "cast"), ("model.embed_tokens", "model")),
    source="https://arxiv.org/abs/2403.08295",
    dtypes=("float32",),
)
def gemma_embedding_not_scaled(built: Built) -> None:
    """The embeddings are not multiplied by the root of their width."""
    edits.edit_one(edits.at(built, "model.embed_tokens"), (" * self.embed_scale.to(self.weight.dtype)", ""))


@fault(
    "paddle-gemma",
    "paddle-gemma-logits-low-precision",
    Where("precision", ("cast", "astype", "to", "cross_entropy"), ("criterion", "criterion.loss_func", "")),
    Where("extra", ("cast", "astype", "to"), ("criterion", "")),
    Where("argument", ("cast", "astype", "to"), ("criterion", "")),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/7895",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("nn.criterion.sft_loss"),
        "loss_impl",
        ('logits.cast("float32")', 'logits.cast("bfloat16").cast("float32")'),
    ),
)
def gemma_logits_low_precision(built: Built) -> None:
    """The logits pass through bfloat16 before the loss."""


@fault(
    "paddle-ernie",
    "paddle-ernie-keys-and-values-exchanged",
    Where("argument", ("split",), ("model.layers.*.self_attn",)),
    Where("region", ("split", "transpose", "reshape"), ("model.layers.*.self_attn",), calls=4),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/1685",
    dtypes=("float32",),
    before=lambda _: edit_function(
        edits.formers("transformers.ernie4_5.modeling").Ernie4_5Attention,
        "forward",
        ("key_states, value_states = paddle.split(", "value_states, key_states = paddle.split("),
    ),
)
def ernie_keys_and_values_exchanged(built: Built) -> None:
    """The joined projection is cut into queries, values and keys instead of queries, keys and values."""


@fault(
    "paddle-ernie",
    "paddle-ernie-head-not-tied",
    Where("update", ("adamw", "step"), ("*",), names=("lm_head.weight", "model.embed_tokens.weight"), phase="backward"),
    Where("state", (), ("*",), names=("lm_head.weight", "model.embed_tokens.weight"), phase="backward"),
    Where(
        "call",
        ("embedding", "matmul"),
        ("model.embed_tokens", "lm_head"),
        names=("lm_head.weight", "model.embed_tokens.weight"),
        phase="backward",
    ),
    source="https://github.com/PaddlePaddle/PaddleNLP/pull/8836",
    dtypes=("float32",),
)
def ernie_head_not_tied(built: Built) -> None:
    """The head has a weight of its own, with the values of the embedding at first, instead of sharing it."""
    import paddle

    shared = built.model.model.embed_tokens.weight
    own = paddle.create_parameter(shared.shape, dtype="float32" if shared.dtype == paddle.float32 else "float64")
    own.set_value(shared)
    built.model.lm_head.weight = own
    edits.adamw(
        built,
        2e-3,
        epsilon=1e-6,
        weight_decay=0.1,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )


@clean("paddle-llama", "paddle-llama-attention-fused", dtypes=("float32",))
def llama_attention_fused(built: Built) -> None:
    """The attention is Paddle's scaled_dot_product_attention."""
    for module in (built.model.config, *(layer.self_attn.config for layer in built.model.model.layers)):
        module._attn_implementation = "sdpa"


@clean("paddle-llama", "paddle-llama-norm-by-root", dtypes=("float32",))
def llama_norm_by_root(built: Built) -> None:
    """The norms divide by the root of the mean of squares instead of multiplying by its inverse."""
    edit_function(
        edits.formers("nn.norm").RMSNorm,
        "forward",
        ('hidden_states.astype("float32").pow(2)', 'paddle.square(hidden_states.astype("float32"))'),
        (
            "paddle.rsqrt(variance + self.variance_epsilon) * hidden_states",
            "hidden_states / paddle.sqrt(variance + self.variance_epsilon)",
        ),
    )


@clean("paddle-llama", "paddle-llama-gate-and-up-joined", dtypes=("float32",))
def llama_gate_and_up_joined(built: Built) -> None:
    """Gate and up projections are one product with the joined weights."""
    edit_function(
        edits.formers("nn.mlp").MLP,
        "forward",
        (
            "gate = self.gate_proj(x)\n        up = self.up_proj(x)",
            "joined = paddle.concat([self.gate_proj.weight, self.up_proj.weight], axis=1)\n"
            "        gate, up = paddle.matmul(x, joined).chunk(2, axis=-1)",
        ),
    )


@clean("paddle-gemma", "paddle-gemma-window-by-comparison", dtypes=("float32",))
def gemma_window_by_comparison(built: Built) -> None:
    """The mask of the window is a comparison of positions instead of a loop."""
    edit_function(
        edits.formers("generation.utils"),
        "_make_sliding_window_mask",
        (
            "for i in range(seq_length):",
            "rows = paddle.arange(seq_length).unsqueeze(1) + past_key_values_length\n"
            "    columns = paddle.arange(total_length).unsqueeze(0)\n"
            "    mask = (columns <= rows) & (columns > rows - window_size)\n"
            "    for i in range(0):",
        ),
    )


@clean("paddle-ernie", "paddle-ernie-parts-weighted", dtypes=("float32",))
def ernie_parts_weighted(built: Built) -> None:
    """Each part's loss is multiplied by the inverse of the number of parts, and the gradient flows from their sum."""
    import paddle.nn.functional as F

    def step(own: Built, index: int) -> Any:
        parts = own.options["parts"]
        losses, given = [], {}
        for part in range(parts):
            tokens, valid, labels = own.batches[index * parts + part]
            result = own.model(input_ids=tokens, attention_mask=valid)
            logits = result[0] if isinstance(result, tuple) else result.logits
            costs = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
            known = (labels != -100).astype(costs.dtype)
            losses.append((costs * known).sum() / known.sum() * (1.0 / parts))
            given[f"logits {part}"] = logits
        sum(losses).backward()
        own.optimizer.step()
        own.optimizer.clear_grad()
        return {"loss": sum(losses), **given}

    built.step = step


@clean("paddle-ernie", "paddle-ernie-watched", dtypes=("float32",))
def ernie_watched(built: Built) -> None:
    """Hooks gather the norms of outputs and of gradients for a log."""
    log: list[float] = []

    def watch(layer: Any, inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        log.append(float(first.detach().astype("float32").norm()))

    for layer in built.model.model.layers:
        layer.register_forward_post_hook(watch)
    for parameter in built.model.parameters():
        parameter.register_hook(lambda gradient: log.append(float(gradient.norm())))
