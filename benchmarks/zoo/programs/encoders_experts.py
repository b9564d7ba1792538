"""Mixtures of experts: Mixtral, Qwen2-MoE, OLMoE and DeepSeek-V3."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.encoders_bert import VOCABULARY, lively, padded_batch, train_step
from benchmarks.zoo.spec import Built, Setting, program


def text_batch(setting: Setting, lengths: tuple[int, ...], width: int) -> dict[str, Any]:
    """Texts of several lengths, padded on the right; the padding is not to be predicted."""
    import torch

    batch = padded_batch(setting, lengths, width)
    labels = torch.where(batch["attention_mask"].bool(), batch["input_ids"], -100)
    return {**batch, "labels": labels}


@program("mixtral", library="transformers")
def mixtral(setting: Setting) -> Built:
    """A Mixtral with grouped heads, a window and the loss that balances its experts."""
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=64,
        sliding_window=9,
        output_router_logits=True,
        router_aux_loss_coef=0.05,
        initializer_range=0.1,
        pad_token_id=0,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    model = lively(MixtralForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    batches = [text_batch(setting, lengths, 20) for lengths in ((20, 13, 12), (15, 20, 14))]
    return Built(model, balanced_step, batches, optimizer)


def balanced_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    built.optimizer.zero_grad()
    result = built.model(**built.batches[index])
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": result.loss, "balance": result.aux_loss, "logits": result.logits}


@program("qwen2moe", library="transformers", steps=3)
def qwen2moe(setting: Setting) -> Built:
    """A Qwen2-MoE with its shared expert, trained by SGD with momentum."""
    import torch
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    config = Qwen2MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=96,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=6,
        num_experts_per_tok=2,
        norm_topk_prob=False,
        max_position_embeddings=64,
        initializer_range=0.1,
        mlp_only_layers=[0],
        attn_implementation="sdpa",
        experts_implementation="eager",
    )
    model = lively(Qwen2MoeForCausalLM(config))
    model = model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    batches = [text_batch(setting, lengths, 16) for lengths in ((16, 10), (12, 16), (9, 16))]
    return Built(model, train_step, batches, optimizer)


@program("olmoe", library="transformers")
def olmoe(setting: Setting) -> Built:
    """An OLMoE with norms of queries and keys, clipped projections and a z-loss of its router, as in its paper."""
    import torch
    from transformers import OlmoeConfig, OlmoeForCausalLM

    config = OlmoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_experts=6,
        num_experts_per_tok=3,
        max_position_embeddings=64,
        clip_qkv=1.5,
        norm_topk_prob=False,
        initializer_range=0.1,
        pad_token_id=0,
        eos_token_id=2,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    model = lively(OlmoeForCausalLM(config))
    model = model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1)
    batches = [text_batch(setting, lengths, 18) for lengths in ((18, 12), (9, 18))]
    return Built(model, olmoe_step, batches, optimizer, options={"z loss": 1e-2})


def olmoe_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    built.optimizer.zero_grad()
    result = built.model(**built.batches[index], output_router_logits=True)
    loss = result.loss
    if built.options["z loss"]:
        logits = torch.cat(result.router_logits)
        loss = loss + built.options["z loss"] * torch.logsumexp(logits, dim=-1).pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "balance": result.aux_loss, "logits": result.logits}


@program("deepseek", library="transformers")
def deepseek(setting: Setting) -> Built:
    """A DeepSeek-V3 with compressed keys and values, stretched positions and routing that a bias keeps balanced."""
    import torch
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    config = DeepseekV3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        moe_intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_shared_experts=1,
        n_routed_experts=8,
        routed_scaling_factor=2.5,
        kv_lora_rank=24,
        q_lora_rank=32,
        qk_rope_head_dim=8,
        v_head_dim=16,
        qk_nope_head_dim=16,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=3,
        first_k_dense_replace=1,
        norm_topk_prob=True,
        max_position_embeddings=128,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        initializer_range=0.15,
        pad_token_id=0,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    model = lively(DeepseekV3ForCausalLM(config))
    for name, value in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            value.uniform_(-0.1, 0.1)
    model = model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.95), weight_decay=0.1)
    batches = [text_batch(setting, lengths, 18) for lengths in ((18, 11), (14, 18))]
    return Built(model, biased_step, batches, optimizer, options={"bias rate": 1e-2})


def biased_step(built: Built, index: int) -> dict[str, Any]:
    """After the optimizer, the bias of each expert falls where it had more than its share of the tokens."""
    import torch

    built.optimizer.zero_grad()
    result = built.model(**built.batches[index], output_router_logits=True)
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    update_biases(built, result.router_logits)
    return {"loss": result.loss, "logits": result.logits}


def update_biases(built: Built, router_logits: Any) -> None:
    import torch

    routers = [module for module in built.model.modules() if type(module).__name__ == "DeepseekV3TopkRouter"]
    with torch.no_grad():
        for router, logits in zip(routers, router_logits, strict=True):
            bias = router.e_score_correction_bias
            chosen = (logits.sigmoid() + bias).topk(router.top_k, dim=-1)[1]
            counts = torch.bincount(chosen.flatten(), minlength=bias.numel()).to(bias.dtype)
            bias.add_(torch.sign(counts.mean() - counts), alpha=built.options["bias rate"])
