"""Policy gradients with groups of completions (GRPO) for a small Llama with its frozen reference."""

from __future__ import annotations

import copy
from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 96
PROMPT = 5
GROUP = 3
PAD = 0


@program("llama-grpo", library="transformers", steps=3)
def llama_grpo(setting: Setting) -> Built:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        initializer_range=0.1,
        use_cache=False,
        attn_implementation="eager",
    )
    policy = worn(LlamaForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3, weight_decay=0.01)
    drawn = torch.Generator().manual_seed(4)
    batches = [make_rollout(drawn) for _ in range(2)]
    options = {"clip": 0.2, "beta": 0.1, "temperature": 0.9}
    sample(policy, batches, options["temperature"])
    modules = torch.nn.ModuleDict({"policy": policy, "reference": reference})
    return Built(modules, step, batches, optimizer, options=options)


def make_rollout(drawn: Any) -> dict[str, Any]:
    """Two prompts with a group of completions each, of different lengths, and their rewards."""
    import torch

    prompts = torch.randint(3, VOCABULARY, (2, PROMPT), generator=drawn).repeat_interleave(GROUP, 0)
    completions = torch.randint(3, VOCABULARY, (2 * GROUP, 12), generator=drawn)
    lengths = torch.randint(3, 13, (2 * GROUP,), generator=drawn)
    mask = (torch.arange(12)[None, :] < lengths[:, None]).long()
    completions = torch.where(mask.bool(), completions, torch.full_like(completions, PAD))
    rewards = torch.rand(2 * GROUP, generator=drawn) + torch.tensor([0.0, 2.0]).repeat_interleave(GROUP)
    return {"input_ids": torch.cat([prompts, completions], 1), "mask": mask, "rewards": rewards}


def sample(policy: Any, rollouts: list[dict[str, Any]], temperature: float) -> None:
    """The completions come from the policy of some updates ago; its probabilities were written down."""
    import torch

    drawn = torch.Generator().manual_seed(17)
    older = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in older.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=drawn)
        for rollout in rollouts:
            rollout["old"] = token_logps(older, rollout, temperature)


def token_logps(model: Any, rollout: dict[str, Any], temperature: float) -> Any:
    import torch

    input_ids, mask = rollout["input_ids"], rollout["mask"]
    attention_mask = torch.cat([torch.ones_like(input_ids[:, :PROMPT]), mask], 1)
    logits = model(input_ids=input_ids, attention_mask=attention_mask).logits
    logits = upcast(logits[:, PROMPT - 1 : -1]) / temperature
    chosen = input_ids[:, PROMPT:].unsqueeze(-1)
    return logits.log_softmax(-1).gather(-1, chosen).squeeze(-1)


def make_advantages(rewards: Any) -> Any:
    grouped = rewards.view(-1, GROUP)
    mean = grouped.mean(dim=1).repeat_interleave(GROUP)
    deviation = grouped.std(dim=1).repeat_interleave(GROUP)
    return (rewards - mean) / (deviation + 1e-4)


def policy_loss(logps: Any, old: Any, reference: Any, advantages: Any, mask: Any, options: dict[str, Any]) -> Any:
    import torch

    ratio = torch.exp(logps - old)
    clipped = torch.clamp(ratio, 1 - options["clip"], 1 + options["clip"])
    gain = torch.min(ratio * advantages.unsqueeze(1), clipped * advantages.unsqueeze(1))
    apart = reference - logps
    divergence = torch.exp(apart) - apart - 1
    per_token = -(gain - options["beta"] * divergence)
    return ((per_token * mask).sum(dim=1) / mask.sum(dim=1)).mean()


def step(built: Built, index: int) -> dict[str, Any]:
    """Two updates on the first rollout, one on the second."""
    import torch

    policy, reference, options = built.model["policy"], built.model["reference"], built.options
    which = index // 2
    rollout = built.batches[which]
    logps = token_logps(policy, rollout, options["temperature"])
    with torch.no_grad():
        reference_logps = token_logps(reference, rollout, options["temperature"])
    advantages = make_advantages(rollout["rewards"])
    loss = policy_loss(logps, rollout["old"], reference_logps, advantages, rollout["mask"], options)
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    built.optimizer.step()
    return {"loss": loss, "logps": logps}
