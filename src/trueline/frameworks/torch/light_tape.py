"""The tape of a light watch: what is needed to compute a step again, and next to nothing else.

On a device nothing is held of what the calls of a step make: of each call the watch notes the function, its arguments
and the modes of the thread. In the place of a tensor that a call of the step has made stands a ``LightRef``, which says
which call that was; what no call has made (batches, parameters, buffers) is noted itself, and copied before a call
changes it, where it is small. A step that turns out bad is played again from that (``light_replay.py``).

Needs the C extension (``_calls_light_tape.h``); without it calls are held, as in CPU memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._device import DeviceContext, _device_constructors

from trueline.frameworks.torch.light_leaves import leaves_of, place_of, written_unseen
from trueline.frameworks.torch.unseen import Unseen, storage_of

MOST_SAVED = 1 << 20
"""So many bytes of a storage are copied before a call of the program changes it."""
MOST_SAVED_SHARE = 0.01
LEAST_WAITING = 16 << 20
WAITING_SHARE = 0.03
"""Of the memory that a program uses: what may wait to be read by the device."""


class ThreadModes(NamedTuple):
    """How a call was made: whether gradients were wanted, and on which devices autocast computed in which dtype."""

    grad: bool
    autocast: tuple[tuple[str, torch.dtype], ...]


class EngineRun(NamedTuple):
    """One run of the engine that computes gradients; tensors are as on the tape."""

    number: int
    roots: Any
    args: Any
    kwargs: dict[str, Any]


@dataclass
class Tape:
    """What belongs to the calls on the tape. ``saved`` are bytes of storages as they were before a call changed them,
    by place; of ``lost`` ones nothing was kept. ``random`` are the states of generators at the beginning, ``device``
    the one on which new tensors are made (None for torch's own). ``received`` is what collectives wrote to tensors on
    the tape, by their number."""

    runs: list[EngineRun] = field(default_factory=list)
    saved: dict[int, Any] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    random: list[tuple[Any, torch.Tensor]] = field(default_factory=list)
    device: Any = None
    received: dict[int, list[tuple[Any, torch.Tensor]]] = field(default_factory=dict)
    bytes: int = 0

    def before_change(self, tensors: list[torch.Tensor], most: int) -> None:
        """A call is about to change memory that no call of the step has made."""
        for tensor in tensors:
            place = place_of(tensor)
            if not place or place in self.saved or place in self.lost:
                continue
            storage = storage_of(tensor)
            size = int(storage.nbytes())
            if size > MOST_SAVED and self.bytes + size > most:
                self.lost.add(place)
                continue
            with Unseen():
                self.saved[place] = storage.clone()
            self.bytes += size


def written_by(trait: Any, args: Any, kwargs: dict[str, Any] | None) -> list[torch.Tensor]:
    """The tensors that a call may change, as far as its name says which."""
    leaves = leaves_of(args, kwargs)
    hidden = written_unseen(trait, args, kwargs, leaves)
    if trait.hidden:
        return [leaves[position] for position in sorted(hidden)]
    out = leaves_of([(kwargs or {}).get("out")], None)
    return out or leaves_of(args[:1], None)


def on_device(function: Any, kwargs: dict[str, Any] | None, device: Any) -> dict[str, Any]:
    """The named arguments of a call that may make a tensor on the default device."""
    named = dict(kwargs or {})
    if device is not None and function in _device_constructors() and named.get("device") is None:
        named["device"] = device
    return named


def layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where a tensor lies in its storage."""
    with Unseen():
        return tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def autocast_types() -> tuple[str, ...]:
    """The kinds of devices for which autocast is asked about."""
    types = ["cpu", "cuda"]
    if not torch.cuda.is_available() and hasattr(torch, "accelerator"):
        device = torch.accelerator.current_accelerator()
        types += [] if device is None else [device.type]
    return tuple(types)


_known_modes: dict[ThreadModes, ThreadModes] = {}


def state_of_thread(grad: int, autocast: int) -> ThreadModes:
    """The modes of the running thread; equal ones are the same object."""
    active: tuple[tuple[str, torch.dtype], ...] = ()
    if autocast:
        active = tuple(
            (kind, torch.get_autocast_dtype(kind)) for kind in autocast_types() if torch.is_autocast_enabled(kind)
        )
    modes = ThreadModes(bool(grad), active)
    return _known_modes.setdefault(modes, modes)


def _modes() -> list[Any]:
    count = torch._C._len_torch_function_stack()
    return [torch._C._get_function_stack_at(position) for position in range(count)]


def has_own_modes(ours: Any) -> bool:
    """Whether the program has modes of its own for functions, besides that for the device of new tensors."""
    return any(mode is not ours and not isinstance(mode, DeviceContext) for mode in _modes())


def default_device() -> Any:
    """The device on which the program has new tensors made; None where it has not said so."""
    return next((mode.device for mode in reversed(_modes()) if isinstance(mode, DeviceContext)), None)


def random_states() -> list[tuple[Any, torch.Tensor]]:
    """The default generators and their states."""
    generators: list[Any] = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        generators.append(torch.cuda.default_generators[torch.cuda.current_device()])
    return [(one, one.get_state()) for one in generators]


def most_waiting() -> int:
    """How many bytes of tensors may wait to be read by their device."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return max(LEAST_WAITING, int(WAITING_SHARE * torch.cuda.max_memory_allocated()))
    return LEAST_WAITING


def with_refs(value: Any, change: Callable[[Any], Any], kinds: tuple[type, ...]) -> Any:
    """A value with what ``change`` makes of the objects of some kinds in it."""
    if isinstance(value, kinds):
        return change(value)
    if isinstance(value, torch.Size) or not (isinstance(value, tuple) or type(value) is list):
        return value
    items = [with_refs(one, change, kinds) for one in value]
    if type(value) in (list, tuple):
        return type(value)(items)
    kind: Any = type(value)
    make = getattr(kind, "_make", kind if hasattr(kind, "n_sequence_fields") else None)
    return value if make is None else make(items)


def parts_of(value: Any) -> Iterator[Any]:
    """Everything in nested tuples, lists and the values of dictionaries."""
    if isinstance(value, tuple | list):
        for one in value:
            yield from parts_of(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from parts_of(one)
    else:
        yield value
