"""Loads the C extension that records calls; there is none where there is none that looks at tensors (``fast.py``), or
where torch lacks what it needs. Then Python does the same, slower."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks import depth, keys
from trueline.frameworks.switch import Laid
from trueline.frameworks.torch import flatten, gate
from trueline.frameworks.torch.fast import fast_looks
from trueline.frameworks.torch.graph import ACCUMULATE

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import Watch


def fast_calls() -> Any:
    """The extension, ready to be used; None where there is none."""
    return None if fast_looks() is None else _load()


def way_taken() -> gate.Way:
    """The way that captures take in this process, and why."""
    way = gate.way()
    if way.fast and fast_calls() is None:
        return gate.Way(False, "what the C extensions say of a few tensors is not what torch says")
    return way


@cache
def _load() -> Any:
    try:
        calls = import_module("trueline.frameworks.torch._calls")
        calls.prepare(
            torch.Tensor,
            torch.nn.Parameter,
            torch.Size,
            torch.dtype,
            torch.memory_format,
            keys.TENSOR,
            flatten.flatten_other,
            OrderedDict,
            torch.autograd.Function._register_hook,  # type: ignore[attr-defined]
            depth.Called,
        )
        calls.count_frames(*depth.where())
        _open_doors(calls)
        return calls
    except (ImportError, AttributeError, TypeError):
        return None


_LIBRARIES = {"linux": ("libtorch_cpu.so", "libc10.so"), "darwin": ("libtorch_cpu.dylib", "libc10.dylib")}
_TLS = "_ZN2at4impl22PythonTorchFunctionTLS"
_DOORS = (
    "_ZN2at15sequence_number4peekEv",
    "_ZN5torch8autograd25get_current_graph_task_idEv",
    "_ZN3c108GradMode10is_enabledEv",
    f"{_TLS}18get_disabled_stateEv",
    f"{_TLS}18set_disabled_stateENS0_26TorchFunctionDisabledStateE",
    f"{_TLS}9stack_lenEv",
    f"{_TLS}12get_stack_atEl",
)
"""Functions of torch's libraries that tell of the running thread what its Python functions tell."""


def _open_doors(calls: Any) -> None:
    """Shows the extension the functions behind what it asks most often. They are no promise of torch's: where one is
    missing, or what they say is not what torch says in Python, none is used."""
    try:
        mode = getattr(os, "RTLD_NOLOAD", 0) | ctypes.DEFAULT_MODE
        libraries = [ctypes.CDLL(name, mode=mode) for name in _LIBRARIES[sys.platform]]
        addresses = [ctypes.cast(_function_named(libraries, name), ctypes.c_void_p).value for name in _DOORS]
    except (OSError, AttributeError, KeyError):
        return
    calls.open_doors(*addresses)
    if not _doors_agree(calls):
        calls.open_doors(*[0] * len(_DOORS))


def _function_named(libraries: list[ctypes.CDLL], name: str) -> Any:
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise AttributeError(name)


_AUTOCAST = "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE"
_CPU, _CUDA = 0, 1
"""What torch's libraries call these kinds of devices."""


def autocast_door() -> int:
    """The address of the function of torch's libraries that tells whether autocast is on for a kind of device; 0 where
    there is none, where another kind of device may be in use, or where it does not say what torch says in Python."""
    if torch._C._get_privateuse1_backend_name() != "privateuseone" or torch.xpu.is_available():
        return 0
    try:
        mode = getattr(os, "RTLD_NOLOAD", 0) | ctypes.DEFAULT_MODE
        libraries = [ctypes.CDLL(name, mode=mode) for name in _LIBRARIES[sys.platform]]
        door = _function_named(libraries, _AUTOCAST)
    except (OSError, AttributeError, KeyError):
        return 0
    door.restype, door.argtypes = ctypes.c_bool, [ctypes.c_int8]
    for kind, number in (("cpu", _CPU), ("cuda", _CUDA)):
        before = torch.is_autocast_enabled(kind)
        try:
            for on in (True, False):
                torch.set_autocast_enabled(kind, on)
                if door(number) is not on:
                    return 0
        finally:
            torch.set_autocast_enabled(kind, before)
    return ctypes.cast(door, ctypes.c_void_p).value or 0


class _Probe(torch.overrides.TorchFunctionMode):
    """A mode that does nothing, to be found by the doors."""


def _doors_agree(calls: Any) -> bool:
    agree = [_agrees(calls, 0)]
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            agree.append(_agrees(calls, 0))
    with torch._C.DisableTorchFunction():
        agree.append(_agrees(calls, 2))
    with torch._C.DisableTorchFunctionSubclass():
        agree.append(_agrees(calls, 1))
    for probe in (_Probe(), _Probe()):
        torch._C._push_on_torch_function_stack(probe)
        agree.append(_agrees(calls, 0, probe))
    for _ in range(2):
        torch._C._pop_torch_function_stack()
    return all(agree)


def _agrees(calls: Any, state: int, top: Any = None) -> bool:
    said = calls.ask_doors()
    expected = (
        torch.autograd._get_sequence_nr(),  # type: ignore[attr-defined]
        torch._C._current_graph_task_id(),
        int(torch.is_grad_enabled()),
        state,
        2,
        torch._C._len_torch_function_stack(),
    )
    return bool(said[:-1] == expected and (top is None or said[-1] == id(top)))


def quick_registration(calls: Any) -> Callable[[], None]:
    """Lets hooks of ours be registered at nodes without a handle for each, which takes longer than all the rest of it;
    gives what undoes that."""
    laid = Laid(torch.autograd.Function, "_register_hook", calls.registrar)  # torch's own is inherited
    laid.on()
    return laid.off


def recorder_for(watch: Watch, calls: Any, **constants: Any) -> Any:
    """What records the calls of a Watch in its place; None where each call has to be asked about, or be marked."""
    looker = watch.desk.looker
    if calls is None or looker is None or watch.selection.narrow or watch.scope.witness:
        return None
    return calls.Recorder(
        watch=watch,
        notebook=watch.notebook,
        threads=watch.state,
        looker=looker,
        sheets=watch.sheets,
        before_change=watch.desk.before_change,
        next_call=watch.notebook.next_call,
        next_sequence=torch.autograd._get_sequence_nr,  # type: ignore[attr-defined]
        grad_enabled=torch.is_grad_enabled,
        graph_task=torch._C._current_graph_task_id,
        no_torch_function=torch._C.DisableTorchFunction,
        accumulate=ACCUMULATE,
        finder=watch.stacks.finder,
        read_after_backward=watch.read_after_backward,
        stacks_wanted=watch.scope.stacks,
        backward_wanted=watch.scope.backward,
        **constants,
    )
