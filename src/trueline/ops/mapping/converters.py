"""Values that the two frameworks write differently: pure functions on trees, one for each direction.

A converter that cannot say a value in the other framework raises ``Untranslatable`` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trueline.dtypes import DTYPES
from trueline.tree import Tree


class Untranslatable(Exception):
    """This value has no counterpart; the message says why."""


@dataclass(frozen=True, slots=True)
class Converter:
    """``to_torch`` turns what Paddle was given into what torch is given, ``to_paddle`` the other way round."""

    to_torch: Callable[[Tree], Tree]
    to_paddle: Callable[[Tree], Tree]


def items_of(value: Tree) -> list[Tree] | None:
    """The items of a list, a tuple or a size; None where the value is none of them."""
    if isinstance(value, dict):
        value = value.get("$tuple", value.get("$size"))
    return list(value) if isinstance(value, list) else None


def _is_tensor(value: Tree) -> bool:
    return isinstance(value, dict) and "$t" in value


_PADDLE_NAMES = {"float": "float64", "int": "int64", "complex": "complex128", "uint16": "bfloat16"}
"""Names of dtypes as Paddle understands them; to it ``uint16``, numpy's word for the bits, is bfloat16."""


def _dtype(value: Tree) -> Tree:
    """Paddle takes dtypes also by name; torch does not."""
    if isinstance(value, str):
        name = _PADDLE_NAMES.get(value, value.rpartition(".")[2])
        if name not in DTYPES:
            raise Untranslatable(f"{value!r} is not a dtype")
        return {"$dtype": name}
    if value is not None and not (isinstance(value, dict) and "$dtype" in value):
        raise Untranslatable("this is not a dtype")
    return value


def _same(value: Tree) -> Tree:
    return value


def _list(value: Tree) -> Tree:
    """A list of plain numbers; one number stands for a list of one."""
    if value is None:
        return None
    items = items_of(value)
    items = [value] if items is None else items
    if any(isinstance(item, dict) for item in items):
        raise Untranslatable("torch takes numbers here, not tensors")
    return items


def _number(value: Tree) -> Tree:
    """A plain number, where Paddle takes a tensor of one element as well."""
    items = items_of(value)
    if items is not None and len(items) == 1:
        value = items[0]
    if _is_tensor(value):
        raise Untranslatable("torch takes a number here, not a tensor")
    return value


def _lower(value: Tree) -> Tree:
    return value.lower() if isinstance(value, str) else value


def _negated(value: Tree) -> Tree:
    if not isinstance(value, bool | int):
        raise Untranslatable("only a plain bool can be turned around")
    return not value


def _axes(value: Tree) -> Tree:
    """Dimensions to reduce: a list without any means all of them in Paddle, as None does in both."""
    if _is_tensor(value):
        raise Untranslatable("torch takes numbers for its dimensions, not a tensor")
    items = items_of(value)
    if items is not None and any(isinstance(item, dict) for item in items):
        raise Untranslatable("torch takes numbers for its dimensions, not tensors")
    return None if items == [] else value


def _only_tensor(value: Tree) -> Tree:
    if not _is_tensor(value):
        raise Untranslatable("Paddle takes a tensor here")
    return value


def _only_integer(value: Tree) -> Tree:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Untranslatable("Paddle takes an integer here")
    return value


CONVERTERS: dict[str, Converter] = {
    "dtype": Converter(_dtype, _dtype),
    "list": Converter(_list, _same),
    "number": Converter(_number, _same),
    "lower": Converter(_lower, _lower),
    "tensor": Converter(_same, _only_tensor),
    "integer": Converter(_same, _only_integer),
    "axes": Converter(_axes, _same),
    "not": Converter(_negated, _negated),
}
