"""Reads tensors that live on an accelerator, without ever making the program wait for it.

Statistics: tensors are held until a group is full, then one grouped launch reads them all, in order on the stream that
made them; results stay on the device and come back once per step. Bytes: copied on a stream of their own into pinned
memory. Where there is no Triton for the device, plain torch reductions do the same, tensor by tensor.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trueline.frameworks.base import Notebook
from trueline.frameworks.torch.fast import KNOWN_DTYPES, fast_looks
from trueline.frameworks.torch.readers import Group, Known, bytes_of, copy_of, one_at_a_time, report_changed
from trueline.frameworks.torch.unseen import Unseen
from trueline.numerics import cuda, plain
from trueline.numerics.layout import STATISTICS
from trueline.records import Data
from trueline.store.columns import Payload

HELD_TENSORS = 512
HELD_LEAST = 64 << 20
HELD_SHARE = 0.05
"""Of the most memory that the program itself has used: what we may hold back from being freed. Below that peak more
may be held, since it does not raise the peak; how near it is is asked each time this much has gathered."""

GROUPS_PER_QUESTION = 3
"""Asking takes time, and where there was no room there is hardly any a moment later."""

_peaks: dict[torch.device, tuple[int, int]] = {}
"""By device, what the last capture went by: the most memory that the program itself had used, and the most that both
had used in the end. A later capture must not take what an earlier one held for the program's."""

COPIED_BYTES = 64 << 20
NEVER_AT_ONCE = -1
NO_STREAM = 2**64 - 1
"""Stands for the stream before the first tensor: no stream lies at this address."""


