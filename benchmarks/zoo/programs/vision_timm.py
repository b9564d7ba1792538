"""Image classifiers of timm with the optimizers, schedules, losses, mixing and averaging of timm."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import vision_data as data
from benchmarks.zoo.spec import Built, Setting, program


def ready(model: Any, setting: Setting, gain: float = 1.0) -> Any:
    import torch

    return data.as_if_trained(model, gain).to(setting.device, getattr(torch, setting.dtype)).train()


def placed(value: Any, setting: Setting) -> Any:
    import torch

    return value.to(setting.device, getattr(torch, setting.dtype) if value.is_floating_point() else None)


@program("vit", library="timm", steps=3)
def vit(setting: Setting) -> Built:
    """A vision transformer with a class token and layer scale; mixed pictures, soft targets, clipping, warm-up."""
    torchvision_ops.prepare()
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.models.vision_transformer import VisionTransformer
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler

    model = ready(
        VisionTransformer(
            img_size=32, patch_size=8, num_classes=10, embed_dim=48, depth=3, num_heads=4, init_values=0.5
        ),
        setting,
        gain=4.0,
    )
    for block in model.blocks:
        block.attn.fused_attn = False
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05, foreach=False)
    scheduler = CosineLRScheduler(optimizer, t_initial=20, warmup_t=4, warmup_lr_init=1e-4, t_in_epochs=False)
    batches = [
        (placed(data.normalised(data.pictures(4, 32, seed=i)), setting), data.classes(4, 10, seed=i).to(setting.device))
        for i in range(3)
    ]
    options = {
        "mix": Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10),
        "criterion": SoftTargetCrossEntropy(),
    }
    return Built(model, vit_step, batches, optimizer, scheduler, options)


def vit_step(built: Built, index: int) -> dict[str, Any]:
    from timm.utils import dispatch_clip_grad

    images, target = built.batches[index]
    images, target = built.options["mix"](images.clone(), target)
    output = built.model(images)
    loss = built.options["criterion"](output, target.to(output.dtype))
    built.optimizer.zero_grad()
    loss.backward()
    dispatch_clip_grad(built.model.parameters(), value=1.0, mode="norm")
    built.optimizer.step()
    built.scheduler.step_update(num_updates=index + 1)
    return {"loss": loss, "output": output}


@program("eva", library="timm")
def eva(setting: Setting) -> Built:
    """A transformer with rotary positions in two dimensions, gated feed-forward layers and registers; LAMB."""
    torchvision_ops.prepare()
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.models.eva import Eva
    from timm.optim import create_optimizer_v2

    model = ready(
        Eva(
            img_size=(32, 48),
            patch_size=8,
            num_classes=10,
            embed_dim=48,
            depth=2,
            num_heads=3,
            mlp_ratio=2,
            swiglu_mlp=True,
            scale_mlp=True,
            qkv_fused=False,
            num_reg_tokens=2,
            use_rot_pos_emb=True,
            ref_feat_shape=(4, 4),
            head_init_scale=1.0,
        ),
        setting,
        gain=4.0,
    )
    optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.05)
    batches = [
        (
            placed(data.normalised(data.pictures(3, 32, 48, seed=10 + i)), setting),
            data.classes(3, 10, seed=10 + i).to(setting.device),
        )
        for i in range(2)
    ]
    return Built(model, eva_step, batches, optimizer, options={"criterion": LabelSmoothingCrossEntropy(0.1)})


def eva_step(built: Built, index: int) -> dict[str, Any]:
    images, target = built.batches[index]
    output = built.model(images)
    loss = built.options["criterion"](output, target)
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    return {"loss": loss, "output": output}


@program("convnext", library="timm", steps=3)
def convnext(setting: Setting) -> Built:
    """A ConvNeXt with stochastic depth; AdamW and an average of the weights, with which it is evaluated."""
    torchvision_ops.prepare()
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.models.convnext import ConvNeXt
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3

    model = ready(
        ConvNeXt(
            num_classes=10,
            depths=(1, 2, 1, 1),
            dims=(16, 24, 32, 40),
            ls_init_value=0.5,
            drop_path_rate=0.1,
        ),
        setting,
    )
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05)
    batches = [
        (
            placed(data.normalised(data.pictures(4, 64, seed=20 + i)), setting),
            data.classes(4, 10, seed=20 + i).to(setting.device),
        )
        for i in range(3)
    ]
    average = ModelEmaV3(model, decay=0.9, stochastic_rounding=False)
    options = {"criterion": LabelSmoothingCrossEntropy(0.1), "average": average}
    return Built(model, convnext_step, batches, optimizer, options=options)


def convnext_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, target = built.batches[index]
    output = built.model(images)
    loss = built.options["criterion"](output, target)
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 5.0)
    built.optimizer.step()
    built.options["average"].update(built.model, step=index + 1)
    with torch.no_grad():
        averaged = built.options["average"](images)
    return {"loss": loss, "output": output, "averaged": averaged}


@program("efficientnet", library="timm", steps=3)
def efficientnet(setting: Setting) -> Built:
    """An EfficientNet of five blocks with squeeze and excitation; RMSprop as TensorFlow has it, and dropout."""
    torchvision_ops.prepare()
    import torch
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.models._efficientnet_builder import decode_arch_def
    from timm.models.efficientnet import EfficientNet
    from timm.optim import create_optimizer_v2

    blocks = decode_arch_def(
        [["ds_r1_k3_s1_e1_c16_se0.25"], ["ir_r2_k3_s2_e3_c24_se0.25"], ["ir_r2_k5_s2_e3_c32_se0.25"]]
    )
    model = ready(
        EfficientNet(blocks, num_classes=10, num_features=64, stem_size=16, act_layer=torch.nn.SiLU, drop_rate=0.2),
        setting,
    )
    optimizer = create_optimizer_v2(model, opt="rmsproptf", lr=5e-3, weight_decay=1e-4, momentum=0.9, eps=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
    batches = [
        (
            placed(data.normalised(data.pictures(4, 32, seed=30 + i)), setting),
            data.classes(4, 10, seed=30 + i).to(setting.device),
        )
        for i in range(3)
    ]
    return Built(
        model, efficientnet_step, batches, optimizer, scheduler, {"criterion": LabelSmoothingCrossEntropy(0.1)}
    )


def efficientnet_step(built: Built, index: int) -> dict[str, Any]:
    images, target = built.batches[index]
    output = built.model(images)
    loss = built.options["criterion"](output, target)
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "output": output}


@program("swin", library="timm")
def swin(setting: Setting) -> Built:
    """A Swin transformer of two stages with shifted windows; several classes a picture, binary cross entropy."""
    torchvision_ops.prepare()
    from timm.loss import BinaryCrossEntropy
    from timm.models.swin_transformer import SwinTransformer
    from timm.optim import create_optimizer_v2

    model = ready(
        SwinTransformer(
            img_size=32, patch_size=2, num_classes=12, embed_dim=32, depths=(2, 2), num_heads=(2, 4), window_size=4,
            drop_path_rate=0.0,
        ),
        setting,
        gain=4.0,
    )  # fmt: skip
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    batches = [
        (
            placed(data.normalised(data.pictures(2, 32, seed=40 + i)), setting),
            placed(data.several_classes(2, 12, seed=40 + i), setting),
        )
        for i in range(2)
    ]
    return Built(model, swin_step, batches, optimizer, options={"criterion": BinaryCrossEntropy(smoothing=0.1)})


def swin_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, target = built.batches[index]
    output = built.model(images)
    loss = built.options["criterion"](output, target)
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.5)
    built.optimizer.step()
    return {"loss": loss, "output": output}


@program("seresnet", library="timm", steps=3)
def seresnet(setting: Setting) -> Built:
    """A ResNet with squeeze and excitation, SGD, and the gradients of two small batches added up in each step."""
    torchvision_ops.prepare()
    import torch
    from timm.models.resnet import Bottleneck, ResNet
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler

    model = ready(
        ResNet(
            Bottleneck,
            (1, 2, 1, 1),
            num_classes=10,
            channels=(8, 12, 16, 16),
            stem_width=8,
            stem_type="deep",
            avg_down=True,
            block_args={"attn_layer": "se"},
            zero_init_last=False,
        ),
        setting,
    )
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9, weight_decay=1e-3)
    scheduler = CosineLRScheduler(optimizer, t_initial=6, lr_min=1e-5, t_in_epochs=False)
    batches = [
        (
            placed(data.normalised(data.pictures(8, 64, seed=55 + i)), setting),
            data.classes(8, 10, seed=55 + i).to(setting.device),
        )
        for i in range(3)
    ]
    options = {"criterion": torch.nn.CrossEntropyLoss(), "parts": 2}
    return Built(model, seresnet_step, batches, optimizer, scheduler, options)


def seresnet_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, target = built.batches[index]
    parts = built.options["parts"]
    losses, outputs = [], []
    built.optimizer.zero_grad()
    for part, wanted in zip(images.chunk(parts), target.chunk(parts), strict=True):
        output = built.model(part)
        loss = built.options["criterion"](output, wanted)
        (loss / parts).backward()
        losses.append(loss.detach())
        outputs.append(output.detach())
    built.optimizer.step()
    built.scheduler.step_update(num_updates=index + 1)
    return {"loss": torch.stack(losses), "output": torch.cat(outputs)}
