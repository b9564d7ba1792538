"""What an observer must give back as it was: a picture of the process before and after."""

from __future__ import annotations

import builtins
import gc
import os
import signal
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.odd_programs.describe import without_addresses

_IGNORED = {"__warningregistry__", "__doc__", "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"}
_MODULES = (
    "torch",
    "torch.nn.functional",
    "torch.nn.modules.module",
    "torch.autograd",
    "torch.autograd.graph",
    "torch.autograd.function",
    "torch.utils.checkpoint",
    "torch.overrides",
    "torch.utils._python_dispatch",
    "torch.distributed",
    "torch.distributed.distributed_c10d",
    "torch.func",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.jit",
    "torch.optim",
    "torch.optim.optimizer",
    "torch.utils.data.dataloader",
    "torch._dynamo.eval_frame",
    "torch._functorch.apis",
    "torch.amp",
    "threading",
    "os",
    "warnings",
    "multiprocessing.process",
)


def _owners() -> Iterator[tuple[str, Any]]:
    for name in _MODULES:
        if name in sys.modules:
            yield name, sys.modules[name]
    yield "builtins", builtins
    classes = [
        torch.Tensor,
        torch._C.TensorBase,
        type(torch._C._VariableFunctions),
        torch.nn.Module,
        torch.nn.Parameter,
    ]
    classes += [torch.autograd.Function, torch.autograd.function.FunctionCtx, torch.Generator, threading.Thread]
    classes += [torch.optim.Optimizer, torch.optim.SGD, torch.optim.Adam, torch.nn.Linear, torch.nn.Sequential]
    classes += [
        torch.utils.data.DataLoader,
        torch.amp.autocast,
        torch.no_grad,
        torch.nn.parallel.DistributedDataParallel,
    ]
    for kind in classes:
        yield kind.__name__ if isinstance(kind, type) else repr(kind), kind


def _inside(value: Any) -> tuple[Any, ...]:
    """What a patch may change in a function without replacing it."""
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    if type(function) is not types.FunctionType:
        return (value,)
    return value, function.__code__, function.__defaults__, function.__kwdefaults__, len(vars(function))


def attributes() -> dict[str, tuple[Any, ...]]:
    found = {}
    for name, owner in _owners():
        for key, value in list(vars(owner).items()):
            if key not in _IGNORED and not key.startswith("__py"):
                found[f"{name}.{key}"] = _inside(value)
    return found


def changed_attributes(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> list[str]:
    lines = [f"attribute {key} is gone" for key in before.keys() - after.keys()]
    lines += [f"attribute {key} is new" for key in after.keys() - before.keys()]
    for key in before.keys() & after.keys():
        pairs = list(zip(before[key], after[key], strict=False))
        same = all(one is other or (isinstance(one, (int, tuple)) and one == other) for one, other in pairs)
        if not same or len(before[key]) != len(after[key]):
            lines.append(f"attribute {key} is another")
    return sorted(lines)


def _hooks() -> dict[str, Any]:
    from torch.nn.modules import module

    found = {f"hooks in {name}": len(value) for name, value in vars(module).items() if _is_hook_table(name, value)}
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    found["saved tensors hooks"] = top(True) is not None if top is not None else False
    return found


def _is_hook_table(name: str, value: Any) -> bool:
    return name.startswith("_global_") and isinstance(value, dict)


def state(folder: str) -> dict[str, Any]:
    """Everything of the process that can be told in numbers and texts."""
    gc.collect()
    kinds = (torch.Tensor, torch.nn.Module)
    objects = [type(item) for item in gc.get_objects()]
    found = {
        **_hooks(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "threads": sorted(thread.name.split("-")[0] for thread in threading.enumerate()),
        "meta_path": [str(type(item)) for item in sys.meta_path],
        "path_hooks": len(sys.path_hooks),
        "trace": repr(sys.gettrace()),
        "profile": repr(sys.getprofile()),
        "thread trace": repr(getattr(threading, "_trace_hook", None)),
        "excepthook": repr(sys.excepthook),
        "signals": " ".join(str(signal.getsignal(number)) for number in sorted(signal.valid_signals())),
        "gc": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks)),
        "showwarning": getattr(warnings.showwarning, "__module__", ""),
        "environment": sorted(os.environ),
        "recursion limit": sys.getrecursionlimit(),
        "folder": os.getcwd(),
        "gradients": torch.is_grad_enabled(),
        "default dtype": str(torch.get_default_dtype()),
        "functorch": torch._C._functorch.peek_interpreter_stack() is None,
        "files open in the Run": sum(folder in target for target in _open_files()),
        "tensors alive": sum(issubclass(kind, kinds[0]) for kind in objects),
        "modules alive": sum(issubclass(kind, kinds[1]) for kind in objects),
    }
    return {key: without_addresses(value) if isinstance(value, str) else value for key, value in found.items()}


def _open_files() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue


def changed_state(bare: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    return [f"{key}: {bare[key]} became {observed[key]}" for key in bare if bare[key] != observed.get(key)]
