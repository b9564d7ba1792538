"""Faults of encoders with decoders, mixtures of experts and models with states."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import at, edit_function, modeling, of_type
from benchmarks.zoo.programs.encoders_states import NO_DECAY
from benchmarks.zoo.spec import Built, Setting, Where, fault


@fault(
    "t5",
    "t5-decoder-bidirectional-buckets",
    Where(
        "region",
        ("gt", "to", "mul", "abs", "add", "iadd", "min", "neg", "zeros_like", "lt", "log", "div", "truediv", "where"),
        ("decoder.block.0.layer.0.SelfAttention",),
        calls=12,
    ),
    Where("argument", (), ("decoder.block.0.layer.0.SelfAttention",)),
    source="https://github.com/huggingface/transformers/pull/8518",
)
def t5_decoder_bidirectional_buckets(built: Built) -> None:
    """The decoder sorts its relative positions into the buckets of the encoder, half of which are for the future."""
    edit_function(
        modeling("t5").T5Attention,
        "compute_bias",
        ("bidirectional=(not self.is_decoder)", "bidirectional=True"),
    )


@fault(
    "bart",
    "bart-position-offset",
    Where(
        "argument",
        ("add", "embedding"),
        ("model.encoder.embed_positions", "model.decoder.embed_positions", "model.encoder", "model.decoder"),
    ),
    source="https://github.com/huggingface/transformers/issues/19240",
)
def bart_position_offset(built: Built) -> None:
    """The learned positions are looked up without the offset of two."""
    for positions in of_type(built, "BartLearnedPositionalEmbedding"):
        positions.offset = 0


@fault(
    "bart",
    "bart-embedding-not-scaled",
    Where(
        "argument",
        ("mul",),
        ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "model.encoder", "model.decoder", "model.shared"),
    ),
    source="https://github.com/OpenNMT/CTranslate2/pull/1760",
)
def bart_embedding_not_scaled(built: Built) -> None:
    """The token embeddings are not multiplied by the root of the width."""
    for tokens in of_type(built, "BartScaledWordEmbedding"):
        tokens.embed_scale = 1.0


def interleave(setting: Setting) -> None:
    edit_function(
        modeling("marian").MarianSinusoidalPositionalEmbedding,
        "create_weight",
        ("out[:, 0:sentinel] =", "out[:, 0::2] ="),
        ("out[:, sentinel:] =", "out[:, 1::2] ="),
    )


@fault(
    "marian",
    "marian-interleaved-positions",
    Where("state", names=("model.*coder.embed_positions.weight",)),
    source="https://github.com/candle-org/MindAct/pull/375",
    before=interleave,
)
def marian_interleaved_positions(built: Built) -> None:
    """Sines and cosines of the positions alternate, where Marian has all sines before all cosines."""


@fault(
    "mixtral",
    "mixtral-balance-one-layer",
    Where("argument", (), ("",)),
    Where("missing", ("softmax", "topk", "histc", "scatter_add", "sum", "add", "mul", "zeros", "to"), ("",), calls=16),
    Where("region", ("getitem", "softmax", "topk", "scatter_add", "sum", "add", "mul", "zeros"), ("",), calls=16),
    source="https://github.com/huggingface/transformers/issues/31464",
)
def mixtral_balance_one_layer(built: Built) -> None:
    """The loss that balances the experts sees the router of the last layer only."""
    edit_function(
        modeling("mixtral").MixtralForCausalLM,
        "forward",
        ("_func(\n            outputs.router_logits,", "_func(\n            outputs.router_logits[-1:],"),
    )


@fault(
    "mixtral",
    "mixtral-expert-halves-swapped",
    Where("state", names=("model.layers.1.mlp.experts.gate_up_proj",)),
    source="https://github.com/TransformerLensOrg/TransformerLens/pull/1668",
)
def mixtral_expert_halves_swapped(built: Built) -> None:
    """The gate and the up projection of one expert were put together in the wrong order."""
    import torch

    with torch.no_grad():
        weight = at(built, "model.layers.1.mlp.experts").gate_up_proj
        weight[2] = torch.cat(weight[2].chunk(2)[::-1])


@fault(
    "mixtral",
    "mixtral-window-off-by-one",
    Where("argument", (), ("model",)),
    Where("region", (), ("model",), calls=3),
    source="https://github.com/huggingface/transformers/issues/29623",
)
def mixtral_window_off_by_one(built: Built) -> None:
    """The sliding window is one token wider than it should be."""
    built.model.config.sliding_window += 1


@fault(
    "qwen2moe",
    "qwen2moe-weights-normalised",
    Where("extra", ("sum", "div", "idiv", "itruediv", "truediv"), ("model.layers.*.mlp.gate",), calls=2),
    Where("region", ("sum", "div", "idiv", "itruediv", "truediv", "to"), ("model.layers.*.mlp.gate",), calls=3),
    source="https://github.com/QwenLM/Qwen3/issues/687",
)
def qwen2moe_weights_normalised(built: Built) -> None:
    """The weights of the chosen experts are normalised to one, which this model does not do."""
    for router in of_type(built, "Qwen2MoeTopKRouter"):
        router.norm_topk_prob = True


@fault(
    "qwen2moe",
    "qwen2moe-shared-gate-missing",
    Where("missing", ("sigmoid",), ("model.layers.*.mlp",)),
    Where("region", ("sigmoid", "mul"), ("model.layers.*.mlp",), calls=2),
    source="https://github.com/QwenLM/Qwen3/issues/687",
)
def qwen2moe_shared_gate_missing(built: Built) -> None:
    """The gate of the shared expert is used without its sigmoid."""
    edit_function(
        modeling("qwen2_moe").Qwen2MoeSparseMoeBlock,
        "forward",
        ("F.sigmoid(self.shared_expert_gate(", "(self.shared_expert_gate("),
    )


@fault(
    "qwen2moe",
    "qwen2moe-dampening",
    Where("update", names=("*",), step=1),
    source="https://proceedings.mlr.press/v28/sutskever13.html",
)
def qwen2moe_dampening(built: Built) -> None:
    """The momentum is dampened, as in frameworks that average the gradients instead of summing them."""
    import torch

    built.optimizer = torch.optim.SGD(
        built.model.parameters(), lr=0.05, momentum=0.9, dampening=0.9, weight_decay=1e-4
    )


@fault(
    "deepseek",
    "deepseek-bias-sign",
    Where("update", names=("*e_score_correction_bias",)),
    Where("argument", ("sub", "sign", "add"), ("",)),
    Where("region", ("sub", "sign", "add"), ("",), calls=3),
    source="https://arxiv.org/abs/2408.15664",
)
def deepseek_bias_sign(built: Built) -> None:
    """The biases of the routers move towards the experts that have too many tokens already."""
    from benchmarks.zoo.programs import encoders_experts

    edit_function(encoders_experts, "update_biases", ("counts.mean() - counts", "counts - counts.mean()"))


@fault(
    "deepseek",
    "deepseek-routed-scaling",
    Where("missing", ("mul",), ("model.layers.*.mlp.gate",)),
    source="https://github.com/NVIDIA/TensorRT-Model-Connect/pull/669",
)
def deepseek_routed_scaling(built: Built) -> None:
    """The weights of the experts are not multiplied by the scaling factor."""
    edit_function(
        modeling("deepseek_v3").DeepseekV3TopkRouter,
        "forward",
        ("topk_weights = topk_weights * self.routed_scaling_factor\n", "\n"),
    )


@fault(
    "deepseek",
    "deepseek-yarn-scale-missing",
    Where("argument", ("mul",), ("model.layers.*.self_attn",)),
    source="https://github.com/huggingface/transformers/pull/47435",
)
def deepseek_yarn_scale_missing(built: Built) -> None:
    """The scores are not scaled by the square of the factor that the stretched positions need."""
    for attention in of_type(built, "DeepseekV3Attention"):
        attention.scaling = attention.qk_head_dim**-0.5


@fault(
    "olmoe",
    "olmoe-clip-missing",
    Where("missing", ("clamp",), ("model.layers.*.self_attn",), calls=3),
    source="https://github.com/vllm-project/vllm/pull/35523",
)
def olmoe_clip_missing(built: Built) -> None:
    """Queries, keys and values are not clipped."""
    built.model.config.clip_qkv = None


@fault(
    "olmoe",
    "olmoe-rope-interleaved",
    Where("argument", ("getitem",), ("model.layers.*.self_attn",)),
    Where("region", ("getitem", "neg", "cat", "stack", "flatten"), ("model.layers.*.self_attn",), calls=4),
    source="https://github.com/huggingface/transformers/issues/25199",
)
def olmoe_rope_interleaved(built: Built) -> None:
    """Neighbours are rotated with each other, as in GPT-J, where the frequencies are laid out for two halves."""
    edit_function(
        modeling("olmoe"),
        "rotate_half",
        ("x1 = x[..., : x.shape[-1] // 2]", "x1 = x[..., 0::2]"),
        ("x2 = x[..., x.shape[-1] // 2 :]", "x2 = x[..., 1::2]"),
        ("torch.cat((-x2, x1), dim=-1)", "torch.stack((-x2, x1), dim=-1).flatten(-2)"),
    )


@fault(
    "olmoe",
    "olmoe-z-loss-missing",
    Where("missing", ("cat", "logsumexp", "pow", "mean", "mul", "add"), ("",), calls=6),
    source="https://github.com/KempnerInstitute/KempnerForge/issues/117",
)
def olmoe_z_loss_missing(built: Built) -> None:
    """The z-loss of the routers is not added to the loss."""
    built.options["z loss"] = 0


@fault(
    "mamba",
    "mamba-conv-shifted",
    Where("argument", ("getitem",), ("backbone.layers.*.mixer",)),
    source="https://github.com/state-spaces/mamba/issues/437",
)
def mamba_conv_shifted(built: Built) -> None:
    """Of the padded convolution the end is kept instead of the start, so that it looks into the future."""
    edit_function(modeling("mamba"), "causal_conv1d_fn", ("[:, :, :seq_len]", "[:, :, -seq_len:]"))


@fault(
    "mamba",
    "mamba-decay-on-states",
    Where("update", names=("*A_log", "*.D")),
    source="https://github.com/athms/mad-lab/issues/5",
    dtypes=("float32",),
)
def mamba_decay_on_states(built: Built) -> None:
    """Weight decay pulls at the decays and the skips of the states too."""
    import torch

    kept = [part for part in NO_DECAY if part not in ("A_log", ".D")]
    named = list(built.model.named_parameters())
    free = [value for name, value in named if any(part in name for part in kept)]
    decayed = [value for name, value in named if not any(part in name for part in kept)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": free, "weight_decay": 0.0}]
    built.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


@fault(
    "mamba",
    "mamba-dt-bias-reset",
    Where("state", names=("backbone.layers.*.mixer.dt_proj.bias",)),
    source="https://github.com/athms/mad-lab/issues/3",
)
def mamba_dt_bias_reset(built: Built) -> None:
    """A general initialisation of all linear layers sets the bias of the time steps to zero."""
    import torch

    with torch.no_grad():
        for layer in of_type(built, "Linear"):
            if layer.bias is not None:
                layer.bias.zero_()


@fault(
    "mamba2",
    "mamba2-chunk-axis",
    Where("argument", ("transpose", "permute", "einsum"), ("backbone.layers.*.mixer",)),
    Where("region", ("transpose", "permute", "einsum"), ("backbone.layers.*.mixer",), calls=2),
    source="https://github.com/huggingface/transformers/pull/47513",
)
def mamba2_chunk_axis(built: Built) -> None:
    """The states are passed from chunk to chunk along the wrong axis of the decays."""
    edit_function(
        modeling("mamba2"),
        "mamba2_chunk_scan",
        (
            "torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0)))).transpose(1, 3)",
            "torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0)))).permute(0, 2, 3, 1)",
        ),
    )


@fault(
    "mamba2",
    "mamba2-dt-limit",
    Where("argument", ("clamp",), ("backbone.layers.*.mixer",)),
    source="https://github.com/huggingface/transformers/pull/35154",
)
def mamba2_dt_limit(built: Built) -> None:
    """The time steps are clamped to the limits of the initialisation instead of those of the model."""
    edit_function(
        modeling("mamba2"),
        "mamba2_chunk_scan",
        ("torch.clamp(dt, min=dt_limit[0], max=dt_limit[1])", "torch.clamp(dt, min=0.001)"),
    )


@fault(
    "mamba2",
    "mamba2-groups-tiled",
    Where("call", ("repeat_interleave", "repeat"), ("backbone.layers.*.mixer",)),
    Where("region", ("repeat_interleave", "repeat"), ("backbone.layers.*.mixer",), calls=2),
    source="https://github.com/huggingface/transformers/pull/37533",
)
def mamba2_groups_tiled(built: Built) -> None:
    """The groups of B and C are tiled over the heads instead of each being repeated for its own heads."""
    edit_function(
        modeling("mamba2"),
        "mamba2_chunk_scan",
        (
            ".float().repeat_interleave(num_heads // num_groups, dim=2, output_size=num_heads)",
            ".float().repeat(1, 1, num_heads // num_groups, 1)",
        ),
        count=2,
    )


@fault(
    "mamba2",
    "mamba2-norm-ungrouped",
    Where("argument", ("view", "mean", "pow"), ("backbone.layers.*.mixer.norm",)),
    source="https://github.com/huggingface/transformers/pull/35943",
)
def mamba2_norm_ungrouped(built: Built) -> None:
    """The gated norm runs over the whole width instead of over each group."""
    for norm in of_type(built, "MambaRMSNormGated"):
        norm.group_size = norm.weight.numel()


@fault(
    "falconmamba",
    "falconmamba-conv-state-not-shifted",
    Where("argument", ("getitem", "copy"), ("backbone.layers.*.mixer",)),
    source="https://github.com/tinygrad/tinygrad/pull/2637",
)
def falconmamba_conv_state_not_shifted(built: Built) -> None:
    """When single tokens are decoded, the state of the convolution keeps its start and never takes the new token."""
    edit_function(
        modeling("falcon_mamba"),
        "causal_conv1d_update",
        ("copy_(hidden_states_new[:, :, -state_len:])", "copy_(hidden_states_new[:, :, :state_len])"),
    )


@fault(
    "falconmamba",
    "falconmamba-norms-missing",
    Where(
        "missing",
        ("float", "pow", "mean", "add", "rsqrt", "mul", "type_as", "to"),
        (
            "backbone.layers.*.mixer",
            "backbone.layers.*.mixer.dt_layernorm",
            "backbone.layers.*.mixer.b_layernorm",
            "backbone.layers.*.mixer.c_layernorm",
        ),
        calls=21,
    ),
    source="https://github.com/huggingface/transformers/pull/33195",
)
def falconmamba_norms_missing(built: Built) -> None:
    """The scan of plain Mamba is used, without the norms of the time steps, B and C."""
    edit_function(
        modeling("falcon_mamba").FalconMambaMixer,
        "forward",
        ("    time_step = self.dt_layernorm(time_step)\n", ""),
        ("    B = self.b_layernorm(B)\n", ""),
        ("    C = self.c_layernorm(C)\n", ""),
    )


def use_squared_relu(factor: float) -> Any:
    """Replaces the square of the relu in RWKV by one function with a backward pass of its own."""
    import torch

    class SquaredRelu(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any) -> Any:
            positive = torch.relu(value)
            context.save_for_backward(positive)
            return torch.square(positive)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            (positive,) = context.saved_tensors
            return factor * positive * gradient

    space = modeling("rwkv")
    space.SquaredRelu = SquaredRelu
    edit_function(
        space.RwkvFeedForward,
        "forward",
        ("torch.square(torch.relu(self.key(key)))", "SquaredRelu.apply(self.key(key))"),
    )


@fault(
    "rwkv",
    "rwkv-square-gradient",
    Where("call", (), ("rwkv.blocks.*.feed_forward*",), phase="backward"),
    Where("region", (), ("rwkv.blocks.*.feed_forward*",), phase="backward", calls=2),
    source="https://github.com/lucidrains/triton-transformer/issues/9",
)
def rwkv_square_gradient(built: Built) -> None:
    """The function for the squared relu with its own backward pass forgets the factor of two."""
    use_squared_relu(1.0)
