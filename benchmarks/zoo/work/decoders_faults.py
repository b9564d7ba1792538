"""Mistakes in decoder language models and in the loops that train and run them."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import (
    BLOOM,
    CLIP,
    COHERE,
    FALCON,
    GEMMA2,
    GPT2,
    LLAMA,
    NORM,
    OPT,
    PROGRAMS,
    edit_one,
    edit_step,
    evaluate_between,
    fuse_norms,
    set_theta,
    updates,
    with_theta,
)  # fmt: skip
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Change, Where, fault


@fault(
    "llama", "llama-rope-theta-ignored",
    Where("state", names=("*inv_freq",)),
    Where("call", ("mul", "to", "float"), ("model.rotary_emb",)),
    source="https://github.com/ModelTC/LightLLM/pull/118",
    both=with_theta(1e6),
)  # fmt: skip
def llama_rope_theta_ignored(built: Built) -> None:
    """The base of the rotary positions in the configuration is ignored; the old default of 10000 is used."""
    set_theta(built, 1e4)


@fault(
    "llama", "llama-rotate-half-interleaved",
    Where("region", ("getitem", "neg", "cat", "stack", "flatten"), ("model.layers.*.self_attn",), calls=5),
    source="https://github.com/huggingface/transformers/issues/34741",
)  # fmt: skip
def llama_rotate_half_interleaved(built: Built) -> None:
    """Rotates neighbouring pairs of a head, with weights that are laid out for the rotation of its halves."""
    edit_function(
        imported(LLAMA), "rotate_half",
        ("x[..., : x.shape[-1] // 2]", "x[..., ::2]"),
        ("x[..., x.shape[-1] // 2 :]", "x[..., 1::2]"),
        ("torch.cat((-x2, x1), dim=-1)", "torch.stack((-x2, x1), dim=-1).flatten(-2)"),
    )  # fmt: skip


@fault(
    "llama-finetune", "llama-finetune-padding-scored",
    Where("data", names=("*labels*",)),
    Where("call", ("getitem", "pad", "cross_entropy", "sum", "ne"), ("",)),
    source="https://github.com/huggingface/transformers/issues/32832",
)  # fmt: skip
def llama_finetune_padding_scored(built: Built) -> None:
    """The labels of padding stay at the padding token, so that the loss counts it."""
    for batch in built.batches:
        batch["labels"] = batch["labels"].masked_fill(batch["attention_mask"] == 0, 0)


@fault(
    "llama-finetune", "llama-finetune-schedule-first",
    *updates(),
    source="https://github.com/Tony-Y/pytorch_warmup/issues/13",
)  # fmt: skip
def llama_finetune_schedule_first(built: Built) -> None:
    """The schedule is advanced before the optimizer, so that the first learning rate of the warm-up is skipped."""
    edit_step(
        built, "accumulate",
        (
            "built.optimizer.step()\n    built.scheduler.step()",
            "built.scheduler.step()\n    built.optimizer.step()",
        ),
    )  # fmt: skip


@fault(
    "llama-long", "llama-long-plain-rope",
    Where("state", names=("*inv_freq",)),
    Where("call", ("mul", "to", "float"), ("model.rotary_emb",)),
    source="https://github.com/marin-community/levanter/pull/740",
)  # fmt: skip
def llama_long_plain_rope(built: Built) -> None:
    """The scaling of the rotary frequencies of Llama 3.1 is left out."""
    rotary = built.model.model.rotary_emb
    rotary.inv_freq = rotary.compute_default_rope_parameters(rotary.config)[0].to(rotary.inv_freq)


@fault(
    "llama-long", "llama-long-norm-weight-gradient",
    Where(
        "region", (*NORM, "sub", "sum", "reshape", "apply", "Norm"),
        ("model.layers.*norm", "model.norm"), phase="backward", calls=14,
    ),
    *updates("*norm.weight"),
    source="https://github.com/unslothai/unsloth/pull/4550",
    dtypes=("float32",),
)  # fmt: skip
def llama_long_norm_weight_gradient(built: Built) -> None:
    """The fused norm's backward gives no gradient for its weight, which is therefore never trained."""
    fuse_norms(imported(LLAMA).LlamaRMSNorm, weight_gradient=False)


