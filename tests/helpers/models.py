"""Small programs that do what real ones do, and a trainer that keeps every number of three steps.

    transformer   attention, layer norm, dropout, AdamW (``foreach`` or a loop over parameters)
    convolution   batch norm with running statistics, SGD with momentum, bfloat16 autocast
    mixed         in-place calls, views, a custom autograd.Function, both kinds of activation checkpointing, and names
                  imported from torch before anybody could watch them
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn, relu
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH = 32
STEPS = 3


class Block(nn.Module):
    """Attention and a feed-forward layer, as anyone writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.second = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))
        return x + self.feed(self.second(x))


class Transformer(nn.Module):
    """The embedding is also the head: tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.deep_norm = nn.BatchNorm2d(16)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        x = F.max_pool2d(F.relu(self.deep_norm(self.deep(x))), 2)
        return self.head(torch.flatten(self.pool(x), 1))


class Swish(torch.autograd.Function):
    """A custom Function with two outputs, one of which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        gate = torch.sigmoid(scale * x)
        ctx.save_for_backward(x, gate)
        ctx.scale = scale
        ctx.mark_non_differentiable(gate)
        return x * gate, gate

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, unused: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, gate = ctx.saved_tensors
        return gradient * (gate + ctx.scale * x * gate * (1 - gate)), None


class Doubled(torch.autograd.Function):
    """A custom Function that works in place."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.third = nn.Linear(WIDTH, WIDTH)
        self.matrix = nn.Parameter(torch.eye(WIDTH) + 0.01 * torch.randn(WIDTH, WIDTH))
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = relu(self.first(x))
        x = x + 0.1
        x[:, :4].mul_(0.5)  # a view, changed in place
        x, gate = Swish.apply(x, 1.5)
        x = x + gate.detach()
        x = checkpoint(self._inner, x, self.second, use_reentrant=True)
        x = checkpoint(self._inner, x, self.third, use_reentrant=False)
        x = Doubled.apply(x * 1.0)
        with torch.no_grad():
            self.seen.add_(x.mean(0)).clamp_(-10, 10)
        left, right = x.chunk(2, dim=1)
        x = torch.cat([left.sin().neg_().add_(1.0), right - 0.5], dim=1)
        x = x @ self.matrix.T
        x = torch.fft.irfft(torch.fft.rfft(x), n=WIDTH)
        x = torch.special.expit(x) * torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        x[x > 4] = 4.0
        return x

    def _inner(self, x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
        return x + F.dropout(torch.tanh(layer(x)), 0.1)


@dataclass(frozen=True)
class Program:
    """How to make a model, its optimizer and its data, and how one step computes the loss."""

    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


def _language_loss(model: nn.Module, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())


def _autocast_loss(model: nn.Module, image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.cross_entropy(model(image), target)


def _square_loss(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((model(x) - target) ** 2).mean()


def _tokens() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(50, (8, 40)), torch.randint(50, (8, 40))


def _images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 3, 20, 20), torch.randint(5, (6,))


def _vectors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(300, WIDTH), torch.randn(300, WIDTH)


PROGRAMS = {
    "transformer": Program(
        Transformer, lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True), _tokens, _language_loss
    ),
    "transformer-loop": Program(
        Transformer, lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False), _tokens, _language_loss
    ),
    "convolution": Program(
        Convolution, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3), _images, _autocast_loss
    ),
    "mixed": Program(Mixed, lambda p: torch.optim.SGD(p, lr=0.05), _vectors, _square_loss),
}
THREE_MODELS = ("transformer", "convolution", "mixed")


@dataclass
class Trained:
    """Every number that a training gave."""

    losses: list[torch.Tensor] = field(default_factory=list)
    gradients: list[dict[str, torch.Tensor]] = field(default_factory=list)
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    random_state: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    def differences(self, other: Trained) -> list[str]:
        """What is not the same to the last bit."""
        found = [f"loss {n}" for n, pair in enumerate(zip(self.losses, other.losses, strict=True)) if not _same(*pair)]
        for step, (mine, theirs) in enumerate(zip(self.gradients, other.gradients, strict=True)):
            assert mine.keys() == theirs.keys()
            found += [f"gradient of {name} in step {step}" for name in mine if not _same(mine[name], theirs[name])]
        found += [name for name in self.state if not _same(self.state[name], other.state[name])]
        return found + ([] if torch.equal(self.random_state, other.random_state) else ["random state"])


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have the same bits; a NaN is the same as itself."""
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(_bytes(left), _bytes(right))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def train(
    name: str, capture: AbstractContextManager[Any] | None = None, *, steps: int = STEPS, keep: bool = True
) -> Trained:
    """Trains a program for some steps; the capture, if there is one, is on for all of them. Without ``keep`` nothing
    but the program itself runs."""
    program = PROGRAMS[name]
    torch.manual_seed(7)
    model = program.model()
    optimizer = program.optimizer(model.parameters())
    batches = [program.batch() for _ in range(steps)]
    trained = Trained()
    with capture or nullcontext():
        for x, target in batches:
            optimizer.zero_grad()
            loss = program.loss(model, x, target)
            loss.backward()
            optimizer.step()
            if keep:
                trained.losses.append(loss.detach().clone())
                trained.gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    trained.state = {n: value.detach().clone() for n, value in model.state_dict().items()}
    trained.random_state = torch.get_rng_state()
    return trained
