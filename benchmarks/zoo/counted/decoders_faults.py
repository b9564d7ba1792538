"""Mistakes in decoder language models and in the loops that train and run them."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import (
    CLIP,
    FALCON,
    LLAMA,
    NEOX,
    NORM,
    OLMO2,
    PROGRAMS,
    QWEN3,
    edit_step,
    fuse_norms,
    updates,
)  # fmt: skip
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    "llama", "llama-kv-heads-tiled",
    Where("region", ("getitem", "expand", "reshape"), ("model.layers.*.self_attn",), calls=3),
    Where("argument", ("getitem", "expand", "reshape"), ("model.layers.*.self_attn",)),
    source="https://github.com/jxiw/M1/issues/4",
)  # fmt: skip
def llama_kv_heads_tiled(built: Built) -> None:
    """Keys and values are repeated as a whole for the groups of queries, not each head for its own group."""
    edit_function(
        imported(LLAMA), "repeat_kv",
        (
            "[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
            "[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen, head_dim)",
        ),
    )  # fmt: skip


@fault(
    "llama", "llama-norm-epsilon",
    Where("argument", ("add", "rsqrt"), ("model.layers.*norm", "model.norm")),
    source="https://github.com/ggml-org/llama.cpp/issues/2373",
)  # fmt: skip
def llama_norm_epsilon(built: Built) -> None:
    """All norms use an epsilon of 1e-5 instead of the 1e-6 of the configuration."""
    for module in built.model.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 1e-5


@fault(
    "llama", "llama-second-layer-gelu",
    Where("region", ("silu", "gelu"), ("model.layers.1.mlp", "model.layers.1.mlp.act_fn")),
    Where("call", ("silu", "gelu"), ("model.layers.1.mlp", "model.layers.1.mlp.act_fn")),
    source="https://github.com/huggingface/candle/pull/3991",
)  # fmt: skip
def llama_second_layer_gelu(built: Built) -> None:
    """The perceptron of the second layer has gelu where the model was trained with silu."""
    import torch

    built.model.model.layers[1].mlp.act_fn = torch.nn.GELU()


@fault(
    "llama-finetune", "llama-finetune-mean-per-batch",
    Where("argument", ("cross_entropy", "div", "to", "truediv"), ("",)),
    Where("region", ("cross_entropy", "div", "to", "truediv"), ("",), calls=3),
    source="https://github.com/huggingface/transformers/pull/34191",
)  # fmt: skip
def llama_finetune_mean_per_batch(built: Built) -> None:
    """With accumulation, each batch is averaged over its own tokens and the means are averaged, though the batches
    hold different numbers of tokens."""
    edit_step(
        built, "accumulate",
        ("num_items_in_batch=items, ", ""),
        ("result.loss.backward()", "(result.loss / count).backward()"),
        ("total + result.loss.detach()", "total + result.loss.detach() / count"),
    )  # fmt: skip


@fault(
    "llama-finetune", "llama-finetune-labels-shifted-twice",
    Where("extra", ("getitem", "contiguous", "pad", "cross_entropy", "view"), ("",), calls=4),
    Where("region", ("getitem", "contiguous", "pad", "cross_entropy", "view"), ("",), calls=8),
    source="https://github.com/huggingface/transformers/issues/47394",
)  # fmt: skip
def llama_finetune_labels_shifted_twice(built: Built) -> None:
    """The model shifts the labels by one before it calls the loss, which shifts them once more."""
    edit_function(
        imported(LLAMA).LlamaForCausalLM, "forward",
        (
            "self.loss_function(logits=logits, labels=labels,",
            "self.loss_function(logits=logits[:, :-1].contiguous(), labels=labels[:, 1:].contiguous(),",
        ),
    )  # fmt: skip


@fault(
    "llama-finetune", "llama-finetune-clip-each-batch",
    Where("extra", CLIP, ("",), phase="backward", calls=4),
    Where("extra", CLIP, ("",), phase="forward", calls=4),
    *updates(),
    source="https://github.com/huggingface/transformers/issues/1563",
)  # fmt: skip
def llama_finetune_clip_each_batch(built: Built) -> None:
    """The gradients are clipped after the backward of each batch instead of once when all are accumulated."""
    clip = "torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)"
    edit_step(
        built, "accumulate",
        ("    " + clip + "\n", ""),
        ("result.loss.backward()", f"result.loss.backward()\n        {clip}"),
    )  # fmt: skip


@fault(
    "llama-finetune", "llama-finetune-norms-decayed",
    *updates("*norm*", step=1),
    source="https://github.com/ServiceNow/Fast-LLM/pull/545",
    dtypes=("float32",),
)  # fmt: skip
def llama_finetune_norms_decayed(built: Built) -> None:
    """The weights of the norms are in the group with weight decay. (The first learning rate is zero.)"""
    for group in built.optimizer.param_groups:
        group["weight_decay"] = 0.1


@fault(
    "llama-finetune", "llama-finetune-gradients-dropped",
    *updates(),
    Where("extra", ("zero_grad",), ("",), phase="backward"),
    Where("extra", ("zero_grad",), ("",), phase="forward"),
    source="https://github.com/bytetriper/RAE/issues/67",
)  # fmt: skip
def llama_finetune_gradients_dropped(built: Built) -> None:
    """The gradients are set to zero before each batch, so that only the last batch of a step counts."""
    edit_step(
        built, "accumulate",
        ("        result.loss.backward()", "        built.optimizer.zero_grad()\n        result.loss.backward()"),
    )  # fmt: skip


@fault(
    "llama-long", "llama-long-one-weight",
    Where("state", names=("model.layers.1.mlp.down_proj.weight",)),
    source="https://github.com/pytorch/pytorch/issues/84803",
)  # fmt: skip
def llama_long_one_weight(built: Built) -> None:
    """One element of one matrix was corrupted when the weights were copied: a bit of its exponent is flipped."""
    import torch

    with torch.no_grad():
        built.model.model.layers[1].mlp.down_proj.weight[11, 37] *= 16.0


@fault(
    "llama-reward", "llama-reward-last-column",
    Where("region", ("ne", "to", "arange", "mul", "argmax", "getitem"), ("",), calls=6),
    Where("argument", ("getitem",), ("",)),
    source="https://github.com/huggingface/trl/issues/937",
)  # fmt: skip
def llama_reward_last_column(built: Built) -> None:
    """The score is read from the last column, which is padding in all rows but the longest."""
    edit_function(
        imported("transformers.modeling_layers").GenericForSequenceClassification, "forward",
        ("last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)", "last_non_pad_token = -1"),
    )  # fmt: skip


@fault(
    "qwen3", "qwen3-norm-after-rope",
    Where(
        "region", (*NORM, "transpose", "cat", "neg", "getitem"), ("model.layers.*.self_attn*",), calls=30,
    ),
    source="https://github.com/meta-pytorch/torchtune/issues/2809",
)  # fmt: skip
def qwen3_norm_after_rope(built: Built) -> None:
    """Queries and keys are normed after they are turned by their positions, not before."""
    edit_function(
        imported(QWEN3).Qwen3Attention, "forward",
        ("self.q_norm(self.q_proj(hidden_states).view(hidden_shape))", "self.q_proj(hidden_states).view(hidden_shape)"),
        ("self.k_norm(self.k_proj(hidden_states).view(hidden_shape))", "self.k_proj(hidden_states).view(hidden_shape)"),
        (
            "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)",
            "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)\n"
            "    query_states, key_states = self.q_norm(query_states), self.k_norm(key_states)",
        ),
    )  # fmt: skip


@fault(
    "qwen3", "qwen3-head-untied",
    Where("state", names=("lm_head.weight", "model.embed_tokens.weight"), phase="backward"),
    Where("state", names=("lm_head.weight", "model.embed_tokens.weight"), phase="forward"),
    *updates("lm_head.weight", "model.embed_tokens.weight"),
    source="https://github.com/sgl-project/sglang/pull/1508",
)  # fmt: skip
def qwen3_head_untied(built: Built) -> None:
    """The head starts from the embeddings but is a parameter of its own, so that each gets half of the gradient."""
    import torch

    head = built.model.lm_head
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    built.optimizer.param_groups[0]["params"].append(head.weight)


@fault(
    "qwen3", "qwen3-decay-coupled",
    *updates(),
    source="https://github.com/pytorch/pytorch/pull/4429",
)  # fmt: skip
def qwen3_decay_coupled(built: Built) -> None:
    """Adam with weight decay added to the gradients stands where decoupled weight decay is meant."""
    import torch

    groups = imported(PROGRAMS).decay_groups(built.model, 0.1)
    built.optimizer = torch.optim.Adam(groups, lr=2e-3, betas=(0.9, 0.95))
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, lambda step: min(1.0, (step + 1) / 3))


@fault(
    "qwen3", "qwen3-query-key-norm-skipped",
    Where("missing", NORM, ("model.layers.*.self_attn", "model.layers.*.self_attn.?_norm"), calls=7),
    source="https://github.com/vllm-project/vllm-metal/pull/659",
)  # fmt: skip
def qwen3_query_key_norm_skipped(built: Built) -> None:
    """The norms of queries and keys are not applied."""
    edit_function(
        imported(QWEN3).Qwen3Attention, "forward",
        ("self.q_norm(self.q_proj(hidden_states).view(hidden_shape))", "self.q_proj(hidden_states).view(hidden_shape)"),
        ("self.k_norm(self.k_proj(hidden_states).view(hidden_shape))", "self.k_proj(hidden_states).view(hidden_shape)"),
    )  # fmt: skip


@fault(
    "qwen3", "qwen3-norm-input-gradient",
    Where(
        "region", (*NORM, "sub", "sum", "reshape", "apply", "Norm"),
        ("model.layers.*norm", "model.norm"), phase="backward", calls=14,
    ),
    source="https://github.com/karpathy/llm.c/pull/763",
)  # fmt: skip
def qwen3_norm_input_gradient(built: Built) -> None:
    """The fused norm's backward forgets to multiply by the weight in the gradient of its input."""
    fuse_norms(imported(QWEN3).Qwen3RMSNorm, input_weight=False)


