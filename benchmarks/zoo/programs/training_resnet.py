"""Training of a small ResNet of timm with SGD, a cyclic learning rate, clipping and stochastic weight averaging."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import worn
from benchmarks.zoo.spec import Built, Setting, program

CLASSES = 7


@program("resnet-sgd", library="timm", steps=4)
def resnet(setting: Setting) -> Built:
    import torch
    from torch.optim.swa_utils import AveragedModel

    dtype = getattr(torch, setting.dtype)
    model = worn(make_model()).to(setting.device, dtype).train()
    averaged = AveragedModel(model)
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    drawn = torch.Generator().manual_seed(9)
    batches = [make_batch(drawn, dtype) for _ in range(4)]
    modules = torch.nn.ModuleDict({"model": model, "averaged": averaged})
    return Built(modules, step, batches, optimizer, scheduler, {"held_out": make_batch(drawn, dtype)})


def make_model() -> Any:
    from timm.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=CLASSES, channels=(16, 24, 32, 48), stem_width=16)


def make_optimizer(model: Any) -> Any:
    import torch

    decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 5e-2}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)


def make_scheduler(optimizer: Any) -> Any:
    import torch

    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=8, pct_start=0.4)


def make_batch(drawn: Any, dtype: Any) -> dict[str, Any]:
    import torch

    labels = torch.randint(0, CLASSES, (6,), generator=drawn)
    ramp = torch.linspace(-1, 1, 48)
    images = torch.randn((6, 3, 48, 48), generator=drawn) * 0.5
    for index, label in enumerate(labels.tolist()):
        images[index, label % 3] += torch.sin(ramp * (label + 1) * 2)[None, :] + 0.3
    return {"images": images.to(dtype), "labels": labels}


def augment(images: Any, drawn: Any) -> Any:
    """Each image is mirrored or not."""
    import torch

    mirrored = torch.rand(len(images), generator=drawn) < 0.5
    return torch.where(mirrored.view(-1, 1, 1, 1), images.flip(-1), images)


def clip(model: Any, limit: float) -> None:
    """All gradients are scaled by one factor, so that their common norm is at most the limit."""
    import torch

    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    total = torch.stack([gradient.norm() for gradient in gradients]).norm()
    factor = (limit / (total + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)


def refresh(averaged: Any, batches: list[Any]) -> None:
    """The running statistics of the averaged model are measured anew."""
    import torch

    with torch.no_grad():
        torch.optim.swa_utils.update_bn([batch["images"] for batch in batches], averaged)


def step(built: Built, index: int) -> dict[str, Any]:
    import torch

    model, averaged = built.model["model"], built.model["averaged"]
    batch = built.batches[index]
    model.train()
    images = augment(batch["images"], torch.Generator().manual_seed(index))
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=0.1)
    built.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    clip(model, 1.0)
    built.optimizer.step()
    built.scheduler.step()
    given = {"loss": loss, "logits": logits}
    if index >= 2:
        averaged.update_parameters(model)
        refresh(averaged, built.batches[:2])
    model.eval()
    averaged.eval()
    with torch.no_grad():
        given["evaluation"] = model(built.options["held_out"]["images"])
        given["averaged"] = averaged(built.options["held_out"]["images"])
    return given
