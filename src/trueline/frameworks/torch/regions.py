"""Finds the functions that need a splice: collectives, functions made by torch.compile, and the ways into everything
that takes a program apart instead of running it: compilers, exporters, tracers. Which of them there are depends on the
version of torch, and on what the program has imported."""

from __future__ import annotations

import gc
import sys
import types
from functools import reduce
from typing import Any

import torch

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

COLLECTIVES = "torch.distributed.distributed_c10d"
COMPILER = "torch._dynamo.eval_frame"
TRACERS: dict[str, tuple[str, ...]] = {
    "torch.jit._trace": ("trace", "trace_module", "_get_trace_graph"),
    "torch.jit._script": ("script",),
    "torch.fx._symbolic_trace": ("Tracer.trace",),
    "torch.fx.experimental.proxy_tensor": ("_MakefxTracer.trace", "dispatch_trace"),
    "torch.export": ("export", "export_for_training", "draft_export"),
    "torch.export._trace": ("_export", "_export_for_training"),
    "torch.export.exported_program": ("ExportedProgram.run_decompositions", "ExportedProgram.module"),
    "torch.onnx": ("export",),
    "torch.onnx.utils": ("export", "_export"),
    "torch._functorch.aot_autograd": (
        "aot_export_module", "aot_export_joint_simple", "aot_export_joint_with_descriptors", "aot_module_simplified",
        "aot_compile_joint_with_descriptors", "create_aot_dispatcher_function", "create_aot_state",
    ),
    "torch._inductor.compile_fx": ("compile_fx", "compile_fx_aot"),
}  # fmt: skip
"""Where a program is taken apart: our modes would become a part of what is made of it."""
WHOLE_BACKWARD = "torch._dynamo.compiled_autograd"
"""Compiles a backward as a whole, with every hook at its nodes."""
LATE = frozenset({COLLECTIVES, COMPILER, WHOLE_BACKWARD, *TRACERS})
"""Modules in which something is looked for; a program may import them at any time."""


def is_there(module: str) -> bool:
    """Whether the program has imported a module, all of it."""
    found = sys.modules.get(module)
    return found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False)


def collectives() -> list[types.FunctionType]:
    """The collectives of torch.distributed, if the program uses it at all."""
    return _functions(COLLECTIVES, _COLLECTIVES)


def backwards() -> list[types.FunctionType]:
    """The function in which every backward that a program asks for begins, given its roots; older versions of torch
    have none for all of them."""
    place = "torch.autograd.graph"
    return _functions(place, ("_engine_run_backward",)) or _functions("torch.autograd", ("backward", "grad"))


def whole_backward() -> list[types.FunctionType]:
    """The function that gives a context in which backwards are compiled as a whole."""
    return _functions(WHOLE_BACKWARD, ("_enable",))


def rules() -> list[types.FunctionType]:
    """The function by which torch looks for an operator's rule for a dispatch mode; older versions have none."""
    return _functions("torch._library.simple_registry", ("find_torch_dispatch_rule",))


def tracers(module: str) -> list[types.FunctionType]:
    """The ways into what takes a program apart that lie in this module."""
    return _functions(module, TRACERS.get(module, ()))


def _functions(module: str, names: tuple[str, ...]) -> list[types.FunctionType]:
    there = sys.modules.get(module)
    found: list[Any] = [_at(there, name.split(".")) for name in names]
    return [function for function in found if isinstance(function, types.FunctionType)]


def _at(owner: Any, path: list[str]) -> Any:
    return reduce(lambda found, part: getattr(found, part, None), path, owner)


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
    """The way into every module made by torch.compile, if they have one of their own: those of torch 2.4 are called as
    all modules are, and go on to a compiled function."""
    kind = _at(sys.modules.get(COMPILER), ["OptimizedModule"])
    own = vars(kind).get("__call__") if isinstance(kind, type) else None
    return [own] if isinstance(own, types.FunctionType) else []


def is_compiled(item: Any) -> bool:
    return (
        type(item) is types.FunctionType
        and "_torchdynamo_orig_callable" in item.__dict__
        and item.__code__.co_name in _WRAPPERS
        and not getattr(item, "_torchdynamo_disable", False)
    )


def compiled_module(function: Any) -> Any:
    """The module whose call was compiled in its place (``module.compile()``); None where it was something else."""
    owner = getattr(function.__dict__.get("_torchdynamo_orig_callable"), "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


def compiler() -> types.FunctionType | None:
    """The function through which torch.compile makes a compiled function."""
    context = getattr(sys.modules.get(COMPILER), "_TorchDynamoContext", None)
    return None if context is None else context.__call__


def exporter() -> types.FunctionType | None:
    """The function of the compiler that gives one which makes a graph when it is called."""
    found = _functions(COMPILER, ("export",))
    return found[0] if found else None


def is_compiled_backward(kind: Any) -> bool:
    """Whether a custom autograd.Function is one that the compiler made: its backward may be compiled when it first
    runs."""
    return hasattr(kind, "compiled_bw") and hasattr(kind, "_aot_id")


def compiled_name(function: Any) -> str:
    return str(getattr(function, "__qualname__", "region")).replace("<locals>.", "")


def hide_from_compiler(codes: list[types.CodeType]) -> None:
    """Has the compiler leave these alone when it comes across them as it runs a program."""
    kernel = _at(sys.modules.get("torch._C._dynamo"), ["eval_frame"])
    skip: Any = getattr(sys.modules.get(COMPILER), "skip_code", None) or getattr(kernel, "skip_code", None)
    for code in codes if skip is not None else ():
        skip(code)
