"""Faults of encoders with decoders, mixtures of experts and models with states."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import edit_function, modeling, of_type, without
from benchmarks.zoo.source import imported
from benchmarks.zoo.spec import Built, Where, fault

CROSSED = ("model.decoder.layers.*.encoder_attn*",)


@fault(
    "t5",
    "t5-adafactor-scale-parameter",
    Where("update", names=("*",)),
    source="https://github.com/huggingface/transformers/pull/10526",
)
def t5_adafactor_scale_parameter(built: Built) -> None:
    """Adafactor scales the rate of each parameter by its size, which is on unless switched off."""
    for group in built.optimizer.param_groups:
        group["scale_parameter"] = True


@fault(
    "t5",
    "t5-attention-scaled",
    Where("argument", ("mul",), ("*SelfAttention", "*EncDecAttention")),
    source="https://github.com/allenai/allennlp/pull/5360",
)
def t5_attention_scaled(built: Built) -> None:
    """The scores are divided by the root of the head's width, which T5 does not do."""
    for attention in of_type(built, "T5Attention"):
        attention.scaling = attention.key_value_proj_dim**-0.5


@fault(
    "t5",
    "t5-bias-only-first-layer",
    Where("extra", ("zeros",), ("*coder.block.1.layer.0.SelfAttention",)),
    Where("argument", ("add",), ("*coder.block.1.layer.0.SelfAttention",)),
    Where("region", ("add", "zeros"), ("*coder.block.1.layer.0.SelfAttention",), calls=2),
    source="https://github.com/huggingface/transformers/pull/4499",
)
def t5_bias_only_first_layer(built: Built) -> None:
    """The bias of the relative positions is not handed on from the first layer to the others."""
    edit_function(
        modeling("t5").T5Stack,
        "forward",
        ("position_bias = self_attention_position_bias\n", "position_bias = None\n"),
    )


@fault(
    "t5",
    "t5-encoder-mask-missing-in-decoder",
    Where("missing", ("add",), ("decoder.block.*.layer.1.EncDecAttention",)),
    Where("region", ("add", "softmax"), ("decoder.block.*.layer.1.EncDecAttention",), calls=2),
    Where("missing", (), ("decoder",), calls=8),
    source="https://github.com/huggingface/transformers/issues/36293",
)
def t5_encoder_mask_missing_in_decoder(built: Built) -> None:
    """The decoder attends to the padding of the source too."""
    edit_function(
        modeling("t5").T5ForConditionalGeneration,
        "forward",
        ("encoder_attention_mask=attention_mask,", "encoder_attention_mask=None,"),
    )


@fault(
    "bart",
    "bart-shift-wraps",
    Where(
        "region",
        (
            "new_zeros", "clone", "setitem", "getitem", "masked_fill", "eq", "ne", "sum", "sub", "unsqueeze", "gather",
            "squeeze",
        ),
        ("",),
        calls=10,
    ),
    Where("extra", (), ("",), calls=8),
    source="https://github.com/huggingface/transformers/pull/9134",
)
def bart_shift_wraps(built: Built) -> None:
    """The first input of the decoder is wrapped around from the end of the labels, before their -100 are replaced."""
    edit_function(
        modeling("bart"),
        "shift_tokens_right",
        (
            "shifted_input_ids[:, 0] = decoder_start_token_id\n",
            "index_of_eos = (input_ids.ne(pad_token_id).sum(dim=1) - 1).unsqueeze(-1)\n"
            "    shifted_input_ids[:, 0] = input_ids.gather(1, index_of_eos).squeeze()\n",
        ),
    )


@fault(
    "bart",
    "bart-smoothing-counts-padding",
    Where("missing", ("numel", "long", "sum", "sub", "rsub"), ("",), calls=4),
    Where("region", ("numel", "long", "sum", "sub", "rsub", "div", "truediv", "mul"), ("",), calls=7),
    source="https://github.com/huggingface/transformers/issues/7546",
)
def bart_smoothing_counts_padding(built: Built) -> None:
    """The smoothed loss is divided by the number of all positions, padding included."""
    edit_function(
        imported("transformers.trainer_pt_utils").LabelSmoother,
        "__call__",
        ("denominator = padding_mask.numel() - padding_mask.long().sum()", "denominator = padding_mask.numel()"),
    )


def zero_after_backward(built: Built, index: int) -> dict[str, Any]:
    import torch
    from transformers.trainer_pt_utils import LabelSmoother

    batch = built.batches[index]
    result = built.model(**batch)
    loss = LabelSmoother(epsilon=built.options["smoothing"])(result, batch["labels"])
    loss.backward()
    built.optimizer.zero_grad()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "logits": result.logits, "gradient norm": norm}


