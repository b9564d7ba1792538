"""Stand-ins for operators of Paddle, each wrong in its own way, for triage to tell apart."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import paddle

_tanh, _sin, _cos, _sqrt, _square = paddle.tanh, paddle.sin, paddle.cos, paddle.sqrt, paddle.square
_cumsum, _argmax = paddle.cumsum, paddle.argmax
_sigmoid, _softmax, _gelu = paddle.nn.functional.sigmoid, paddle.nn.functional.softmax, paddle.nn.functional.gelu
_relu, _softsign = paddle.nn.functional.relu, paddle.nn.functional.softsign


def factor(x: Any, name: Any = None) -> Any:
    return _tanh(x) * 1.005


def offset(x: Any, name: Any = None) -> Any:
    return _sin(x) + 0.01


def nondeterministic(x: Any, name: Any = None) -> Any:
    """Off by something else each time."""
    noise = np.random.default_rng(time.perf_counter_ns()).normal(size=x.shape) * 1e-3
    return _cos(x) + paddle.to_tensor(noise.astype(str(x.dtype).rpartition(".")[2]))


def narrower(x: Any, name: Any = None) -> Any:
    """float64 computed in float32."""
    return _sigmoid(x.astype("float32")).astype(x.dtype)


def one_element(x: Any, axis: int = -1, dtype: Any = None, name: Any = None) -> Any:
    made = _softmax(x, axis)
    spot = np.zeros(x.shape, dtype="float32")
    spot.flat[3] = 0.5
    return made + paddle.to_tensor(spot)


def half_gradient(x: Any, approximate: bool = False, name: Any = None) -> Any:
    return _gelu(x.detach(), approximate) * 0.5 + _gelu(x, approximate) * 0.5


def not_clipped(x: Any, name: Any = None) -> Any:
    """relu in place of relu6."""
    return _relu(x * 1.0)


def raises(x: Any, name: Any = None) -> Any:
    raise ValueError(f"cannot take {list(x.shape)} today")


def not_finite(x: Any, name: Any = None) -> Any:
    made = _softsign(x)
    return paddle.where(made > 0.3, made * float("nan"), made)


def other_dtype(x: Any, name: Any = None) -> Any:
    return _sqrt(x).astype("float64")


def wrong_edge(x: Any, axis: Any = None, dtype: Any = None, name: Any = None) -> Any:
    made = _cumsum(x, axis)
    last = np.zeros(x.shape, dtype="float32")
    last[..., -1] = 1.0
    return made * paddle.to_tensor(1.0 + 0.25 * last)


def next_index(x: Any, axis: Any = None, keepdim: bool = False, dtype: str = "int64", name: Any = None) -> Any:
    return _argmax(x, axis, keepdim) + 1


def quadratic(x: Any, name: Any = None) -> Any:
    """Takes its time: 4 ms for a thousand elements, sixteen times as long for four thousand."""
    time.sleep(4e-9 * float(np.prod(x.shape)) ** 2)
    return _square(x)


def crashes(x: Any, name: Any = None) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(x: Any, name: Any = None) -> Any:
    time.sleep(600)


def eats_memory(x: Any, name: Any = None) -> Any:
    held = []
    while True:
        held.append(paddle.ones([1 << 27]))
