"""Direct preference optimisation of a small Qwen2 against its frozen copy."""

from __future__ import annotations

import copy
from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 128
PAD = 0


@program("qwen2-dpo", library="transformers", steps=3)
def qwen2(setting: Setting) -> Built:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attention_dropout=0.1,
        tie_word_embeddings=False,
        initializer_range=0.08,
        use_cache=False,
        attn_implementation="eager",
    )
    policy = worn(Qwen2ForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype))
    reference = make_reference(policy)
    policy.train()
    disable_dropout(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, weight_decay=0.0)
    drawn = torch.Generator().manual_seed(21)
    batches = [make_batch(drawn) for _ in range(3)]
    modules = torch.nn.ModuleDict({"policy": policy, "reference": reference})
    return Built(modules, step, batches, optimizer, options={"beta": 0.3})


def make_reference(policy: Any) -> Any:
    reference = copy.deepcopy(policy).eval()
    reference.requires_grad_(False)
    return reference


def disable_dropout(model: Any) -> None:
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0


def make_batch(drawn: Any) -> dict[str, Any]:
    """Two prompts, each with a chosen and a rejected answer of another length, padded on the right."""
    import torch

    rows = {"chosen": [], "rejected": []}
    for _ in range(2):
        prompt = torch.randint(5, VOCABULARY, (int(torch.randint(3, 7, (), generator=drawn)),), generator=drawn)
        for side in ("chosen", "rejected"):
            answer = torch.randint(5, VOCABULARY, (int(torch.randint(4, 12, (), generator=drawn)),), generator=drawn)
            rows[side].append((prompt, answer))
    every = rows["chosen"] + rows["rejected"]
    longest = max(len(prompt) + len(answer) for prompt, answer in every)
    input_ids = torch.full((len(every), longest), PAD)
    labels = torch.full((len(every), longest), -100)
    for index, (prompt, answer) in enumerate(every):
        end = len(prompt) + len(answer)
        input_ids[index, :end] = torch.cat([prompt, answer])
        labels[index, len(prompt) : end] = answer
    return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long(), "labels": labels}


def answer_logps(model: Any, batch: dict[str, Any]) -> Any:
    """The logarithm of the probability of each answer."""
    import torch

    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    logits = upcast(logits[:, :-1])
    labels = batch["labels"][:, 1:].clone()
    mask = labels != -100
    labels[~mask] = 0
    logps = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (logps * mask).sum(-1)


def preference_loss(policy: Any, reference: Any, beta: float) -> tuple[Any, Any]:
    import torch

    policy_chosen, policy_rejected = policy.chunk(2)
    reference_chosen, reference_rejected = reference.chunk(2)
    ratios = policy_chosen - policy_rejected
    reference_ratios = reference_chosen - reference_rejected
    margin = ratios - reference_ratios
    loss = -torch.nn.functional.logsigmoid(beta * margin)
    return loss.mean(), margin.detach()


def step(built: Built, index: int) -> dict[str, Any]:
    import torch

    policy, reference = built.model["policy"], built.model["reference"]
    batch = built.batches[index]
    with torch.no_grad():
        reference_logps = answer_logps(reference, batch)
    policy_logps = answer_logps(policy, batch)
    loss, margin = preference_loss(policy_logps, reference_logps, built.options["beta"])
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "margin": margin, "logps": policy_logps}
