"""The same for Paddle: cases written after the diagnosis, by somebody else."""

from __future__ import annotations

from typing import Any

import paddle
import paddle.nn.functional as F

from benchmarks.overflow.paddle_cases import OnPaddle
from trueline.overflows import Nature, OverflowKind

K = OverflowKind
INFINITY = float("inf")


def _entropy(logits: Any) -> Any:
    shares = F.relu(logits) / F.relu(logits).sum(axis=-1, keepdim=True).clip(min=1e-6)
    return -(shares * shares.log()).sum()


def _online(scores: Any) -> Any:
    return scores - paddle.maximum(paddle.full(scores.shape, -INFINITY), scores).max(axis=-1, keepdim=True)


CASES: tuple[OnPaddle, ...] = (
    OnPaddle("paddle held out: entropy with an empty class", "log", (K.DIVISION_BY_ZERO,),
             sites={"loss": _entropy}),
    OnPaddle("paddle held out: rsqrt of zero", "rsqrt", (K.DIVISION_BY_ZERO,),
             sites={"hidden": lambda value: value + (value * 0).rsqrt()}),
    OnPaddle("paddle held out: fortieth power", "pow", (K.EXPONENTIAL,),
             sites={"logits": lambda value: paddle.pow(value * 0 + 20.0, 40)}),
    OnPaddle("paddle held out: far minus far", "subtract", (K.INFINITY_MINUS_INFINITY,),
             sites={"hidden": lambda value: value + paddle.subtract(paddle.full_like(value, INFINITY),
                                                                    paddle.full_like(value, INFINITY))}),
    OnPaddle("paddle held out: arc cosine beyond one", "acos", (K.OUTSIDE_DOMAIN,),
             sites={"logits": lambda value: (value + 9).acos()}),
    OnPaddle("paddle held out: root by power, backward", "pow", (K.DIVISION_BY_ZERO, K.ZERO_BY_ZERO), phase="backward",
             sites={"hidden": lambda value: value + paddle.pow(value * 0, 0.5)}),
    OnPaddle("paddle held out: first weight loaded bad", "linear", (K.PARAMETER,), Nature.INHERITED, spoil="first"),
    OnPaddle("paddle held out: plain", clean=True),
    OnPaddle("paddle held out: largest so far", clean=True, sites={"mask": _online}),
)  # fmt: skip
