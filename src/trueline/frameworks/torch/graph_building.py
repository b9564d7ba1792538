"""Makes a recorded graph, or a piece of one, run again: node by node as it was, in float64, or as a module that torch's
compiler takes.

Operators come from the closed table alone (``operators``) and the few functions below that compilers put into graphs:
arithmetic on sizes, and switches of the modes in which the nodes between them run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trueline.frameworks.torch.operators import operator_named
from trueline.frameworks.torch.rebuild import Unreplayable, torch_dtype, widened
from trueline.graphs import CALL, CONSTANT, Graph, Node, references

Function = Callable[..., Any]
_METHOD = "torch.Tensor."
_ARITHMETIC = frozenset(
    """
    abs add and_ eq floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul imod imul inv invert ior ipow irshift
    isub itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem sub truediv truth xor
    """.split()
)
_ATTRIBUTES = frozenset({"dtype", "shape", "device", "ndim", "T", "mT", "H", "real", "imag", "data", "requires_grad"})
_CASTS = {f"{_METHOD}{name}" for name in ("float", "half", "bfloat16", "double")}
_NARROWS = {f"{_METHOD}{name}" for name in ("cfloat", "chalf", "cdouble")}


def _attribute(value: Any, name: str) -> Any:
    if name not in _ATTRIBUTES:
        raise Unreplayable(f"no graph asks a tensor for its {name}")
    return getattr(value, name)


def _enter_autocast(*args: Any) -> Any:
    return torch.amp.autocast_mode._enter_autocast(*args)


def _exit_autocast(mode: Any) -> Any:
    return torch.amp.autocast_mode._exit_autocast(mode)


_OTHERS: Mapping[str, Any] = {
    "builtins.getattr": _attribute,
    "torch.amp.autocast_mode._enter_autocast": _enter_autocast,
    "torch.amp.autocast_mode._exit_autocast": _exit_autocast,
    "torch._C._set_grad_enabled": torch._C._set_grad_enabled,
    "torch.set_grad_enabled": torch._C._set_grad_enabled,
    "torch.sym_int": torch.sym_int,
    "torch.sym_float": torch.sym_float,
    "torch.sym_max": torch.sym_max,
    "torch.sym_min": torch.sym_min,
    "torch.sym_sqrt": getattr(torch, "sym_sqrt", None),
    "torch._check": torch._check,
}
_ONLY_MODES = frozenset(name for name in _OTHERS if "autocast" in name)
_NAMED_METHODS = frozenset("size dim numel contiguous clone detach requires_grad_ stride to view_as expand_as".split())


def function_of(name: str) -> Function:
    """The function of an operator's name."""
    home, _, short = name.rpartition(".")
    if home == "operator" and short in _ARITHMETIC:
        return getattr(operator, short)  # type: ignore[no-any-return]
    found = _OTHERS.get(name) or operator_named(name)
    if found is None and home == "torch.Tensor" and short in _NAMED_METHODS:
        found = getattr(torch.Tensor, short)
    if found is None:
        raise Unreplayable(f"no operator: torch {torch.__version__} declares no {name}")
    return found


class Decoder:
    """Makes values of the arguments of nodes."""

    def __init__(self, values: Mapping[str, Any], *, wide: bool = False) -> None:
        self._values = values
        self._wide = wide

    def value(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self.value(one) for one in argument]
        if not isinstance(argument, dict):
            return argument
        if len(argument) != 1:
            raise Unreplayable("an argument is written in a way that is not known")
        ((kind, content),) = argument.items()
        if kind == "node":
            return self._values[content]
        read = _READERS.get(kind)
        if read is None:
            raise Unreplayable(f"an argument of type {content} cannot be written into a graph"[:200])
        return read(self, content)

    def dtype(self, name: str) -> torch.dtype:
        found = torch_dtype(name)
        return widened(found) if self._wide else found


def _one_of(kind: type) -> Callable[[Decoder, Any], Any]:
    known = {name: value for name, value in vars(torch).items() if isinstance(value, kind)}

    def read(_: Decoder, name: Any) -> Any:
        if name not in known:
            raise Unreplayable(f"this torch has no {str(name)[:40]}")
        return known[name]

    return read


def _size(_: Decoder, text: Any) -> Any:
    raise Unreplayable(f"the size {str(text)[:40]} was free, and is no value of a node")


