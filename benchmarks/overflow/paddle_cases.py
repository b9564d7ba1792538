"""The same questions for Paddle: a small model with sites, eight seeded cases and four clean runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np
import paddle
import paddle.nn.functional as F

from benchmarks.overflow.recording import recording
from trueline.overflows import Nature, OverflowKind

K = OverflowKind
INFINITY = float("inf")
STEPS = 2


class Model(paddle.nn.Layer):
    """A causal attention layer and a head, on vectors."""

    def __init__(self, sites: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__()
        self._put = dict(sites)
        self.first, self.head = paddle.nn.Linear(16, 16), paddle.nn.Linear(16, 4)

    def forward(self, batch: Any) -> Any:
        hidden = self._at("hidden", lambda value: value, self.first(batch))
        scores = paddle.matmul(hidden, hidden, transpose_y=True) / 4.0
        weights = F.softmax(self._at("mask", _mask, scores), axis=-1)
        logits = self._at("logits", lambda value: value, self.head(paddle.matmul(weights, hidden)))
        return self._at("loss", lambda value: (value**2).mean(), logits)

    def _at(self, name: str, plain: Callable[..., Any], *arguments: Any) -> Any:
        return self._put.get(name, plain)(*arguments)


def _mask(scores: Any) -> Any:
    return scores + paddle.triu(paddle.full(scores.shape[-2:], -INFINITY, dtype=scores.dtype), 1)


def _nothing_seen(scores: Any) -> Any:
    return scores + paddle.triu(paddle.full(scores.shape[-2:], -INFINITY, dtype=scores.dtype), 0)


@dataclass(frozen=True)
class OnPaddle:
    name: str
    api: str = ""
    kinds: tuple[OverflowKind, ...] = ()
    nature: Nature = Nature.EXPECTED
    phase: str = "forward"
    sites: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    spoil: str = ""
    clean: bool = False


CASES: tuple[OnPaddle, ...] = (
    OnPaddle(
        "paddle: 0/0",
        "__truediv__",
        (K.ZERO_BY_ZERO,),
        sites={"hidden": lambda value: value + (value * 0) / (value * 0)},
    ),
    OnPaddle(
        "paddle: log of zero", "log", (K.DIVISION_BY_ZERO,), sites={"hidden": lambda value: value + F.relu(value).log()}
    ),
    OnPaddle(
        "paddle: log of a negative", "log", (K.OUTSIDE_DOMAIN,), sites={"hidden": lambda value: (value - 10).log()}
    ),
    OnPaddle("paddle: exponential", "exp", (K.EXPONENTIAL,), sites={"logits": lambda value: (value + 90).exp()}),
    OnPaddle("paddle: a row that sees nothing", "softmax", (K.INFINITY_MINUS_INFINITY,), sites={"mask": _nothing_seen}),
    OnPaddle(
        "paddle: cast", "cast", (K.CAST,), sites={"logits": lambda value: (value * 1e8).cast("float16").cast("float32")}
    ),
    OnPaddle(
        "paddle: root of zero, backward",
        "sqrt",
        (K.DIVISION_BY_ZERO, K.ZERO_BY_ZERO),
        phase="backward",
        sites={"hidden": lambda value: value + (value * 0).sqrt()},
    ),
    OnPaddle("paddle: weight loaded bad", "linear", (K.PARAMETER,), Nature.INHERITED, spoil="head"),
    OnPaddle("paddle: NaN in the batch", "linear", (K.INPUT,), Nature.INHERITED, spoil="batch"),
    OnPaddle("paddle: masked attention", clean=True),
    OnPaddle(
        "paddle: guarded division",
        clean=True,
        sites={"hidden": lambda value: value / value.norm(axis=-1, keepdim=True).clip(min=1e-6)},
    ),
    OnPaddle(
        "paddle: cleared",
        clean=True,
        sites={"logits": lambda value: value + paddle.nan_to_num(F.relu(value).log(), 0.0, 0.0, 0.0).detach()},
    ),
)


def train(case: OnPaddle, run: Path, through: str = "capture") -> None:
    paddle.seed(0)
    model = Model(case.sites)
    optimizer = paddle.optimizer.SGD(1e-3, parameters=model.parameters())
    if case.spoil in ("head", "first"):
        layer = getattr(model, case.spoil)
        weight = layer.weight.numpy()
        weight[0, 0] = np.nan
        layer.weight.set_value(weight)
    batches = [np.random.default_rng(step).standard_normal((2, 6, 16)).astype("float32") for step in range(STEPS)]
    if case.spoil == "batch":
        batches[0][0, 0, 0] = np.nan
    tensors = [paddle.to_tensor(batch) for batch in batches]
    with recording(run, through, framework="paddle") as recorded:
        for batch in tensors:
            loss = model(batch)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            recorded.step()
