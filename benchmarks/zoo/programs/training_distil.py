"""Distillation of a BERT of four layers into a DistilBERT of two."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 100
PAD = 0


@program("distilbert-distil", library="transformers", steps=2)
def distilbert(setting: Setting) -> Built:
    import torch
    from transformers import BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

    dtype = getattr(torch, setting.dtype)
    teacher_config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        initializer_range=0.1,
    )
    student_config = DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=48,
        n_layers=2,
        n_heads=4,
        hidden_dim=96,
        max_position_embeddings=40,
        dropout=0.1,
        attention_dropout=0.0,
    )
    teacher = worn(BertForMaskedLM(teacher_config)).to(setting.device, dtype)
    student = DistilBertForMaskedLM(student_config).to(setting.device, dtype)
    initialise(student, teacher)
    teacher.eval().requires_grad_(False)
    student.train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-6)
    scheduler = make_scheduler(optimizer)
    drawn = torch.Generator().manual_seed(8)
    batches = [make_batch(drawn) for _ in range(2)]
    modules = torch.nn.ModuleDict({"student": student, "teacher": teacher})
    options = {"temperature": 2.0, "soft": 5.0, "hard": 2.0, "cosine": 1.0}
    return Built(modules, step, batches, optimizer, scheduler, options)


def make_scheduler(optimizer: Any) -> Any:
    from transformers import get_linear_schedule_with_warmup

    return get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=6)


def initialise(student: Any, teacher: Any) -> None:
    """The student takes the embeddings, every second layer and the head of its teacher."""
    taken = {}
    state = teacher.state_dict()
    for name in ("word_embeddings.weight", "position_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias"):
        taken[f"distilbert.embeddings.{name}"] = state[f"bert.embeddings.{name}"]
    names = {
        "attention.q_lin": "attention.self.query",
        "attention.k_lin": "attention.self.key",
        "attention.v_lin": "attention.self.value",
        "attention.out_lin": "attention.output.dense",
        "sa_layer_norm": "attention.output.LayerNorm",
        "ffn.lin1": "intermediate.dense",
        "ffn.lin2": "output.dense",
        "output_layer_norm": "output.LayerNorm",
    }
    for index, source in enumerate((0, 2)):
        for ours, theirs in names.items():
            for kind in ("weight", "bias"):
                ours_name = f"distilbert.transformer.layer.{index}.{ours}.{kind}"
                taken[ours_name] = state[f"bert.encoder.layer.{source}.{theirs}.{kind}"]
    for kind in ("weight", "bias"):
        taken[f"vocab_transform.{kind}"] = state[f"cls.predictions.transform.dense.{kind}"]
        taken[f"vocab_layer_norm.{kind}"] = state[f"cls.predictions.transform.LayerNorm.{kind}"]
    taken["vocab_projector.bias"] = state["cls.predictions.bias"]
    student.load_state_dict(taken, strict=False)


def make_batch(drawn: Any) -> dict[str, Any]:
    import torch

    lengths = torch.randint(8, 19, (3,), generator=drawn)
    mask = (torch.arange(18)[None, :] < lengths[:, None]).long()
    input_ids = torch.randint(4, VOCABULARY, (3, 18), generator=drawn) * mask
    chosen = (torch.rand(3, 18, generator=drawn) < 0.3) & mask.bool()
    labels = torch.where(chosen, input_ids, torch.full_like(input_ids, -100))
    return {"input_ids": input_ids.masked_fill(chosen, 3), "attention_mask": mask, "labels": labels}


def soft_loss(student: Any, teacher: Any, mask: Any, temperature: float) -> Any:
    """The divergence of both distributions at the tokens that are no padding."""
    import torch

    student, teacher = student[mask], teacher[mask]
    divergence = torch.nn.functional.kl_div(
        torch.nn.functional.log_softmax(student / temperature, dim=-1),
        torch.nn.functional.softmax(teacher / temperature, dim=-1),
        reduction="batchmean",
    )
    return divergence * temperature**2


def cosine_loss(student: Any, teacher: Any, mask: Any) -> Any:
    import torch

    student, teacher = student[mask], teacher[mask]
    return torch.nn.functional.cosine_embedding_loss(student, teacher, torch.ones(len(student)), reduction="mean")


def step(built: Built, index: int) -> dict[str, Any]:
    import torch

    student, teacher, options = built.model["student"], built.model["teacher"], built.options
    batch = built.batches[index]
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    mask = batch["attention_mask"].bool()
    ours = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        theirs = teacher(**inputs, output_hidden_states=True)
    logits = upcast(ours.logits)
    soft = soft_loss(logits, upcast(theirs.logits), mask, options["temperature"])
    hard = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
    cosine = cosine_loss(ours.hidden_states[-1], theirs.hidden_states[-1], mask)
    loss = options["soft"] * soft + options["hard"] * hard + options["cosine"] * cosine
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "soft": soft, "hard": hard, "cosine": cosine, "logits": logits}
