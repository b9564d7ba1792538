"""Puts something else in the places of a program that hold an object: dictionaries, lists, cells, attributes."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any


def replace(holder: Any, others: Mapping[int, Any]) -> None:
    """Has a holder hold others in the place of what it holds; ``others`` are by the identity of what they replace.
    Tuples, frames and methods stay as they are."""
    if isinstance(holder, dict):
        _replace_items(holder, holder.items(), others)
    elif isinstance(holder, list):
        _replace_items(holder, enumerate(holder), others)
    elif isinstance(holder, types.CellType):
        if id(holder.cell_contents) in others:
            holder.cell_contents = others[id(holder.cell_contents)]
    elif not isinstance(holder, tuple | types.FrameType | types.MethodType) and hasattr(holder, "__dict__"):
        for name, item in list(vars(holder).items()):
            if id(item) in others:
                setattr(holder, name, others[id(item)])


def _replace_items(holder: Any, items: Any, others: Mapping[int, Any]) -> None:
    for key, item in list(items):
        if id(item) in others:
            holder[key] = others[id(item)]
