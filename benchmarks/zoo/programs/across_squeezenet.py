"""A SqueezeNet 1.1 of torchvision and of Paddle, with its features taken as well as its classes.

The two libraries differ in it: the padding of the first convolution, the last window of the poolings, and what the
dropout does outside of training. The port here sets Paddle's to what torchvision's does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

FIRES = {f"_conv{number + 1}": f"features.{index}" for number, index in enumerate((3, 4, 6, 7, 9, 10, 11, 12))}
PARTS = {"_conv": "squeeze", "_conv_path1": "expand1x1", "_conv_path2": "expand3x3"}


def batches(dtype: str) -> list[np.ndarray]:
    data = port.numbers("squeezenet")
    return [data.standard_normal((2, 3, 60, 60)).astype(dtype) for _ in range(2)]


@program("across-squeezenet-torch", library="torchvision", dtypes=("float32",))
def squeezenet_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from torchvision.models import squeezenet1_1

    model = port.fill_torch(squeezenet1_1(num_classes=20).to(setting.device, getattr(torch, setting.dtype))).eval()
    data = [torch.from_numpy(x).to(setting.device) for x in batches(setting.dtype)]
    return Built(model, torch_step, data)


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        return {"logits": built.model(built.batches[index])}


@program("across-squeezenet-paddle", library="paddle.vision", framework="paddle", dtypes=("float32",))
def squeezenet_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model, rename)
    model.eval()
    data = [paddle.to_tensor(x) for x in batches(setting.dtype)]
    return Built(model, paddle_step, data, options={"ported": ported})


def paddle_model() -> Any:
    import paddle
    from paddle.vision.models import squeezenet1_1

    model = squeezenet1_1(num_classes=20)
    model._conv = paddle.nn.Conv2D(3, 64, 3, stride=2, padding=0)
    model._pool = paddle.nn.MaxPool2D(3, stride=2, ceil_mode=True)
    model._drop = paddle.nn.Dropout(0.5, mode="upscale_in_train")
    return model


def rename(name: str) -> str:
    first, *rest = name.split(".")
    if first in FIRES:
        return f"{FIRES[first]}.{PARTS[rest[0]]}.{rest[-1]}"
    return {"_conv": "features.0", "_conv9": "classifier.1"}[first] + f".{rest[-1]}"


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    with paddle.no_grad():
        return {"logits": built.model(built.batches[index])}
