"""Reads tensors that live on an accelerator, without ever making the program wait for it.

Statistics: tensors are held until a group is full, then one grouped launch reads them all, in order on the stream that
made them; results stay on the device and come back once per step. Bytes: copied on a stream of their own into pinned
memory. Where there is no Triton for the device, plain torch reductions do the same, tensor by tensor.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import torch

from trueline.frameworks.base import Notebook
from trueline.frameworks.torch.readers import Group, Known, bytes_of, copy_of, one_at_a_time, report_changed
from trueline.numerics import cuda, plain
from trueline.numerics.layout import STATISTICS
from trueline.records import Data
from trueline.store.columns import Payload

HELD_TENSORS = 512
HELD_LEAST = 64 << 20
HELD_SHARE = 0.05
"""Of the most memory that the program itself has used: what we may hold back from being freed. Below that peak more
may be held, since it does not raise the peak; how near it is is asked each time this much has gathered."""

COPIED_BYTES = 64 << 20


class DeviceReader:
    """Reads the tensors of one accelerator."""

    def __init__(self, device: torch.device, notebook: Notebook, data: Data) -> None:
        self.guard = threading.RLock()
        self._device = device
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._copier = _Copier(device) if data is Data.TENSORS else None
        self._known: dict[torch.dtype, Known] = {}
        self._backend: Any = getattr(torch, device.type)
        self._statistics = _Grouped(device, self._digest) if cuda.supported(device) else _Plain(self._digest)
        self._group = Group()
        self._count = 0
        self._stream: Any = None
        self._raw_stream = -1
        self._current_stream = _raw_stream_of(device)
        self._peak = self._most_used()
        """The most memory that the program used before we began, as far as is known."""
        self._bound = self._limit = self._held_bound()

    def holds(self, place: int) -> bool:
        return place in self._group.places or (self._copier is not None and place in self._copier.places)

    @one_at_a_time
    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        if self._current_stream() != self._raw_stream:
            self._change_stream()
        if self._copier is not None:
            self._known[tensor.dtype] = known
        self._count += 1
        if self._group.add(tensor, number, place, known, contiguous) > self._limit or self._count >= HELD_TENSORS:
            self._limit_reached(self._group.bytes)

    def _change_stream(self) -> None:
        """A group is read on the stream that its tensors were made on: another stream begins another group."""
        self.launch()
        self._raw_stream = self._current_stream()
        self._stream = self._backend.current_stream(self._device)

    def _limit_reached(self, held: int) -> None:
        """Sends the group off, unless there is room for more below the program's own peak."""
        room = self._peak - self._used()
        if room > 2 * self._bound and self._count < HELD_TENSORS:
            self._limit = held + self._bound
        else:
            self.launch()

    @one_at_a_time
    def settle(self, place: int) -> None:
        if place in self._group.places:
            self.launch()
        if self._copier is not None:
            self._copier.wait_for(place)

    @one_at_a_time
    def settle_all(self) -> None:
        self.launch()
        if self._copier is not None:
            self._copier.wait_for_all()

    @one_at_a_time
    def launch(self) -> None:
        group, self._group = self._group, Group()
        self._limit, self._count = self._bound, 0
        if not group.rows:
            return
        changed = group.changed()
        if self._current_stream() == self._raw_stream:
            self._send(group)
        else:
            with self._backend.stream(self._stream):
                self._send(group)
        if changed:
            report_changed([group.numbers[position] for position in changed], self._notebook)
            self._statistics.drop(changed)

    @one_at_a_time
    def end_step(self) -> None:
        self.launch()
        result = self._statistics.collect()
        if result is not None:
            self._notebook.hand_over(result)

    def _send(self, group: Group) -> None:
        self._statistics.read(group)
        if self._copier is not None:
            names = [self._known[tensor.dtype][0] for tensor in group.tensors]
            self._notebook.hand_over(None, self._copier.copy(group, names))

    def _held_bound(self) -> int:
        if self._copier is not None:
            return COPIED_BYTES
        return max(HELD_LEAST, int(HELD_SHARE * self._peak))

    def _most_used(self) -> int:
        return int(getattr(self._backend, "max_memory_allocated", lambda device: 0)(self._device))

    def _used(self) -> int:
        raw = getattr(torch._C, f"_{self._device.type}_memoryStats", None)
        if raw is not None:  # memory_allocated() makes a flat copy of all statistics first, which takes long
            return int(raw(self._device.index or 0)["allocated_bytes"]["all"]["current"])
        return int(getattr(self._backend, "memory_allocated", lambda device: 0)(self._device))


class _Grouped:
    """Statistics by grouped launches."""

    def __init__(self, device: torch.device, digest: bool) -> None:
        self._reducer = cuda.GroupedReducer(device)
        self._digest = digest
        self._numbers: list[int] = []
        self._last = 0

    def read(self, group: Group) -> None:
        self._last = len(self._numbers)
        self._reducer.launch(group.descriptors(), self._last, digest=self._digest)
        self._numbers += group.numbers

    def drop(self, positions: list[int]) -> None:
        """Marks tensors of the last group as not read."""
        for position in positions:
            self._numbers[self._last + position] = -1

    def collect(self) -> Any:
        if not self._numbers:
            return None
        numbers, self._numbers = np.array(self._numbers, dtype=np.int64), []
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

    def read(self, group: Group) -> None:
        self._last = len(self._numbers)
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            self._rows += [plain.plain_statistics(tensor.detach(), digest=self._digest) for tensor in group.tensors]
        self._numbers += group.numbers

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
        self._stream = self._backend.Stream(device)
        self.places: dict[int, Any] = {}
        """Storages that are being copied, with the event that ends it."""

    def copy(self, group: Group, names: list[str]) -> list[Payload]:
        self._stream.wait_stream(self._backend.current_stream(self._device))
        hosts = []
        with self._backend.stream(self._stream), torch._C._DisableTorchDispatch(), torch.no_grad():
            for tensor in group.tensors:
                source = tensor.detach()
                source = source if source.is_contiguous() else copy_of(source)
                host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
                host.copy_(source, non_blocking=True)
                tensor.record_stream(self._stream)
                hosts.append(host)
            event = self._backend.Event()
            event.record(self._stream)
        self.places.update(dict.fromkeys(group.places, event))
        return [
            Payload(number, name, tuple(host.shape), _HostFetch(host, event))
            for number, name, host in zip(group.numbers, names, hosts, strict=True)
        ]

    def wait_for(self, place: int) -> None:
        """Makes the program's stream, not the program, wait until a storage has been copied."""
        event = self.places.pop(place, None)
        if event is not None and not event.query():
            self._backend.current_stream(self._device).wait_event(event)

    def wait_for_all(self) -> None:
        for place in list(self.places):
            self.wait_for(place)


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


def _raw_stream_of(device: torch.device) -> Any:
    """A cheap way to ask which stream is current; one that always gives the same where a device has no streams."""
    index = device.index or 0
    ask = getattr(torch._C, f"_{device.type}_getCurrentRawStream", None)
    return functools.partial(ask, index) if ask is not None else (lambda: 0)


__all__ = ["DeviceReader"]
