"""A ResNet of 18 layers, of torchvision and of Paddle, trained with momentum and a decay of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("conv1.weight", "layer2.0.bn1.bias", "fc.weight")


def batches(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    data = port.numbers("resnet")
    return [(data.standard_normal((4, 3, 64, 64)).astype(dtype), data.integers(0, 10, 4)) for _ in range(2)]


@program("across-resnet-torch", library="torchvision", dtypes=("float32",))
def resnet_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from torchvision.models import resnet18

    model = port.fill_torch(resnet18(num_classes=10).to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, torch_step, data, optimizer)


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    given |= port.torch_watched(built.model, *WATCHED)
    return {"loss": loss, "logits": logits, "mean of bn1": built.model.bn1.running_mean.numpy(force=True), **given}


@program("across-resnet-paddle", library="paddle.vision", framework="paddle", dtypes=("float32",))
def resnet_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    model.train()
    optimizer = paddle_optimizer(model)
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


def paddle_model() -> Any:
    from paddle.vision.models import resnet18

    return resnet18(num_classes=10)


def paddle_optimizer(model: Any) -> Any:
    import paddle

    return paddle.optimizer.Momentum(learning_rate=0.02, momentum=0.9, weight_decay=5e-4, parameters=model.parameters())


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = paddle.nn.functional.cross_entropy(logits, labels)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    given |= port.paddle_watched(built.options["ported"], *WATCHED)
    return {"loss": loss, "logits": logits, "mean of bn1": built.model.bn1._mean.numpy(), **given}
