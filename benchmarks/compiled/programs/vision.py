"""Small models of images: a vision transformer, a network of convolutions, a piece of a UNet."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.spec import How

CLASSES = 10


class Encoder(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attend(self.norm_1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_2(x)))))


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 24, dropout: float = 0.0) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.5)
        self.position = nn.Parameter(torch.randn(1, 17, width) * 0.5)
        self.encoder = Encoder(width, 3, dropout)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)
        nn.init.normal_(self.head.bias, std=0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn_1 = nn.BatchNorm2d(8)
        self.conv_2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn_2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 16, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn_1(self.conv_1(images)))
        x = F.max_pool2d(x, 2)
        x = F.hardswish(x + self.bn_2(self.conv_2(x)))
        return self.head(F.avg_pool2d(x, 2).flatten(1))


class UpDown(nn.Module):
    """Down, middle and up with a skip connection, as in a UNet of a diffusion model."""

    def __init__(self, width: int = 8, mode: str = "nearest") -> None:
        super().__init__()
        self.mode = mode
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.norm_1 = nn.GroupNorm(4, width)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm_2 = nn.GroupNorm(4, 2 * width)
        self.up = nn.Conv2d(2 * width, width, 3, padding=1)
        self.time = nn.Linear(16, 2 * width)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, images: torch.Tensor, moment: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-torch.arange(8, dtype=images.dtype) * 1.1)
        angles = moment[:, None] * frequencies
        shift = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        skip = F.silu(self.norm_1(self.enter(images)))
        x = self.down(skip) + shift[:, :, None, None]
        x = self.up(F.silu(self.norm_2(x)))
        align = {} if self.mode == "nearest" else {"align_corners": False}
        x = F.interpolate(x, scale_factor=2, mode=self.mode, **align)
        return self.leave(torch.cat([x, skip], dim=1))


def _train(model: nn.Module, run: Any, optimizer: Any, batches: list[Any], how: How) -> dict[str, Any]:
    losses = []
    for *inputs, labels in batches:
        with how.casting():
            output = run(*inputs)
            loss = (F.cross_entropy if labels.dtype == torch.int64 else F.mse_loss)(output.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    return {"losses": torch.stack(losses), "output": output.detach(), **gradients}


def _images(steps: int, how: How) -> list[Any]:
    return [(torch.randn(4, 3, 16, 16).to(how.type), torch.randint(0, CLASSES, (4,))) for _ in range(steps)]


def transformer_training(how: How) -> dict[str, Any]:
    model = VisionTransformer(dropout=how.knobs.get("dropout", 0.0)).to(how.type)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return _train(model, how.compile(model), optimizer, _images(3, how), how)


def transformer_inference(how: How) -> dict[str, Any]:
    model = VisionTransformer().to(how.type).eval()
    run = how.compile(model)
    with torch.no_grad(), how.casting():
        return {f"logits.{index}": run(images) for index, (images, _) in enumerate(_images(2, how))}


def convolution_training(how: How) -> dict[str, Any]:
    """Three steps, then the model is evaluated with the statistics that it has gathered."""
    model = ConvNet().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    result = _train(model, run, optimizer, [(2 + 3 * x, y) for x, y in _images(3, how)], how)
    result |= {name: buffer for name, buffer in model.named_buffers() if "num" not in name}
    if how.knobs.get("evaluate", True):
        model.eval()
        with torch.no_grad():
            result["evaluated"] = run(_images(1, how)[0][0])
    return result


def convolution_inference(how: How) -> dict[str, Any]:
    model = ConvNet().to(how.type).eval()
    for norm in (model.bn_1, model.bn_2):
        norm.running_mean.normal_(std=0.3)
        norm.running_var.uniform_(1e-4, 2e-3)
    run = how.compile(model)
    with torch.no_grad(), how.casting():
        return {f"logits.{index}": run(images) for index, (images, _) in enumerate(_images(2, how))}


def denoiser_training(how: How) -> dict[str, Any]:
    model = UpDown(mode=how.knobs.get("mode", "nearest")).to(how.type)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
    batches = []
    for _ in range(2):
        images = torch.randn(2, 3, 12, 12).to(how.type)
        batches.append((images, torch.rand(2).to(how.type) * 10, torch.randn(2, 3, 12, 12)))
    return _train(model, how.compile(model), optimizer, batches, how)


def denoiser_sampling(how: How) -> dict[str, Any]:
    """Four steps of a sampler; what the model returned goes into it again."""
    model = UpDown(mode=how.knobs.get("mode", "nearest")).to(how.type).eval()
    run = how.compile(model)
    images = torch.randn(2, 3, 12, 12).to(how.type)
    with torch.no_grad(), how.casting():
        for moment in (8.0, 6.0, 4.0, 2.0):
            images = images - 0.3 * run(images, torch.full((2,), moment, dtype=images.dtype))
    return {"images": images}