@fault(
    "bart",
    "bart-zero-grad-after-backward",
    Where("update", names=("*",)),
    Where("missing", (), ("",), calls=12),
    Where("region", (), ("",), calls=12),
    Where("missing", (), ("",), phase="backward", calls=12),
    source="https://github.com/Tony-Y/pytorch_warmup/issues/12",
)
def bart_zero_grad_after_backward(built: Built) -> None:
    """The gradients are cleared between the backward pass and the optimizer, which then does nothing."""
    built.step = zero_after_backward


@fault(
    "marian",
    "marian-decode-positions",
    Where("missing", ("add",), ("model.decoder",)),
    Where("argument", ("embedding",), ("model.decoder.embed_positions", "model.decoder")),
    source="https://github.com/huggingface/transformers/pull/38967",
)
def marian_decode_positions(built: Built) -> None:
    """When single tokens are decoded with the cache, each is taken to be at the first position."""
    edit_function(
        modeling("marian").MarianDecoder,
        "forward",
        (
            "position_ids = torch.arange(seq_length, device=inputs_embeds.device) + past_key_values_length",
            "position_ids = torch.arange(seq_length, device=inputs_embeds.device)",
        ),
    )


@fault(
    "marian",
    "marian-logits-bias-lost",
    Where("state", names=("final_logits_bias",)),
    source="https://github.com/huggingface/transformers/issues/29321",
)
def marian_logits_bias_lost(built: Built) -> None:
    """The bias of the scores is not in the checkpoint and stays zero."""
    built.model.final_logits_bias.zero_()


