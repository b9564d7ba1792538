"""Makes the calls of kernels that a dispatch mode is told of, as they would be made without one."""

from __future__ import annotations

import functools
import operator
import sys
from typing import Any

import torch

from trueline.frameworks.torch.unseen import Unseen


def made(kernel: Any) -> Any:
    """What makes the call of a kernel and asks nobody's ``__torch_function__`` about it: without us it would not be
    called from Python."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            if any(type(value) in _NUMBERS for value in args):
                args = _tensors_again(kernel, args)
            return _counted(kernel, args, kwargs)

    return call


_COUNTER = torch._C.DispatchKey.ADInplaceOrView
"""Where torch moves version counters."""
_counting = functools.partial(torch._C._SetExcludeDispatchKeyGuard, _COUNTER, False)


def _counted(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Makes the call of a kernel. What a dispatch mode passes on runs without the dispatch keys above it; but kernels
    that write by calling others (those of many tensors, those of a library written in Python) leave it to these to
    move version counters, and autograd goes by them. Where torch has moved none itself, they are moved below us."""
    if not _writes(kernel):
        return kernel(*args, **kwargs)
    if not _moves_counters(kernel):
        with _counting():
            return kernel(*args, **kwargs)
    others = torch._C._len_torch_dispatch_stack()  # modes of the program, which have a say
    keys = None if others or not _is_written_in_python(kernel) else _keys_of(args, kwargs)
    if keys is None:
        return kernel(*args, **kwargs)
    with _counting():  # both have moved them: the kernel's own counting, above us, and what it calls
        return kernel.redispatch(keys, *args, **kwargs)


@functools.cache
def _writes(kernel: Any) -> bool:
    schema = getattr(kernel, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


@functools.cache
def _moves_counters(kernel: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(kernel.name(), _COUNTER.name))


def _is_written_in_python(kernel: Any) -> bool:
    library = sys.modules.get("torch._library.custom_ops")
    return kernel.name() in getattr(library, "OPDEFS", ())


def _keys_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The dispatch keys below the counting of versions that tensors in arguments ask for; None where there are none."""
    keys = [torch._C._dispatch_keys(value) for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    return functools.reduce(operator.or_, keys) & torch._C._after_ADInplaceOrView_keyset if keys else None


_NUMBERS = {int: torch.int64, float: torch.float64, bool: torch.bool, complex: torch.complex128}


def _tensors_again(kernel: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """torch shows a dispatch mode a tensor that was made of a number as that number; not every kernel takes it back."""
    schema = getattr(kernel, "_schema", None)
    if schema is None or torch._C._should_allow_numbers_as_tensors(schema.name.rpartition(":")[2]):
        return args
    with Unseen():
        return tuple(
            torch.tensor(value, dtype=_NUMBERS[type(value)])
            if type(value) in _NUMBERS and isinstance(argument.type, torch._C.TensorType)
            else value
            for value, argument in zip(args, schema.arguments, strict=False)
        )
