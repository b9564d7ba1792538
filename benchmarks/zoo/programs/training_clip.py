"""Contrastive training of a small CLIP with a loss and an optimizer written by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 80


@program("clip-contrastive", library="transformers", steps=3)
def clip(setting: Setting) -> Built:
    import torch
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 16,
            "eos_token_id": 2,
            "bos_token_id": 1,
            "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 24,
            "patch_size": 8,
        },
        projection_dim=24,
        attn_implementation="eager",
    )
    dtype = getattr(torch, setting.dtype)
    model = worn(CLIPModel(config)).to(setting.device, dtype).train()
    optimizer = make_optimizer(model)
    drawn = torch.Generator().manual_seed(13)
    batches = [make_batch(drawn, dtype) for _ in range(3)]
    return Built(model, step, batches, optimizer)


def make_batch(drawn: Any, dtype: Any) -> dict[str, Any]:
    import torch

    words = torch.randint(3, VOCABULARY, (4, 10), generator=drawn)
    lengths = torch.randint(4, 11, (4,), generator=drawn)
    mask = (torch.arange(10)[None, :] < lengths[:, None]).long()
    words = words * mask
    words[:, 0] = 1
    words[torch.arange(4), lengths - 1] = 2
    images = torch.randn(4, 3, 24, 24, generator=drawn) + torch.linspace(-1, 1, 4).view(4, 1, 1, 1)
    return {"input_ids": words, "attention_mask": mask, "pixel_values": images.to(dtype)}


def make_optimizer(model: Any) -> Any:
    import torch

    class AdamW(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        adam(parameter, self.state[parameter], group)

    decayed = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": decayed, "decay": 0.2}, {"params": others, "decay": 0.0}]
    return AdamW(groups, {"rate": 1e-3, "betas": (0.9, 0.98), "epsilon": 1e-6})


def adam(parameter: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Adam with decoupled weight decay, as in the paper."""
    import torch

    if not state:
        state.update(count=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
    state["count"] += 1
    gradient, mean, square, count = parameter.grad, state["mean"], state["square"], state["count"]
    first, second = group["betas"]
    mean.mul_(first).add_(gradient, alpha=1 - first)
    square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
    corrected_mean = mean / (1 - first**count)
    corrected_square = square / (1 - second**count)
    parameter.mul_(1 - group["rate"] * group["decay"])
    parameter.sub_(group["rate"] * corrected_mean / (corrected_square.sqrt() + group["epsilon"]))


def contrastive_loss(images: Any, texts: Any, scale: Any) -> tuple[Any, Any]:
    import torch

    images = torch.nn.functional.normalize(images, dim=-1)
    texts = torch.nn.functional.normalize(texts, dim=-1)
    logits = scale.exp() * images @ texts.t()
    targets = torch.arange(len(images), device=images.device)
    by_image = torch.nn.functional.cross_entropy(logits, targets)
    by_text = torch.nn.functional.cross_entropy(logits.t(), targets)
    return (by_image + by_text) / 2, logits


def step(built: Built, index: int) -> dict[str, Any]:
    import math

    import torch

    model, batch = built.model, built.batches[index]
    texts = model.get_text_features(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    images = model.get_image_features(pixel_values=batch["pixel_values"])
    texts, images = (getattr(features, "pooler_output", features) for features in (texts, images))
    loss, logits = contrastive_loss(upcast(images), upcast(texts), upcast(model.logit_scale))
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    built.optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
    return {"loss": loss, "logits": logits}
