"""A small training program in which faults can be planted; ``# plant: NAME`` marks the line that each is planted in.

Most faults are edits of the program, as a careless rewrite makes them; three are kernels that compute something else
behind a call that looks as always.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from benchmarks.faults.planting import Plant, gradient, result
from torch import Tensor, nn
from torch.nn import functional

KERNELS = {
    "kernel": ({"torch.nn.functional.gelu": result(lambda y, *_: y * 1.01)}, 1),
    "backward kernel": ({"torch.tanh": gradient("TanhBackward0", lambda grads, *_: [grads[0] * 1.02])}, 0),
    "bf16 kernel": ({"torch.matmul": result(lambda y, *_: y + 0.05 * y.abs().mean())}, 0),
}  # fmt: skip
"""Fault -> the kernels that it changes, and which call of them."""


class Block(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.inner, self.outer, self.fault = nn.Linear(16, 32), nn.Linear(32, 16), fault

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.gelu(self.inner(x))  # plant: kernel
        if self.fault == "extra call":
            hidden = hidden.round(decimals=1)  # plant: extra call
        hidden = functional.dropout(hidden, 0.1)  # plant: dropout
        return x + self.outer(hidden)


class Model(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.table, self.first, self.second = nn.Embedding(40, 16), Block(""), Block(fault)
        self.head, self.fault = nn.Linear(16, 40), fault

    def attend(self, x: Tensor) -> Tensor:
        scores = torch.matmul(x, x.transpose(-1, -2))  # plant: bf16 kernel
        if self.fault != "missing call":
            scores = scores * 0.25  # plant: missing call
        if self.fault == "overflow":
            scores = scores * 1e39  # plant: overflow
        if self.fault == "wrong dtype":
            scores = scores.to(torch.float8_e4m3fn).to(x.dtype)  # plant: wrong dtype
        return scores.softmax(-1) @ x

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        x = self.second(self.attend(self.first(x)))
        x = torch.tanh(x)  # plant: backward kernel
        return self.head(x)


def update(model: nn.Module, fault: str) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            rate = 0.2 if fault == "update" else 0.1
            weight.sub_(weight.grad, alpha=rate)  # plant: update
            weight.grad = None


def train(fault: str = "", *, dtype: torch.dtype = torch.float32, steps: int = 2) -> Iterator[None]:
    """Trains a little, a step at a time."""
    torch.manual_seed(3)
    model = Model(fault).to(dtype)
    data = torch.Generator().manual_seed(7 if fault != "data" else 8)
    torch.manual_seed(4 if fault != "dropout" else 5)
    for _ in range(steps):
        tokens = torch.randint(0, 40, (4, 8), generator=data)  # plant: data
        loss = functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        update(model, fault)
        yield


@contextlib.contextmanager
def planted(fault: str) -> Iterator[None]:
    """Changes the kernels of a fault; to be entered before the recorder, which must see the ordinary call."""
    if fault not in KERNELS:
        yield
        return
    table, call = KERNELS[fault]
    with Plant(table, call):
        yield


def line_of(fault: str) -> str:
    """``walk_program.py:46``: where a fault is planted."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{Path(__file__).name}:{next(n for n, text in enumerate(lines, 1) if text.endswith(f'# plant: {fault}'))}"
