"""Our own work on tensors is seen by nobody: no mode and no subclass of the program's, no transform, none of ours.

Whatever of ours reads, copies or makes tensors while a program runs does it ``with Unseen():``. It switches off for the
running thread what stands between a call and its kernel and could notice: function modes and ``__torch_function__``,
dispatch modes and ``__torch_dispatch__``, functorch, functionalisation, autocast, the tracer of ``torch.jit``, and
autograd. Those of the program are as they were when it is left; it may be entered again inside itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from trueline.frameworks.torch.flatten import PLAIN_TENSORS

_PASSED_BY = (
    "Python", "PythonTLSSnapshot", "PythonDispatcher", "PreDispatch", "Functionalize", "FuncTorchVmapMode",
    "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "AutocastCPU", "AutocastCUDA", "AutocastXPU",
    "AutocastMPS", "AutocastPrivateUse1",
)  # fmt: skip
"""Dispatch keys that a call of ours passes by; a version of torch may lack some."""


def _keys() -> Any:
    known = [getattr(torch._C.DispatchKey, name) for name in _PASSED_BY if hasattr(torch._C.DispatchKey, name)]
    keys = torch._C.DispatchKeySet(known[0])
    for key in known[1:]:
        keys = keys.add(key)
    return keys


_KEYS = _keys()
_no_function: Callable[[], Any] = torch._C.DisableTorchFunction
_exclude: Callable[[Any], Any] = torch._C._ExcludeDispatchKeyGuard
_grad_enabled, _set_grad = torch._C.is_grad_enabled, torch._C._set_grad_enabled
_tracing, _set_tracing = torch._C._get_tracing_state, torch._C._set_tracing_state


class Unseen:
    """Everything in between goes straight to the kernels."""

    __slots__ = ("_function", "_grad", "_rest", "_traced")

    def __enter__(self) -> None:
        self._function = _no_function()
        self._function.__enter__()
        self._rest = _exclude(_KEYS)
        self._rest.__enter__()
        self._grad = _grad_enabled()
        _set_grad(False)
        self._traced = _tracing()
        if self._traced is not None:
            _set_tracing(None)

    def __exit__(self, *exception: object) -> None:
        if self._traced is not None:
            _set_tracing(self._traced)
        _set_grad(self._grad)
        self._rest.__exit__(None, None, None)
        self._function.__exit__(None, None, None)


_STACKS: tuple[tuple[Any, Any, Any], ...] = (
    (
        torch._C._len_torch_function_stack,
        torch._C._pop_torch_function_stack,
        torch._C._push_on_torch_function_stack,
    ),
    (
        torch._C._len_torch_dispatch_stack,
        functools.partial(torch._C._pop_torch_dispatch_stack, None),
        torch._C._push_on_torch_dispatch_stack,
    ),
)


class Alone:
    """No mode is on this thread, and all are again when it is left: for what asks torch about modes themselves, and for
    imports, which :class:`Unseen` would have do everything without autograd."""

    def __enter__(self) -> None:
        self._taken = [(push, [pop() for _ in range(depth())][::-1]) for depth, pop, push in _STACKS]

    def __exit__(self, *exception: object) -> None:
        for push, modes in self._taken:
            for mode in modes:
                push(mode)


def alone(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has a function run without a mode of anybody's."""

    @functools.wraps(method)
    def alone_there(*args: Any, **kwargs: Any) -> Any:
        with Alone():
            return method(*args, **kwargs)

    return alone_there


def unseen(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has all that a function does go straight to the kernels."""

    @functools.wraps(method)
    def quietly(*args: Any, **kwargs: Any) -> Any:
        with Unseen():
            return method(*args, **kwargs)

    return quietly


_TOLD = (
    "shape", "dtype", "device", "layout", "requires_grad", "is_nested", "is_quantized", "grad_fn", "output_nr",
    "is_leaf", "_base", "_version",
)  # fmt: skip
_BASE = {name: vars(torch._C.TensorBase)[name] for name in _TOLD}


storage_of: Callable[[torch.Tensor], torch.UntypedStorage] = torch._C.TensorBase.untyped_storage
"""Torch's own way to the memory of a tensor."""


kernel_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
profiling: Callable[[], bool] = torch.autograd._profiler_enabled  # type: ignore[attr-defined]


def kernels_are_seen() -> bool:
    """Whether somebody is told of kernels: a dispatch mode of this thread, or a profiler, which sees ours as well."""
    return bool(kernel_depth()) or profiling()


def same_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Another plain tensor for the same memory, made so that no profiler sees it where its versions need not be
    counted: none have been."""
    return tensor.data if profiling() and tensor._version == 0 else tensor.detach()


def bytes_of(tensor: torch.Tensor) -> int:
    """How much memory the elements of a tensor take."""
    return torch._C.TensorBase.numel(tensor) * torch._C.TensorBase.element_size(tensor)


def told(tensor: torch.Tensor, name: str) -> Any:
    """A property of a tensor as torch knows it: a subclass may have laid code of its own over it."""
    if type(tensor) in PLAIN_TENSORS:
        return getattr(tensor, name)
    return _BASE[name].__get__(tensor)
