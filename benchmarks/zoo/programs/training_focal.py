"""Many labels per image: a small ConvNeXt of timm, focal loss, Lion and adaptive clipping."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

CLASSES = 9


@program("convnext-focal", library="timm", steps=3)
def convnext(setting: Setting) -> Built:
    import torch
    from timm.models.convnext import ConvNeXt

    dtype = getattr(torch, setting.dtype)
    model = ConvNeXt(num_classes=CLASSES, depths=(1, 1, 2, 1), dims=(16, 24, 32, 40), ls_init_value=0.5)
    model = worn(model).to(setting.device, dtype).train()
    optimizer = make_optimizer(model)
    drawn = torch.Generator().manual_seed(19)
    batches = [make_batch(drawn, dtype) for _ in range(3)]
    return Built(model, step, batches, optimizer, options={"clip_factor": 0.02})


def make_optimizer(model: Any) -> Any:
    from timm.optim import Lion

    frozen, trained = split(model)
    for parameter in frozen:
        parameter.requires_grad_(False)
    return Lion(trained, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.05, foreach=False)


def split(model: Any) -> tuple[list[Any], list[Any]]:
    """The stem stays as it is."""
    frozen = [parameter for name, parameter in model.named_parameters() if name.startswith("stem.")]
    trained = [parameter for name, parameter in model.named_parameters() if not name.startswith("stem.")]
    return frozen, trained


def make_batch(drawn: Any, dtype: Any) -> dict[str, Any]:
    import torch

    targets = (torch.rand(4, CLASSES, generator=drawn) < 0.25).float()
    images = torch.randn(4, 3, 64, 64, generator=drawn)
    ramp = torch.linspace(-2, 2, 64)
    for index in range(4):
        for label in targets[index].nonzero().flatten().tolist():
            images[index, label % 3] += torch.cos(ramp * (label + 1))[:, None]
    weights = torch.tensor([1.0, 0.5, 1.0, 2.0])
    return {"images": images.to(dtype), "targets": targets, "weights": weights}


def focal_loss(logits: Any, targets: Any, weights: Any, alpha: float = 0.25, gamma: float = 2.0) -> Any:
    """The focal loss of each class, summed over the classes, a weighted mean over the images."""
    import torch

    targets = targets.to(logits.dtype)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    chance = torch.sigmoid(logits)
    right = chance * targets + (1 - chance) * (1 - targets)
    balance = alpha * targets + (1 - alpha) * (1 - targets)
    loss = balance * (1 - right) ** gamma * entropy
    per_image = loss.sum(dim=1)
    weights = weights.to(logits.dtype)
    return (per_image * weights).sum() / weights.sum()


def step(built: Built, index: int) -> dict[str, Any]:
    from timm.utils import adaptive_clip_grad

    model, batch = built.model, built.batches[index]
    logits = model(batch["images"])
    loss = focal_loss(upcast(logits), batch["targets"], batch["weights"])
    built.optimizer.zero_grad()
    loss.backward()
    clipped = [parameter for name, parameter in model.named_parameters() if "head" not in name]
    adaptive_clip_grad(clipped, clip_factor=built.options["clip_factor"])
    built.optimizer.step()
    return {"loss": loss, "logits": logits}