@fault(
    "qwen3-dpo", "qwen3-dpo-average",
    Where("extra", ("sum", "div", "truediv", "mul"), ("",), calls=2),
    Where("region", ("sum", "div", "truediv", "mul"), ("",), calls=3),
    source="https://github.com/huggingface/trl/issues/789",
)  # fmt: skip
def qwen3_dpo_average(built: Built) -> None:
    """The log probability of an answer is averaged over its tokens instead of summed."""
    edit_function(
        imported(PROGRAMS), "sequence_log_probability",
        ("return (chosen * mask).sum(-1)", "return (chosen * mask).sum(-1) / mask.sum(-1)"),
    )  # fmt: skip
    built.options["score"] = imported(PROGRAMS).sequence_log_probability


@fault(
    "qwen3-dpo", "qwen3-dpo-shared-reference",
    Where("state", step=1, names=("*",)),
    Where("call", ("embedding",), step=1),
    source="https://github.com/YiyangZhou/POVID/issues/11",
)  # fmt: skip
def qwen3_dpo_shared_reference(built: Built) -> None:
    """The reference model is the trained model itself and not a frozen copy, so that it moves along."""
    built.options["frozen"] = built.model


@fault(
    "gpt2", "gpt2-exact-gelu",
    Where("region", ("gelu", "mul", "pow", "add", "tanh"), ("transformer.h.*.mlp*",), calls=8),
    source="https://github.com/nntile/nntile/pull/370",
    dtypes=("float32",),
)  # fmt: skip
def gpt2_exact_gelu(built: Built) -> None:
    """The perceptrons use the exact gelu; GPT-2 was trained with its approximation by tanh."""
    import torch

    for block in built.model.transformer.h:
        block.mlp.act = torch.nn.GELU()


