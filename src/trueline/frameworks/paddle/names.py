"""What is a call of Paddle's: found by looking through its own namespaces, not from a list of names.

Public functions live in a handful of namespaces that users write (``paddle``, ``paddle.nn.functional``, …). Of what is
there, functions count, never modules, classes or plain values; and of the functions those that are defined where
Paddle keeps its operators: ``paddle.set_device`` or ``paddle.save`` are functions too, but not of tensors. A helper
that slips through does no harm: a call from which no tensor comes and that changes none is not recorded.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import paddle

Function = Any
"""A Python function or a builtin one."""


@dataclass(slots=True)
class Trait:
    """How one function is treated. ``name_id`` is the number of its name in the Run; ``wanted`` says whether the
    user's filters let it through. ``mutates``: it may change its arguments. ``writes_first``: it changes the first one
    without a trace in its version counter. ``hides_all``: it may change any of them without a trace. ``waits``: what it
    does may not be done when it returns. ``by_context``: a PyLayer tells of its own backward."""

    name: str
    mutates: bool = False
    writes_first: bool = False
    hides_all: bool = False
    waits: bool = False
    by_context: bool = False
    name_id: int = -1
    wanted: bool = True
    count: int = 0
    """Calls so far in the step that ``step`` names."""
    step: int = -1


NAMESPACES = (
    "paddle",
    "paddle.nn.functional",
    "paddle.nn.functional.flash_attention",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.special",
    "paddle.sparse",
    "paddle.sparse.nn.functional",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.text",
    "paddle.audio.functional",
    "paddle.metric",
    "paddle.nn.quant",
    "paddle.incubate",
    "paddle.incubate.nn.functional",
    "paddle.incubate.nn.functional.flash_attention",
    "paddle.compat",
    "paddle.compat.nn.functional",
    "paddle.distributed",
    "paddle.distributed.communication.stream",
)
"""Where users find functions. The first that has a function names it, but see ``_rank``."""

_HOMES = (
    "paddle.tensor",
    "paddle.base.dygraph.generated_tensor_methods_patch",
    "paddle.base.dygraph.math_op_patch",
    "paddle.nn.functional",
    "paddle.nn.quant",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.special",
    "paddle.sparse",
    "paddle.geometric",
    "paddle.vision.ops",
    "paddle.text",
    "paddle.audio.functional",
    "paddle.metric",
    "paddle.compat",
    "paddle.incubate.nn",
    "paddle.incubate.operators",
    "paddle.incubate.tensor",
    "paddle.distributed.communication",
)
"""The modules in which Paddle defines operators, or defines them for tensors; prefixes."""

COLLECTIVES = "paddle.distributed."

POINT_TO_POINT = frozenset({"isend", "irecv", "send", "recv", "batch_isend_irecv"})
"""Waiting for one of these at once could wait for ever: the other side may answer only after our next call."""

KERNEL_MODULES = ("paddle._C_ops", "paddle._legacy_C_ops")
"""The builtin functions by which everything is computed, whoever asks."""

WRITING_KERNELS = frozenset(
    {
        "batch_norm", "fused_batch_norm_act", "fused_bn_add_activation", "coalesce_tensor", "run_program",
        "pir_run_program",
    }
)  # fmt: skip
"""Kernels that change what they are given although their names do not end in ``_``: running statistics, buffers, what
a compiled function of older versions is given to fill."""

_TRANSPARENT = frozenset({"backward", "register_hook", "apply", "apply_", "gradient", "clear_gradient", "clear_grad"})
"""Methods that run other people's code, or autograd: what happens inside is what is worth recording."""

_ASKING = frozenset(
    """
    data_ptr element_size nelement dim ndimension stride get_strides get_tensor get_selected_rows get_map_tensor
    value numpy item tolist place_str pin_memory retain_grads requires_grad_ set_string_list set_vocab set_tensor
    dense_dim sparse_dim nnz storage_offset size to_string cuda_id type
    """.split()
)
"""Methods that tell something about a tensor, or give its content to Python: no tensor comes of them."""

_OPERATORS = frozenset(
    name
    for plain in (*vars(operator), "__div__")
    if plain.startswith("__") and plain not in ("__index__", "__contains__", "__call__", "__not__")
    for name in (plain, f"__r{plain[2:]}", f"__i{plain[2:]}")
)


