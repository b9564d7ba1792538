"""Instruction tuning of a small GPT-2: padded batches, accumulation over micro-batches, warm-up, clipping."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 120
PAD = 0
EOS = 1


@program("gpt2-accumulate", library="transformers", steps=3)
def gpt2(setting: Setting) -> Built:
    model = make_model(setting)
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    drawn = random.Random(7)
    batches = [[collate(examples(drawn, 3)) for _ in range(2)] for _ in range(3)]
    options = {"max_norm": 0.5, "held_out": collate(examples(drawn, 3))}
    return Built(model, step, batches, optimizer, scheduler, options)


def make_model(setting: Setting) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=40,
        n_embd=48,
        n_layer=3,
        n_head=4,
        attn_pdrop=0.0,
        bos_token_id=EOS,
        eos_token_id=EOS,
        attn_implementation="eager",
        use_cache=False,
    )
    return worn(GPT2LMHeadModel(config)).to(setting.device, getattr(torch, setting.dtype)).train()


def make_optimizer(model: Any) -> Any:
    import torch

    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95))


def make_scheduler(optimizer: Any) -> Any:
    import torch

    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: min(1.0, (count + 1) / 4))


def examples(drawn: random.Random, count: int) -> list[dict[str, list[int]]]:
    """Prompts and completions; the completion repeats the prompt with an offset, and ends."""
    found = []
    for _ in range(count):
        prompt = [drawn.randrange(4, VOCABULARY - 8) for _ in range(drawn.randrange(3, 9))]
        completion = [token + 3 for token in prompt[: drawn.randrange(2, 9)]] + [EOS]
        found.append({"prompt": prompt, "completion": completion})
    return found


def collate(rows: list[dict[str, list[int]]]) -> dict[str, Any]:
    import torch

    longest = max(len(row["prompt"]) + len(row["completion"]) for row in rows)
    input_ids = torch.full((len(rows), longest), PAD)
    attention_mask = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for index, row in enumerate(rows):
        tokens = torch.tensor(row["prompt"] + row["completion"])
        input_ids[index, : len(tokens)] = tokens
        attention_mask[index, : len(tokens)] = 1
        labels[index, len(row["prompt"]) : len(tokens)] = torch.tensor(row["completion"])
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def token_loss(logits: Any, labels: Any, items: Any) -> Any:
    import torch

    shifted = upcast(logits[:, :-1])
    targets = labels[:, 1:]
    loss = torch.nn.functional.cross_entropy(
        shifted.reshape(-1, shifted.shape[-1]), targets.reshape(-1), ignore_index=-100, reduction="sum"
    )
    return loss / items


def evaluate(built: Built) -> Any:
    import torch

    batch = built.options["held_out"]
    built.model.eval()
    with torch.no_grad():
        logits = built.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = token_loss(logits, batch["labels"], (batch["labels"][:, 1:] != -100).sum())
    built.model.train()
    return loss


def update(built: Built) -> Any:
    import torch

    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    built.scheduler.step()
    return norm


def step(built: Built, index: int) -> dict[str, Any]:
    batches = built.batches[index]
    items = sum((batch["labels"][:, 1:] != -100).sum() for batch in batches)
    built.optimizer.zero_grad()
    losses = []
    for batch in batches:
        logits = built.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = token_loss(logits, batch["labels"], items)
        loss.backward()
        losses.append(loss.detach())
    update(built)
    return {"loss": sum(losses), "logits": logits, "evaluation": evaluate(built)}
