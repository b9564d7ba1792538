"""Training of a small vision transformer of timm: mixup, soft targets, layer-wise learning rates, moving average."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import worn
from benchmarks.zoo.spec import Built, Setting, program

CLASSES = 10
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@program("vit-recipe", library="timm", steps=3)
def vit(setting: Setting) -> Built:
    import torch
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.utils import ModelEmaV3

    dtype = getattr(torch, setting.dtype)
    model = worn(make_model()).to(setting.device, dtype).train()
    average = ModelEmaV3(model, decay=0.9, stochastic_rounding=False)
    modules = torch.nn.ModuleDict({"model": model, "average": average})
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    drawn = torch.Generator().manual_seed(3)
    batches = [make_batch(drawn, dtype) for _ in range(3)]
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=0.0, label_smoothing=0.1, num_classes=CLASSES)
    options = {"mixup": mixup, "criterion": SoftTargetCrossEntropy(), "held_out": make_batch(drawn, dtype)}
    return Built(modules, step, batches, optimizer, scheduler, options)


def make_model() -> Any:
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=32,
        patch_size=8,
        embed_dim=48,
        depth=3,
        num_heads=4,
        num_classes=CLASSES,
        drop_path_rate=0.2,
        class_token=True,
    )


def make_optimizer(model: Any) -> Any:
    from timm.optim import create_optimizer_v2

    return create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.1, layer_decay=0.6)


def make_scheduler(optimizer: Any) -> Any:
    from timm.scheduler import CosineLRScheduler

    return CosineLRScheduler(optimizer, t_initial=5, warmup_t=1, warmup_lr_init=1e-3, lr_min=1e-5)


def make_batch(drawn: Any, dtype: Any) -> dict[str, Any]:
    """Images whose colour and direction depend on the class, values between 0 and 1."""
    import torch

    labels = torch.randint(0, CLASSES, (4,), generator=drawn)
    ramp = torch.linspace(0, 1, 32)
    images = torch.rand((4, 3, 32, 32), generator=drawn) * 0.3
    for index, label in enumerate(labels.tolist()):
        images[index, label % 3] += 0.5 * (ramp[:, None] if label % 2 else ramp[None, :])
    return {"images": normalise(images).to(dtype), "labels": labels}


def normalise(images: Any) -> Any:
    import torch

    return (images - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)


def step(built: Built, index: int) -> dict[str, Any]:
    import torch

    model, average = built.model["model"], built.model["average"]
    batch = built.batches[index]
    images, targets = built.options["mixup"](batch["images"].clone(), batch["labels"])
    logits = model(images)
    loss = built.options["criterion"](logits, targets.to(logits.dtype))
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    built.optimizer.step()
    average.update(model)
    built.scheduler.step(index + 1)
    with torch.no_grad():
        averaged = average(built.options["held_out"]["images"])
    return {"loss": loss, "logits": logits, "averaged": averaged}
