"""Planting below the recorder: the call looks as always, its kernel does something else.

A :class:`Plant` is a torch function mode that is entered *before* the tool that records, and says that it stands in for
kernels. Modes are a stack whose last one is asked first, so the tool sees the ordinary call and hands it on to the
plant, which alone knows that the implementation was changed. A tool that replaces names in modules, as the peer does,
calls the real function, which ends in the plant too. Nothing that an implementation does inside a plant is seen by
anybody.

Implementations are made by :func:`result` (another result, the same autograd nodes), :func:`gradient` (the right
result, another gradient, again by the same nodes) and :func:`effect` (anything else, for calls that work in place).
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Implementation = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called with the real function and the arguments; gives what the call returns. Functions that torch writes in Python
get all their arguments by position, defaults filled in, however they were called; others get them as they came."""


@functools.cache
def resolve(api: str) -> Callable[..., Any]:
    """The object behind a dotted name such as ``torch.nn.functional.gelu``, as it was when first asked for: a tool
    that replaces names may have put its own there later."""
    parts = api.split(".")
    found: Any = torch
    for part in parts[1:]:
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


class Plant(TorchFunctionMode):
    """Replaces the implementation of some calls: one call (``index``) of an API, or every one (``None``)."""

    below_recorders = True

    def __init__(self, table: Mapping[str, Implementation], index: int | None = None) -> None:
        super().__init__()
        self.index = index
        self.targets = [(api, resolve(api), implementation) for api, implementation in table.items()]
        self.counts = dict.fromkeys(table, 0)
        self.fired = 0
        self.module = ""
        self.where: Callable[[], str] = str

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for api, original, implementation in self.targets:
            if _same(func, original, api):
                count = self.counts[api]
                self.counts[api] = count + 1
                if self.index in (None, count):
                    self.fired += 1
                    self.module = self.where()
                    return implementation(original, *_by_position(original, args, kwargs))
                break
        return func(*args, **kwargs)


@functools.cache
def _signature(function: types.FunctionType) -> inspect.Signature:
    return inspect.signature(function)


def _by_position(
    original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not isinstance(original, types.FunctionType):
        return args, kwargs
    bound = _signature(original).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _same(func: Callable[..., Any], original: Callable[..., Any], api: str) -> bool:
    """Whether ``func`` is that API. A tool that replaces names makes torch itself hand over the replacement, a plain
    function with the name of the original, for the functions and methods that torch looks up by name."""
    if func == original:
        return True
    by_name = api.startswith(("torch.Tensor.", "torch.nn.functional."))
    return by_name and isinstance(func, types.FunctionType) and func.__name__ == api.rpartition(".")[2]


class ModuleTracker:
    """Knows the path of the module that is running, from hooks on the modules themselves."""

    def __init__(self, model: nn.Module) -> None:
        self.path = [""]
        for name, module in model.named_modules():
            if name:
                module.register_forward_pre_hook(lambda module, args, name=name: self.path.append(name))
                module.register_forward_hook(lambda module, args, out: self._leave(), always_call=True)

    def _leave(self) -> None:
        self.path.pop()

    def current(self) -> str:
        return self.path[-1]


def _plain(value: Any) -> Any:
    """The same arguments without their gradients."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value


def result(change: Callable[..., Tensor]) -> Implementation:
    """The call returns ``change(out, *args, **kwargs)``, computed without gradients, where ``out`` is the honest
    result. The autograd nodes are those of the real call, as with a kernel whose forward alone is wrong."""

    def implementation(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = original(*args, **kwargs)
        with torch.no_grad():
            plain = {name: _plain(value) for name, value in kwargs.items()}
            wrong = change(out.detach().clone(), *_plain(args), **plain)
        # Through .data: the version counter stays, or autograd would refuse outputs that it saved.
        out.data.copy_(wrong)
        return out

    return implementation


def instead(function: Callable[..., Tensor]) -> Implementation:
    """The call returns ``function(*args, **kwargs)``; nodes as in :func:`result`."""
    return result(lambda out, *args, **kwargs: function(*args, **kwargs))


def effect(function: Callable[..., Any]) -> Implementation:
    """The call is ``function(original, *args, **kwargs)``, with gradients and side effects as they come."""
    return lambda original, args, kwargs: function(original, *args, **kwargs)


def _nodes(root: Any) -> Iterator[Any]:
    seen, queue = set(), [root]
    while queue:
        node = queue.pop(0)
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            queue += [following for following, _ in node.next_functions]


def gradient(node: str, change: Callable[..., Sequence[Tensor | None]]) -> Implementation:
    """The result is right, but the first autograd node of this call whose name starts with ``node`` gives
    ``change(grads_in, grads_out, *args, **kwargs)`` instead of ``grads_in``, its gradients of the node's inputs.

    ``change`` must use ``torch.ops.aten`` for its arithmetic: the backward pass belongs to no call, so a tool that
    replaces names would record anything else as calls of the program.
    """

    def implementation(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = original(*args, **kwargs)
        first = out[0] if isinstance(out, tuple) else out
        found = next((one for one in _nodes(first.grad_fn) if one.name().startswith(node)), None)
        if found is None:
            raise LookupError(f"no autograd node {node!r} behind {original}")
        plain = _plain(args)
        named = {name: _plain(value) for name, value in kwargs.items()}

        def hook(grads_in: Sequence[Tensor | None], grads_out: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                return tuple(change(grads_in, grads_out, *plain, **named))

        found.register_hook(hook)
        return out

    return implementation
