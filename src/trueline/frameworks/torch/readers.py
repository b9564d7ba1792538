"""Reads tensors in groups: on the CPU in the background thread, on a device by grouped launches.

A reader holds the tensors that wait, up to a bound in number and bytes; beyond it the group is sent off. Before a
storage that a reader ``holds`` may be changed, it must ``settle`` it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from trueline.frameworks.base import Notebook
from trueline.frameworks.torch.fast import KNOWN_DTYPES, Known, copy_of, fast_looks
from trueline.frameworks.torch.unseen import Unseen
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS, collapse
from trueline.records import Data
from trueline.store.columns import Payload
from trueline.store.interrupts import Latch, shielded

SMALL_BYTES = 32 << 10
"""Up to this size a tensor is read at once: that costs less than to remember it."""

HELD_TENSORS = 256
HELD_BYTES = 16 << 20
"""A group goes to be read when it has this many tensors or bytes; with the writer's queue this bounds what we hold."""

CHUNK = 512
MAX_DIMENSIONS = 6
_ROW = struct.Struct(f"<Qqii{2 * MAX_DIMENSIONS}q")
"""``numerics.layout.DESCRIPTOR``"""

CHANGED = "changed by code that was not seen, before it could be read"

__all__ = ["CpuReader", "Group", "Known", "Reader", "bytes_of", "copy_of", "reader_for", "report_changed"]


class Reader(Protocol):
    """Reads the tensors of one device."""

    queue: Any
    """A ``Queue`` of the C extension that takes tensors in place of ``add``; None where there is none."""

    def held(self, places: set[int]) -> set[int]:
        """Which of these storages wait to be read, or are being read."""

    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None: ...
    def settle(self, places: set[int]) -> None: ...
    def settle_all(self) -> None: ...
    def launch(self) -> None: ...
    def end_step(self) -> None: ...


def reader_for(device: torch.device, notebook: Notebook, data: Data) -> Reader:
    if device.type == "cpu":
        return CpuReader(notebook, data)
    from trueline.frameworks.torch.device_readers import DeviceReader

    return DeviceReader(device, notebook, data)