def kernels() -> dict[str, dict[str, Function]]:
    """Module name -> the builtin functions in it that compute."""
    found: dict[str, dict[str, Function]] = {}
    for name in KERNEL_MODULES:
        module = importlib.import_module(name)
        found[name] = {key: item for key, item in vars(module).items() if type(item) is types.BuiltinFunctionType}
    return found


def kernel_trait(module: str, name: str) -> Trait:
    writes = (name.endswith("_") and not name.endswith("__")) or name in WRITING_KERNELS
    return Trait(f"{module}.{name}", mutates=writes)


def public_functions() -> dict[int, tuple[str, Function]]:
    """Every public function that may be an operator, by its identity: (the name users write, the function)."""
    found: dict[int, tuple[tuple[bool, bool, int], str, Function]] = {}
    for position, prefix in enumerate(NAMESPACES):
        for attribute, item in members(prefix):
            if type(item) is types.FunctionType and not (item.__module__ or "").startswith(_HOMES):
                continue
            rank = _rank(prefix, position, attribute, item)
            known = found.get(id(item))
            if known is None or rank < known[0]:
                found[id(item)] = (rank, f"{prefix}.{attribute}", item)
    return {key: (name, item) for key, (_, name, item) in found.items()}


def namespaces() -> Iterator[tuple[str, Any]]:
    """The namespaces that this version has, but for those of collectives."""
    for prefix in NAMESPACES:
        with contextlib.suppress(ImportError):
            if not f"{prefix}.".startswith(COLLECTIVES):
                yield prefix, importlib.import_module(prefix)


def members(prefix: str) -> Iterator[tuple[str, Function]]:
    """The functions of a namespace by their names there."""
    try:
        module = importlib.import_module(prefix)
    except ImportError:  # not every version has every namespace
        return
    listed = set(getattr(module, "__all__", ()))
    for attribute in sorted(vars(module), key=lambda name: (name not in listed, len(name))):
        item = vars(module)[attribute]
        if not attribute.startswith("_") and type(item) in (types.FunctionType, types.BuiltinFunctionType):
            yield attribute, item


def _rank(prefix: str, position: int, attribute: str, function: Function) -> tuple[bool, bool, int]:
    """How good a name is, smaller being better: not an alias, of the namespace in which the function is defined, and
    else of the first that has it."""
    at_home = prefix != "paddle" and (getattr(function, "__module__", "") or "").startswith(prefix)
    return attribute != function.__name__, not at_home, position


def function_trait(name: str) -> Trait:
    short = name.rpartition(".")[2]
    if name.startswith(COLLECTIVES):
        return Trait(name, mutates=True, hides_all=True, waits=short not in POINT_TO_POINT)
    return Trait(name, mutates=_in_place(short))


def tensor_methods() -> dict[str, Function]:
    """The methods and operators of a tensor that compute, by their names."""
    found: dict[str, Function] = {}
    for name, item in vars(paddle.Tensor).items():
        if not isinstance(item, types.FunctionType | types.MethodDescriptorType):
            continue
        if name.startswith("_") and name not in _OPERATORS:
            continue
        if name not in _TRANSPARENT and name not in _ASKING and not name.startswith("is_"):
            found[name] = item
    return found


def method_trait(name: str) -> Trait:
    return Trait(f"paddle.Tensor.{name}", mutates=_in_place(name), writes_first=name in ("set_value", "copy_"))


def tensor_properties() -> dict[str, types.FunctionType]:
    """The properties that give a new tensor (``T``, ``mT``), found by asking a small one; with their getters."""
    found: dict[str, types.FunctionType] = {}
    trial = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    for name, item in vars(paddle.Tensor).items():
        if isinstance(item, property) and isinstance(item.fget, types.FunctionType) and _gives_tensor(trial, name):
            found[name] = item.fget
    return found


def _gives_tensor(trial: Any, name: str) -> bool:
    try:
        return isinstance(getattr(trial, name), paddle.Tensor)
    except Exception:  # a property of another kind of tensor
        return False


def _in_place(short: str) -> bool:
    if short.startswith("__"):
        return short == "__setitem__" or (short.startswith("__i") and short not in ("__invert__", "__index__"))
    return short.endswith("_") or short == "set_value"
