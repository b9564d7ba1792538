"""Argument trees of torch calls: found once, then known by their shape.

``flatten`` turns arguments into a hashable key and a list of tensors. Equal keys mean equal trees, so the JSON of a
tree is written once however often the call is made.
"""

from __future__ import annotations

from typing import Any

import torch

from trueline.frameworks.keys import ATOMS, TENSOR, Key, key_of_other

PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


class Spelled:
    """Stands for a value without tensors of which nothing but its key is wanted any more."""

    __slots__ = ("key",)

    def __init__(self, key: Key) -> None:
        self.key = key


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
    if kind is Spelled:
        return value.key
    if isinstance(value, torch.Size):
        return ("$size", tuple(value))
    if isinstance(value, torch.dtype):
        return ("$dtype", str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return ("$device", str(value))
    return key_of_other(value, kind, leaves, flatten, (torch.layout, torch.memory_format))