@fault(
    "gpt2-generate", "gpt2-generate-no-positions",
    Where("data", names=("*position_ids*",)),
    Where("region", ("arange", "add", "unsqueeze"), ("transformer",), calls=3),
    Where("call", ("embedding",), ("transformer.wpe",)),
    source="https://github.com/ndif-team/nnsight/pull/673",
)  # fmt: skip
def gpt2_generate_no_positions(built: Built) -> None:
    """The positions are not derived from the mask, so that padding on the left shifts those of the shorter prompts."""
    built.options["positions"] = False


@fault(
    "gpt2-generate", "gpt2-generate-dropout-on",
    Where("argument", ("dropout",), ("transformer.drop", "transformer.h.*")),
    Where("extra", ("dropout",), ("transformer.drop", "transformer.h.*")),
    Where("randomness", ("dropout",), ("transformer.drop", "transformer.h.*")),
    source="https://github.com/ipolharvard/ethos-ares/issues/20",
)  # fmt: skip
def gpt2_generate_dropout_on(built: Built) -> None:
    """The model is not in evaluation mode, so that dropout is active when it generates."""
    built.model.train()


@fault(
    "gemma2", "gemma2-no-attention-cap",
    Where("missing", ("div", "truediv", "tanh", "mul"), ("model.layers.*.self_attn",), calls=3),
    source="https://github.com/vllm-project/vllm-metal/issues/665",
)  # fmt: skip
def gemma2_no_attention_cap(built: Built) -> None:
    """The attention is computed without the soft cap of its logits."""
    for layer in built.model.model.layers:
        layer.self_attn.attn_logit_softcapping = None