def greedy_with_kept_cache(built: Built, index: int) -> dict[str, Any]:
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    batch, model = built.batches[index], built.model
    tokens = torch.full_like(batch["input_ids"][:, :1], model.config.decoder_start_token_id)
    given: dict[str, Any] = {}
    with torch.no_grad():
        encoded = model.get_encoder()(**batch)
        crossed = built.options.setdefault("cross cache", DynamicCache(config=model.config))
        cache = EncoderDecoderCache(DynamicCache(config=model.config), crossed)
        for position in range(built.options["length"]):
            result = model(
                encoder_outputs=encoded,
                attention_mask=batch["attention_mask"],
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            scores = result.logits[:, -1]
            scores[:, model.config.pad_token_id] = float("-inf")
            tokens = scores.argmax(-1, keepdim=True)
            given[f"probabilities {position}"] = torch.softmax(scores.float(), dim=-1)
    return given


@fault(
    "marian",
    "marian-stale-cross-cache",
    Where("missing", ("linear", "view", "transpose", "cat"), CROSSED, step=1, calls=8),
    Where("region", ("linear", "view", "transpose", "cat"), CROSSED, step=1, calls=8),
    source="https://github.com/huggingface/transformers/pull/31166",
)
def marian_stale_cross_cache(built: Built) -> None:
    """The keys and values of the first source are still in the cache when the second is translated."""
    built.step = greedy_with_kept_cache


@fault(
    "mixtral",
    "mixtral-balance-counts-padding",
    Where(
        "region",
        (
            "histc", "scatter_add", "sum", "mul", "repeat_interleave", "reshape", "to", "add", "unsqueeze", "zeros",
            "float",
        ),
        ("",),
        calls=12,
    ),
    Where("missing", (), ("",), calls=12),
    source="https://github.com/huggingface/transformers/issues/28505",
)
def mixtral_balance_counts_padding(built: Built) -> None:
    """The loss that balances the experts counts the padding too."""
    edit_function(
        modeling("mixtral").MixtralForCausalLM,
        "forward",
        (
            "self.num_experts_per_tok,\n            attention_mask,\n",
            "self.num_experts_per_tok,\n",
        ),
    )


@fault(
    "mixtral",
    "mixtral-kv-heads-tiled",
    Where("region", ("getitem", "expand", "reshape", "repeat"), ("model.layers.*.self_attn",), calls=3),
    Where("call", ("expand", "reshape", "repeat"), ("model.layers.*.self_attn",)),
    source="https://github.com/onnx/onnx/pull/7274",
)
def mixtral_kv_heads_tiled(built: Built) -> None:
    """Keys and values are tiled over the heads instead of each head being repeated for its own group."""
    edit_function(
        modeling("mixtral"),
        "repeat_kv",
        (
            "    hidden_states = hidden_states[:, :, None, :, :]"
            ".expand(batch, num_key_value_heads, n_rep, slen, head_dim)\n",
            "",
        ),
        (
            "return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
            "return hidden_states.repeat(1, n_rep, 1, 1)",
        ),
    )


@fault(
    "mixtral",
    "mixtral-router-bf16",
    Where("precision", ("linear", "to", "bfloat16", "float"), ("model.layers.*.mlp.gate",)),
    source="https://github.com/vllm-project/vllm/pull/14027",
    dtypes=("float32",),
)
def mixtral_router_bf16(built: Built) -> None:
    """The routers compute their logits in bfloat16."""
    edit_function(
        modeling("mixtral").MixtralTopKRouter,
        "forward",
        (
            "F.linear(hidden_states, self.weight)",
            "F.linear(hidden_states.bfloat16(), self.weight.bfloat16()).to(hidden_states.dtype)",
        ),
    )


@fault(
    "mixtral",
    "mixtral-weights-not-normalised",
    Where("missing", ("sum", "div", "idiv", "itruediv", "truediv"), ("model.layers.*.mlp.gate",), calls=2),
    source="https://github.com/TransformerLensOrg/TransformerLens/pull/1668",
)
def mixtral_weights_not_normalised(built: Built) -> None:
    """The weights of the two chosen experts are not normalised to one."""
    edit_function(
        modeling("mixtral").MixtralTopKRouter,
        "forward",
        ("router_top_value /= router_top_value.sum(dim=-1, keepdim=True)\n", "\n"),
    )


@fault(
    "qwen2moe",
    "qwen2moe-qkv-bias-lost",
    Where("state", names=("model.layers.*.self_attn.*_proj.bias",)),
    source="https://github.com/NVIDIA/Megatron-LM/pull/5845",
)
def qwen2moe_qkv_bias_lost(built: Built) -> None:
    """The converted checkpoint has no biases of queries, keys and values, so that they are zero."""
    import torch

    with torch.no_grad():
        for name, value in built.model.named_parameters():
            if name.endswith("_proj.bias"):
                value.zero_()


@fault(
    "qwen2moe",
    "qwen2moe-tokens-overwritten",
    Where("call", ("index_add", "setitem", "index_put"), ("model.layers.*.mlp.experts",)),
    Where("region", ("index_add", "setitem", "index_put", "to"), ("model.layers.*.mlp.experts",), calls=2),
    source="https://github.com/AviSoori1x/makeMoE/issues/2",
)
def qwen2moe_tokens_overwritten(built: Built) -> None:
    """Each expert writes its result over those of the experts before it instead of adding to them."""
    edit_function(
        modeling("qwen2_moe").Qwen2MoeExperts,
        "forward",
        (
            "final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))",
            "final_hidden_states[token_idx] = current_hidden_states.to(final_hidden_states.dtype)",
        ),
    )


@fault(
    "deepseek",
    "deepseek-bias-in-weights",
    Where("argument", ("gather",), ("model.layers.*.mlp.gate",)),
    source="https://github.com/vllm-project/vllm/pull/12002",
)
def deepseek_bias_in_weights(built: Built) -> None:
    """The bias that is only for choosing the experts is in their weights too."""
    edit_function(
        modeling("deepseek_v3").DeepseekV3TopkRouter,
        "forward",
        ("topk_weights = scores.gather(1, topk_indices)", "topk_weights = scores_for_choice.gather(1, topk_indices)"),
    )


@fault(
    "deepseek",
    "deepseek-groups-by-maximum",
    Where("region", ("topk", "sum", "max", "amax", "getitem"), ("model.layers.*.mlp.gate",), calls=3),
    Where("call", ("topk", "sum", "max", "amax"), ("model.layers.*.mlp.gate",)),
    source="https://github.com/vllm-project/vllm/pull/13474",
)
def deepseek_groups_by_maximum(built: Built) -> None:
    """The groups of experts are chosen by their best score instead of the sum of their two best."""
    edit_function(
        modeling("deepseek_v3").DeepseekV3TopkRouter,
        "forward",
        (".topk(2, dim=-1)[0]\n        .sum(dim=-1)", ".amax(dim=-1)"),
    )


@fault(
    "deepseek",
    "deepseek-rope-halves",
    Where(
        "region",
        ("getitem", "cat", "neg", "mul", "add", "sub", "unsqueeze"),
        ("model.layers.*.self_attn",),
        calls=20,
    ),
    source="https://github.com/huggingface/optimum-intel/pull/1877",
)
def deepseek_rope_halves(built: Built) -> None:
    """The rotation takes its pairs from the two halves, where the weights have them next to each other."""
    built.model.config.rope_interleave = False


@fault(
    "olmoe",
    "olmoe-norm-per-head",
    Where(
        "region",
        ("view", "mean", "pow", "mul", "rsqrt", "to", "flatten", "add"),
        ("model.layers.*.self_attn", "model.layers.*.self_attn.q_norm", "model.layers.*.self_attn.k_norm"),
        calls=9,
    ),
    Where(
        "argument",
        ("mean", "pow"),
        ("model.layers.*.self_attn.q_norm", "model.layers.*.self_attn.k_norm"),
    ),
    source="https://github.com/lablup/mlxcel/pull/317",
)
def olmoe_norm_per_head(built: Built) -> None:
    """The norms of queries and keys run over each head instead of over all of them."""
    edit_function(
        modeling("olmoe").OlmoeAttention,
        "forward",
        ("self.q_norm(self.q_proj(hidden_states))", "per_head(self.q_norm, self.q_proj(hidden_states), self.head_dim)"),
        ("self.k_norm(self.k_proj(hidden_states))", "per_head(self.k_norm, self.k_proj(hidden_states), self.head_dim)"),
    )

    def per_head(norm: Any, states: Any, width: int) -> Any:
        import torch

        heads = states.view(*states.shape[:-1], -1, width)
        heads = heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        return norm.weight * heads.flatten(-2)

    modeling("olmoe").per_head = per_head


@fault(
    "mamba",
    "mamba-dt-bias-twice",
    Where(
        "region",
        ("matmul", "linear", "transpose"),
        ("backbone.layers.*.mixer", "backbone.layers.*.mixer.dt_proj"),
        calls=3,
    ),
    Where("call", ("matmul", "linear"), ("backbone.layers.*.mixer", "backbone.layers.*.mixer.dt_proj")),
    source="https://github.com/NVlabs/MambaVision/issues/32",
)
def mamba_dt_bias_twice(built: Built) -> None:
    """The bias of the time steps is added by their projection and again by the scan."""
    edit_function(
        modeling("mamba").MambaMixer,
        "forward",
        ("self.dt_proj.weight @ time_step.transpose(1, 2)", "self.dt_proj(time_step).transpose(1, 2)"),
    )


@fault(
    "mamba",
    "mamba-padding-not-masked",
    Where("missing", ("mul", "getitem", "to"), ("backbone.layers.*.mixer",), calls=3),
    Where("missing", (), ("backbone",), calls=6),
    Where("data", names=("attention_mask",)),
    source="https://github.com/huggingface/transformers/pull/32677",
)
def mamba_padding_not_masked(built: Built) -> None:
    """The padding on the left is not masked and gets into the states."""
    built.batches[:] = without(built.batches, "attention_mask")


@fault(
    "mamba2",
    "mamba2-norm-before-gate",
    Where("region", ("silu", "mul", "to", "pow", "mean", "view"), ("backbone.layers.*.mixer.norm",), calls=12),
    source="https://github.com/state-spaces/mamba/pull/910",
)
def mamba2_norm_before_gate(built: Built) -> None:
    """The norm comes before the gate instead of after it."""
    gate = (
        "    if gate is not None:\n"
        "        hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))\n"
    )
    edit_function(
        modeling("mamba2").MambaRMSNormGated,
        "forward",
        (gate, ""),
        (
            "    return self.weight * hidden_states.to(input_dtype)",
            "    hidden_states = self.weight * hidden_states.to(input_dtype)\n"
            "    return (hidden_states * nn.functional.silu(gate.to(torch.float32))).to(input_dtype)",
        ),
    )


@fault(
    "rwkv-generate",
    "rwkv-generate-not-halved",
    Where("missing", ("div", "truediv"), ("rwkv",)),
    source="https://github.com/huggingface/transformers/pull/22797",
)
def rwkv_generate_not_halved(built: Built) -> None:
    """For inference the weights of later blocks are scaled down, but the hidden states between them are not halved."""
    edit_function(modeling("rwkv").RwkvModel, "forward", ("hidden_states = hidden_states / 2", "pass"))


@fault(
    "rwkv-generate",
    "rwkv-shift-lost-in-state",
    Where("missing", ("getitem", "setitem"), ("rwkv.blocks.*.attention",), calls=2),
    Where("region", ("getitem", "setitem"), ("rwkv.blocks.*.attention",), calls=3),
    Where("argument", ("setitem", "getitem"), ("rwkv.blocks.*.attention",)),
    source="https://github.com/ggml-org/llama.cpp/pull/11445",
)
def rwkv_shift_lost_in_state(built: Built) -> None:
    """The last token is not copied back into the state, so that decoding always mixes with zero."""
    edit_function(
        modeling("rwkv").RwkvSelfAttention,
        "extract_key_value",
        ("    if state is not None:\n        state[1][:, :, self.layer_id] = hidden[:, -1]\n", ""),
    )
