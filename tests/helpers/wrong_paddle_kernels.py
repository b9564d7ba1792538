"""Stand-ins for Paddle's GELU, each wrong in its own way; and one that is right."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import paddle

gelu = paddle.nn.functional.gelu


def right(x: Any, approximate: bool = False) -> Any:
    """Composed of other operators."""
    return x * 0.5 * (1.0 + paddle.erf(x / 2.0**0.5))


def negated(x: Any, approximate: bool = False) -> Any:
    return -gelu(x, approximate)


def tanh_form(x: Any, approximate: bool = False) -> Any:
    """The approximation where the exact one was asked for."""
    return gelu(x, True)


def wrong_gradient(x: Any, approximate: bool = False) -> Any:
    """The right numbers, and half of the gradient."""
    return gelu(x.detach(), approximate) * 0.5 + gelu(x, approximate) * 0.5


def one_element(x: Any, approximate: bool = False) -> Any:
    made = gelu(x, approximate).flatten()
    return paddle.concat([made[:-1], made[-1:] + 0.5]).reshape(x.shape)


def writes_to_its_argument(x: Any, approximate: bool = False) -> Any:
    made = gelu(x, approximate)
    x.add_(paddle.ones_like(x))
    return made


def crashes(x: Any, approximate: bool = False) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(x: Any, approximate: bool = False) -> Any:
    time.sleep(600)


def eats_memory(x: Any, approximate: bool = False) -> Any:
    held = []
    while True:
        held.append(paddle.ones([1 << 24]))


def half_filled(x: Any, approximate: bool = False) -> Any:
    """With a second result that no kernel made: the rank, which this way of solving does not find."""
    one = paddle.ones([2, 1])
    return gelu(x, approximate), paddle._C_ops.lstsq(one, one, 1e-6, "gels")[2]