@fault(
    "gemma2", "gemma2-head-scale",
    Where("argument", ("mul",), ("model.layers.*.self_attn",)),
    source="https://github.com/antonellof/ferrox/issues/40",
)  # fmt: skip
def gemma2_head_scale(built: Built) -> None:
    """The attention is scaled by the width of a head instead of the number that the configuration gives."""
    for layer in built.model.model.layers:
        layer.self_attn.scaling = layer.self_attn.head_dim**-0.5


@fault(
    "gemma2", "gemma2-window-one-more",
    Where("call", ("gt", "ge", "sub", "and"), ("model",)),
    Where("argument", ("gt", "ge", "sub", "and"), ("model",)),
    Where("region", ("gt", "ge", "sub", "and"), ("model",)),
    source="https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/2656",
)  # fmt: skip
def gemma2_window_one_more(built: Built) -> None:
    """The sliding window reaches over one token more than the configuration says."""
    edit_function(
        imported("transformers.masking_utils"), "sliding_window_overlay",
        ("kv_idx > q_idx - sliding_window", "kv_idx >= q_idx - sliding_window"),
    )  # fmt: skip


@fault(
    "gemma2", "gemma2-embedding-scale-rounded",
    Where("state", names=("model.embed_tokens.embed_scale", "*embed_scale")),
    Where("precision", ("mul", "to"), ("model.embed_tokens",)),
    source="https://github.com/huggingface/transformers/pull/29402",
    dtypes=("float32",),
)  # fmt: skip
def gemma2_embedding_scale_rounded(built: Built) -> None:
    """The scale of the embeddings is rounded to bfloat16 in a model that runs in float32."""
    embedding = built.model.model.embed_tokens
    embedding.embed_scale = embedding.embed_scale.bfloat16().float()


