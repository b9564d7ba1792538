"""Ways to break a compiler, as contexts. A program below one runs as ever, only what is compiled for it is wrong.

Nothing here goes by names of nodes, source lines or modules: as in a compiler with such a fault, every place of that
form comes out wrong, also when a piece of the graph is compiled by itself later. ``FIRED`` counts the places.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
import torch._functorch.config
import torch._inductor.config as inductor
from torch._guards import detect_fake_mode
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node
from torch.fx.node import map_arg

aten, prims = torch.ops.aten, torch.ops.prims
FIRED: Counter[str] = Counter()

Edit = Callable[[Graph], int]
Test = Callable[[Node], bool]


@contextmanager
def uncached() -> Iterator[None]:
    """What was compiled with a fault is not kept for those who compile without, nor the reverse. Kernels are: those
    are found by their source."""
    with inductor.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield


class WrongPass(CustomGraphPass):
    def __init__(self, edit: Edit, name: str) -> None:
        self.edit, self.name = edit, name

    def __call__(self, graph: Graph) -> None:
        FIRED[self.name] += self.edit(graph)

    def uuid(self) -> Any:
        return None


def wrong_pass(edit: Edit, stage: str = "post_grad_custom_pre_pass") -> AbstractContextManager[None]:
    """A pass over the graph: by default over that of the forward or of the backward, just before it is lowered;
    ``joint_custom_pre_pass`` over both in one, before they are parted."""
    return _within(inductor.patch({stage: WrongPass(edit, stage)}))


def wrong_joint_pass(edit: Edit) -> AbstractContextManager[None]:
    return wrong_pass(edit, "joint_custom_pre_pass")


@contextmanager
def _within(*contexts: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(uncached())
        for context in contexts:
            stack.enter_context(context)
        yield


def wrong_decomposition(overload: Any, wrong: Callable[..., Any]) -> AbstractContextManager[None]:
    """The table of decompositions holds ``wrong`` for an operator."""
    from torch._inductor import decomposition

    def counted(*arguments: Any, **more: Any) -> Any:
        FIRED["decomposition"] += 1
        return wrong(*arguments, **more)

    return _within(mock.patch.dict(decomposition.decompositions, {overload: counted}))


def wrong_kernel(rewrite: Callable[[str], str]) -> AbstractContextManager[None]:
    """The C++ source of each generated kernel goes through ``rewrite`` before it is compiled."""
    from torch._inductor.async_compile import AsyncCompile

    honest = AsyncCompile.cpp_pybinding

    def compile_wrong(self: Any, argument_types: list[str], source: str) -> Any:
        wrong = rewrite(source)
        FIRED["kernel"] += wrong != source
        return honest(self, argument_types, wrong)

    return _within(mock.patch.object(AsyncCompile, "cpp_pybinding", compile_wrong))


def wrong_wrapper(rewrite: Callable[[str], str]) -> AbstractContextManager[None]:
    """The Python that allocates buffers and calls the kernels goes through ``rewrite``."""
    from torch._inductor.codecache import PyCodeCache

    honest = PyCodeCache.write.__func__

    def write_wrong(cls: Any, source: str, *arguments: Any, **more: Any) -> Any:
        wrong = rewrite(source)
        FIRED["wrapper"] += wrong != source
        return honest(cls, wrong, *arguments, **more)

    return _within(mock.patch.object(PyCodeCache, "write", classmethod(write_wrong)))


def stale_inputs(choose: Callable[[list[Any]], list[int]]) -> AbstractContextManager[None]:
    """A compiled graph keeps copies of the inputs that ``choose`` names at its first call and goes on reading those,
    as a CUDA graph does whose static inputs nobody refreshes."""
    from torch._inductor.output_code import CompiledFxGraph

    honest = CompiledFxGraph.__call__
    kept: dict[int, dict[int, Any]] = {}

    def call(self: Any, inputs: Any) -> Any:
        held = kept.get(id(self))
        if held is None:
            kept[id(self)] = {index: copy_of(inputs[index]) for index in choose(list(inputs))}
            return honest(self, inputs)
        FIRED["stale"] += len(held)
        for index, value in held.items():
            inputs[index] = copy_of(value)
        return honest(self, inputs)

    return _within(mock.patch.object(CompiledFxGraph, "__call__", call))


def copy_of(value: Any) -> Any:
    """The same numbers in the same layout: compiled code asks for the strides that it was made for."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