_READERS: Mapping[str, Callable[[Decoder, Any], Any]] = {
    "tuple": lambda decoder, items: tuple(decoder.value(one) for one in items),
    "dict": lambda decoder, items: {name: decoder.value(one) for name, one in items.items()},
    "slice": lambda decoder, parts: slice(*(decoder.value(one) for one in parts)),
    "float": lambda decoder, text: float(text),
    "complex": lambda decoder, parts: complex(*(float(decoder.value(one)) for one in parts)),
    "dtype": lambda decoder, name: decoder.dtype(name),
    "device": lambda decoder, name: torch.device(name),
    "ellipsis": lambda decoder, _: ...,
    "layout": _one_of(torch.layout),
    "memory_format": _one_of(torch.memory_format),
    "size": _size,
}


def constant(node: Node, *, wide: bool = False) -> torch.Tensor:
    """The tensor of a constant."""
    if len(node.content) != 3:
        raise Unreplayable(f"{node.name} is {node.operator or 'a constant that was not kept'}")
    kind, shape, numbers = node.content
    dtype = torch_dtype(str(kind))
    values = [float(one["float"]) if isinstance(one, dict) and "float" in one else one for one in numbers]
    made = torch.tensor(values, dtype=torch.float64 if dtype.is_floating_point else dtype).reshape(shape)
    return made if wide and dtype.is_floating_point else made.to(dtype)


def run_node(node: Node, values: Mapping[str, Any], *, wide: bool) -> Any:
    """What a node gives. In float64 casts between floating dtypes do nothing, and autocast is left out."""
    if wide and node.operator in _ONLY_MODES:
        return None
    decoder = Decoder(values, wide=wide)
    args = [decoder.value(one) for one in node.args]
    kwargs = {name: decoder.value(one) for name, one in node.kwargs.items()}
    if wide and node.operator in _CASTS:
        return args[0].double()
    if node.operator in _NARROWS and wide:
        return args[0].to(torch.complex128)
    return function_of(node.operator)(*args, **kwargs)


def run_nodes(nodes: Sequence[Node], values: dict[str, Any], *, wide: bool) -> None:
    """Runs nodes one after another; what they give is added to the values."""
    for node in nodes:
        if node.kind == CONSTANT:
            values[node.name] = constant(node, wide=wide)
        elif node.kind == CALL:
            values[node.name] = run_node(node, values, wide=wide)


class Piece:
    """Some of the nodes of a graph, in their order: what they begin with, and what of theirs is used elsewhere."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        inside = set(names)
        kinds = {node.name: node.kind for node in graph.nodes}
        self.nodes = [node for node in graph.nodes if node.name in inside and node.kind == CALL]
        used = [name for node in self.nodes for name in node.uses() if name not in inside]
        self.constants = [node for node in graph.nodes if node.kind == CONSTANT and node.name in set(used)]
        self.begins = [name for name in dict.fromkeys(used) if kinds.get(name) != CONSTANT]
        later = {name for node in graph.nodes if node.name not in inside for name in node.uses()}
        gives = [node.name for node in self.nodes if node.name in later]
        self.gives = gives or [node.name for node in self.nodes[-1:]]

    def module(self) -> torch.fx.GraphModule:
        """The piece as a module for a compiler; its inputs are ``begins``, its outputs ``gives``."""
        graph, root, made = torch.fx.Graph(), torch.nn.Module(), {}
        for name in self.begins:
            made[name] = graph.placeholder(name)
        for node in self.constants:
            root.register_buffer(node.name, constant(node))
            made[node.name] = graph.get_attr(node.name)
        for node in self.nodes:
            made[node.name] = self._added(graph, node, made)
        graph.output(tuple(made[name] for name in self.gives))
        return torch.fx.GraphModule(root, graph)

    @staticmethod
    def _added(graph: torch.fx.Graph, node: Node, made: Mapping[str, Any]) -> torch.fx.Node:
        decoder = Decoder(made)
        args = tuple(decoder.value(one) for one in node.args)
        kwargs = {name: decoder.value(one) for name, one in node.kwargs.items()}
        function = function_of(node.operator)
        if node.operator.startswith(_METHOD) and "." not in node.operator.removeprefix(_METHOD):
            return graph.call_method(node.operator.removeprefix(_METHOD), args, kwargs)
        return graph.call_function(function, args, kwargs)


def whole(graph: Graph) -> Piece:
    """All of a graph, giving what the graph gives."""
    piece = Piece(graph, [node.name for node in graph.calls()])
    piece.begins = [node.name for node in graph.inputs()]
    piece.constants = [node for node in graph.nodes if node.kind == CONSTANT]
    piece.gives = list(dict.fromkeys(references(graph.outputs())))
    return piece
