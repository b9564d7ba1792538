"""Argument trees of Paddle calls: found once, then known by their shape.

``flatten`` turns arguments into a hashable key and a list of tensors. Equal keys mean equal trees, so the JSON of a
tree is written once however often the call is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle.base import core

from trueline.frameworks.keys import ATOMS, TENSOR, Key, key_of_other, object_key

Tensor = Any

PLAIN_TENSORS = frozenset({paddle.Tensor, paddle.base.framework.EagerParamBase})
_SIZE = type(paddle.to_tensor([1.0]).shape)
_PLACES = tuple(
    getattr(core, name)
    for name in ("Place", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace", "IPUPlace", "CustomPlace")
    if hasattr(core, name)
)
_DTYPES = tuple(kind for kind in (paddle.dtype, core.DataType, core.VarDesc.VarType) if isinstance(kind, type))
_LONG = 1024
"""A list of so many plain values is data, not an argument: it is not spelled out."""


def flatten(value: Any, leaves: list[Tensor]) -> Key:
    """The key of a value; its tensors are appended to ``leaves`` in order."""
    kind = type(value)
    if kind in PLAIN_TENSORS:
        leaves.append(value)
        return TENSOR
    if kind in ATOMS:
        return (kind, value)
    if kind is tuple or kind is list:
        if len(value) > _LONG and type(value[0]) in ATOMS:
            return ("$object", f"builtins.{kind.__name__}", f"{len(value)} values")
        return (kind, tuple([flatten(item, leaves) for item in value]))
    return flatten_other(value, kind, leaves)


def flatten_other(value: Any, kind: type, leaves: list[Tensor]) -> Key:
    """The key of a value that is neither a plain tensor, nor a number or text, nor a plain tuple or list."""
    if isinstance(value, paddle.Tensor):
        leaves.append(value)
        return TENSOR
    if isinstance(value, _SIZE) and kind not in (tuple, list):
        return ("$size", tuple(value))
    if isinstance(value, _DTYPES):
        return ("$dtype", dtype_name(value))
    if isinstance(value, _PLACES):
        return ("$device", device_name(value))
    if isinstance(value, np.generic) and not isinstance(value, int | float):
        return flatten(value.item(), leaves) if type(value.item()) in ATOMS else object_key(value, kind)
    return key_of_other(by_position(value), kind, leaves, flatten)


def by_position(value: Any) -> Any:
    """A named tuple of Paddle's own as a plain one: whether ``topk`` names its two results changes from one version to
    the next, and torch counts them."""
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return tuple(value) if named and type(value).__module__.partition(".")[0] == "paddle" else value


def dtype_name(value: Any) -> str:
    """``paddle.float32`` and ``VarType.FP32`` -> ``float32``."""
    text = str(value).rpartition(".")[2]
    return _OLD_NAMES.get(text, text.lower())


_OLD_NAMES = {
    "FP16": "float16", "FP32": "float32", "FP64": "float64", "BF16": "bfloat16", "FP8_E4M3FN": "float8_e4m3fn",
    "FP8_E5M2": "float8_e5m2",
}  # fmt: skip


def place_of(tensor: Tensor) -> str:
    """Where a tensor lies, in Paddle's words. Of one that never had memory older versions raise, newer say: the CPU."""
    try:
        return tensor._place_str
    except RuntimeError:
        return "Place(cpu)"


def device_name(place: Any) -> str:
    """``Place(gpu:0)`` -> ``gpu:0``."""
    text = str(place)
    return text[6:-1] if text.startswith("Place(") else text
