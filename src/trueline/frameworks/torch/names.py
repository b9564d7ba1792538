"""What we know of a torch function when it is first seen: its public name and how to treat it.

The public name is the one users write (``torch.nn.functional.linear``), found by looking through torch's own
namespaces; nothing is listed by hand but the few functions that need another treatment, each with its reason.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import torch

from trueline.frameworks.torch.flatten import flatten

RECORD = 0
SKIP = 1
"""Asks about a tensor (shape, device, …) or handles objects: no numbers come out of it."""
TRANSPARENT = 2
"""Made of other torch calls, which are the ones worth recording."""
KERNEL = 3
"""A kernel called by its name: recorded, unless code that answers kernels (``__torch_dispatch__``) passes it on."""


EXCHANGED = 4
"""A function that the program has put in the place of one of torch's, which shows it to a mode as if it were itself."""
_FRAMES_TO_ASKER = 9

Argument = tuple[int, str]
"""Position and name of an argument: callers may use either."""


@dataclass(slots=True)
class Trait:
    """How one torch function is treated. ``name_id`` is the number of its name in the Run; ``wanted`` says whether
    the user's filters let it through. ``hidden`` are the arguments, by position and name, that it changes without a
    trace in their version counters; ``hides_all`` says that any of its arguments may be. ``in_place`` is the position
    of an argument that asks it to work in place, 0 where it has none. ``first_only`` says that what it changes is its
    first tensor and no other, unless it is given ``out``."""

    name: str
    treatment: int
    mutates: bool = False
    hidden: tuple[Argument, ...] = ()
    hides_all: bool = False
    in_place: int = 0
    first_only: bool = field(init=False)
    name_id: int = -1
    wanted: bool = True
    count: int = 0
    """Calls so far in the step that ``step`` names."""
    step: int = -1

    def __post_init__(self) -> None:
        short = self.name.rpartition(".")[2]
        self.first_only = not short.startswith("_") and not self.hidden and short.endswith("_")


VALUES = frozenset({"T", "H", "mT", "mH", "real", "imag"})
"""Properties that give a new tensor; all other properties only tell something about one."""

_TRANSPARENT = frozenset(
    {
        "torch.Tensor.backward",
        "torch.Tensor.__deepcopy__",
        "torch.Tensor.register_hook",
        "torch.Tensor.register_post_accumulate_grad_hook",
        "torch.Tensor.__iter__",  # a Python loop over unbind
        "torch.nn.functional.multi_head_attention_forward",
    }
)

_RUNNING_FIRST: tuple[Argument, ...] = ((1, "running_mean"), (2, "running_var"))
_RUNNING_LAST: tuple[Argument, ...] = ((3, "running_mean"), (4, "running_var"))
_HIDDEN_MUTATION = {
    "torch.nn.functional.batch_norm": _RUNNING_FIRST,
    "torch.nn.functional.instance_norm": _RUNNING_FIRST,
    **{
        home.format(kernel): _RUNNING_LAST
        for kernel in (
            "batch_norm", "instance_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
            "miopen_batch_norm", "_batch_norm_impl_index",
        )
        for home in ("torch.{}", "aten.{}.default", "torch.ops.aten.{}.default", "torch.ops.aten.{}")
    },
}  # fmt: skip
"""Functions that change running statistics without moving their version counters."""
_HIDDEN_PREFIXES = ("_fused_", "_amp_")
"""Kernels on lists of tensors, fused optimizers among them, whose version counters torch forgets to move."""