def guards_lost(lost: Callable[[Any], bool]) -> AbstractContextManager[None]:
    """Guards that ``lost`` is true for are not checked: compiled code is used where it does not fit."""
    from torch._dynamo.guards import CheckFunctionManager

    honest = CheckFunctionManager.__init__

    def build(self: Any, code: Any, graph: Any, *arguments: Any, **more: Any) -> None:
        def keep(entries: Any) -> list[bool]:
            kept = [not lost(entry) for entry in entries]
            FIRED["guards"] += kept.count(False)
            return kept

        more["guard_filter_fn"] = keep
        honest(self, code, graph, *arguments[:2], **more)

    return _within(mock.patch.object(CheckFunctionManager, "__init__", build))


# What edits are made of.


def every(target: Any, change: Callable[[Node], Any], when: Test = lambda node: True) -> Edit:
    """Changes every call of ``target`` that ``when`` is true for."""

    def edit(graph: Graph) -> int:
        found = [node for node in graph.nodes if node.op == "call_function" and node.target == target and when(node)]
        for node in found:
            change(node)
        graph.lint()
        return len(found)

    return edit


def both(*edits: Edit) -> Edit:
    return lambda graph: sum(edit(graph) for edit in edits)


def dropped(position: int = 0) -> Callable[[Node], None]:
    """The call is dropped; who read its result reads its argument."""

    def change(node: Node) -> None:
        node.replace_all_uses_with(node.args[position])
        node.graph.erase_node(node)

    return change


def argument(position: int, value: Any) -> Callable[[Node], None]:
    """An argument is replaced by ``value``, or by what ``value(node)`` gives."""

    def change(node: Node) -> None:
        arguments = list(node.args)
        arguments[position] = value(node) if callable(value) else value
        node.args = tuple(arguments)

    return change


def instead(make: Callable[..., Node]) -> Callable[[Node], None]:
    """Who read the call's result reads what ``make(put, node)`` put into the graph behind it."""

    def change(node: Node) -> None:
        last = node

        def put(target: Any, *arguments: Any, **more: Any) -> Node:
            nonlocal last
            with node.graph.inserting_after(last):
                last = node.graph.call_function(target, arguments, more)
            values = map_arg((arguments, more), lambda one: one.meta["val"])
            with detect_fake_mode(node.meta["val"]) or nullcontext():
                last.meta["val"] = target(*values[0], **values[1])
            return last

        users = list(node.users)
        new = make(put, node)
        for user in users:
            user.replace_input_with(node, new)

    return change


def shape(value: Any) -> tuple[Any, ...]:
    return tuple(value.meta["val"].shape)


def is_call(value: Any, *targets: Any) -> bool:
    return isinstance(value, Node) and value.op == "call_function" and value.target in targets


def reads(node: Node, *targets: Any) -> bool:
    """Whether the call's first argument is what one of these gives."""
    return bool(node.args) and is_call(node.args[0], *targets)


def read_by(node: Node, *targets: Any) -> bool:
    return any(is_call(user, *targets) for user in node.users)


def is_input(value: Any) -> bool:
    return isinstance(value, Node) and value.op == "placeholder"


getitem = operator.getitem


def replaced(pattern: str, by: str | Callable[[re.Match[str]], str], count: int = 0) -> Callable[[str], str]:
    return lambda source: re.sub(pattern, by, source, count=count)
