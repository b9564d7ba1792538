"""Programs near the recursion limit, which say how deep they came."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.odd_programs.registry import program


class Layer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def _nest(depth: int, inner: nn.Module | None = None) -> nn.Module:
    net: nn.Module = inner or Doubled()
    for _ in range(depth):
        net = Layer(net)
    return net


def _deepest(inner: Callable[[], nn.Module], depth: int = 0) -> int:
    """How many modules may lie around this one; so many may for sure."""
    net = _nest(depth, inner())
    while True:
        try:
            net(torch.ones(2))
        except RecursionError:
            return depth
        net, depth = Layer(net), depth + 1


def _plain() -> int:
    """How often a plain function may call itself here."""

    def down(depth: int) -> int:
        try:
            return down(depth + 1)
        except RecursionError:
            return depth

    return down(0)


def _calls(call: Callable[[Any], Any]) -> int:
    """How deep a function comes that calls this one at each level."""
    deepest = 0

    def down(x: Any, depth: int) -> Any:
        nonlocal deepest
        deepest = depth
        return down(call(x), depth + 1)

    try:
        down(torch.ones(2), 0)
    except RecursionError:
        return deepest
    raise AssertionError("there is no end")


@program
def modules_nested_to_the_limit() -> Any:
    torch.ones(2).mul(2), functional.relu(torch.ones(2))  # what torch does once
    kinds = Doubled, nn.Identity, nn.ReLU, lambda: nn.Sequential(Doubled())
    return [_deepest(kind, depth=200) for kind in kinds]


@program
def depth_of_a_nest_of_modules() -> Any:
    """Each level tells how much is left for plain Python."""
    found = []

    class Telling(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found.append(_plain())
            return self.inner(x)

    net: nn.Module = Doubled()
    for _ in range(40):
        net = Telling(net)
    return net(torch.ones(2)), found


@program
def deepest_nest_that_still_runs() -> Any:
    """A training at the depth at which one more module would be too many; found before the observer starts."""
    depth = _deepest(Doubled, depth=200) - 1
    yield
    x = torch.ones(2, requires_grad=True)
    out = _nest(depth)(x)
    out.sum().backward()
    hooked = _nest(depth // 2)
    heard = []
    for module in hooked.modules():
        module.register_forward_hook(lambda *values: heard.append(1))
    kept = hooked(x.detach())
    yield
    return out, x.grad, kept, len(heard)


@program
def autograd_functions_that_apply_themselves() -> Any:
    deepest = [0]

    class Down(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, depth: int) -> torch.Tensor:
            deepest[0] = max(deepest[0], depth)
            return Down.apply(x, depth + 1)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad, None

    try:
        Down.apply(torch.ones(2, requires_grad=True), 0)
    except RecursionError:
        return deepest[0]
    raise AssertionError("there is no end")


@program
def depth_that_a_hook_finds() -> Any:
    found = []
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    y.register_hook(lambda grad: found.append(_plain()))
    y.grad_fn.register_hook(lambda *grads: found.append(_plain()))
    x.register_hook(lambda grad: found.append(_plain()))
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda *values: found.append(_plain()))
    net.register_full_backward_hook(lambda *values: found.append(_plain()))
    net(y).sum().backward()
    torch.autograd.grad((x * 2).sum(), x)
    return found, x.grad


@program
def deep_lists_are_copied_with_their_tensors() -> Any:
    lists: list[Any] = [torch.ones(2)]
    depth = 0
    while True:
        try:
            copied = copy.deepcopy(lists)
        except RecursionError:
            break
        for _ in range(4 if depth else 440):
            lists, depth = [lists], depth + 1
    while isinstance(copied[0], list):
        copied = copied[0]
    return depth, copied[0]


@program
def limit_of_recursion_lowered_and_raised_inside() -> Any:
    before = sys.getrecursionlimit()
    found: list[Any] = [before]

    class Lowering(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sys.setrecursionlimit(400)
            found.append((sys.getrecursionlimit(), _plain(), _deepest(Doubled, depth=50)))
            return self.inner(x)

    try:
        out = Lowering(Doubled())(torch.ones(2))
        sys.setrecursionlimit(1500)
        found.append((sys.getrecursionlimit(), _plain()))
        try:
            sys.setrecursionlimit(1)
        except RecursionError as error:
            found.append(str(error).rpartition(" at ")[0])
    finally:
        sys.setrecursionlimit(before)
    return out, found, sys.getrecursionlimit(), _plain()


@program
def recursion_of_several_threads() -> Any:
    """All are deep at the same time; each finds what it would find alone."""
    found: dict[int, Any] = {}
    barrier = threading.Barrier(3)

    class Waiting(Doubled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            barrier.wait(10)
            found[int(x[0])] = _plain(), _calls(torch.relu)
            barrier.wait(10)
            return x

    def work(number: int) -> None:
        _nest(20 * number, Waiting())(torch.full((2,), float(number)))

    torch.relu(torch.ones(2))
    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found.items())


@program
def checkpoints_that_hold_checkpoints() -> Any:
    deepest = 0

    def held(x: torch.Tensor, depth: int) -> torch.Tensor:
        nonlocal deepest
        deepest = max(deepest, depth)
        return checkpoint(held, x * 2, depth + 1, use_reentrant=False)

    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda y: y * 2, x, use_reentrant=False)  # what torch does once
    try:
        held(x, 0)
    except RecursionError:
        return deepest
    raise AssertionError("there is no end")


@program
def depth_at_which_operators_fail() -> Any:
    x = torch.ones(2)
    for call in (torch.relu, functional.relu, torch.Tensor.sin):
        call(x)
    return _calls(torch.relu), _calls(lambda y: y + 1), _calls(torch.Tensor.sin), _calls(lambda y: functional.relu(y))
