"""Reads tensors in groups: on the CPU in the background thread, on a device by grouped launches.

A reader holds the tensors that wait, up to a bound in number and bytes; beyond it the group is sent off. Before a
storage that a reader ``holds`` may be changed, it must ``settle`` it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from trueline.frameworks.base import Notebook
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS, collapse
from trueline.records import Data
from trueline.store.columns import Payload

HELD_TENSORS = 512
HELD_BYTES = 256 << 20
INLINE_BYTES = 1 << 16
MAX_DIMENSIONS = 6

Known = tuple[str, int, int]


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

    def changed(self) -> list[int]:
        """Positions of tensors that were changed since they were seen."""
        return [
            position
            for position, (tensor, version) in enumerate(zip(self.tensors, self.versions, strict=True))
            if tensor._version != version
        ]


def drop_changed(group: Group, changed: list[int], notebook: Notebook) -> None:
    """Reports tensors that were changed before they could be read, unseen by us."""
    for position in changed:
        reason = "changed by code that was not seen, before it could be read"
        notebook.missing.append((group.numbers[position], reason))
        notebook.tally.miss(reason)


class CpuReader:
    """Reads CPU tensors in the background thread; at once where a change is coming."""

    def __init__(self, notebook: Notebook, data: Data) -> None:
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._keep = data is Data.TENSORS
        self._group = Group()
        self._sent: dict[int, Group] = {}
        """The last group that was sent off with a tensor of this storage; groups are read in order."""

    def holds(self, place: int) -> bool:
        return place in self._group.places or place in self._sent

    def add(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        group = self._group
        held = group.add(tensor, number, place, known, contiguous)
        if held > HELD_BYTES or len(group.rows) >= HELD_TENSORS:
            self.launch()

    def settle(self, place: int) -> None:
        sent = self._sent.get(place)
        if sent is not None:
            sent.done.wait()
        if place in self._group.places:
            self._read_here(place)

    def settle_all(self) -> None:
        self.launch()
        for group in list(self._sent.values()):
            group.done.wait()

    def launch(self) -> None:
        group = self._start_group()
        if group is not None:
            self._submit(group, lambda: self._reduce(group), {})

    def end_step(self) -> None:
        self.launch()

    def _start_group(self) -> Group | None:
        group, self._group = self._group, Group()
        return group if group.rows else None

    def _read_here(self, place: int) -> None:
        """Reads the current group now, in this thread: the program is about to change one of its tensors. What has
        to be stored of that one is copied; the others can still be stored in the background."""
        group = self._start_group()
        if group is None:
            return
        copies = {}
        if self._keep:
            for position, other in enumerate(group.places):
                if other == place:
                    copies[position] = copy_of(group.tensors[position])
        result = self._reduce(group)
        self._submit(group, lambda: result, copies)
        if not self._keep:
            self._forget(group)  # nothing of it is needed any more

    def _reduce(self, group: Group) -> tuple[Any, Any]:
        rows = np.zeros(len(group.rows), dtype=STATISTICS)
        cpu.reduce_batch(group.descriptors(), rows, digest=self._digest)
        changed = group.changed()
        numbers = np.array(group.numbers, dtype=np.int64)
        if changed:
            drop_changed(group, changed, self._notebook)
            keep = np.setdiff1d(np.arange(len(numbers)), changed)
            return numbers[keep], rows[keep]
        return numbers, rows

    def _submit(
        self, group: Group, statistics: Callable[[], tuple[Any, Any]], copies: dict[int, torch.Tensor]
    ) -> None:
        payloads = self._payloads(group, copies) if self._keep else None
        self._sent.update((place, group) for position, place in enumerate(group.places) if position not in copies)
        held: list[Group] = [group]

        def done() -> None:
            self._forget(held.pop())

        self._notebook.hand_over(statistics, payloads, done)

    def _forget(self, group: Group) -> None:
        group.done.set()
        for place in group.places:
            if self._sent.get(place) is group:
                self._sent.pop(place, None)
        group.tensors.clear()

    def _payloads(self, group: Group, copies: dict[int, torch.Tensor]) -> list[Payload]:
        payloads = []
        for position, number in enumerate(group.numbers):
            tensor = copies.get(position, group.tensors[position])
            dtype = str(tensor.dtype).rpartition(".")[2]
            payloads.append(Payload(number, dtype, tuple(tensor.shape), _Fetch(tensor)))
        return payloads


class _Fetch:
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
    """The bytes of a CPU tensor in C order; the tensor must live as long as they are used."""
    if not tensor.is_contiguous():
        with torch.no_grad():
            tensor = tensor.detach().contiguous()
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    view = (ctypes.c_char * size).from_address(tensor.data_ptr())
    view._tensor = tensor  # type: ignore[attr-defined]  # keeps the memory alive as long as the view
    return memoryview(view).cast("B")
