"""A small MobileNetV2 of torchvision and of Paddle, classifying pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program


def pictures() -> list[np.ndarray]:
    """Photographs as they are read: height, width and channels (red, green, blue) of bytes, each channel its own."""
    data = port.numbers("mobilenet")
    made = []
    for _ in range(2):
        coarse = data.uniform(0, 255, (3, 8, 8, 3)) * (1.0, 0.7, 0.4)
        made.append(np.clip(coarse.repeat(8, 1).repeat(8, 2) + data.normal(0, 12, (3, 64, 64, 3)), 0, 255))
    return [picture.astype(np.uint8) for picture in made]


def torch_input(picture: np.ndarray, dtype: str) -> np.ndarray:
    scaled = picture / 255.0
    scaled = (scaled - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)).astype(dtype)


def paddle_input(picture: np.ndarray, dtype: str) -> np.ndarray:
    scaled = picture / 255.0
    scaled = (scaled - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)).astype(dtype)


@program("across-mobilenet-torch", library="torchvision", dtypes=("float32",))
def mobilenet_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from torchvision.models import mobilenet_v2

    model = mobilenet_v2(num_classes=12, width_mult=0.35)
    port.fill_torch(model.to(setting.device, getattr(torch, setting.dtype))).eval()
    data = [torch.from_numpy(torch_input(picture, setting.dtype)).to(setting.device) for picture in pictures()]
    return Built(model, torch_step, data)


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        logits = built.model(built.batches[index])
        return {"logits": logits, "probabilities": torch.softmax(logits, dim=1)}


@program("across-mobilenet-paddle", library="paddle.vision", framework="paddle", dtypes=("float32",))
def mobilenet_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    model.eval()
    data = [paddle.to_tensor(paddle_input(picture, setting.dtype)) for picture in pictures()]
    return Built(model, paddle_step, data, options={"ported": ported})


def paddle_model() -> Any:
    from paddle.vision.models import mobilenet_v2

    return mobilenet_v2(num_classes=12, scale=0.35)


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    with paddle.no_grad():
        logits = built.model(built.batches[index])
        return {"logits": logits, "probabilities": paddle.nn.functional.softmax(logits, axis=1)}
