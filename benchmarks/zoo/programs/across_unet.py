"""A small segmentation network written plainly in both frameworks, with the layers whose defaults differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("stem.weight", "wide.weight", "norm.bias", "up.weight", "head.weight")
CLASSES, UNKNOWN = 5, 255


def batches(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pictures and the class of each pixel, 255 where nobody said."""
    data = port.numbers("unet")
    result = []
    for _ in range(2):
        labels = data.integers(0, CLASSES, (2, 4, 4)).repeat(5, 1).repeat(5, 2)
        labels[:, :2] = UNKNOWN
        labels[0, :, 15:] = UNKNOWN
        pictures = data.standard_normal((2, 3, 20, 20)) + labels[:, None] % 7 * 0.3
        result.append((pictures.astype(dtype), labels))
    return result


@program("across-unet-torch", library="torch", dtypes=("float32",))
def unet_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=0.9)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, torch_step, data, optimizer, scheduler)


def torch_model() -> Any:
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, padding=1)
            self.stem_norm = nn.GroupNorm(4, 16)
            self.pool = nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)
            self.wide = nn.Conv2d(16, 24, 3, padding=2, dilation=2)
            self.norm = nn.GroupNorm(4, 24)
            self.up = nn.ConvTranspose2d(24, 16, 3, stride=2, padding=1, output_padding=1)
            self.fuse = nn.Conv2d(32, 16, 3, padding=1, padding_mode="reflect")
            self.act = nn.LeakyReLU(0.1)
            self.head = nn.Conv2d(16, CLASSES, 1)
            self.side = nn.Conv2d(24, CLASSES, 1)

        def forward(self, pictures: Any) -> tuple[Any, Any]:
            fine = F.silu(self.stem_norm(self.stem(pictures)))
            coarse = F.silu(self.norm(self.wide(self.pool(fine))))
            x = torch.cat([self.up(coarse), fine], dim=1)
            x = self.act(self.fuse(x))
            side = F.interpolate(self.side(coarse), scale_factor=2, mode="bilinear", align_corners=True)
            return self.head(x), side

    return Net()


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch.nn.functional as F

    pictures, labels = built.batches[index]
    logits, side = built.model(pictures)
    loss = F.cross_entropy(logits, labels, ignore_index=UNKNOWN)
    loss = loss + 0.4 * F.cross_entropy(side, labels, ignore_index=UNKNOWN)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    built.scheduler.step()
    given |= port.torch_watched(built.model, *WATCHED)
    return {"loss": loss, "logits": logits, "side": side, **given}


@program("across-unet-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def unet_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    model.train()
    scheduler = paddle.optimizer.lr.PolynomialDecay(learning_rate=0.05, decay_steps=10, end_lr=0.0, power=0.9)
    optimizer = paddle.optimizer.Momentum(learning_rate=scheduler, momentum=0.9, parameters=model.parameters())
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, paddle_step, data, optimizer, scheduler, options={"ported": ported})


def paddle_model() -> Any:
    import paddle
    import paddle.nn.functional as F
    from paddle import nn

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2D(3, 16, 3, padding=1)
            self.stem_norm = nn.GroupNorm(4, 16)
            self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=True)
            self.wide = nn.Conv2D(16, 24, 3, padding=2, dilation=2)
            self.norm = nn.GroupNorm(4, 24)
            self.up = nn.Conv2DTranspose(24, 16, 3, stride=2, padding=1, output_padding=1)
            self.fuse = nn.Conv2D(32, 16, 3, padding=1, padding_mode="reflect")
            self.act = nn.LeakyReLU(0.1)
            self.head = nn.Conv2D(16, CLASSES, 1)
            self.side = nn.Conv2D(24, CLASSES, 1)

        def forward(self, pictures: Any) -> tuple[Any, Any]:
            fine = F.silu(self.stem_norm(self.stem(pictures)))
            coarse = F.silu(self.norm(self.wide(self.pool(fine))))
            x = paddle.concat([self.up(coarse), fine], axis=1)
            x = self.act(self.fuse(x))
            side = F.interpolate(self.side(coarse), scale_factor=2, mode="bilinear", align_corners=True)
            return self.head(x), side

    return Net()


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle.nn.functional as F

    pictures, labels = built.batches[index]
    logits, side = built.model(pictures)
    loss = F.cross_entropy(logits, labels, ignore_index=UNKNOWN, axis=1)
    loss = loss + 0.4 * F.cross_entropy(side, labels, ignore_index=UNKNOWN, axis=1)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    built.scheduler.step()
    given |= port.paddle_watched(built.options["ported"], *WATCHED)
    return {"loss": loss, "logits": logits, "side": side, **given}
