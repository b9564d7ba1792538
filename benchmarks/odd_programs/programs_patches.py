"""Programs that look at torch's own functions, and programs that replace them."""

from __future__ import annotations

import inspect
import types
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import program


@program
def identities_and_types_of_torch_functions() -> Any:
    functions = [torch.relu, torch.Tensor.add, nn.functional.relu, torch.Tensor.__add__, torch.Tensor.shape, torch.add]
    kinds = [type(function).__name__ for function in functions]
    same = [
        torch.Tensor.add is torch.Tensor.__dict__.get("add", torch._C.TensorBase.__dict__.get("add")),
        torch.relu is torch._C._VariableFunctions.relu,
        isinstance(torch.relu, types.BuiltinFunctionType),
        isinstance(nn.functional.relu, types.FunctionType),
        isinstance(torch.Tensor.add, types.MethodDescriptorType),
        torch.nn.functional.relu is nn.functional.relu,
    ]
    names = [f"{f.__module__ if hasattr(f, '__module__') else None} {f.__qualname__}" for f in functions[:4]]
    return kinds, same, names, torch.ones(1).add.__self__ is not None


@program
def signatures_and_code_of_torch() -> Any:
    functions = [
        nn.Module.__call__,
        nn.Module._call_impl,
        nn.Linear.forward,
        nn.functional.softmax,
        torch.Tensor.backward,
        torch.optim.SGD.step,
        torch.optim.Optimizer.zero_grad,
        torch.autograd.backward,
        torch.autograd.grad,
        torch.autograd.Function.apply,
        nn.Module.__setattr__,
        torch.Tensor.__torch_function__,
        torch.utils.checkpoint.checkpoint,
    ]
    facts = []
    for function in functions:
        code = getattr(inspect.unwrap(function), "__code__", None) or function.__func__.__code__
        where = code.co_filename.rsplit("site-packages/", 1)[-1], code.co_name, code.co_firstlineno
        facts.append((str(inspect.signature(function)), where, hash(code.co_code), code.co_varnames[:3]))
    source = inspect.getsource(nn.Module._call_impl)
    return facts, len(source), nn.Module.__call__.__name__, nn.Module._call_impl.__defaults__


@program
def overrides_resolve_names() -> Any:
    from torch.overrides import get_overridable_functions, get_testing_overrides, resolve_name

    names = [
        resolve_name(f)
        for f in (torch.add, torch.Tensor.add, nn.functional.relu, torch.linalg.norm, torch.Tensor.T.__get__)
    ]
    counts = {
        getattr(space, "__name__", "a property"): len(found) for space, found in get_overridable_functions().items()
    }
    testing = get_testing_overrides()
    return names, counts, len(testing), torch.relu in testing, str(inspect.signature(testing[torch.relu]))


@program
def attributes_of_torch_listed() -> Any:
    x = torch.ones(1)
    things = [torch, torch.Tensor, nn.functional, nn.Module, torch.autograd, torch.optim.Optimizer, x, nn.Linear(1, 1)]
    return [" ".join(dir(thing)) for thing in things], sorted(vars(nn.Linear(1, 1))), sorted(vars(nn.Module))


@program
def user_patches_a_functional() -> Any:
    original = nn.functional.relu
    calls: list[str] = []

    def mine(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        calls.append("mine")
        return original(x, inplace) * 2

    nn.functional.relu = mine
    inside = nn.ReLU()(torch.ones(2)), nn.functional.relu is mine
    nn.functional.relu = original
    return inside, nn.ReLU()(torch.ones(2)), nn.functional.relu is original, calls


@program
def user_patch_applied_before_and_removed_inside() -> Any:
    original = torch.sigmoid
    calls: list[str] = []

    def mine(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append("mine")
        return original(*args, **kwargs)

    torch.sigmoid = mine
    yield
    first = torch.sigmoid(torch.ones(1)), torch.sigmoid is mine
    torch.sigmoid = original
    second = torch.sigmoid(torch.ones(1)), torch.sigmoid is original
    yield
    return first, second, torch.sigmoid is original, calls


@program
def user_patch_applied_inside_and_kept() -> Any:
    original = torch.Tensor.sum
    yield
    torch.Tensor.sum = lambda self, *args, **kwargs: original(self, *args, **kwargs) * 10
    inside = torch.ones(3).sum(), torch.ones(2, 2).sum(0)
    yield
    after = torch.ones(3).sum()
    del torch.Tensor.sum
    return inside, after, torch.ones(3).sum(), torch.Tensor.sum is original


@program
def user_patches_the_call_of_modules() -> Any:
    original = nn.Module.__call__
    names: list[str] = []

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        names.append(type(self).__name__)
        return original(self, *args, **kwargs)

    nn.Module.__call__ = call
    out = nn.Sequential(nn.Linear(2, 2), nn.ReLU())(torch.ones(1, 2))
    same = nn.Module.__call__ is call
    nn.Module.__call__ = original
    return out, names, same, nn.Module.__call__ is original


@program
def forward_replaced_on_an_instance() -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh())
    original = net[0].forward
    net[0].forward = lambda x: original(x) * 2
    net[1].__class__ = type("Patched", (nn.ReLU,), {"forward": lambda self, x: x - 1})
    net[2].forward = types.MethodType(lambda self, x: x + 5, net[2])
    return net(torch.ones(1, 2)), sorted(vars(net[0]))[-1], type(net[1]).__name__, net[1](torch.ones(1))