@fault(
    "gemma2", "gemma2-window-on-other-layers",
    Where("argument", ("add",), ("model.layers.*.self_attn",)),
    source="https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/4875",
)  # fmt: skip
def gemma2_window_on_other_layers(built: Built) -> None:
    """The layers with the sliding window and those with full attention have changed places."""
    other = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}
    built.model.config.layer_types = [other[kind] for kind in built.model.config.layer_types]


@fault(
    "gemma3-generate", "gemma3-generate-one-theta",
    Where("state", names=("*sliding_attention_inv_freq",)),
    Where("call", ("mul", "to", "float"), ("model.rotary_emb",)),
    source="https://github.com/vllm-project/vllm/pull/29111",
)  # fmt: skip
def gemma3_generate_one_theta(built: Built) -> None:
    """The layers with the sliding window turn by the rotary base of the layers with full attention."""
    rotary = built.model.model.rotary_emb
    rotary.sliding_attention_inv_freq = rotary.full_attention_inv_freq.clone()


@fault(
    "gemma3-generate", "gemma3-generate-head-of-cache-lost",
    Where("argument", ("getitem", "cat"), ("model.layers.*.self_attn",), step=1),
    Where("region", ("getitem", "cat"), ("model.layers.*.self_attn",), step=1, calls=2),
    Where("call", ("cat",), ("model.layers.*.self_attn",), step=1),
    Where("argument", ("getitem",), ("model.layers.*.self_attn",), step=0),
    source="https://github.com/EricLBuehler/mistral.rs/issues/246",
)  # fmt: skip
def gemma3_generate_head_of_cache_lost(built: Built) -> None:
    """The cache of the layers with a window keeps the first tokens of the prompt instead of the last ones."""
    edit_function(
        imported("transformers.cache_utils").DynamicSlidingWindowLayer, "update",
        (
            "self.keys = full_key_states[:, :, -self.sliding_window + 1 :, :]",
            "self.keys = full_key_states[:, :, : self.sliding_window - 1, :]",
        ),
        (
            "self.values = full_value_states[:, :, -self.sliding_window + 1 :, :]",
            "self.values = full_value_states[:, :, : self.sliding_window - 1, :]",
        ),
    )  # fmt: skip


@fault(
    "mistral", "mistral-no-window",
    Where("missing", ("gt", "sub", "and", "new_ones", "to"), ("model",), calls=4),
    Where("region", ("gt", "sub", "and", "new_ones", "to", "le"), ("model",), calls=8),
    source="https://github.com/Lightning-AI/litgpt/issues/1598",
)  # fmt: skip
def mistral_no_window(built: Built) -> None:
    """The sliding window is not applied: all tokens before are attended to."""
    built.model.config.sliding_window = None


@fault(
    "falcon-generate", "falcon-generate-flat-projection",
    Where(
        "region", ("view", "getitem", "broadcast_to", "flatten", "split", "repeat_interleave"),
        ("transformer.h.*.self_attention",), calls=10,
    ),
    source="https://github.com/vllm-project/vllm/pull/53114",
)  # fmt: skip
def falcon_generate_flat_projection(built: Built) -> None:
    """The joint projection is split into all queries, all keys and all values; it is laid out by groups of heads."""
    edit_function(
        imported(FALCON).FalconAttention, "_split_heads",
        (
            "qkv = fused_qkv.view(batch, seq_len, -1, self.num_heads // self.num_kv_heads + 2, self.head_dim)",
            "sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]\n"
            "        parts = fused_qkv.view(batch, seq_len, -1, self.head_dim).split(sizes, dim=2)",
        ),
        ("query = qkv[:, :, :, :-2]", "query = parts[0].view(batch, seq_len, self.num_kv_heads, -1, self.head_dim)"),
        ("key = qkv[:, :, :, [-2]]", "key = parts[1].view(batch, seq_len, self.num_kv_heads, 1, self.head_dim)"),
        ("value = qkv[:, :, :, [-1]]", "value = parts[2].view(batch, seq_len, self.num_kv_heads, 1, self.head_dim)"),
    )  # fmt: skip