@fault(
    "llama-generate", "llama-generate-decode-positions",
    Where("data", names=("*position_ids*",), step=1),
    Where("region", ("sum", "sub", "full_like", "full"), ("",), step=1, calls=2),
    source="https://github.com/unslothai/unsloth/issues/3699",
)  # fmt: skip
def llama_generate_decode_positions(built: Built) -> None:
    """When decoding, all rows get the length of the padded cache as position, though their prompts are shorter."""
    edit_step(
        built, "generate",
        ("positions = mask.sum(-1, keepdim=True) - 1", "positions = torch.full_like(ids, mask.shape[-1] - 1)"),
    )  # fmt: skip


@fault(
    "llama-generate", "llama-generate-frequencies-rounded",
    Where("state", names=("*inv_freq",)),
    Where("precision", ("mul", "to", "float"), ("model.rotary_emb",)),
    source="https://github.com/huggingface/transformers/pull/29285",
)  # fmt: skip
def llama_generate_frequencies_rounded(built: Built) -> None:
    """The rotary frequencies went through bfloat16, because the whole model was cast, buffers included."""
    rotary = built.model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq.bfloat16().float()


@fault(
    "llama-generate", "llama-generate-norm-in-place",
    Where("region", ("mul", "rsqrt"), ("model.layers.*norm", "model.norm"), calls=2),
    Where("call", ("mul", "rsqrt"), ("model.layers.*norm", "model.norm")),
    Where("call", ("add",), ("model.layers.*",)),
    source="https://github.com/GeeeekExplorer/nano-vllm/issues/170",
    dtypes=("float32",),
)  # fmt: skip
def llama_generate_norm_in_place(built: Built) -> None:
    """The norm multiplies in place, which overwrites the residual where the upcast to float32 copies nothing."""
    edit_function(
        imported(LLAMA).LlamaRMSNorm, "forward",
        (
            "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)",
            "hidden_states = hidden_states.mul_(torch.rsqrt(variance + self.variance_epsilon))",
        ),
    )  # fmt: skip


@fault(
    "llama-reward", "llama-reward-broadcast",
    Where("extra", ("unsqueeze", "getitem", "sub"), ("",)),
    Where("region", ("unsqueeze", "sub", "logsigmoid", "neg", "mean"), ("",), calls=5),
    source="https://github.com/pytorch/pytorch/issues/16045",
)  # fmt: skip
def llama_reward_broadcast(built: Built) -> None:
    """The rejected scores have one dimension more than the chosen ones, so that each is compared with each."""
    edit_step(
        built, "reward",
        ("rejected = scores[0::2], scores[1::2]", "rejected = scores[0::2], scores[1::2].unsqueeze(-1)"),
    )  # fmt: skip


@fault(
    "qwen3", "qwen3-loss-in-bfloat16",
    Where("precision", ("to", "float", "bfloat16", "reshape", "cross_entropy"), ("",)),
    source="https://github.com/Modalities/modalities/pull/464",
)  # fmt: skip
def qwen3_loss_in_bfloat16(built: Built) -> None:
    """The loss is computed from logits in bfloat16 instead of float32."""
    edit_function(imported(PROGRAMS), "token_loss", (".float()", ".bfloat16()"))
    built.options["loss"] = imported(PROGRAMS).token_loss


@fault(
    "qwen3", "qwen3-warm-up-from-zero",
    *updates(),
    source="https://github.com/Lightning-AI/pytorch-lightning/issues/17972",
)  # fmt: skip
def qwen3_warm_up_from_zero(built: Built) -> None:
    """The warm-up counts from zero, so that the first step has no learning rate and each other that of the one before
    it."""
    import torch

    for group in built.optimizer.param_groups:
        group["lr"] = group.pop("initial_lr")
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, lambda step: min(1.0, step / 3))


@fault(
    "gpt2", "gpt2-projection-transposed",
    Where("state", names=("transformer.h.1.attn.c_proj.weight",)),
    source="https://github.com/huggingface/transformers/issues/311",
)  # fmt: skip
def gpt2_projection_transposed(built: Built) -> None:
    """The projection after the attention of the second block was loaded transposed; it is square, so nothing raises."""
    import torch

    weight = built.model.transformer.h[1].attn.c_proj.weight
    with torch.no_grad():
        weight.copy_(weight.T.clone())


