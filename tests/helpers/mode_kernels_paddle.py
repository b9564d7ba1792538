"""Functions to be called in place of Paddle's, for the modes of a check."""

from __future__ import annotations

from typing import Any

import paddle


def other_in_graphs(x: Any) -> Any:
    """Right when called eagerly, off by a thousandth in a graph."""
    return paddle.tanh(x) if paddle.in_dynamic_mode() else paddle.tanh(x) * 1.001