@fault(
    "olmo2", "olmo2-normaliser-over-rows",
    Where("region", ("mean", "sum", "div", "truediv", "mul"), ("",), calls=2),
    source="https://github.com/allenai/OLMo/pull/634",
)  # fmt: skip
def olmo2_normaliser_over_rows(built: Built) -> None:
    """The extra loss on the normaliser is averaged over the rows of the batch instead of over its tokens."""
    edit_function(
        imported(PROGRAMS), "loss_with_normaliser",
        (".pow(2).mean()", ".pow(2).sum() / logits.shape[0]"),
    )  # fmt: skip
    built.options["loss"] = imported(PROGRAMS).loss_with_normaliser


@fault(
    "olmo2", "olmo2-one-softmax-rounded",
    Where("precision", ("softmax", "to"), ("model.layers.1.self_attn",)),
    source="https://github.com/apple/axlearn/pull/18",
    dtypes=("float32",),
)  # fmt: skip
def olmo2_one_softmax_rounded(built: Built) -> None:
    """The softmax of the attention of the second layer is computed in bfloat16."""
    edit_function(
        imported(OLMO2), "eager_attention_forward",
        ("dtype=torch.float32", "dtype=torch.bfloat16 if module.layer_idx == 1 else torch.float32"),
    )  # fmt: skip


@fault(
    "pythia", "pythia-flat-projection",
    Where("region", ("view", "transpose", "chunk", "split"), ("gpt_neox.layers.*.attention",), calls=6),
    source="https://github.com/lablup/mlxcel/pull/928",
)  # fmt: skip
def pythia_flat_projection(built: Built) -> None:
    """The joint projection is cut into thirds for queries, keys and values; it is laid out head by head."""
    edit_function(
        imported(NEOX).GPTNeoXAttention, "forward",
        ("hidden_shape = (*input_shape, -1, 3 * self.head_size)", "hidden_shape = (*input_shape, -1, self.head_size)"),
        (
            "qkv = self.query_key_value(hidden_states).view(hidden_shape).transpose(1, 2)",
            "qkv = self.query_key_value(hidden_states)",
        ),
        ("= qkv.chunk(3, dim=-1)", "= (part.view(hidden_shape).transpose(1, 2) for part in qkv.chunk(3, dim=-1))"),
    )  # fmt: skip


@fault(
    "pythia", "pythia-sequential-residual",
    Where("region", ("add", "layer_norm"), ("gpt_neox.layers.*",), calls=4),
    source="https://github.com/ggml-org/ggml/pull/139",
)  # fmt: skip
def pythia_sequential_residual(built: Built) -> None:
    """Attention and perceptron follow one another instead of standing side by side."""
    for layer in built.model.gpt_neox.layers:
        layer.use_parallel_residual = False


@fault(
    "pythia", "pythia-scaled-by-width",
    Where("argument", ("scaled_dot_product_attention",), ("gpt_neox.layers.*.attention",)),
    source="https://github.com/FrancescoSaverioZuppichini/ViT/issues/1",
)  # fmt: skip
def pythia_scaled_by_width(built: Built) -> None:
    """The attention is scaled by the root of the width of the model instead of that of a head."""
    for layer in built.model.gpt_neox.layers:
        layer.attention.scaling = built.model.config.hidden_size**-0.5


@fault(
    "pythia", "pythia-head-not-optimized",
    *updates("lm_head.weight", "embed_out.weight"),
    source="https://github.com/zjunlp/HVPNeT/issues/5",
)  # fmt: skip
def pythia_head_not_optimized(built: Built) -> None:
    """The head is not among the parameters that the optimizer was given."""
    head = built.model.get_output_embeddings().weight
    for group in built.optimizer.param_groups:
        group["params"] = [parameter for parameter in group["params"] if parameter is not head]
