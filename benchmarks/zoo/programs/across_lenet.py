"""A LeNet, Paddle's own and the same written in torch, trained with plain gradient descent that slows down."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("features.0.weight", "fc.0.weight", "fc.2.bias")


def batches(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    data = port.numbers("lenet")
    return [((0.3 * data.standard_normal((4, 1, 28, 28))).astype(dtype), data.integers(0, 10, 4)) for _ in range(3)]


@program("across-lenet-torch", library="torch", dtypes=("float32",), steps=3)
def lenet_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, torch_step, data, optimizer, scheduler)


def torch_model() -> Any:
    from torch import nn

    class LeNet(nn.Module):
        def __init__(self, classes: int = 10) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 6, 3, stride=1, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2, 2),
                nn.Conv2d(6, 16, 5, stride=1, padding=0),
                nn.ReLU(),
                nn.MaxPool2d(2, 2),
            )
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes))

        def forward(self, images: Any) -> Any:
            x = self.features(images)
            return self.fc(x.flatten(1))

    return LeNet()


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-lenet-paddle", library="paddle.vision", framework="paddle", dtypes=("float32",), steps=3)
def lenet_paddle(setting: Setting) -> Built:
    import paddle
    from paddle.vision.models import LeNet

    port.use(setting)
    model = LeNet()
    ported = port.fill_paddle(model)
    model.train()
    scheduler = paddle.optimizer.lr.StepDecay(learning_rate=0.02, step_size=1, gamma=0.5)
    optimizer = paddle.optimizer.SGD(learning_rate=scheduler, parameters=model.parameters())
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, paddle_step, data, optimizer, scheduler, options={"ported": ported})


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle.nn.functional as F

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = F.cross_entropy(logits, labels)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
