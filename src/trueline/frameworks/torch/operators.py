"""The operators that a file may name: a closed table, built once from what torch itself declares.

A Run, a config line, a foreign dump or a plan holds the names of calls. Which function such a name stands for is looked
up here and nowhere else, in a dictionary: no attribute is ever taken from a module because a file says so. What is in
the table is there for a reason of torch's own:

* a builtin function or method whose operator has a schema of tensors, numbers and options alone (``is_operator``).
  A schema that takes a file name, a storage, a process group, an object or text that is no known option is none, so
  whatever reads files, talks to other processes or changes global state is left out by what it is;
* a public Python function that is defined in one of the few modules in which torch writes operators (``_HOMES``);
* the methods and properties of tensors, and the few functions, that compute and have no schema: listed below;
* what the catalogue and the mapping name.

The table says where each name stands; what stands there now is called, so that what an adapter of a device has put in
the place of torch's own is what is checked.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from trueline.ops.known import known_apis

Function = Callable[..., Any]

SCHEMA_NAMESPACES = ("aten", "prims", "quantized", "mkldnn")
"""The libraries of operators that torch itself brings. Another one belongs to somebody else, who must be named."""

_PLAIN_TYPES = frozenset({"Tensor", "int", "float", "bool", "complex", "number", "Device", "Generator"})
OPTIONS = frozenset(
    """
    UPLO activation algorithm approximate attr binary_attr binary_post_op driver equation indexing interpolation mode
    norm ord p pad_mode padding padding_side post_op_algorithm post_op_name reduce rounding_mode side unary_algorithm
    unary_attr unary_post_op unary_post_op_algorithm
    """.split()
)
"""Parameters whose text chooses between ways to compute. Any other text may be a path or a name of anything."""

_OUT_OF_REACH = frozenset(
    """
    backward set_ resize_ resize_as_ resize_as_sparse_ resize resize_as record_stream data_ptr _sync
    _resize_output_ _resize_output
    """.split()
)
"""Depend on more than their arguments, or change the memory under other tensors."""

_UNCHECKED = "unsafe"
"""In the names of operators that trust the indices or sizes they are given, and read or write wherever these point to.
Those that only split or view do not."""
_UNCHECKED_BUT_SOUND = frozenset({"_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"})

_PACKETS = "torch.ops."

_FUNCTIONS_OF_TORCH = torch._C._VariableFunctions
_BUILTINS: tuple[tuple[str, Any, Any], ...] = (
    ("torch", torch, _FUNCTIONS_OF_TORCH),
    ("torch._VF", _FUNCTIONS_OF_TORCH, _FUNCTIONS_OF_TORCH),
    ("torch._C._VariableFunctions", _FUNCTIONS_OF_TORCH, _FUNCTIONS_OF_TORCH),
    *(
        (name, place, place)
        for name, place in (
            *((f"torch._C.{short}", getattr(torch._C, short, None)) for short in
              ("_nn", "_linalg", "_fft", "_special", "_sparse")),
            ("torch.nn.functional", torch.nn.functional), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft),
            ("torch.special", torch.special), ("torch.sparse", torch.sparse),
        )
    ),
)  # fmt: skip
"""Names, what has the functions of these names, and where those are found that are made of schemas."""

_HOMES: tuple[tuple[str, Any], ...] = (
    ("torch.functional", torch),
    ("torch.functional", torch.functional),
    ("torch._lowrank", torch),
    ("torch._lobpcg", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.nn.init", torch.nn.init),
    ("torch.signal.windows.windows", torch.signal.windows),
)
"""The modules in which torch writes operators in Python, and where users find them."""

_FUNCTIONS: tuple[tuple[str, Any, str], ...] = (
    ("torch", torch, "tensor as_tensor asarray is_tensor spmm dsmm hsmm saddmm"),
    ("torch.sparse", torch.sparse, "sum"),
)
"""Functions without a schema that make tensors of plain values, ask what one is, or are other names of operators."""

_METHODS = frozenset(
    """
    __abs__ __add__ __and__ __div__ __eq__ __floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __idiv__
    __ifloordiv__ __ilshift__ __imod__ __imul__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__
    __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rdiv__
    __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__
    __rtruediv__ __rxor__ __setitem__ __sub__ __truediv__ __xor__ __bool__ __complex__ __float__ __index__ __int__
    __long__ __nonzero__ __reversed__ __contains__ __len__
    bfloat16 bool byte cdouble cfloat char cpu cuda double float half int long short type xpu
    item ndimension new_tensor tolist to_sparse_coo unflatten unique unique_consecutive lu norm istft stft split
    """.split()
)
"""Methods of tensors that compute, convert or pick, and whose names no schema has (or whose Python form adds to it)."""

PROPERTIES = frozenset({"T", "H", "mT", "mH", "real", "imag", "data"})
"""Properties of tensors that give a tensor."""


def _reader(name: str) -> Function:
    def read(tensor: torch.Tensor) -> Any:
        return getattr(tensor, name)

    return read


_READERS = {f"torch.Tensor.{name}": _reader(name) for name in PROPERTIES}


def operator_named(api: str) -> Function | None:
    """The function of an API name such as ``torch.Tensor.add``, ``torch.Tensor.T`` (a property) or
    ``torch.ops.aten.add.Tensor``; None where torch declares no such operator."""
    if api.startswith(_PACKETS):
        return _packet(api)
    name = api.removesuffix(".__get__")
    if name in _READERS:
        return _READERS[name]
    place = places().get(api)
    return None if place is None else getattr(*place, None)


Place = tuple[Any, str]
"""A module of torch's or its class of tensors, and the name of an operator there."""