@fault(
    "gpt2", "gpt2-left-in-evaluation",
    Where("argument", ("dropout",), ("transformer.drop", "transformer.h.*", "transformer"), step=1),
    Where("missing", ("dropout",), ("transformer.drop", "transformer.h.*", "transformer"), step=1),
    Where("randomness", ("dropout",), ("transformer.drop", "transformer.h.*", "transformer"), step=1),
    source="https://github.com/MILVLG/mcan-vqa/issues/26",
    both=Change(after=lambda built: evaluate_between(built, back=True)),
)  # fmt: skip
def gpt2_left_in_evaluation(built: Built) -> None:
    """After the validation between two steps, the model is not put back into training mode: dropout stays off."""
    built.step = imported(PROGRAMS).accumulate
    evaluate_between(built, back=False)


@fault(
    "gpt2", "gpt2-residual-scale-missing",
    Where("state", names=("transformer.h.*.c_proj.weight",)),
    source="https://github.com/huggingface/transformers/issues/47458",
    before=lambda setting: edit_function(
        imported(GPT2).GPT2PreTrainedModel, "_init_weights",
        ("std = self.config.initializer_range / math.sqrt(2 * self.config.n_layer)",
         "std = self.config.initializer_range"),
    ),
)  # fmt: skip
def gpt2_residual_scale_missing(built: Built) -> None:
    """The projections onto the residual are initialised without their scale by the number of layers."""


@fault(
    "gemma2", "gemma2-norm-without-one",
    Where("missing", ("add", "mul"), ("model.layers.*norm", "model.norm")),
    Where("region", ("add", "mul"), ("model.layers.*norm", "model.norm"), calls=2),
    source="https://github.com/linkedin/Liger-Kernel/issues/74",
)  # fmt: skip
def gemma2_norm_without_one(built: Built) -> None:
    """The norms multiply by their weight instead of by one plus their weight."""
    edit_function(imported(GEMMA2).Gemma2RMSNorm, "forward", ("(1.0 + self.weight.float())", "self.weight.float()"))


@fault(
    "gemma2", "gemma2-exact-gelu",
    Where("argument", ("gelu",), ("model.layers.*.mlp", "model.layers.*.mlp.act_fn")),
    source="https://github.com/OpenNMT/CTranslate2/issues/1658",
    dtypes=("float32",),
)  # fmt: skip
def gemma2_exact_gelu(built: Built) -> None:
    """The perceptrons use the exact gelu instead of its approximation by tanh."""
    import torch

    for layer in built.model.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


@fault(
    "gemma2", "gemma2-no-final-cap",
    Where("missing", ("div", "truediv", "tanh", "mul"), ("",), calls=3),
    source="https://github.com/InternLM/lmdeploy/pull/2842",
)  # fmt: skip
def gemma2_no_final_cap(built: Built) -> None:
    """The soft cap of the logits is left out."""
    built.model.config.final_logit_softcapping = None


@fault(
    "mistral", "mistral-clip-after-step",
    Where("region", CLIP, ("",), phase="backward", calls=6),
    Where("missing", CLIP, ("",), phase="backward", calls=6),
    Where("missing", CLIP, ("",), phase="forward", calls=6),
    *updates(),
    source="https://github.com/awslabs/graphstorm/pull/1382",
)  # fmt: skip
def mistral_clip_after_step(built: Built) -> None:
    """The gradients are clipped after the optimizer has used them."""
    clip = 'torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options.get("clip", 1.0))'
    edit_step(
        built, "train",
        (f"    {clip}\n", ""),
        ("built.optimizer.step()\n", f"built.optimizer.step()\n    {clip}\n"),
    )  # fmt: skip


@fault(
    "mistral", "mistral-plain-momentum",
    *updates(),
    source="https://github.com/torch/optim/issues/27",
)  # fmt: skip
def mistral_plain_momentum(built: Built) -> None:
    """The momentum of the optimizer is not Nesterov's."""
    for group in built.optimizer.param_groups:
        group["nesterov"] = False


@fault(
    "mistral-generate", "mistral-generate-position-zero",
    Where("data", names=("*position_ids*",), step=1),
    Where("region", ("sum", "sub", "zeros_like", "zeros"), ("",), step=1, calls=2),
    source="https://github.com/Blaizzy/mlx-vlm/issues/1983",
)  # fmt: skip
def mistral_generate_position_zero(built: Built) -> None:
    """When decoding, each token gets position zero, because the positions ignore the length of the cache."""
    edit_step(
        built, "generate", ("positions = mask.sum(-1, keepdim=True) - 1", "positions = torch.zeros_like(ids)")
    )


