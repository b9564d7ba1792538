"""A ShuffleNetV2 of half width, of torchvision and of Paddle, classifying pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

PARTS = {
    "_conv_dw_1": ("branch1", 0),
    "_conv_linear_1": ("branch1", 2),
    "_conv_pw_2": ("branch2", 0),
    "_conv_dw_2": ("branch2", 3),
    "_conv_linear_2": ("branch2", 5),
    "_conv_pw": ("branch2", 0),
    "_conv_dw": ("branch2", 3),
    "_conv_linear": ("branch2", 5),
}


def batches(dtype: str) -> list[np.ndarray]:
    data = port.numbers("shufflenet")
    return [data.standard_normal((2, 3, 64, 64)).astype(dtype) for _ in range(2)]


@program("across-shufflenet-torch", library="torchvision", dtypes=("float32",))
def shufflenet_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from torchvision.models import shufflenet_v2_x0_5

    model = port.fill_torch(shufflenet_v2_x0_5(num_classes=15).to(setting.device, getattr(torch, setting.dtype)))
    data = [torch.from_numpy(x).to(setting.device) for x in batches(setting.dtype)]
    return Built(model.eval(), torch_step, data)


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        return {"logits": built.model(built.batches[index])}


@program("across-shufflenet-paddle", library="paddle.vision", framework="paddle", dtypes=("float32",))
def shufflenet_paddle(setting: Setting) -> Built:
    import paddle
    from paddle.vision.models import shufflenet_v2_x0_5

    port.use(setting)
    model = shufflenet_v2_x0_5(num_classes=15)
    ported = port.fill_paddle(model, rename)
    model.eval()
    data = [paddle.to_tensor(x) for x in batches(setting.dtype)]
    return Built(model, paddle_step, data, options={"ported": ported})


def rename(name: str) -> str:
    first, *rest = port.batch_norm(name).split(".")
    known = {"_conv1": "conv1", "_last_conv": "conv5", "_fc": "fc"}.get(first)
    if known:
        return ".".join((known, *rest))
    stage, block = first.split("_")
    part, index, last = rest
    branch, start = PARTS[part]
    return f"stage{stage}.{int(block) - 1}.{branch}.{start + int(index)}.{last}"


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    with paddle.no_grad():
        return {"logits": built.model(built.batches[index])}