class DeviceReader:
    """Reads the tensors of one accelerator."""

    def __init__(self, device: torch.device, notebook: Notebook, data: Data) -> None:
        self.guard = threading.RLock()
        self._device = device
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._backend: Any = getattr(torch, device.type)
        self._copier: _Copier | None = None
        if data is Data.TENSORS:
            self._copier = _Copier(device) if hasattr(self._backend, "Stream") else _CopierAtOnce(device)
        self._statistics = _Grouped(device, self._digest) if cuda.supported(device) else _Plain(self._digest)
        self._stream: Any = None
        self._raw_stream = NO_STREAM
        self._ask_stream = self._asked_by()
        self._peak = self._own_peak()
        """The most memory that the program used before we began, as far as is known."""
        self._bound = self._limit = self._held_bound()
        self._asked_in_vain = 0
        """For how many groups we shall not ask again whether there is room."""
        self.queue = self._make_queue()
        self._group = self._begin_group()

    def _asked_by(self) -> Callable[[int], int] | None:
        """What tells one current stream from another; None where a device has no streams. That of torch_npu is asked
        through its module: torch itself knows none of it."""
        raw: Callable[[int], int] | None = getattr(torch._C, f"_{self._device.type}_getCurrentRawStream", None)
        if raw is not None or not hasattr(self._backend, "current_stream"):
            return raw
        return lambda _: int(self._backend.current_stream(self._device).stream_id)

    def held(self, places: set[int]) -> set[int]:
        found = self._group.holds(places)
        return found if self._copier is None else found | (places & self._copier.places.keys())

    @one_at_a_time
    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        if self._current_stream() != self._raw_stream:
            self._change_stream()
        held = self._group.add(tensor, number, place, known, contiguous)
        if held > self._limit or len(self._group.rows) >= HELD_TENSORS:
            self._limit_reached()

    def _make_queue(self) -> Any:
        looks = fast_looks()
        if looks is None:
            return None
        return looks.Queue(
            group_full=self._limit_reached,
            table_full=None,
            stream_changed=self._change_stream,
            stream_of=self._ask_stream,
            device=self._device.index or 0,
            limit=self._limit,
            most=HELD_TENSORS,
            small=NEVER_AT_ONCE,
            read=0,
            digest=self._digest,
            row_bytes=0,
        )

    def _begin_group(self) -> Group:
        group = Group()
        self._set_limit(self._bound)
        if self.queue is not None:
            self.queue.begin_group(group.rows)
        return group

    def _set_limit(self, limit: int) -> None:
        self._limit = limit
        if self.queue is not None:
            self.queue.limit = limit

    def _current_stream(self) -> int:
        """Which stream is current; always the same where a device has no streams."""
        return int(self._ask_stream(self._device.index or 0)) if self._ask_stream is not None else 0

    @one_at_a_time
    def _change_stream(self) -> None:
        """A group is read on the stream that its tensors were made on: another stream begins another group."""
        self.launch()
        self._raw_stream = self._current_stream()
        if self._ask_stream is not None:
            self._stream = self._backend.current_stream(self._device)
        if self.queue is not None:
            self.queue.stream = self._raw_stream

    @one_at_a_time
    def _limit_reached(self) -> None:
        """Sends the group off, unless there is room for more below the program's own peak."""
        if self._asked_in_vain > 0 or len(self._group.rows) >= HELD_TENSORS:
            self._asked_in_vain -= 1
            self.launch()
            return
        room = self._peak - self._used()
        if room > 2 * self._bound:
            # What the program allocates comes by here too, so a part of the room is left when this much has gathered.
            self._set_limit(self._group.bytes + max(self._bound, room // 2))
        else:
            self._asked_in_vain = GROUPS_PER_QUESTION
            self.launch()

    @one_at_a_time
    def settle(self, places: set[int]) -> None:
        if self._group.holds(places):
            self.launch()
        if self._copier is not None:
            for place in places:
                self._copier.wait_for(place)

    @one_at_a_time
    def settle_all(self) -> None:
        self.launch()
        if self._copier is not None:
            self._copier.wait_for_all()

    @one_at_a_time
    def launch(self) -> None:
        if not self._group.rows:
            return
        group, self._group = self._group, self._begin_group()
        if self._stream is None or self._current_stream() == self._raw_stream:
            changed = self._send(group)
        else:
            with self._backend.stream(self._stream):
                changed = self._send(group)
        if changed:
            report_changed(group.numbers[changed].tolist(), self._notebook)
            self._statistics.drop(changed)
        group.release()  # what comes later on the stream may change them

    @one_at_a_time
    def end_step(self) -> None:
        self.launch()
        _peaks[self._device] = self._peak, self._most_used()
        result = self._statistics.collect()
        if result is not None:
            self._notebook.hand_over(result)

    def _send(self, group: Group) -> list[int]:
        """Has a group read; gives the positions of tensors that were changed since they were seen."""
        changed = self._statistics.read(group)
        if self._copier is not None:
            names = [KNOWN_DTYPES[tensor.dtype][0] for tensor in group.tensors]
            self._notebook.hand_over(None, self._copier.copy(group, names))
        return changed

    def _held_bound(self) -> int:
        if self._copier is not None:
            return COPIED_BYTES
        return max(HELD_LEAST, int(HELD_SHARE * self._peak))

    def _own_peak(self) -> int:
        """The most memory that the program used without us, as far as is known."""
        most = self._most_used()
        own, both = _peaks.get(self._device, (most, 0))
        return most if most > both else min(own, most)

    def _most_used(self) -> int:
        return self._ask_memory("peak", "max_memory_allocated")

    def _used(self) -> int:
        return self._ask_memory("current", "memory_allocated")

    def _ask_memory(self, which: str, function: str) -> int:
        raw = getattr(torch._C, f"_{self._device.type}_memoryStats", None)
        if raw is not None:  # the public functions make a flat copy of all statistics first, which takes long
            return int(raw(self._device.index or 0)["allocated_bytes"]["all"][which])
        return int(getattr(self._backend, function, lambda device: 0)(self._device))


class _Grouped:
    """Statistics by grouped launches."""

    def __init__(self, device: torch.device, digest: bool) -> None:
        self._reducer = cuda.GroupedReducer(device)
        self._digest = digest
        self._numbers: list[NDArray[np.int64]] = []
        self._count = self._last = 0

    def read(self, group: Group) -> list[int]:
        numbers = group.numbers
        self._numbers.append(numbers)
        self._last, self._count = self._count, self._count + len(numbers)
        if hasattr(group.rows, "fill"):
            return self._reducer.launch_rows(group.rows, self._last, digest=self._digest)
        changed = group.changed()
        self._reducer.launch(group.descriptors(), self._last, digest=self._digest)
        return changed

    def drop(self, positions: list[int]) -> None:
        """Marks tensors of the last group as not read."""
        numbers = self._numbers[-1] = self._numbers[-1].copy()
        numbers[positions] = -1

    def collect(self) -> Any:
        if not self._numbers:
            return None
        numbers, self._numbers, self._count = np.concatenate(self._numbers), [], 0
        handle = self._reducer.fetch()

        def result() -> tuple[Any, Any]:
            rows = handle.wait()
            kept = numbers >= 0
            return (numbers, rows) if kept.all() else (numbers[kept], rows[kept])

        return result


class _Plain:
    """Statistics by plain torch reductions, one tensor at a time."""

    def __init__(self, digest: bool) -> None:
        self._digest = digest
        self._numbers: list[int] = []
        self._rows: list[Any] = []
        self._last = 0

    def read(self, group: Group) -> list[int]:
        changed = group.changed()
        self._last = len(self._numbers)
        with Unseen():
            self._rows += [plain.plain_statistics(tensor.detach(), digest=self._digest) for tensor in group.tensors]
        self._numbers += group.numbers.tolist()
        return changed

    def drop(self, positions: list[int]) -> None:
        for position in positions:
            self._numbers[self._last + position] = -1

    def collect(self) -> Any:
        if not self._numbers:
            return None
        numbers, self._numbers = np.array(self._numbers, dtype=np.int64), []
        rows, self._rows = np.array(self._rows, dtype=STATISTICS), []
        kept = numbers >= 0
        return lambda: (numbers[kept], rows[kept])


class _Copier:
    """Copies tensors to the host on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._backend: Any = getattr(torch, device.type)
        self._device = device
        self._stream = self._begun()
        self._pins = True
        self.places: dict[int, Any] = {}
        """Storages that are being copied, with the event that ends it."""

    def _begun(self) -> Any:
        return self._backend.Stream(self._device)

    def copy(self, group: Group, names: list[str]) -> list[Payload]:
        self._stream.wait_stream(self._backend.current_stream(self._device))
        hosts = []
        with self._backend.stream(self._stream), Unseen():
            for tensor in group.tensors:
                source = tensor.detach()
                source = source if source.is_contiguous() else copy_of(source)
                host = self._host(source)
                host.copy_(source, non_blocking=True)
                tensor.record_stream(self._stream)
                hosts.append(host)
            event = self._backend.Event()
            event.record(self._stream)
        self.places.update(dict.fromkeys(group.rows.places, event))
        return [
            Payload(number, name, tuple(host.shape), _HostFetch(host, event))
            for number, name, host in zip(group.numbers.tolist(), names, hosts, strict=True)
        ]

    def _host(self, source: torch.Tensor) -> torch.Tensor:
        """Memory of the host, pinned where the device can do that."""
        if self._pins:
            try:
                return torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            except RuntimeError:
                self._pins = False
        return torch.empty(source.shape, dtype=source.dtype)

    def wait_for(self, place: int) -> None:
        """Makes the program's stream, not the program, wait until a storage has been copied."""
        event = self.places.pop(place, None)
        if event is not None and not event.query():
            self._backend.current_stream(self._device).wait_event(event)

    def wait_for_all(self) -> None:
        for place in list(self.places):
            self.wait_for(place)


class _CopierAtOnce(_Copier):
    """The same for a device without streams of ours: it is waited for."""

    def _begun(self) -> None:
        return None

    def copy(self, group: Group, names: list[str]) -> list[Payload]:
        with Unseen():
            hosts = [tensor.detach().cpu().contiguous() for tensor in group.tensors]
        return [
            Payload(number, name, tuple(host.shape), functools.partial(bytes_of, host))
            for number, name, host in zip(group.numbers.tolist(), names, hosts, strict=True)
        ]


class _HostFetch:
    """Gives the bytes of a tensor once its copy has arrived."""

    __slots__ = ("_event", "_host")

    def __init__(self, host: torch.Tensor, event: Any) -> None:
        self._host: torch.Tensor | None = host
        self._event = event

    def __call__(self) -> memoryview:
        self._event.synchronize()
        assert self._host is not None, "bytes are fetched once"
        host, self._host = self._host, None
        return bytes_of(host)


__all__ = ["DeviceReader"]
