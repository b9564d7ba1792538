"""The programs that the benchmarks capture, in plain torch.

Each workload gives a :class:`Job`: a model, batches, a loss and an AdamW optimizer, made from fixed seeds, so that
two processes that run the same workload compute the same numbers. ``WORKLOADS`` holds those that run anywhere,
``GPU_WORKLOADS`` those that need an accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Job:
    """One training program: ``train_step`` runs forward, loss, backward and optimizer on one batch."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    make_batch: Callable[[int], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]

    def train_step(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def perturb(self, relative: float, seed: int = 7) -> None:
        """Multiplies every parameter by 1 + relative * noise: the other side of a comparison."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.model.parameters():
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.device, parameter.dtype)
                parameter.mul_(1 + relative * noise)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _classify(model: nn.Module, batch: Batch) -> Tensor:
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


def mlp() -> Job:
    """784-1024-1024-10, batch 256."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )

    def make_batch(step: int) -> Batch:
        generator = _generator(1000 + step)
        return (
            torch.randn(256, 784, generator=generator),
            torch.randint(10, (256,), generator=generator),
        )

    return Job("mlp", model, torch.optim.AdamW(model.parameters(), lr=1e-3), make_batch, _classify)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm and a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet18(nn.Module):
    """The 18-layer residual network of He et al. (2015)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        channels_in = 64
        for stage, channels_out in enumerate((64, 128, 256, 512)):
            for position in range(2):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(BasicBlock(channels_in, channels_out, stride))
                channels_in = channels_out
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.pool(self.blocks(x)), 1))


def resnet() -> Job:
    """ResNet-18 on 8 x 3 x 64 x 64."""
    torch.manual_seed(0)
    model = ResNet18()

    def make_batch(step: int) -> Batch:
        generator = _generator(2000 + step)
        return (
            torch.randn(8, 3, 64, 64, generator=generator),
            torch.randint(1000, (8,), generator=generator),
        )

    return Job("resnet", model, torch.optim.AdamW(model.parameters(), lr=1e-3), make_batch, _classify)


class EncoderLayer(nn.Module):
    """Post-norm encoder layer with attention written out."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(width // self.heads)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attend(x)))
        return self.norm2(x + self.dropout(self.down(self.dropout(F.gelu(self.up(x))))))


class Encoder(nn.Module):
    """Token and position embeddings, encoder layers, a classifier for each token."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(1, length, width) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(width, 8, hidden, dropout) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def _classify_tokens(model: nn.Module, batch: Batch) -> Tensor:
    tokens, labels = batch
    logits = model(tokens)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1))


def transformer() -> Job:
    """Encoder: width 512, 6 layers, hidden 2048, length 128, batch 8, dropout 0.1."""
    torch.manual_seed(0)
    model = Encoder(vocabulary=1000, length=128, width=512, layers=6, hidden=2048, dropout=0.1)

    def make_batch(step: int) -> Batch:
        generator = _generator(3000 + step)
        return (
            torch.randint(1000, (8, 128), generator=generator),
            torch.randint(1000, (8, 128), generator=generator),
        )

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return Job("transformer", model, optimizer, make_batch, _classify_tokens)


class DecoderLayer(nn.Module):
    """Pre-norm decoder layer with the framework's own attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """A GPT-like language model."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList(DecoderLayer(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _gpt(name: str, width: int, layers: int, batch_size: int, length: int, device: str) -> Job:
    torch.manual_seed(0)
    vocabulary = 8192
    model = Decoder(vocabulary, length, width, layers).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def make_batch(step: int) -> Batch:
        generator = _generator(4000 + step)
        tokens = torch.randint(vocabulary, (batch_size, length + 1), generator=generator).to(device)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return Job(name, model, optimizer, make_batch, _classify_tokens)


def gpt_host_bound(device: str = "cuda") -> Job:
    """12 layers of width 1024 in bfloat16, batch 8 x 1024, fused AdamW: the host is the limit."""
    return _gpt("gpt_host_bound", width=1024, layers=12, batch_size=8, length=1024, device=device)


def gpt_device_bound(device: str = "cuda") -> Job:
    """4 layers of width 4096 in bfloat16, batch 8 x 1024, fused AdamW: the GPU is the limit."""
    return _gpt("gpt_device_bound", width=4096, layers=4, batch_size=8, length=1024, device=device)


WORKLOADS: dict[str, Callable[[], Job]] = {"mlp": mlp, "resnet": resnet, "transformer": transformer}
GPU_WORKLOADS: dict[str, Callable[..., Job]] = {
    "gpt_host_bound": gpt_host_bound,
    "gpt_device_bound": gpt_device_bound,
}


def build(name: str, **options: Any) -> Job:
    """The job of that name; the error lists the names there are."""
    table = {**WORKLOADS, **GPU_WORKLOADS}
    if name not in table:
        raise ValueError(f"no workload named {name!r}; there are {', '.join(sorted(table))}")
    return table[name](**options)
