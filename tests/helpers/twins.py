"""One small language model written twice, in torch and in Paddle, as anyone would write it in each, with the same
weights and data: embedding, layer norm, attention written out, convolution, gelu, a tied loss, an optimizer.

A fault is a name; every place in the models asks whether its own is planted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import torch

import trueline

WORDS, WIDTH, HEADS, LENGTH, BATCH, HIDDEN = 40, 24, 4, 10, 3, 36
SMOOTHING = 0.1
RATES = {"SGD": 0.05, "AdamW": 0.002}

Array = np.ndarray[Any, Any]


def weights(seed: int = 0) -> dict[str, Array]:
    """The parameters by name, as torch lays them out."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    found = {"embed.weight": draw(WORDS, WIDTH)}
    for name in ("query", "key", "value", "out"):
        found |= {f"attention.{name}.weight": draw(WIDTH, WIDTH), f"attention.{name}.bias": draw(WIDTH)}
    for name in ("first", "second"):
        found |= {f"{name}.weight": 1 + 0.1 * draw(WIDTH), f"{name}.bias": draw(WIDTH)}
    found |= {"mix.weight": draw(WIDTH, WIDTH, 3), "mix.bias": draw(WIDTH)}
    found |= {"up.weight": draw(HIDDEN, WIDTH), "up.bias": draw(HIDDEN)}
    found |= {"down.weight": draw(WIDTH, HIDDEN), "down.bias": draw(WIDTH)}
    found |= {"head.weight": draw(WORDS, WIDTH), "head.bias": draw(WORDS)}
    return {name: value.astype(np.float32) for name, value in found.items()}


def batches(steps: int, seed: int = 1) -> list[tuple[Array, Array]]:
    random = np.random.default_rng(seed)
    shape = (BATCH, LENGTH)
    return [(random.integers(0, WORDS, shape), random.integers(0, WORDS, shape)) for _ in range(steps)]


class TorchAttention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(2, 3)) * (WIDTH // HEADS) ** -0.5
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class TorchModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention = TorchAttention()
        self.mix = torch.nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.up, self.down = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        x = x + self.attention(self.first(x))
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))
        return self.head(x)


class PaddleAttention(paddle.nn.Layer):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.query, self.key, self.value, self.out = (paddle.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x: Any) -> Any:
        return x.reshape([BATCH, LENGTH, HEADS, WIDTH // HEADS]).transpose([0, 2, 1, 3])

    def forward(self, x: Any) -> Any:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = paddle.matmul(query, key, transpose_y=True)
        if self.fault != "no scale in attention":
            scores = scores * (WIDTH // HEADS) ** -0.5
        axis = 2 if self.fault == "softmax over the wrong axis" else -1
        mixed = paddle.matmul(paddle.nn.functional.softmax(scores, axis=axis), value)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([BATCH, LENGTH, WIDTH]))


class PaddleModel(paddle.nn.Layer):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        epsilon = 1e-3 if fault == "epsilon of layer norm" else 1e-5
        self.embed = paddle.nn.Embedding(WORDS, WIDTH)
        self.first, self.second = paddle.nn.LayerNorm(WIDTH), paddle.nn.LayerNorm(WIDTH, epsilon=epsilon)
        self.attention = PaddleAttention(fault)
        self.mix = paddle.nn.Conv1D(WIDTH, WIDTH, 3, padding=1)
        self.up, self.down = paddle.nn.Linear(WIDTH, HIDDEN), paddle.nn.Linear(HIDDEN, WIDTH)
        self.head = paddle.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        x = x + self.attention(self.first(x))
        x = x + self.mix(x.transpose([0, 2, 1])).transpose([0, 2, 1])
        hidden = self.up(self.second(x))
        if self.fault == "gelu by tanh":
            hidden = paddle.nn.functional.gelu(hidden, approximate=True)
        else:
            if self.fault == "gradient through a hook":
                hidden.register_hook(lambda gradient: gradient * 1.02)
            hidden = paddle.nn.functional.gelu(hidden)
        if self.fault == "no bias":
            x = x + paddle.nn.functional.linear(hidden, self.down.weight)
        else:
            x = x + self.down(hidden)
        return self.head(x)


def torch_run(path: Path, *, steps: int = 2, data: str = "tensors", optimizer: str = "SGD") -> Path:
    """Trains the torch model for some steps, captured."""
    model = TorchModel()
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights().items()})
    descent = getattr(torch.optim, optimizer)(model.parameters(), lr=RATES[optimizer])
    with trueline.capture(path, data=data, framework="torch"):
        for tokens, labels in batches(steps):
            logits = model(torch.from_numpy(tokens))
            flat = logits.reshape(-1, WORDS), torch.from_numpy(labels).reshape(-1)
            loss = torch.nn.functional.cross_entropy(*flat, label_smoothing=SMOOTHING)
            loss.backward()
            descent.step()
            descent.zero_grad()
    return path


def paddle_run(
    path: Path, fault: str = "", *, steps: int = 2, data: str = "tensors", optimizer: str = "SGD"
) -> Path:
    """The same with Paddle; ``fault`` names what is wrong with it."""
    model = PaddleModel(fault)
    known = weights()
    for name, parameter in model.named_parameters():
        value = known[name]
        linear = name.endswith("weight") and value.ndim == 2 and not name.startswith("embed")
        parameter.set_value(value.T.copy() if linear else value)
    rate = RATES[optimizer] * (1.2 if fault == "learning rate" else 1.0)
    descent = getattr(paddle.optimizer, optimizer)(learning_rate=rate, parameters=model.parameters())
    smoothing = 0.2 if fault == "label smoothing" else SMOOTHING
    kernels = _wrong_gelu() if fault == "gelu by a wrong kernel" else nullcontext()
    with kernels, trueline.capture(path, data=data, framework="paddle"):
        for tokens, labels in batches(steps):
            logits = model(paddle.to_tensor(tokens))
            flat = logits.reshape([-1, WORDS]), paddle.to_tensor(labels).reshape([-1])
            loss = paddle.nn.functional.cross_entropy(*flat, label_smoothing=smoothing)
            if fault == "scale of the loss":
                loss = loss * 1.5
            loss.backward()
            descent.step()
            descent.clear_grad()
    return path


@contextmanager
def _wrong_gelu() -> Iterator[None]:
    """Paddle's kernel of gelu computes the approximation whatever it is asked for."""
    kernel = paddle._C_ops.gelu
    paddle._C_ops.gelu = lambda x, *_, **__: kernel(x, True)
    try:
        yield
    finally:
        paddle._C_ops.gelu = kernel