def one_at_a_time(method: Callable[..., Any]) -> Callable[..., Any]:
    """Lets one thread of the program at a time into a reader, unseen; the background thread is not one of them."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any) -> Any:
        with self.guard, Unseen():
            return method(self, *args)

    return guarded


class PythonRows:
    """The tensors of a group with the table that the kernels read; the C extension has the same class, faster."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self._numbers: list[int] = []
        self._released = False
        self.places: list[int] = []
        self.bytes = 0
        self._storages: list[Any] = []
        """Held so that what a row points to stays, even if its tensor is given other memory."""
        self._marks: list[tuple[int, int, int]] = []
        self._rows: list[tuple[int, int, int, tuple[int, ...], tuple[int, ...]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> int:
        """Takes a tensor in; gives the bytes held now."""
        numel = tensor.numel()
        shape, strides = ((numel,), (1,)) if contiguous else collapse(tensor.shape, tensor.stride())
        if len(shape) > MAX_DIMENSIONS:
            tensor, shape, strides = copy_of(tensor), (numel,), (1,)
        pointer = tensor.data_ptr()
        self._rows.append((pointer, numel, known[1], shape, strides))
        self.tensors.append(tensor)
        self._numbers.append(number)
        self.places.append(place)
        storage = tensor.untyped_storage()
        self._storages.append(storage)
        self._marks.append((tensor._version, storage._cdata, pointer))
        self.bytes += numel * known[2]
        return self.bytes

    def number_bytes(self) -> bytes:
        """The numbers of the tensors, as bytes of 64-bit integers."""
        return np.array(self._numbers, dtype=np.int64).tobytes()

    def holds(self, places: set[int]) -> set[int]:
        """Which of these storages have tensors here that wait."""
        return set() if self._released else places.intersection(self.places)

    def remove(self, position: int) -> None:
        """Lets a tensor go."""
        for column in (self.tensors, self._numbers, self.places, self._storages, self._marks, self._rows):
            del column[position]

    def changed(self) -> list[int]:
        """Positions of tensors that were changed, or given other memory, since they were seen."""
        return [
            position
            for position, (tensor, marks) in enumerate(zip(self.tensors, self._marks, strict=True))
            if tensor._version != marks[0] or _moved(tensor, marks)
        ]

    def table(self) -> bytearray:
        """The bytes of the descriptors; those of tensors that were given other memory are empty."""
        table = bytearray(len(self._rows) * _ROW.size)
        columns = zip(self.tensors, self._marks, self._rows, strict=True)
        for position, (tensor, marks, (pointer, numel, code, shape, strides)) in enumerate(columns):
            if _moved(tensor, marks):  # its memory may be gone
                numel, shape, strides = 0, (0,), (1,)
            rest = (0,) * (MAX_DIMENSIONS - len(shape))
            row = (pointer, numel, code, len(shape), *shape, *rest, *strides, *rest)
            _ROW.pack_into(table, position * _ROW.size, *row)
        return table

    def release(self) -> None:
        """Lets the memory of all tensors go; their numbers stay."""
        self._released = True
        self.tensors.clear()
        self._storages.clear()


def _moved(tensor: torch.Tensor, marks: tuple[int, int, int]) -> bool:
    return (tensor.untyped_storage()._cdata, tensor.data_ptr()) != marks[1:]


class Group:
    """Tensors that are read together. ``rows`` has one row for each and does the work; ``done`` is there where a
    background thread reads them."""

    __slots__ = ("add", "begun", "changed", "done", "fetches", "holds", "release", "rows")

    done: Latch

    def __init__(self) -> None:
        looks = fast_looks()
        rows: PythonRows = PythonRows() if looks is None else looks.Rows()
        self.rows = rows
        self.add = rows.add
        self.holds = rows.holds
        self.changed = rows.changed
        self.release = rows.release
        self.fetches: dict[int, Fetch] = {}
        """What will be stored of the tensors, by number."""
        self.begun = False
        """Whether the background thread has taken it up; until then tensors can be taken back."""

    @property
    def bytes(self) -> int:
        return self.rows.bytes

    @property
    def tensors(self) -> list[torch.Tensor]:
        return self.rows.tensors

    @property
    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.frombuffer(self.rows.number_bytes(), dtype=np.int64)

    def descriptors(self) -> np.ndarray[Any, Any]:
        """The table that the kernels read."""
        return np.frombuffer(self.rows.table(), dtype=DESCRIPTOR)

    def take(self, place: int) -> list[tuple[torch.Tensor, int]]:
        """Takes the tensors of one storage out, with their numbers."""
        if not self.holds({place}):
            return []
        tensors, numbers = self.tensors, self.numbers
        taken = [position for position, other in enumerate(self.rows.places) if other == place]
        found = [(tensors[position], int(numbers[position])) for position in taken]
        for position in reversed(taken):
            self.rows.remove(position)
        return found


class Chunk:
    """A table of statistics that is filled row by row, in the thread of the program."""

    def __init__(self, digest: bool) -> None:
        self._rows = np.zeros(CHUNK, dtype=STATISTICS)
        self.address: int = self._rows.ctypes.data
        self._reduce = cpu.RowReducer(self._rows, digest=digest)
        self.numbers: list[int] = []
        self.payloads: list[Payload] = []

    @property
    def full(self) -> bool:
        return len(self.numbers) >= CHUNK

    def read(self, tensor: torch.Tensor, number: int, known: Known, contiguous: bool, payload: bool) -> None:
        if contiguous:
            self._reduce.contiguous(len(self.numbers), tensor.data_ptr(), known[1], tensor.numel())
        elif not self._reduce.strided(
            len(self.numbers), tensor.data_ptr(), known[1], tuple(tensor.shape), tensor.stride()
        ):
            tensor = copy_of(tensor)
            self._reduce.contiguous(len(self.numbers), tensor.data_ptr(), known[1], tensor.numel())
        self.numbers.append(number)
        if payload:
            self.payloads.append(Payload(number, known[0], tuple(tensor.shape), Fetch(copy_of(tensor))))

    def result(self) -> tuple[Any, Any]:
        return np.array(self.numbers, dtype=np.int64), self._rows[: len(self.numbers)]


class CpuReader:
    """Reads CPU tensors: small ones and those about to be changed at once, the others in the background thread."""

    def __init__(self, notebook: Notebook, data: Data) -> None:
        self.guard = threading.RLock()
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._keep = data is Data.TENSORS
        self.queue = self._make_queue()
        self._group = self._begin_group()
        self._chunk = self._begin_chunk()
        self._sent: list[Group] = []
        """Groups that the background thread has not finished, oldest first."""
        self._lock = threading.Lock()
        """Held while a group is taken up, or tensors are taken back from one that is not."""

    def held(self, places: set[int]) -> set[int]:
        found = self._group.holds(places)
        for group in tuple(self._sent):
            found |= group.holds(places)
        return found

    @one_at_a_time
    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        if tensor.numel() * known[2] <= SMALL_BYTES:
            self._read(tensor, number, known, contiguous)
            return
        group = self._group
        if group.add(tensor, number, place, known, contiguous) > HELD_BYTES or len(group.rows) >= HELD_TENSORS:
            self.launch()

    def _make_queue(self) -> Any:
        looks, reader = fast_looks(), cpu.reader_address()
        if looks is None or not reader or self._keep:  # bytes to be kept are copied in Python
            return None
        return looks.Queue(
            group_full=self.launch,
            table_full=self._send_chunk,
            stream_changed=None,
            stream_of=None,
            device=None,
            limit=HELD_BYTES,
            most=HELD_TENSORS,
            small=SMALL_BYTES,
            read=reader,
            digest=self._digest,
            row_bytes=STATISTICS.itemsize,
        )

    def _begin_group(self) -> Group:
        group = Group()
        group.done = Latch()
        if self.queue is not None:
            self.queue.begin_group(group.rows)
        return group

    def _begin_chunk(self) -> Chunk:
        chunk = Chunk(self._digest)
        if self.queue is not None:
            self.queue.begin_table(chunk.numbers, chunk.address, CHUNK)
        return chunk

    @one_at_a_time
    def settle(self, places: set[int]) -> None:
        for place in places:
            for group in list(self._sent):
                if group.holds({place}) and not self._read_sent(group, place):
                    group.done.wait()
            self._read_waiting(place)

    @shielded
    def _read_waiting(self, place: int) -> None:
        for tensor, number in self._group.take(place):
            self._read(tensor, number, KNOWN_DTYPES[tensor.dtype], tensor.is_contiguous())

    @shielded
    def _read_sent(self, group: Group, place: int) -> bool:
        """Reads at once what waits of a storage in a group that the background thread has not begun with."""
        with self._lock:
            taken = [] if group.begun else group.take(place)
            for tensor, number in taken:
                if number in group.fetches:
                    group.fetches[number].copy(tensor)
        for tensor, number in taken:
            self._chunk.read(tensor, number, KNOWN_DTYPES[tensor.dtype], tensor.is_contiguous(), payload=False)
            if self._chunk.full:
                self._send_chunk()
        return bool(taken)

    @one_at_a_time
    def settle_all(self) -> None:
        self.launch()
        for group in list(self._sent):
            group.done.wait()

    @one_at_a_time
    def launch(self) -> None:
        if self._group.rows:
            self._notebook.wait_for_room()
            self._launch()

    @shielded
    def _launch(self) -> None:
        group, self._group = self._group, self._begin_group()
        payloads = None
        if self._keep:
            changed = set(group.changed())  # ``_reduce`` will tell of them
            payloads = [
                self._payload(group, tensor, number)
                for position, (tensor, number) in enumerate(zip(group.tensors, group.numbers.tolist(), strict=True))
                if position not in changed
            ]
        self._sent.append(group)
        self._notebook.hand_over(lambda: self._reduce(group), payloads, lambda: self._forget(group))

    def _payload(self, group: Group, tensor: torch.Tensor, number: int) -> Payload:
        """The bytes of a tensor, to be fetched later through a handle of our own: the program may give the tensor other
        memory meanwhile, on a device even (``module.to("cuda")``)."""
        with Unseen():
            fetch = group.fetches[number] = Fetch(tensor.detach())
        return Payload(number, KNOWN_DTYPES[tensor.dtype][0], tuple(tensor.shape), fetch)

    @one_at_a_time
    def end_step(self) -> None:
        self.launch()
        self._send_chunk()

    def _read(self, tensor: torch.Tensor, number: int, known: Known, contiguous: bool) -> None:
        self._chunk.read(tensor, number, known, contiguous, self._keep)
        if self._chunk.full:
            self._send_chunk()

    @one_at_a_time
    def _send_chunk(self) -> None:
        if self._chunk.numbers:
            self._notebook.wait_for_room()
            self._hand_over_chunk()

    @shielded
    def _hand_over_chunk(self) -> None:
        chunk, self._chunk = self._chunk, self._begin_chunk()
        self._notebook.hand_over(chunk.result, chunk.payloads)

    def _reduce(self, group: Group) -> tuple[Any, Any]:
        with self._lock:
            group.begun = True
        rows = np.zeros(len(group.rows), dtype=STATISTICS)
        cpu.reduce_batch(group.descriptors(), rows, digest=self._digest)
        numbers = group.numbers
        changed = group.changed()
        if not self._keep:
            self._forget(group)  # nothing more is needed of the tensors: the program may have them back
        if not changed:
            return numbers, rows
        report_changed(numbers[changed].tolist(), self._notebook)
        kept = np.setdiff1d(np.arange(len(numbers)), changed)
        return numbers[kept], rows[kept]

    def _forget(self, group: Group) -> None:
        if not group.done.is_open:
            group.release()
            group.done.open()
            self._sent.remove(group)


def report_changed(numbers: list[int], notebook: Notebook) -> None:
    """Reports tensors that were changed before they could be read, by code that we do not see."""
    notebook.missing.extend((number, CHANGED) for number in numbers)
    notebook.tally.miss(CHANGED, len(numbers))


class Fetch:
    """Gives the bytes of a CPU tensor, in C order, when the writer asks."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor: torch.Tensor | None = tensor

    def copy(self, tensor: torch.Tensor) -> None:
        """Takes a copy: the tensor is about to be changed."""
        self._tensor = copy_of(tensor)

    def __call__(self) -> memoryview:
        assert self._tensor is not None, "bytes are fetched once"
        tensor, self._tensor = self._tensor, None
        return bytes_of(tensor)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a CPU tensor in C order; the tensor lives as long as they are used."""
    if not tensor.is_contiguous():
        tensor = copy_of(tensor)
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    view = (ctypes.c_char * size).from_address(tensor.data_ptr())
    view._tensor = tensor  # type: ignore[attr-defined]  # keeps the memory alive as long as the view
    return memoryview(view).cast("B")