_METADATA = frozenset(
    """
    size stride dim ndimension numel nelement element_size storage_offset data_ptr storage untyped_storage
    typed_storage storage_type get_device is_contiguous is_floating_point is_complex is_signed is_inference is_neg
    is_conj is_pinned is_shared is_set_to is_same_size is_coalesced is_distributed is_tensor is_storage
    _is_view _version requires_grad_ retain_grad dense_dim sparse_dim result_type can_cast promote_types
    get_default_dtype set_default_dtype is_grad_enabled is_inference_mode_enabled is_autocast_enabled
    __len__ __hash__ __repr__ __str__ __format__ __dir__ __reduce__ __reduce_ex__ __setstate__ __getstate__
    __array__ __array_wrap__ __cuda_array_interface__ __dlpack__ __dlpack_device__ __contains__ __torch_dispatch__
    numpy tolist share_memory_ refine_names rename rename_ align_to names has_names dim_order
    _typed_storage _make_subclass _make_wrapper_subclass as_subclass _nested_tensor_size sym_size sym_numel
    _has_compatible_shallow_copy_type _is_zerotensor _reduce_ex_internal _rebuild_from_type_v2 _get_tracing_state
    broadcast_shapes iinfo finfo pin_memory _sync _pin_memory record_stream get_rng_state set_rng_state
    initial_seed manual_seed seed _assert_async _assert_scalar compile is_deterministic_algorithms_warn_only_enabled
    are_deterministic_algorithms_enabled _has_symbolic_sizes_strides __class__ _use_count _backward_hooks
    set_ _set_size unsafe_storage data_type layout
    """.split()
)

_WITHOUT_NUMBERS = (
    "torch.ops.profiler.",
    "torch.autograd.profiler.",
    "torch._C._set_",
    "torch._C._is_",
    "torch._C._get_",
    "torch.distributed.",  # collectives have a door of their own: not every version of torch asks the mode about them
)

_IN_PLACE_OPERATORS = frozenset(
    "__iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ "
    "__irshift__ __imatmul__ __idiv__ __setitem__".split()
)


