"""A small T5 for summaries, trained with Adafactor; the run is interrupted after the second step and resumed."""

from __future__ import annotations

import io
from typing import Any

from benchmarks.zoo.programs.training_parts import worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 100
PAD = 0


@program("t5-resume", library="transformers", steps=4)
def t5(setting: Setting) -> Built:
    import torch

    model = worn(make_model()).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    drawn = torch.Generator().manual_seed(31)
    batches = [make_batch(drawn) for _ in range(4)]
    return Built(model, step, batches, optimizer, scheduler)


def make_model() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        dropout_rate=0.1,
        decoder_start_token_id=PAD,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config)


def make_optimizer(model: Any) -> Any:
    from transformers.optimization import Adafactor

    return Adafactor(model.parameters(), lr=2e-2, beta1=0.9, scale_parameter=False, relative_step=False)


def make_scheduler(optimizer: Any) -> Any:
    from transformers import get_cosine_schedule_with_warmup

    return get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=8)


def make_batch(drawn: Any) -> dict[str, Any]:
    import torch

    lengths = torch.randint(7, 15, (3,), generator=drawn)
    mask = (torch.arange(14)[None, :] < lengths[:, None]).long()
    input_ids = torch.randint(3, VOCABULARY, (3, 14), generator=drawn) * mask
    labels = input_ids[:, ::2].clone()
    labels[labels == PAD] = -100
    return {"input_ids": input_ids, "attention_mask": mask, "labels": labels}


def save(built: Built) -> bytes:
    import torch

    held = io.BytesIO()
    torch.save(
        {
            "model": built.model.state_dict(),
            "optimizer": built.optimizer.state_dict(),
            "scheduler": built.scheduler.state_dict(),
            "random": torch.get_rng_state(),
        },
        held,
    )
    return held.getvalue()


def load(built: Built, held: bytes) -> None:
    """Everything is made anew, as in another process, and filled from the checkpoint."""
    import torch

    checkpoint = torch.load(io.BytesIO(held), weights_only=False)
    with torch.no_grad():
        for parameter in built.model.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
    built.model.load_state_dict(checkpoint["model"])
    built.optimizer = make_optimizer(built.model)
    built.scheduler = make_scheduler(built.optimizer)
    built.optimizer.load_state_dict(checkpoint["optimizer"])
    built.scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["random"])


def step(built: Built, index: int) -> dict[str, Any]:
    if index == 2:
        load(built, save(built))
    batch = built.batches[index]
    result = built.model(**batch)
    built.optimizer.zero_grad()
    result.loss.backward()
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": result.loss, "logits": result.logits}
