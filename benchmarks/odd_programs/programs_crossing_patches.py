"""Patches of the program's own that begin on one side of an observation's border and end on the other."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.programs_crossing import _network
from benchmarks.odd_programs.registry import program


@program
def patch_wraps_what_was_there_and_is_peeled_off_after() -> Any:
    seen: list[str] = []

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            seen.append(function.__name__)
            return function(*args, **kwargs)

        return wrapper

    before = warnings.warn, torch.overrides.has_torch_function
    yield
    own = warnings.warn
    warnings.warn = counted(own)  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("a warning of the program", stacklevel=1)
    yield
    warnings.warn = warnings.warn.__wrapped__  # type: ignore[attr-defined]
    return seen, [str(one.message) for one in caught], warnings.warn is before[0]


@program
def module_call_patched_inside_and_restored_after() -> Any:
    own = nn.Module.__call__
    names: list[str] = []

    def called(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        names.append(type(self).__name__)
        return own(self, *args, **kwargs)

    model, x = _network(), torch.randn(5, 4)
    yield
    nn.Module.__call__ = called  # type: ignore[assignment]
    first = model(x)
    yield
    second = model(x)
    nn.Module.__call__ = own  # type: ignore[method-assign]
    return first, second, names, nn.Module.__call__ is own


@program
def method_of_tensors_patched_inside_and_kept_by_a_name() -> Any:
    own = torch.Tensor.backward
    calls: list[int] = []

    def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls.append(self.dim())
        return own(self, *args, **kwargs)

    x = torch.ones(3, requires_grad=True)
    yield
    torch.Tensor.backward = backward  # type: ignore[method-assign]
    (x * 2).sum().backward()
    yield
    (x * 3).sum().backward()
    torch.Tensor.backward = own  # type: ignore[method-assign]
    return x.grad, calls


@program
def property_of_tensors_covered_before_and_uncovered_inside() -> Any:
    own, asked = torch.Tensor.__dict__.get("shape"), []

    def shape(self: torch.Tensor) -> Any:
        asked.append(1)
        return torch._C.TensorBase.shape.__get__(self)  # type: ignore[attr-defined]

    torch.Tensor.shape = property(shape)  # type: ignore[assignment,misc]
    x = torch.ones(2, 3)
    first = x.shape
    yield
    second = (x + 1).shape
    if own is None:
        del torch.Tensor.shape
    else:
        torch.Tensor.shape = own
    third = (x + 2).shape
    yield
    return first, second, third, x.shape, "shape" in vars(torch.Tensor)
