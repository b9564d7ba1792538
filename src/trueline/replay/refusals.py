"""Calls that cannot be executed alone, and why, as far as their record tells."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from trueline.cases import Case, covers
from trueline.dtypes import DTYPES
from trueline.ops.facts import Kind, facts_of
from trueline.records import Call, TensorRecord
from trueline.tree import Tree

_MOST_ELEMENTS = 1 << 28
"""Calls that touch more elements than this are not executed: float64 copies of them would not fit."""

_REBUILT = frozenset({"torch.memory_format", "torch.layout", "torch._C.Generator"})
"""Objects that an executor makes again from their text."""

NO_MEMORY = "it has no memory"
"""What a Run says of a tensor that nobody had written to."""

_FRAMEWORKS = ("torch.", "paddle.")
_COLLECTIVE = "it communicates with other ranks"


def refusal(call: Call, overridden: Collection[str] = ()) -> str:
    """Why a call cannot be a Case; empty where it can."""
    if call.raised:
        return "it raised an error when it was captured"
    if facts_of(call.api).kind is Kind.COLLECTIVE:
        return _COLLECTIVE
    if not covers(overridden, call.api):
        if call.api.endswith(".apply"):
            return "a custom autograd function: what it does was not recorded, the calls it makes were"
        if not call.api.startswith(_FRAMEWORKS):
            return f"no operator: {call.api} is not a function of the framework; what it does was not recorded"
    unknown = _unknown_object(call.arguments)
    if unknown:
        return f"an argument of type {unknown} was not recorded in full"
    for record in call.tensors:
        if record.dtype.rpartition(".")[2] not in DTYPES:
            return f"a tensor of {record.dtype}, which is not known here"
    unread = next((reason for record in call.inputs if (reason := _unread(record))), "")
    if unread:
        return f"an input could not be read when it was captured: {unread}"
    return _too_large([record.shape for record in call.tensors])


def case_refusal(case: Case, overridden: Collection[str] = ()) -> str:
    """Why a case that was written down, not captured, cannot be executed; empty where it can."""
    if facts_of(case.api).kind is Kind.COLLECTIVE:
        return _COLLECTIVE
    if not covers(overridden, case.api) and not case.api.startswith(_FRAMEWORKS):
        return f"no operator: {case.api} is not a function of a framework that is known here"
    return _too_large([spec.shape for spec in case.tensors])


def _too_large(shapes: Iterable[tuple[int, ...]]) -> str:
    if sum(math.prod(shape) for shape in shapes) > _MOST_ELEMENTS:
        return f"it touches more than {_MOST_ELEMENTS:,} elements"
    return ""


def has_no_memory(record: TensorRecord) -> bool:
    """Whether a tensor had no memory yet when the call was made: the call can only have written to it."""
    return record.missing == NO_MEMORY


def _unread(record: TensorRecord) -> str:
    known = record.statistics is not None or record.stored or has_no_memory(record)
    return "" if known else record.missing


def _unknown_object(tree: Tree) -> str:
    """The type of an argument of which too little is known to make it again."""
    if isinstance(tree, list):
        return next((found for item in tree if (found := _unknown_object(item))), "")
    if not isinstance(tree, dict):
        return ""
    kind = tree.get("$object") or tree.get("$record")
    if isinstance(kind, str):
        return "" if kind in _REBUILT else kind
    return next((found for value in tree.values() if (found := _unknown_object(value))), "")
