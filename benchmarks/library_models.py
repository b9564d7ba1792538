"""Training steps of models that other people's libraries bring, with random weights, for a GPU.

Each is what its users run: bfloat16, a fused AdamW, one batch of a size that fits a training of its width. ``build``
gives the step as a function without arguments; a library that is not there is a ``Missing`` with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[], Any]
VOCABULARY = 32000
BATCH, TOKENS = 4, 1024


class Missing(Exception):
    """A library that is not installed here."""


def _seeded(shape: tuple[int, ...], above: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    if above is not None:
        return torch.randint(0, above, shape, generator=generator).cuda()
    return torch.randn(shape, generator=generator).cuda().bfloat16()


def _training(model: Any, loss: Callable[[Any], Any]) -> Step:
    model = model.cuda().bfloat16().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        value = loss(model)
        value.backward()
        optimizer.step()
        return value.detach()

    step.model = model  # type: ignore[attr-defined]
    return step


def _llama(width: int, layers: int) -> Step:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=width * 11 // 4, num_hidden_layers=layers,
        num_attention_heads=width // 64, num_key_value_heads=width // 128, max_position_embeddings=2 * TOKENS,
        use_cache=False,
    )  # fmt: skip
    tokens = _seeded((BATCH, TOKENS), VOCABULARY)
    return _training(LlamaForCausalLM(config), lambda model: model(input_ids=tokens, labels=tokens).loss)


def llama_1024() -> Step:
    """16 layers: bound by the host."""
    return _llama(1024, 16)


def llama_2048() -> Step:
    return _llama(2048, 12)


def llama_4096() -> Step:
    """8 layers: bound by the GPU."""
    return _llama(4096, 8)


def mixtral() -> Step:
    """Eight experts, two of them for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=8, num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=2 * TOKENS,
        use_cache=False,
    )  # fmt: skip
    tokens = _seeded((BATCH, TOKENS), VOCABULARY)
    return _training(MixtralForCausalLM(config), lambda model: model(input_ids=tokens, labels=tokens).loss)


def vit() -> Step:
    """ViT-B/16."""
    from transformers import ViTConfig, ViTForImageClassification

    images, labels = _seeded((32, 3, 224, 224)), _seeded((32,), 1000)
    return _training(
        ViTForImageClassification(ViTConfig(num_labels=1000)),
        lambda model: model(pixel_values=images, labels=labels).loss,
    )


def diffusion() -> Step:
    """A diffusion transformer: DiT-B/2 of diffusers, on latents of 32 x 32."""
    try:
        from diffusers import DiTTransformer2DModel
    except ImportError as error:
        raise Missing("diffusers") from error
    model = DiTTransformer2DModel(num_attention_heads=12, attention_head_dim=64, num_layers=12, sample_size=32)
    latents, times, classes = _seeded((16, 4, 32, 32)), _seeded((16,), 1000), _seeded((16,), 1000)

    def loss(model: Any) -> Any:
        given = model(latents, timestep=times, class_labels=classes).sample
        return torch.nn.functional.mse_loss(given[:, :4].float(), latents.float())

    return _training(model, loss)


def gpt2_trainer() -> Step:
    """GPT-2 (124 million) through the library's own Trainer: its training step and its optimizer."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    tokens = _seeded((BATCH, TOKENS), 50257)
    arguments = TrainingArguments(
        output_dir="/tmp/trueline-trainer", bf16=True, optim="adamw_torch_fused", report_to=[], max_steps=100000
    )
    trainer = Trainer(model=GPT2LMHeadModel(GPT2Config()).cuda(), args=arguments)
    trainer.create_optimizer_and_scheduler(num_training_steps=100000)
    trainer.model.train()

    def step() -> Any:
        loss = trainer.training_step(trainer.model, {"input_ids": tokens, "labels": tokens})
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        trainer.model.zero_grad()
        return loss

    step.model = trainer.model  # type: ignore[attr-defined]
    return step


MODELS: dict[str, Callable[[], Step]] = {
    "llama_1024": llama_1024,
    "llama_2048": llama_2048,
    "llama_4096": llama_4096,
    "mixtral": mixtral,
    "vit": vit,
    "diffusion": diffusion,
    "gpt2_trainer": gpt2_trainer,
}


def build(name: str) -> Step:
    """The step of that name; the error lists the names there are."""
    if name not in MODELS:
        raise ValueError(f"no model named {name!r}; there are {', '.join(sorted(MODELS))}")
    torch.manual_seed(0)
    return MODELS[name]()
