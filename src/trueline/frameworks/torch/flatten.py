"""Argument trees of torch calls: found once, then known by their shape.

``flatten`` turns arguments into a hashable key and a list of tensors. Equal keys mean equal trees, so the JSON of a
tree is written once however often the call is made.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import torch

from trueline.frameworks.keys import ATOMS, TENSOR, Key

PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_TEXT_LIMIT = 80


def flatten(value: Any, leaves: list[torch.Tensor]) -> Key:
    """The key of a value; its tensors are appended to ``leaves`` in order."""
    kind = type(value)
    if kind in PLAIN_TENSORS:
        leaves.append(value)
        return TENSOR
    if kind in ATOMS:
        return (kind, value)
    if kind is tuple or kind is list:
        return (kind, tuple([flatten(item, leaves) for item in value]))
    return flatten_other(value, kind, leaves)


def flatten_other(value: Any, kind: type, leaves: list[torch.Tensor]) -> Key:
    """The key of a value that is neither a plain tensor, nor a number or text, nor a plain tuple or list."""
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return TENSOR
    if isinstance(value, torch.Size):
        return ("$size", tuple(value))
    if isinstance(value, torch.dtype):
        return ("$dtype", str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return ("$device", str(value))
    if isinstance(value, dict):
        return (dict, tuple([(_plain_key(key), flatten(item, leaves)) for key, item in value.items()]))
    if isinstance(value, slice):
        return ("$slice", tuple([flatten(part, leaves) for part in (value.start, value.stop, value.step)]))
    if value is Ellipsis:
        return ("$ellipsis", True)
    if kind is complex:
        return ("$complex", (value.real, value.imag))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        return ("$record", _type_name(kind), tuple([(name, flatten(item, leaves)) for name, item in fields]))
    if isinstance(value, tuple | list | set | frozenset):  # torch.return_types.max and other structured tuples
        return (tuple if isinstance(value, tuple) else list, tuple([flatten(item, leaves) for item in value]))
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        parts = tuple([(name, flatten(getattr(value, name, None), leaves)) for name in names])
        return ("$record", _type_name(kind), parts)
    if isinstance(value, int | float):  # numpy scalars, enumerations, symbolic integers
        return _number_key(value)
    return ("$object", _type_name(kind), _text_of(value))


def _number_key(value: Any) -> Key:
    try:
        return (float, float(value)) if isinstance(value, float) else (int, int(value))
    except Exception:
        return ("$object", _type_name(type(value)), "")


def _plain_key(key: Any) -> Any:
    return key if isinstance(key, str | int) else str(key)[:_TEXT_LIMIT]


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _text_of(value: Any) -> str:
    """A short text that is the same in every process: nothing with an address in it."""
    if isinstance(value, enum.Enum | torch.layout | torch.memory_format | type):
        return str(value)[:_TEXT_LIMIT]
    name = getattr(value, "__qualname__", "")
    return name[:_TEXT_LIMIT] if isinstance(name, str) else ""
