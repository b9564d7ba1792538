"""Reads a graph that torch's compiler works on, as plain data. Nothing of it is changed, and nothing is computed: sizes
that are free are written as text, since asking for their number would fix them."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable
from typing import Any

import torch

from trueline.frameworks.torch.names import Names
from trueline.graphs import CALL, CONSTANT, INPUT, OUTPUT, Graph, Node, Shape

LARGEST_CONSTANT = 4096
"""Constants of more elements are not written into a graph."""
MOST_FRAMES = 8
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_OPAQUE = "opaque"
_OPERATOR_MODULES = {"_operator": "operator"}


class GraphReader:
    """Reads graphs; knows the names of functions."""

    def __init__(self) -> None:
        self._names = Names()

    def read(self, module: torch.fx.GraphModule, **about: Any) -> Graph:
        nodes = tuple(self._node(node, module) for node in module.graph.nodes)
        return Graph(nodes=nodes, **about)

    def _node(self, node: torch.fx.Node, module: torch.fx.GraphModule) -> Node:
        path, kind = _module_of(node)
        about: dict[str, Any] = {"gives": _shapes(node), "module": path, "module_class": kind, "stack": _frames(node)}
        if node.op == "placeholder":
            return Node(node.name, INPUT, _origin(node), **about)
        if node.op == "get_attr":
            content, reason = _constant(_attribute(module, str(node.target)))
            return Node(node.name, CONSTANT, reason, content=content, **about)
        if node.op == "output":
            given = node.args[0] if node.args else ()
            given = given if isinstance(given, list | tuple) else (given,)
            return Node(node.name, OUTPUT, args=[plain(one) for one in given])
        return Node(
            node.name,
            CALL,
            self._operator(node),
            args=[plain(one) for one in node.args],
            kwargs={name: plain(one) for name, one in node.kwargs.items()},
            **about,
        )

    def _operator(self, node: torch.fx.Node) -> str:
        if node.op == "call_method":
            return f"torch.Tensor.{node.target}"
        if node.op == "call_module":
            return f"module {node.target}"
        target: Any = node.target
        if isinstance(target, torch._ops.HigherOrderOperator):
            return f"torch.ops.higher_order.{target.name()}"
        name = self._names.name(target)
        home, dot, short = name.rpartition(".")
        return f"{_OPERATOR_MODULES.get(home, home)}{dot}{short}"


def plain(value: Any) -> Any:
    """An argument of a node as JSON; see ``trueline.graphs``."""
    if value is None or isinstance(value, bool | int | str):
        return value
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    return {_OPAQUE: type(value).__name__}


def _float(value: float) -> Any:
    return value if math.isfinite(value) else {"float": str(value)}


_WRITERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (torch.fx.Node, lambda one: {"node": one.name}),
    (float, _float),
    (complex, lambda one: {"complex": [_float(one.real), _float(one.imag)]}),
    (torch.Size, lambda one: {"tuple": [plain(item) for item in one]}),
    (tuple, lambda one: {"tuple": [plain(item) for item in one]}),
    (list, lambda one: [plain(item) for item in one]),
    (dict, lambda one: {"dict": {str(name): plain(item) for name, item in one.items()}}),
    (slice, lambda one: {"slice": [plain(one.start), plain(one.stop), plain(one.step)]}),
    (torch.dtype, lambda one: {"dtype": str(one).removeprefix("torch.")}),
    (torch.device, lambda one: {"device": str(one)}),
    (torch.layout, lambda one: {"layout": str(one).removeprefix("torch.")}),
    (torch.memory_format, lambda one: {"memory_format": str(one).removeprefix("torch.")}),
    (types.EllipsisType, lambda one: {"ellipsis": True}),
    ((torch.SymInt, torch.SymFloat, torch.SymBool), lambda one: {"size": str(one)}),
)


def _shapes(node: torch.fx.Node) -> tuple[Shape, ...]:
    value = node.meta.get("example_value", node.meta.get("val"))
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(_shape(one) for one in values if one is not None)


def _shape(value: Any) -> Shape:
    if not isinstance(value, torch.Tensor):
        return Shape(type(value).__name__)
    sizes = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
    return Shape(str(value.dtype).removeprefix("torch."), sizes, str(value.device))


def _frames(node: torch.fx.Node) -> tuple[tuple[str, int, str], ...]:
    """Where in the program the node comes from, innermost first; lines within torch itself are left out."""
    text = node.meta.get("stack_trace") or getattr(node, "stack_trace", None) or ""
    found = [(one["file"], int(one["line"]), one["function"]) for one in _FRAME.finditer(str(text))]
    own = [one for one in found if f"{_TORCH}/" not in one[0]] or found
    return tuple(reversed(own[-MOST_FRAMES:]))


_TORCH = torch.__path__[0]


def _module_of(node: torch.fx.Node) -> tuple[str, str]:
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    return _path(str(path)), str(getattr(kind, "__qualname__", kind)).rpartition(".")[2]


_PARTS = re.compile(r"\['([^']+)'\]|\.([A-Za-z_]\w*)|\[(\d+)\]")
_BINS = frozenset({"_modules", "_parameters", "_buffers", "_orig_mod"})


def _path(text: str) -> str:
    """``L['self']._modules['first']._parameters['weight']`` as ``first.weight``; what is not a part of the module that
    is compiled keeps its first name: ``x``, ``net.first.weight``."""
    parts = ["".join(one) for one in _PARTS.findall(text)]
    parts = [one for one in parts if one not in _BINS]
    return ".".join(parts[1:] if parts[:1] in (["self"], ["fn"]) else parts)


def _origin(node: torch.fx.Node) -> str:
    """Where an input comes from."""
    source = getattr(node.meta.get("grapharg"), "source", None) or getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    try:
        return _path(str(name() if callable(name) else name))
    except Exception:  # torch has sources that have no name
        return ""


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner


def _constant(value: Any) -> tuple[list[Any], str]:
    """The dtype, shape and numbers of a small tensor; or why they are not there."""
    if not isinstance(value, torch.Tensor):
        return [], f"a {type(value).__name__}"
    if value.numel() > LARGEST_CONSTANT or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return [], f"a constant of {value.numel():,} elements"
    kind = str(value.dtype).removeprefix("torch.")
    whole = value.detach().cpu()
    numbers = (whole.double() if whole.is_floating_point() else whole).reshape(-1).tolist()
    return [kind, list(value.shape), [plain(one) for one in numbers]], ""