class Names:
    """Maps torch's function objects to their public names."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        namespaces = (
            ("torch.nn.functional", torch.nn.functional),
            ("torch.linalg", torch.linalg),
            ("torch.fft", torch.fft),
            ("torch.special", torch.special),
            ("torch.nn.init", torch.nn.init),
            ("torch.Tensor", torch.Tensor),
            ("torch.sparse", torch.sparse),
            ("torch", torch),
            ("torch._C._nn", torch._C._nn),
            ("torch._VF", torch._VF),
            ("torch._C._linalg", torch._C._linalg),
            ("torch._C._fft", torch._C._fft),
            ("torch._C._special", torch._C._special),
        )
        for prefix, namespace in namespaces:
            # One function may have several names (mm, spmm, dsmm; neg, __neg__): the plainest is the one to show.
            for attribute in sorted(dir(namespace), key=lambda name: (name.startswith("_"), len(name))):
                self._enter(prefix, attribute, getattr(namespace, attribute, None))

    def _enter(self, prefix: str, attribute: str, value: Any) -> None:
        if not callable(value) or isinstance(value, type):
            return
        with contextlib.suppress(TypeError):  # what cannot be hashed is not a function that could reach us
            self._names.setdefault(value, f"{prefix}.{attribute}")

    def trait(self, function: Any) -> Trait:
        """Decides how to treat a function, once."""
        property_name = _property_name(function)
        if property_name is not None:
            keep = property_name in VALUES and function.__name__ == "__get__"
            return Trait(f"torch.Tensor.{property_name}", RECORD if keep else SKIP)
        name = self.name(function)
        short = name.rpartition(".")[2]
        if name in _TRANSPARENT or name.startswith("torch.autograd."):
            return Trait(name, TRANSPARENT)
        if short in _METADATA or name.startswith(_WITHOUT_NUMBERS):
            return Trait(name, SKIP)
        in_place = short in _IN_PLACE_OPERATORS or (short.endswith("_") and not short.endswith("__"))
        hidden = _HIDDEN_MUTATION.get(name) or _hidden_arguments(short)
        mutates = in_place or bool(hidden) or _schema_mutates(function)
        treatment = KERNEL if isinstance(function, torch._ops.OpOverload) else RECORD
        return Trait(name, treatment, mutates, hidden, in_place=_in_place_position(function))

    def who_asks(self, function: Any) -> Any:
        """The function of torch's that is asking a mode, where that is another than the one it shows: it looks itself
        up by its own name, under which the program may have put a function of its own that calls it. None where torch
        shows the one that asks."""
        frame: types.FrameType | None = sys._getframe(1)
        for _ in range(_FRAMES_TO_ASKER):
            if frame is None:
                break
            code = frame.f_code
            if _is_shown(function, frame) and code is not getattr(function, "__code__", None):
                return self._made_of(code)
            frame = frame.f_back
        return None

    def _made_of(self, code: types.CodeType) -> Any:
        known = [one for one in self._names if isinstance(one, types.FunctionType) and one.__code__ is code]
        others = [] if known else gc.get_referrers(code)
        return next((one for one in known + others if isinstance(one, types.FunctionType)), None)

    def kernel(self, function: Any) -> Trait:
        """The trait of a kernel that is seen below autograd, where version counters have not been moved yet: its
        schema says what it changes."""
        name = str(function)
        hidden = _HIDDEN_MUTATION.get(name) or _written(function._schema)
        return Trait(name, RECORD, bool(hidden), hidden)

    def name(self, function: Any) -> str:
        try:
            known = self._names.get(function)
        except TypeError:
            known = None
        if known is not None:
            return known
        if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return f"torch.ops.{str(function).replace('::', '.')}"
        owner = getattr(function, "__objclass__", None)
        if owner is not None and issubclass(owner, torch._C.TensorBase):
            return f"torch.Tensor.{function.__name__}"
        module = getattr(function, "__module__", None) or "torch"
        return f"{module}.{getattr(function, '__qualname__', getattr(function, '__name__', type(function).__name__))}"


def _is_shown(function: Any, frame: types.FrameType) -> bool:
    """Whether the function of this frame, or a method of tensors, would show this one when it looks itself up."""
    name = frame.f_code.co_name
    return frame.f_globals.get(name) is function or vars(torch.Tensor).get(name) is function


def _property_name(function: Any) -> str | None:
    """The property behind a getter or setter (``Tensor.shape.__get__``), None for anything else."""
    if getattr(function, "__name__", "") not in ("__get__", "__set__", "__delete__"):
        return None
    return getattr(getattr(function, "__self__", None), "__name__", "?")


def may_change(trait: Trait, args: Any, kwargs: dict[str, Any] | None) -> bool:
    """Whether a call may change any of its arguments."""
    return (
        trait.mutates
        or bool(0 < trait.in_place < len(args) and args[trait.in_place])
        or bool(kwargs and (kwargs.get("out") is not None or kwargs.get("inplace")))
    )


def hidden_leaves(trait: Trait, args: Any, kwargs: dict[str, Any] | None, leaves: list[torch.Tensor]) -> frozenset[int]:
    """Which tensors a call changes without a trace in their version counters: positions among its leaves."""
    if trait.hides_all:
        return frozenset(range(len(leaves)))
    changed: list[torch.Tensor] = []
    for position, name in trait.hidden:
        flatten(args[position] if position < len(args) else (kwargs or {}).get(name), changed)
    numbers = {id(tensor) for tensor in changed}
    return frozenset(position for position, tensor in enumerate(leaves) if id(tensor) in numbers)


def _hidden_arguments(short: str) -> tuple[Argument, ...]:
    if short.startswith("_foreach_") and short.endswith("_"):
        return ((0, "self"),)  # some of their CUDA kernels forget the version counters
    if not short.startswith(_HIDDEN_PREFIXES) or not short.endswith("_"):
        return ()
    operator = getattr(torch.ops.aten, short, None)
    return () if operator is None else _written(operator.default._schema)


def _written(schema: Any) -> tuple[Argument, ...]:
    """What a schema says is written to. Gradients that a fused optimizer may scale are not what it is called for,
    and nobody uses them again."""
    return tuple(
        (position, argument.name)
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write and argument.name != "grads"
    )


def _in_place_position(function: Any) -> int:
    if not isinstance(function, types.FunctionType):
        return 0
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    return names.index("inplace") if "inplace" in names else 0


def _schema_mutates(function: Any) -> bool:
    schema = getattr(function, "_schema", None)
    return bool(schema is not None and schema.is_mutable)
