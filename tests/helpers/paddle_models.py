"""Small Paddle programs that do what real ones do, and a trainer that keeps every number of three steps.

    net           embedding, convolution, batch norm, attention, layer norm, indexing, dropout, LSTM, cross entropy
    resnet        resnet18 of paddle.vision on small images, momentum
    transformer   attention, AdamW, bfloat16 auto_cast O1 with a gradient scaler
    mixed         in-place calls, views, PyLayers, recompute, Fourier transforms, names imported from paddle before
                  anybody could watch them
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import paddle
from paddle import add, nn
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional as F
from paddle.nn.functional import relu

WIDTH = 16
STEPS = 3
Tensor = Any


class Attention(nn.Layer):
    """As anyone writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).reshape([batch, length, 3, 2, WIDTH // 2]).transpose([2, 0, 3, 1, 4])
        weights = F.softmax(query.matmul(key, transpose_y=True) * (WIDTH // 2) ** -0.5)
        return self.out(weights.matmul(value).transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH]))


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, WIDTH)
        self.conv = nn.Conv1D(WIDTH, WIDTH, 3, padding=1)
        self.batch_norm = nn.BatchNorm1D(WIDTH)
        self.attention = Attention()
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = F.gelu(self.batch_norm(self.conv(x.transpose([0, 2, 1])))).transpose([0, 2, 1])
        x = add(x, self.attention(self.layer_norm(x)))
        x, _ = self.lstm(self.drop(x))
        mask = (tokens > 3).astype("float32").unsqueeze(-1)
        x = (x * mask)[:, -2:].mean(1)
        return self.head(x.T.T)


class Block(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.second = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attention(self.first(x)))
        return x + self.feed(self.second(x))


class Transformer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.blocks = nn.LayerList([Block() for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.weight.T  # tied


class Swish(paddle.autograd.PyLayer):
    """A custom operation with two outputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        gate = F.sigmoid(scale * x)
        ctx.save_for_backward(x, gate)
        ctx.scale = scale
        return x * gate, gate

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, other: Tensor) -> Tensor:
        x, gate = ctx.saved_tensor()
        return (gradient * x + other) * ctx.scale * gate * (1 - gate) + gradient * gate


class Doubled(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


doubled = Doubled.apply
"""Taken before anybody could watch it."""


class Mixed(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.matrix = self.create_parameter([WIDTH, WIDTH])
        self.register_buffer("seen", paddle.zeros([WIDTH]))

    def forward(self, x: Tensor) -> Tensor:
        x = relu(self.first(x))
        x = x + 0.1
        x[:, :4] = x[:, :4] * 0.5
        x, gate = Swish.apply(x, 1.5)
        x = x + gate.detach()
        x = recompute(self._inner, x)
        x = doubled(x)
        with paddle.no_grad():
            self.seen.add_(x.mean(0)).clip_(-10, 10)
        left, right = paddle.split(x, 2, axis=1)
        x = paddle.concat([left.sin().scale_(0.9), right - 0.5, left], axis=1)
        x = x[:, :WIDTH] @ self.matrix.T
        x = paddle.fft.irfft(paddle.fft.rfft(x), n=WIDTH)
        x = F.sigmoid(x) * paddle.linalg.norm(x, axis=-1, keepdim=True)
        return paddle.where(x > 4, paddle.full_like(x, 4.0), paddle.stack([x, x]).sum(0))

    def _inner(self, x: Tensor) -> Tensor:
        return x + F.dropout(paddle.tanh(self.second(x)), 0.1)


@dataclass(frozen=True)
class Program:
    """How to make a model, its optimizer and its data, and how one step computes the loss."""

    model: Callable[[], Any]
    optimizer: Callable[[Any], Any]
    batch: Callable[[], tuple[Tensor, Tensor]]
    loss: Callable[[Any, Tensor, Tensor], Tensor]
    scaler: bool = False


def _plain_loss(model: Any, x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(model(x), target)


def _cast_loss(model: Any, tokens: Tensor, target: Tensor) -> Tensor:
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        return F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())


def _square_loss(model: Any, x: Tensor, target: Tensor) -> Tensor:
    return ((model(x) - target) ** 2).mean()


PROGRAMS = {
    "net": Program(
        Net,
        lambda p: paddle.optimizer.Adam(1e-2, parameters=p),
        lambda: (paddle.randint(0, 40, [4, 12]), paddle.randint(0, 6, [4])),
        _plain_loss,
    ),
    "resnet": Program(
        lambda: paddle.vision.models.resnet18(num_classes=5),
        lambda p: paddle.optimizer.Momentum(0.01, parameters=p, weight_decay=1e-3),
        lambda: (paddle.randn([2, 3, 32, 32]), paddle.randint(0, 5, [2])),
        _plain_loss,
    ),
    "transformer": Program(
        Transformer,
        lambda p: paddle.optimizer.AdamW(
            1e-2, parameters=p, weight_decay=0.1, grad_clip=nn.ClipGradByGlobalNorm(1.0)
        ),
        lambda: (paddle.randint(0, 50, [4, 10]), paddle.randint(0, 50, [4, 10])),
        _cast_loss,
        scaler=True,
    ),
    "mixed": Program(
        Mixed,
        lambda p: paddle.optimizer.SGD(0.05, parameters=p),
        lambda: (paddle.randn([30, WIDTH]), paddle.randn([30, WIDTH])),
        _square_loss,
    ),
}  # fmt: skip


@dataclass
class Trained:
    """Every number that a training gave, as bytes."""

    losses: list[bytes] = field(default_factory=list)
    gradients: list[dict[str, bytes]] = field(default_factory=list)
    state: dict[str, bytes] = field(default_factory=dict)
    random_state: list[Any] = field(default_factory=list)

    def differences(self, other: Trained) -> list[str]:
        """What is not the same to the last bit."""
        losses = enumerate(zip(self.losses, other.losses, strict=True))
        found = [f"loss {number}" for number, (mine, theirs) in losses if mine != theirs]
        for step, (mine, theirs) in enumerate(zip(self.gradients, other.gradients, strict=True)):
            assert mine.keys() == theirs.keys()
            found += [f"gradient of {name} in step {step}" for name in mine if mine[name] != theirs[name]]
        assert self.state.keys() == other.state.keys()
        found += [name for name in self.state if self.state[name] != other.state[name]]
        return found + ([] if self.random_state == other.random_state else ["random state"])


def bits(tensor: Tensor) -> bytes:
    return np.ascontiguousarray(tensor.numpy()).tobytes()


def train(
    name: str, capture: AbstractContextManager[Any] | None = None, *, steps: int = STEPS, keep: bool = True
) -> Trained:
    """Trains a program for some steps; the capture, if there is one, is on for all of them. Without ``keep`` nothing
    but the program itself runs."""
    program = PROGRAMS[name]
    paddle.seed(7)
    model = program.model()
    optimizer = program.optimizer(model.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=64.0) if program.scaler else None
    batches = [program.batch() for _ in range(steps)]
    trained = Trained()
    with capture or nullcontext():
        for x, target in batches:
            loss = program.loss(model, x, target)
            (loss if scaler is None else scaler.scale(loss)).backward()
            if keep:
                trained.losses.append(bits(loss))
                trained.gradients.append({n: bits(p.grad) for n, p in model.named_parameters() if p.grad is not None})
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.clear_grad()
    trained.state = {n: bits(value) for n, value in model.state_dict().items()}
    trained.random_state = [bits(paddle.rand([4]))]
    return trained


@cache
def bare(name: str) -> Trained:
    """What the training gives when nobody watches."""
    return train(name)
