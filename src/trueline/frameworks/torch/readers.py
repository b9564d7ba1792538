"""Reads tensors in groups: on the CPU in the background thread, on a device by grouped launches.

A reader holds the tensors that wait, up to a bound in number and bytes; beyond it the group is sent off. Before a
storage that a reader ``holds`` may be changed, it must ``settle`` it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Protocol

import numpy as np
import torch

from trueline.frameworks.base import Notebook
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS, collapse, pack_descriptor
from trueline.records import Data
from trueline.store.columns import Payload

SMALL_BYTES = 32 << 10
"""Up to this size a tensor is read at once: that costs less than to remember it."""

HELD_TENSORS = 256
HELD_BYTES = 16 << 20
"""A group goes to be read when it has this many tensors or bytes; with the writer's queue this bounds what we hold."""

CHUNK = 512
MAX_DIMENSIONS = 6
CHANGED = "changed by code that was not seen, before it could be read"

Known = tuple[str, int, int]
"""Name, code and size of a dtype."""


class Reader(Protocol):
    """Reads the tensors of one device."""

    def holds(self, place: int) -> bool: ...
    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None: ...
    def settle(self, place: int) -> None: ...
    def settle_all(self) -> None: ...
    def launch(self) -> None: ...
    def end_step(self) -> None: ...


def reader_for(device: torch.device, notebook: Notebook, data: Data) -> Reader:
    if device.type == "cpu":
        return CpuReader(notebook, data)
    from trueline.frameworks.torch.device_readers import DeviceReader

    return DeviceReader(device, notebook, data)


class Group:
    """Tensors that are read together."""

    __slots__ = ("bytes", "done", "numbers", "places", "rows", "tensors", "versions")

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[int] = []
        self.places: list[int] = []
        self.versions: list[int] = []
        self.rows: list[tuple[int, int, int, tuple[Any, Any] | None]] = []
        self.bytes = 0
        self.done = threading.Event()

    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> int:
        """Takes a tensor in; gives the bytes held now."""
        numel = tensor.numel()
        strided = None
        if not contiguous:
            strided = collapse(tensor.shape, tensor.stride())
            if len(strided[0]) > MAX_DIMENSIONS:
                tensor, strided = copy_of(tensor), None
        self.rows.append((tensor.data_ptr(), numel, known[1], strided))
        self.tensors.append(tensor)
        self.numbers.append(number)
        self.places.append(place)
        self.versions.append(tensor._version)
        self.bytes += numel * known[2]
        return self.bytes

    def descriptors(self) -> np.ndarray[Any, Any]:
        """The table that the kernels read."""
        table = np.zeros(len(self.rows), dtype=DESCRIPTOR)
        flat = np.array([row[:3] for row in self.rows], dtype=np.uint64)
        table["pointer"] = flat[:, 0]
        table["numel"] = flat[:, 1]
        table["dtype"] = flat[:, 2]
        table["ndim"] = 1
        table["shape"][:, 0] = flat[:, 1]
        table["strides"][:, 0] = 1
        for position, row in enumerate(self.rows):
            if row[3] is not None:
                shape, strides = row[3]
                table["ndim"][position] = len(shape)
                table["shape"][position, : len(shape)] = shape
                table["strides"][position, : len(shape)] = strides
        return table

    def take(self, place: int) -> list[tuple[torch.Tensor, int]]:
        """Takes the tensors of one storage out, with their numbers."""
        taken = [p for p, other in enumerate(self.places) if other == place]
        found = [(self.tensors[position], self.numbers[position]) for position in taken]
        for position in reversed(taken):
            for column in (self.tensors, self.numbers, self.places, self.versions, self.rows):
                del column[position]  # type: ignore[attr-defined]
        return found

    def changed(self) -> list[int]:
        """Positions of tensors that were changed since they were seen."""
        return [
            position
            for position, (tensor, version) in enumerate(zip(self.tensors, self.versions, strict=True))
            if tensor._version != version
        ]