@fault(
    "phi", "phi-whole-head-turned",
    Where("state", names=("*inv_freq",)),
    Where("argument", ("getitem", "cat"), ("model.layers.*.self_attn",)),
    Where("call", ("mul", "to", "float"), ("model.rotary_emb",)),
    source="https://github.com/huggingface/text-generation-inference/pull/1442",
)  # fmt: skip
def phi_whole_head_turned(built: Built) -> None:
    """The whole of each head is turned by its position, not only the part that the configuration says."""
    rotary = built.model.model.rotary_emb
    rotary.config.rope_parameters["partial_rotary_factor"] = 1.0
    rotary.inv_freq = rotary.compute_default_rope_parameters(rotary.config)[0].to(rotary.inv_freq)
    for layer in built.model.model.layers:
        layer.self_attn.rotary_ndims = layer.self_attn.head_dim


@fault(
    "phi", "phi-head-bias-unloaded",
    Where("state", names=("lm_head.bias",)),
    source="https://github.com/Lightning-AI/litgpt/issues/662",
)  # fmt: skip
def phi_head_bias_unloaded(built: Built) -> None:
    """The bias of the head was not among the keys that were loaded, and is still zero."""
    import torch

    torch.nn.init.zeros_(built.model.lm_head.bias)


@fault(
    "bloom", "bloom-slopes-of-six-heads",
    Where("region", ("full", "arange", "pow", "cat", "mul"), ("transformer",), calls=7),
    source="https://github.com/ml-explore/mlx/pull/3071",
)  # fmt: skip
def bloom_slopes_of_six_heads(built: Built) -> None:
    """The slopes of the linear biases are one geometric series, also where the heads are no power of two."""
    edit_function(
        imported(BLOOM), "_get_alibi_slopes",
        ("closest_power_of_2 = 2 ** math.floor(math.log2(num_heads))", "closest_power_of_2 = num_heads"),
    )  # fmt: skip


@fault(
    "bloom", "bloom-gelu-backward",
    Where("region", ("mul", "add", "sub", "tanh"), ("transformer.h.*.mlp*", ""), phase="backward", calls=3),
    Where("argument", ("mul", "add"), ("transformer.h.*.mlp*", ""), phase="backward"),
    Where("call", ("apply", "gelufunction", "GeLUFunction"), ("transformer.h.*.mlp*", ""), phase="backward"),
    source="https://github.com/neoml-lib/neoml/pull/787",
    dtypes=("float32",),
)  # fmt: skip
def bloom_gelu_backward(built: Built) -> None:
    """The written-out backward of gelu forgets the factor three of the cubic term."""
    edit_function(imported(BLOOM), "bloom_gelu_back", ("0.1070322243 * x * x", "0.0356774081 * x * x"))


@fault(
    "bloom", "bloom-bias-sign",
    Where("call", ("mul", "neg"), ("transformer",)),
    Where("region", ("mul", "neg"), ("transformer",), calls=2),
    Where("extra", ("neg",), ("transformer",)),
    source="https://github.com/meta-pytorch/attention-gym/pull/86",
)  # fmt: skip
def bloom_bias_sign(built: Built) -> None:
    """The linear biases grow with the distance instead of falling with it."""
    edit_function(
        imported(BLOOM), "build_alibi_tensor",
        ("slopes[..., None] * arange_tensor", "-slopes[..., None] * arange_tensor"),
    )  # fmt: skip


@fault(
    "falcon-alibi", "falcon-alibi-unscaled",
    Where("region", ("add", "mul"), ("transformer.h.*.self_attention",), calls=2),
    source="https://github.com/NVIDIA/TensorRT-Model-Connect/pull/32",
)  # fmt: skip
def falcon_alibi_unscaled(built: Built) -> None:
    """The linear biases are added after the scaling of the attention logits instead of before."""
    edit_function(
        imported(FALCON).FalconAttention, "forward",
        (
            "attention_logits = attention_scores + alibi.view(batch_size, self.num_heads, 1, -1)\n"
            "            attention_logits *= self.inv_norm_factor",
            "attention_logits = attention_scores * self.inv_norm_factor\n"
            "            attention_logits = attention_logits + alibi.view(batch_size, self.num_heads, 1, -1)",
        ),
    )  # fmt: skip


