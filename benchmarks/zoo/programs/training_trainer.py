"""Masked language modelling with RoBERTa and the parts of the Hugging Face Trainer."""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.zoo.programs.training_parts import worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 110
PAD, MASK, SPECIAL = 1, 3, 4


@program("roberta-trainer", library="transformers", steps=3)
def roberta(setting: Setting) -> Built:
    import torch
    from transformers import RobertaConfig, RobertaForMaskedLM, Trainer

    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
    )
    model = worn(RobertaForMaskedLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    trainer = Trainer(model=model, args=make_arguments(), train_dataset=make_rows(), data_collator=collate)
    trainer.create_optimizer_and_scheduler(num_training_steps=6)
    trainer.current_gradient_accumulation_steps = 2
    loader = iter(trainer.get_train_dataloader())
    return Built(
        model, step, [], trainer.optimizer, trainer.lr_scheduler, options={"trainer": trainer, "loader": loader}
    )


def make_arguments() -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=tempfile.gettempdir(),
        per_device_train_batch_size=3,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        weight_decay=0.1,
        adam_beta2=0.98,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        warmup_steps=0,
        lr_scheduler_type="linear",
        label_smoothing_factor=0.1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        seed=11,
        remove_unused_columns=False,
    )


def make_rows() -> list[dict[str, Any]]:
    """Sentences of several lengths, in which words come in runs."""
    import torch

    drawn = torch.Generator().manual_seed(5)
    rows = []
    for index in range(24):
        length = int(torch.randint(6, 22, (), generator=drawn))
        first = int(torch.randint(SPECIAL, VOCABULARY - 30, (), generator=drawn))
        noise = torch.randint(0, 6, (length,), generator=drawn)
        rows.append({"input_ids": (first + torch.arange(length) + noise).tolist(), "row": index})
    return rows


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    longest = max(len(row["input_ids"]) for row in rows)
    longest = (longest + 7) // 8 * 8
    input_ids = torch.full((len(rows), longest), PAD)
    for index, row in enumerate(rows):
        input_ids[index, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
    attention_mask = (input_ids != PAD).long()
    drawn = torch.Generator().manual_seed(sum(row["row"] for row in rows))
    masked, labels = mask_tokens(input_ids, drawn)
    return {"input_ids": masked, "attention_mask": attention_mask, "labels": labels}


def mask_tokens(input_ids: Any, drawn: Any) -> tuple[Any, Any]:
    import torch

    labels = input_ids.clone()
    chances = torch.full(labels.shape, 0.25)
    chances.masked_fill_(input_ids == PAD, 0.0)
    chosen = torch.bernoulli(chances, generator=drawn).bool()
    labels[~chosen] = -100
    input_ids = input_ids.clone()
    replaced = torch.bernoulli(torch.full(labels.shape, 0.8), generator=drawn).bool() & chosen
    input_ids[replaced] = MASK
    random = torch.bernoulli(torch.full(labels.shape, 0.5), generator=drawn).bool() & chosen & ~replaced
    words = torch.randint(SPECIAL, VOCABULARY, labels.shape, generator=drawn)
    input_ids[random] = words[random]
    return input_ids, labels


def step(built: Built, index: int) -> dict[str, Any]:
    trainer = built.options["trainer"]
    batches, items = trainer.get_batch_samples(built.options["loader"], 2, trainer.args.device)
    losses = [trainer.training_step(built.model, batch, items) for batch in batches]
    norm = trainer.accelerator.clip_grad_norm_(built.model.parameters(), trainer.args.max_grad_norm)
    built.optimizer.step()
    built.scheduler.step()
    built.model.zero_grad()
    return {"loss": sum(losses), "norm": norm}
