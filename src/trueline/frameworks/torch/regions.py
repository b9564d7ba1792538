"""Finds the functions that need a splice: collectives, and functions made by torch.compile."""

from __future__ import annotations

import gc
import sys
import types
from typing import Any

_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_coalesced",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
    "recv",
    "isend",
    "irecv",
)

POINT_TO_POINT = frozenset({"isend", "irecv"})
"""Waiting for one of these at once could wait for ever: the other side may answer only after our next call."""

_WRAPPERS = frozenset({"compile_wrapper", "_fn"})
"""What torch calls the inside of a compiled function, newest name first."""


def collectives() -> list[types.FunctionType]:
    """The collectives of torch.distributed, if the program uses it at all."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    found = (getattr(module, name, None) for name in _COLLECTIVES)
    return [function for function in found if isinstance(function, types.FunctionType)]


def compiled_functions() -> list[types.FunctionType]:
    """The compiled functions that exist already; there can be none unless the compiler was imported."""
    maker = compiler()
    if maker is None:
        return []
    # All are made from the code that the maker holds. Who has it is found in a quarter of the time that a look at every
    # object of the program takes; that is left for a torch that makes them elsewhere.
    constants = maker.__code__.co_consts
    codes = [code for code in constants if isinstance(code, types.CodeType) and code.co_name in _WRAPPERS]
    return [item for item in (gc.get_referrers(*codes) if codes else gc.get_objects()) if is_compiled(item)]


def compiled_modules() -> list[types.FunctionType]:
    """The way into every module made by torch.compile."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    call = vars(getattr(module, "OptimizedModule", object)).get("__call__")
    return [call] if isinstance(call, types.FunctionType) else []


def is_compiled(item: Any) -> bool:
    return (
        type(item) is types.FunctionType
        and "_torchdynamo_orig_callable" in item.__dict__
        and item.__code__.co_name in _WRAPPERS
        and not getattr(item, "_torchdynamo_disable", False)
    )


def compiler() -> types.FunctionType | None:
    """The function through which torch.compile makes a compiled function."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    context = getattr(module, "_TorchDynamoContext", None)
    return None if context is None else context.__call__


def compiled_name(function: Any) -> str:
    return str(getattr(function, "__qualname__", "region")).replace("<locals>.", "")
