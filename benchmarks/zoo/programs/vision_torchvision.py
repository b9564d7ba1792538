"""Models of torchvision, small: classification, segmentation and detection, as its reference scripts train them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import vision_data as data
from benchmarks.zoo.spec import Built, Setting, program


def ready(model: Any, setting: Setting) -> Any:
    import torch

    return data.as_if_trained(model).to(setting.device, getattr(torch, setting.dtype)).train()


def placed(value: Any, setting: Setting) -> Any:
    import torch

    return value.to(setting.device, getattr(torch, setting.dtype) if value.is_floating_point() else None)


@program("densenet", library="torchvision", steps=3)
def densenet(setting: Setting) -> Built:
    """A DenseNet of three blocks; SGD with momentum, label smoothing, decay of the rate in each step."""
    torchvision_ops.prepare()
    import torch
    from torchvision.models.densenet import DenseNet

    model = ready(
        DenseNet(growth_rate=8, block_config=(2, 2, 2), num_init_features=16, bn_size=2, num_classes=10), setting
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    batches = [
        (placed(data.pictures(4, 64, seed=60 + i), setting), data.classes(4, 10, seed=60 + i).to(setting.device))
        for i in range(3)
    ]
    options = {"criterion": torch.nn.CrossEntropyLoss(label_smoothing=0.1)}
    return Built(model, densenet_step, batches, optimizer, scheduler, options)


def densenet_step(built: Built, index: int) -> dict[str, Any]:
    images, target = built.batches[index]
    output = built.model(data.normalised(images))
    loss = built.options["criterion"](output, target)
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "output": output}


def small_regnet(number: int) -> Any:
    from torchvision.models.regnet import BlockParams, RegNet

    blocks = BlockParams(
        depths=[1, 2, 1],
        widths=[16, 24, 32],
        group_widths=[8, 8, 8],
        bottleneck_multipliers=[1.0, 1.0, 1.0],
        strides=[2, 2, 2],
        se_ratio=0.25,
    )
    return RegNet(blocks, num_classes=number, stem_width=16)


@program("regnet", library="torchvision", steps=2)
def regnet(setting: Setting) -> Built:
    """A RegNet with squeeze and excitation that is trained, and evaluated on other pictures after each step."""
    torchvision_ops.prepare()
    import torch

    model = ready(small_regnet(10), setting)
    optimizer = torch.optim.SGD(
        [
            {"params": [value for name, value in model.named_parameters() if value.ndim > 1], "weight_decay": 5e-4},
            {"params": [value for name, value in model.named_parameters() if value.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=0.05,
        momentum=0.9,
    )
    batches = [
        (
            placed(data.normalised(data.pictures(4, 64, seed=70 + i)), setting),
            data.classes(4, 10, seed=70 + i).to(setting.device),
            placed(data.normalised(data.pictures(2, 64, seed=80 + i)), setting),
        )
        for i in range(2)
    ]
    return Built(model, regnet_step, batches, optimizer)


def regnet_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, target, others = built.batches[index]
    built.model.train()
    output = built.model(images)
    loss = torch.nn.functional.cross_entropy(output, target)
    built.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    built.optimizer.step()
    built.model.eval()
    with torch.no_grad():
        evaluated = built.model(others)
    return {"loss": loss, "output": output, "evaluated": evaluated}


@program("regnet-inference", library="torchvision", steps=2)
def regnet_inference(setting: Setting) -> Built:
    """Predictions for pictures of several sizes, which are resized, cropped and normalised by torchvision."""
    torchvision_ops.prepare()
    import torch
    from torchvision.transforms._presets import ImageClassification

    model = ready(small_regnet(10), setting)
    with torch.no_grad():  # as after some training: statistics that are not those at the start
        source = torch.Generator().manual_seed(7)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.copy_(torch.randn(module.num_features, generator=source) * 0.2)
                module.running_var.copy_(torch.rand(module.num_features, generator=source) + 0.5)
    batches = [
        [placed(data.pictures(1, *size, seed=90 + i)[0], setting) for size in ((80, 100), (96, 72))] for i in range(2)
    ]
    options = {"prepare": ImageClassification(crop_size=64, resize_size=70)}
    return Built(model.eval(), regnet_inference_step, batches, options=options)


def regnet_inference_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images = torch.stack([built.options["prepare"](image) for image in built.batches[index]])
    with torch.no_grad():
        output = built.model(images.to(next(built.model.parameters()).dtype))
    return {"output": output, "probabilities": output.softmax(dim=1)}


@program("deeplab", library="torchvision", steps=2)
def deeplab(setting: Setting) -> Built:
    """DeepLabV3 with an auxiliary head on a small trunk; borders that are ignored, a polynomial schedule."""
    torchvision_ops.prepare()
    import torch
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.deeplabv3 import ASPP, DeepLabV3
    from torchvision.models.segmentation.fcn import FCNHead

    trunk = small_regnet(2)
    layers = {"stem": trunk.stem, **dict(trunk.trunk_output.named_children())}
    backbone = IntermediateLayerGetter(torch.nn.ModuleDict(layers), {"block2": "aux", "block3": "out"})
    head = torch.nn.Sequential(
        ASPP(32, (1, 2, 4), out_channels=32),
        torch.nn.Conv2d(32, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 6, 1),
    )
    model = ready(DeepLabV3(backbone, head, FCNHead(24, 6)), setting)
    optimizer = torch.optim.SGD(
        [
            {"params": list(model.backbone.parameters()) + list(model.classifier.parameters())},
            {"params": model.aux_classifier.parameters(), "lr": 0.2},
        ],
        lr=0.02,
        momentum=0.9,
        weight_decay=1e-4,
    )
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=8, power=0.9)
    batches = [
        (
            placed(data.normalised(data.pictures(2, 64, 80, seed=100 + i)), setting),
            data.segments(2, 64, 80, seed=100 + i).to(setting.device),
        )
        for i in range(2)
    ]
    return Built(model, deeplab_step, batches, optimizer, scheduler)


def deeplab_loss(outputs: dict[str, Any], target: Any) -> Any:
    import torch

    losses = {
        name: torch.nn.functional.cross_entropy(value, target, ignore_index=255) for name, value in outputs.items()
    }
    return losses["out"] + 0.5 * losses["aux"]


def deeplab_step(built: Built, index: int) -> dict[str, Any]:
    images, target = built.batches[index]
    outputs = built.model(images)
    loss = deeplab_loss(outputs, target)
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "output": outputs["out"], "auxiliary": outputs["aux"]}


def pyramid() -> Any:
    """A small trunk with a feature pyramid, as detection wants it."""
    import torch
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

    trunk = small_regnet(2)
    layers = torch.nn.ModuleDict({"stem": trunk.stem, **dict(trunk.trunk_output.named_children())})
    returned = {"block1": "0", "block2": "1", "block3": "2"}
    return BackboneWithFPN(layers, returned, [16, 24, 32], 32, extra_blocks=LastLevelMaxPool())


def detection_batches(setting: Setting, start: int) -> list[Any]:
    result = []
    for i in range(2):
        images = [
            placed(data.pictures(1, *size, seed=start + 2 * i + j)[0], setting)
            for j, size in enumerate(((72, 90), (64, 64)))
        ]
        targets = [
            {key: placed(value, setting) for key, value in data.boxes(1, *size, seed=start + 2 * i + j)[0].items()}
            for j, size in enumerate(((72, 90), (64, 64)))
        ]
        result.append((images, targets))
    return result


@program("faster-rcnn", library="torchvision", steps=2, dtypes=("float32",))
def faster_rcnn(setting: Setting) -> Built:
    """Faster R-CNN on a small trunk with a feature pyramid, trained on two pictures of different sizes."""
    torchvision_ops.prepare()
    import torch
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead
    from torchvision.ops import MultiScaleRoIAlign

    # the operator's form in plain torch, which torchvision falls back to, without compiling it first
    roi_align = importlib.import_module("torchvision.ops.roi_align")
    roi_align._roi_align = inspect.unwrap(roi_align._roi_align)
    detector = FasterRCNN(
        pyramid(),
        min_size=64,
        max_size=96,
        size_divisible=16,
        rpn_anchor_generator=AnchorGenerator(((8,), (16,), (32,), (48,)), ((0.5, 1.0, 2.0),) * 4),
        rpn_pre_nms_top_n_train=60,
        rpn_post_nms_top_n_train=30,
        rpn_batch_size_per_image=64,
        box_batch_size_per_image=24,
        box_roi_pool=MultiScaleRoIAlign(["0", "1", "2"], output_size=5, sampling_ratio=2),
        box_head=TwoMLPHead(32 * 25, 48),
        box_predictor=FastRCNNPredictor(48, 5),
    )
    model = ready(detector, setting)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    return Built(model, detection_step, detection_batches(setting, 110), optimizer)


def detection_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, targets = built.batches[index]
    losses = built.model(images, targets)
    loss = sum(losses.values())
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, **losses}


@program("retinanet", library="torchvision", steps=2, dtypes=("float32",))
def retinanet(setting: Setting) -> Built:
    """RetinaNet on a small trunk with a feature pyramid, trained on two pictures of different sizes."""
    torchvision_ops.prepare()
    import torch
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.retinanet import RetinaNet

    detector = RetinaNet(
        pyramid(),
        num_classes=5,
        min_size=64,
        max_size=96,
        size_divisible=16,
        anchor_generator=AnchorGenerator(((8, 12), (16, 24), (32, 40), (48, 64)), ((0.5, 1.0, 2.0),) * 4),
    )
    model = ready(detector, setting)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Built(model, detection_step, detection_batches(setting, 120), optimizer)