class Chunk:
    """A table of statistics that is filled row by row, in the thread of the program."""

    def __init__(self, digest: bool) -> None:
        self._digest = digest
        self._rows = np.zeros(CHUNK, dtype=STATISTICS)
        self._table = np.zeros(1, dtype=DESCRIPTOR)
        self.numbers: list[int] = []
        self.payloads: list[Payload] = []

    @property
    def full(self) -> bool:
        return len(self.numbers) >= CHUNK

    def read(self, tensor: torch.Tensor, number: int, known: Known, payload: bool) -> None:
        shape, strides = tensor.shape, tensor.stride()
        if not pack_descriptor(self._table, 0, tensor.data_ptr(), known[1], shape, strides):
            tensor = copy_of(tensor)
            pack_descriptor(self._table, 0, tensor.data_ptr(), known[1], tensor.shape, tensor.stride())
        row = len(self.numbers)
        cpu.reduce_batch(self._table, self._rows[row : row + 1], digest=self._digest)
        self.numbers.append(number)
        if payload:
            self.payloads.append(Payload(number, known[0], tuple(shape), Fetch(copy_of(tensor))))

    def result(self) -> tuple[Any, Any]:
        return np.array(self.numbers, dtype=np.int64), self._rows[: len(self.numbers)]


class CpuReader:
    """Reads CPU tensors: small ones and those about to be changed at once, the others in the background thread."""

    def __init__(self, notebook: Notebook, data: Data) -> None:
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._keep = data is Data.TENSORS
        self._group = Group()
        self._chunk = Chunk(self._digest)
        self._known: dict[torch.dtype, Known] = {}
        self._sent: dict[int, Group] = {}
        """The last group that was sent off with a tensor of this storage; groups are read in order."""

    def holds(self, place: int) -> bool:
        return place in self._group.places or place in self._sent

    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        if tensor.numel() * known[2] <= SMALL_BYTES:
            self._read(tensor, number, known)
            return
        group = self._group
        self._known[tensor.dtype] = known
        if group.add(tensor, number, place, known, contiguous) > HELD_BYTES or len(group.rows) >= HELD_TENSORS:
            self.launch()

    def settle(self, place: int) -> None:
        sent = self._sent.get(place)
        if sent is not None:
            sent.done.wait()
        for tensor, number in self._group.take(place):
            self._read(tensor, number, self._known[tensor.dtype])

    def settle_all(self) -> None:
        self.launch()
        for group in list(self._sent.values()):
            group.done.wait()

    def launch(self) -> None:
        group, self._group = self._group, Group()
        if not group.rows:
            return
        payloads = None
        if self._keep:
            payloads = [
                Payload(number, self._known[tensor.dtype][0], tuple(tensor.shape), Fetch(tensor))
                for tensor, number in zip(group.tensors, group.numbers, strict=True)
            ]
        self._sent.update((place, group) for place in group.places)
        self._notebook.hand_over(lambda: self._reduce(group), payloads, lambda: self._forget(group))

    def end_step(self) -> None:
        self.launch()
        self._send_chunk()

    def _read(self, tensor: torch.Tensor, number: int, known: Known) -> None:
        self._chunk.read(tensor, number, known, self._keep)
        if self._chunk.full:
            self._send_chunk()

    def _send_chunk(self) -> None:
        chunk, self._chunk = self._chunk, Chunk(self._digest)
        if chunk.numbers:
            self._notebook.hand_over(chunk.result, chunk.payloads)

    def _reduce(self, group: Group) -> tuple[Any, Any]:
        rows = np.zeros(len(group.rows), dtype=STATISTICS)
        cpu.reduce_batch(group.descriptors(), rows, digest=self._digest)
        numbers = np.array(group.numbers, dtype=np.int64)
        changed = group.changed()
        if not changed:
            return numbers, rows
        report_changed([group.numbers[position] for position in changed], self._notebook)
        kept = np.setdiff1d(np.arange(len(numbers)), changed)
        return numbers[kept], rows[kept]

    def _forget(self, group: Group) -> None:
        group.tensors.clear()
        group.done.set()
        for place in group.places:
            if self._sent.get(place) is group:
                self._sent.pop(place, None)


def report_changed(numbers: list[int], notebook: Notebook) -> None:
    """Reports tensors that were changed before they could be read, by code that we do not see."""
    notebook.missing.extend((number, CHANGED) for number in numbers)
    notebook.tally.miss(CHANGED, len(numbers))


class Fetch:
    """Gives the bytes of a CPU tensor, in C order, when the writer asks."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor: torch.Tensor | None = tensor

    def __call__(self) -> memoryview:
        assert self._tensor is not None, "bytes are fetched once"
        tensor, self._tensor = self._tensor, None
        return bytes_of(tensor)


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy that nobody else knows of; the witness does not count it either."""
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        return tensor.detach().clone(memory_format=torch.contiguous_format)


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
