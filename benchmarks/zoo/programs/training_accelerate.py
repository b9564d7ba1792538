"""Tagging of words with a small ELECTRA and accelerate: accumulation, class weights, frozen embeddings."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 100
TAGS = 5
PAD = 0


@program("electra-accelerate", library="transformers", steps=2)
def electra(setting: Setting) -> Built:
    import torch
    from accelerate import Accelerator
    from transformers import ElectraConfig, ElectraForTokenClassification

    config = ElectraConfig(
        vocab_size=VOCABULARY,
        embedding_size=32,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        num_labels=TAGS,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.1,
        initializer_range=0.08,
    )
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = worn(ElectraForTokenClassification(config)).to(getattr(torch, setting.dtype)).train()
    freeze(model)
    optimizer = make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=4)
    drawn = torch.Generator().manual_seed(2)
    loader = torch.utils.data.DataLoader(make_sentences(drawn), batch_size=3, shuffle=False, collate_fn=collate)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    options = {"accelerator": accelerator, "loader": loader, "class_weights": torch.tensor([0.3, 1.0, 1.5, 1.0, 2.0])}
    return Built(model, step, [], optimizer, scheduler, options)


def freeze(model: Any) -> None:
    for parameter in model.electra.embeddings.parameters():
        parameter.requires_grad_(False)


def make_optimizer(model: Any) -> Any:
    import torch

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=1e-3)


def make_sentences(drawn: Any) -> list[dict[str, Any]]:
    """Words of one to three pieces; each word has a tag."""
    import torch

    sentences = []
    for _ in range(12):
        pieces, words, tags = [], [], []
        for word in range(int(torch.randint(3, 8, (), generator=drawn))):
            tag = int(torch.randint(0, TAGS, (), generator=drawn))
            tags.append(tag)
            for _ in range(int(torch.randint(1, 4, (), generator=drawn))):
                pieces.append(5 + tag * 15 + int(torch.randint(0, 15, (), generator=drawn)))
                words.append(word)
        sentences.append({"pieces": pieces, "words": words, "tags": tags})
    return sentences


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    longest = max(len(row["pieces"]) for row in rows)
    input_ids = torch.full((len(rows), longest), PAD)
    attention_mask = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for index, row in enumerate(rows):
        input_ids[index, : len(row["pieces"])] = torch.tensor(row["pieces"])
        attention_mask[index, : len(row["pieces"])] = 1
        labels[index, : len(row["pieces"])] = torch.tensor(align(row["words"], row["tags"]))
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def align(words: list[int], tags: list[int]) -> list[int]:
    """Only the first piece of a word carries its tag."""
    labels, before = [], None
    for word in words:
        labels.append(tags[word] if word != before else -100)
        before = word
    return labels


def tagging_loss(logits: Any, labels: Any, class_weights: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), weight=class_weights.to(logits.dtype), ignore_index=-100
    )


def step(built: Built, index: int) -> dict[str, Any]:
    accelerator, model, optimizer = built.options["accelerator"], built.model, built.optimizer
    losses = []
    batches = list(built.options["loader"])[2 * index : 2 * index + 2]
    for batch in batches:
        with accelerator.accumulate(model):
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            loss = tagging_loss(upcast(logits), batch["labels"], built.options["class_weights"])
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            built.scheduler.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return {"loss": sum(losses) / len(losses), "logits": logits}


def plain_step(built: Built, index: int) -> dict[str, Any]:
    """The same without accelerate."""
    import torch

    model, optimizer, scheduler = built.model, built.optimizer.optimizer, built.scheduler.scheduler
    losses = []
    optimizer.zero_grad()
    for batch in list(built.options["loader"])[2 * index : 2 * index + 2]:
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = tagging_loss(upcast(logits), batch["labels"], built.options["class_weights"])
        (loss / 2).backward()
        losses.append(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    scheduler.step()
    return {"loss": sum(losses) / len(losses), "logits": logits}