@fault(
    "falcon-generate", "falcon-generate-position-one-late",
    Where("data", names=("*position_ids*",), step=1),
    Where("missing", ("sub",), ("",), step=1),
    source="https://github.com/microsoft/onnxruntime-genai/pull/2354",
)  # fmt: skip
def falcon_generate_position_one_late(built: Built) -> None:
    """When decoding, each token gets the position after its own, because the count already includes it."""
    edit_step(
        built, "generate", ("positions = mask.sum(-1, keepdim=True) - 1", "positions = mask.sum(-1, keepdim=True)")
    )  # fmt: skip


@fault(
    "opt", "opt-position-offset",
    Where("argument", ("add",), ("model.decoder.embed_positions",)),
    source="https://github.com/EleutherAI/gpt-neox/pull/650",
)  # fmt: skip
def opt_position_offset(built: Built) -> None:
    """The learned positions are read with an offset of one; their table has one of two."""
    built.model.model.decoder.embed_positions.offset = 1


@fault(
    "opt", "opt-no-final-norm",
    Where("missing", ("layer_norm",), ("model.decoder", "model.decoder.final_layer_norm")),
    source="https://github.com/huggingface/transformers/pull/17785",
)  # fmt: skip
def opt_no_final_norm(built: Built) -> None:
    """The norm after the last layer is left out."""
    edit_function(
        imported(OPT).OPTDecoder, "forward",
        ("hidden_states = self.final_layer_norm(hidden_states)", "pass"),
    )  # fmt: skip


@fault(
    "opt", "opt-no-mask",
    Where("data", names=("*attention_mask*",)),
    Where("region", ("ones", "cumsum", "mul", "sub", "getitem", "and", "to", "le"), ("model.decoder",), calls=20),
    Where("extra", ("ones",), ("model.decoder",)),
    source="https://github.com/showlab/ShowUI/issues/78",
)  # fmt: skip
def opt_no_mask(built: Built) -> None:
    """The batches come without their attention mask, so that padding is attended to and shifts the positions."""
    for batch in built.batches:
        del batch["attention_mask"]


@fault(
    "cohere", "cohere-no-logit-scale",
    Where("argument", ("mul",), ("",)),
    Where("missing", ("mul",), ("",)),
    source="https://github.com/unslothai/unsloth/pull/11277",
)  # fmt: skip
def cohere_no_logit_scale(built: Built) -> None:
    """The logits are not scaled by the factor of the configuration."""
    built.model.logit_scale = 1.0


@fault(
    "cohere", "cohere-halves-rotated",
    Where("region", ("repeat_interleave", "cat"), ("model.rotary_emb",)),
    Where("region", ("getitem", "neg", "stack", "flatten", "cat"), ("model.layers.*.self_attn",), calls=5),
    source="https://github.com/huggingface/transformers/issues/31859",
)  # fmt: skip
def cohere_halves_rotated(built: Built) -> None:
    """Rotates the halves of each head as in Llama, where the weights are laid out for neighbouring pairs."""
    import torch

    edit_function(
        imported(COHERE).CohereRotaryEmbedding, "forward",
        ("torch.repeat_interleave(freqs, 2, dim=-1)", "torch.cat((freqs, freqs), dim=-1)"),
    )  # fmt: skip
    rotary = imported(COHERE).CohereRotaryEmbedding
    rotary.forward = torch.no_grad()(rotary.forward)  # the edited function came without its decorators
    imported(COHERE).rotate_half = imported(LLAMA).rotate_half


@fault(
    "cohere", "cohere-query-norm-over-heads",
    Where("argument", ("mean",), ("model.layers.*.self_attn.?_norm",)),
    source="https://github.com/vllm-project/vllm/pull/16311",
)  # fmt: skip
def cohere_query_norm_over_heads(built: Built) -> None:
    """The norms of queries and keys take their mean and variance over all heads together, not over each head."""
    for layer in built.model.model.layers:
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            edit_one(
                norm, "forward",
                ("mean = hidden_states.mean(-1, keepdim=True)", "mean = hidden_states.mean((-2, -1), keepdim=True)"),
                (".pow(2).mean(-1, keepdim=True)", ".pow(2).mean((-2, -1), keepdim=True)"),
            )  # fmt: skip


@fault(
    "pythia", "pythia-sees-the-future",
    Where("argument", ("scaled_dot_product_attention",), ("gpt_neox.layers.1.attention",)),
    source="https://github.com/huggingface/transformers/pull/48769",
)  # fmt: skip
def pythia_sees_the_future(built: Built) -> None:
    """The attention of the second layer is not causal: there is no mask, and the flag that stands for it is off."""
    built.model.gpt_neox.layers[1].attention.is_causal = False