@cache
def places() -> dict[str, Place]:
    """Where all operators stand, by all the names that they have, but for those of ``torch.ops``, which are made when
    they are asked for."""
    return {f"{prefix}.{name}": (place, name) for prefix, place, name in _all()}


def _all() -> Iterator[tuple[str, Any, str]]:
    declared = {name for name in schemas() if name.startswith("aten::")}
    for prefix, place, builtins in _BUILTINS:
        for name in dir(builtins) if builtins is not None else ():
            value = getattr(builtins, name)
            if isinstance(value, types.BuiltinFunctionType) and f"aten::{value.__name__}" in declared:
                yield prefix, place, name
    for home, place in _HOMES:
        for name, value in vars(place).items():
            if isinstance(value, types.FunctionType) and value.__module__ == home and not name.startswith("_"):
                yield place.__name__, place, name
    for prefix, place, names in _FUNCTIONS:
        yield from ((prefix, place, name) for name in names.split())
    for name in dir(torch.Tensor):
        if name in _METHODS or (f"aten::{name}" in declared and _is_method(name)):
            yield "torch.Tensor", torch.Tensor, name
    yield from _known()


def _is_method(name: str) -> bool:
    """Whether tensors have a method of this name that is made of a schema, not written in Python nor a property."""
    return isinstance(inspect.getattr_static(torch.Tensor, name), types.MethodDescriptorType)


def _known() -> Iterator[tuple[str, Any, str]]:
    """What the tables of operators name, whatever is there in this version."""
    namespaces = {prefix: place for prefix, place, _ in _BUILTINS} | {"torch.Tensor": torch.Tensor}
    for api in known_apis("torch"):
        prefix, _, name = api.rpartition(".")
        if prefix in namespaces and api not in _READERS:
            yield prefix, namespaces[prefix], name


def is_operator(schema: Any) -> bool:
    """Whether a schema is one of an operator: tensors, numbers and options go in, and there is a tensor in it."""
    values = [*schema.arguments, *schema.returns]
    return any("Tensor" in str(value.type) for value in values) and all(
        _is_plain(str(value.type)) or (_is_text(str(value.type)) and value.name in OPTIONS) for value in values
    )


def _is_plain(kind: str) -> bool:
    """``List[Optional[Tensor]]`` is plain, ``List[str]`` and ``Storage`` are not."""
    while kind.endswith("]"):
        outer, _, kind = kind[:-1].partition("[")
        if outer not in ("List", "Optional"):
            return False
    return kind in _PLAIN_TYPES


def _is_text(kind: str) -> bool:
    return kind in ("str", "Optional[str]")


def _is_sound(name: str) -> bool:
    """Whether an operator depends on its arguments alone and looks at its indices before it follows them."""
    if name in _OUT_OF_REACH:
        return False
    return _UNCHECKED not in name or name in _UNCHECKED_BUT_SOUND


@cache
def schemas() -> dict[str, dict[str, bool]]:
    """Every operator of the dispatcher by its name (``aten::add``): its overloads, and whether each is an operator;
    those alone of which at least one is. The interpreter of TorchScript has schemas of its own, which save files and
    format text; they are no operators of the dispatcher."""
    dispatched = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}  # type: ignore[attr-defined]
    found: dict[str, dict[str, bool]] = {}
    for schema in torch._C._jit_get_all_schemas():  # type: ignore[attr-defined]
        namespace, _, short = schema.name.partition("::")
        if namespace in SCHEMA_NAMESPACES and schema.name in dispatched and _is_sound(short):
            found.setdefault(schema.name, {})[schema.overload_name or "default"] = is_operator(schema)
    return {name: overloads for name, overloads in found.items() if any(overloads.values())}


def _packet(api: str) -> Function | None:
    """``torch.ops.aten.add``, where all of its overloads are operators, or ``torch.ops.aten.add.Tensor``."""
    namespace, _, rest = api.removeprefix(_PACKETS).partition(".")
    short, _, overload = rest.partition(".")
    overloads = schemas().get(f"{namespace}::{short}", {})
    if not (overloads.get(overload, False) if overload else overloads and all(overloads.values())):
        return None
    packet = getattr(getattr(torch.ops, namespace), short)
    return getattr(packet, overload) if overload else packet  # type: ignore[no-any-return]


_TORCH_NAMESPACES = frozenset(
    """
    _c10d_functional _c10d_functional_autograd _dtensor _native _quantized _test aten c10d debug_mode_ops debugprims
    export fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn prim prims profiler quantization quantized
    rngprims rpc sparse static_runtime symm_mem
    """.split()
)
"""The libraries that torch itself brings, operators or not."""


def registered(api: str) -> Function | None:
    """An operator that somebody else than torch has registered with the dispatcher (``torch.ops.mykernels.gelu``)."""
    if not api.startswith(_PACKETS):
        return None
    namespace, _, rest = api.removeprefix(_PACKETS).partition(".")
    short, _, overload = rest.partition(".")
    listed = torch._C._jit_get_schemas_for_operator(f"{namespace}::{short}")  # type: ignore[attr-defined]
    if namespace in _TORCH_NAMESPACES or not listed:
        return None
    if overload and overload not in {schema.overload_name or "default" for schema in listed}:
        return None
    packet = getattr(getattr(torch.ops, namespace), short)
    return getattr(packet, overload) if overload else packet  # type: ignore[no-any-return]
