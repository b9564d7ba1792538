"""Looks at tensors for a light watch: in CPU memory at once, on a device in groups that are never waited for.

A look is filed under a **key**, one integer that says which tensor of which call it is about: the number of the *site*
(the place in the program where the call is made), the *part* that the tensor plays, its *leaf* number, its dtype and
the Sink. Everything that a key stands for is the same in every step.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np
import torch

from trueline.frameworks.light import LooksArray, Sink, is_bad
from trueline.frameworks.torch.fast import KNOWN_DTYPES
from trueline.frameworks.torch.light_groups import EXACT, LAST_EXACT, descriptor_of, group_of, plain_of
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import Unseen, told
from trueline.numerics.layout import DESCRIPTOR
from trueline.numerics.light import LOOK, look_batch, part_of

RAW = np.dtype([("call", "<i8"), ("key", "<i8"), *LOOK.descr])
"""A look, with the number of the call and its key."""

TABLE_ROWS = 2048
DEVICE_ROWS = 512
OUTPUT, INPUT, GRADIENT, PARAMETER = range(4)
"""Parts: what a call gave, what it was about to change, a gradient that arrived at an output; a parameter or its
gradient."""

MOST_LEAVES = 255


class Key(NamedTuple):
    """A key taken apart."""

    site: int
    part: int
    leaf: int
    dtype: int
    sink: int


def key_of(site: int, part: int, leaf: int, dtype: int, sink: int) -> int:
    return (((site * 4 + part) * 256 + leaf) * 32 + dtype) * 8 + sink


def taken_apart(key: int) -> Key:
    key, sink = divmod(key, 8)
    key, dtype = divmod(key, 32)
    key, leaf = divmod(key, 256)
    site, part = divmod(key, 4)
    return Key(site, part, leaf, dtype, sink)


class Arriving(NamedTuple):
    """Looks of one device that are on their way: ``fields`` has call and key of each; a key of -1 is nobody's."""

    fields: np.ndarray[Any, np.dtype[np.int64]]
    handle: Any

    def rows(self) -> LooksArray:
        """The looks; waits for them."""
        looks = self.handle.wait()
        found = np.zeros(len(self.fields), RAW)
        found["call"], found["key"] = self.fields[:, 0], self.fields[:, 1]
        for name in LOOK.names or ():
            found[name] = looks[name][: len(found)]
        return found[found["key"] >= 0]


class DeviceLooks:
    """The tensors of one device that wait to be read, in tables that the C extension may fill."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rows = np.zeros(DEVICE_ROWS, DESCRIPTOR)
        self.fields = np.zeros((DEVICE_ROWS, 3), np.int64)
        """Of each row the call, the key and the version."""
        self._group = group_of(device)
        self._sent: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def send(self, tensors: list[torch.Tensor], count: int) -> None:
        """Has the first ``count`` rows read. What was changed since it was seen is nobody's."""
        if not count:
            return
        fields = self.fields[:count].copy()
        versions = fields[:, 2].tolist()
        for position, tensor in enumerate(tensors):
            if tensor._version != versions[position]:
                fields[position, 1] = -1
        self._group.read(tensors, self.rows[:count])
        self._sent.append(fields[:, :2])

    def collect(self) -> Arriving | None:
        """What was sent since the last time."""
        if not self._sent:
            return None
        sent, self._sent = np.concatenate(self._sent), []
        return Arriving(sent, self._group.fetch())


class LookTables:
    """Where looks of the running step gather. ``recorder`` is the C extension's, which fills the tables itself."""

    def __init__(self) -> None:
        self.recorder: Any = None
        self.waiting: list[torch.Tensor] = []
        self._table = np.zeros(TABLE_ROWS, RAW)
        self._full: list[LooksArray] = []
        self._used = 0
        self._devices: dict[torch.device, DeviceLooks] = {}
        self._current: DeviceLooks | None = None
        self._all_later = False
        self._count = 0

    def is_later(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is read in a group, and not at once."""
        return told(tensor, "device").type != "cpu" or self._all_later

    def read_later(self, tensor: torch.Tensor) -> None:
        """Has tensors in CPU memory, of which this is one, read as those of a device are: so that what is done for
        devices can be watched where there is none."""
        self._all_later = True
        self._begin_device(tensor)

    def read_as(self, other: LookTables) -> None:
        """Reads tensors in CPU memory as the other one does."""
        self._all_later = other._all_later

    @property
    def any_later(self) -> bool:
        """Whether anything was read in groups so far."""
        return bool(self._devices)

    def attach(self, recorder: Any) -> None:
        """Lets the C extension fill the tables."""
        self.recorder = recorder
        recorder.begin_table(int(self._table.ctypes.data), TABLE_ROWS)

    def add(self, tensor: torch.Tensor, call: int, site: int, part: int, leaf: int, sink: int) -> None:
        """Looks at one tensor, now or when its group is sent off."""
        if self.recorder is not None:
            self.recorder.look_at(tensor, call, site, part, leaf, sink)
        else:
            self.add_here(tensor, call, site, part, leaf, sink)

    def add_gradients(self, parameters: list[torch.Tensor], sites: list[int]) -> None:
        """Looks at the gradient of each parameter that has one."""
        if self.recorder is not None:
            self.recorder.look_at_gradients(parameters, sites, PARAMETER, Sink.GRADIENT)
            return
        for parameter, site in zip(parameters, sites, strict=True):
            if parameter.grad is not None:
                self.add_here(parameter.grad, -1, site, PARAMETER, 1, Sink.GRADIENT)

    def add_here(
        self,
        tensor: torch.Tensor,
        call: int,
        site: int,
        part: int,
        leaf: int,
        sink: int,
        *,
        of_large: int | None = None,
    ) -> None:
        """The same without the C extension, which leaves odd tensors, and those of another device, to us. ``of_large``
        is the round in which a part of a large one is looked at; without it all is."""
        plain = plain_of(tensor)
        if plain is None or leaf > MOST_LEAVES:
            return
        code = KNOWN_DTYPES[plain.dtype][1]
        if EXACT <= code <= LAST_EXACT:
            return
        with Unseen():
            plain, row = descriptor_of(plain)
        row = row if of_large is None else part_of(row, of_large)
        key = key_of(site, part, leaf, code, sink)
        if self.is_later(plain):
            self._add_on_device(plain, row, call, key)
            return
        looks = np.zeros(1, LOOK)
        look_batch(row, looks)
        self._append(call, key, looks[0])

    def read_here(self, tensor: torch.Tensor, call: int, site: int, part: int, leaf: int, wanted: bool) -> bool:
        """Reads a tensor in CPU memory; leaves a look if it is bad, or wanted. Gives whether it is bad."""
        before = len(self._full), self._used
        self.add_here(tensor, call, site, part, leaf, Sink.NONE)
        if (len(self._full), self._used) == before:
            return False  # nothing that could be bad
        bad = bool(is_bad(self._table[self._used - 1]))
        if not (bad or wanted):
            self._used -= 1
        return bad

    def _append(self, call: int, key: int, look: Any) -> None:
        if self.recorder is not None:  # its rows are in the table; those few that we make go beside it
            self._full.append(np.array([(call, key, *look)], RAW))
            return
        if self._used == TABLE_ROWS:
            self.table_full()
        self._table[self._used] = (call, key, *look)
        self._used += 1

    def table_full(self) -> None:
        """Takes the rows out of the table."""
        used = self._used if self.recorder is None else self.recorder.used
        if used:
            self._full.append(self._table[:used].copy())
        self._used = 0
        if self.recorder is not None:
            self.recorder.begin_table(int(self._table.ctypes.data), TABLE_ROWS)

    def take(self) -> list[LooksArray]:
        """All looks at tensors in CPU memory since the last time."""
        self.table_full()
        taken, self._full = self._full, []
        return taken

    def collect(self) -> list[Arriving]:
        """What devices were asked to look at since the last time."""
        self.send()
        return [found for device in self._devices.values() if (found := device.collect()) is not None]

    def _add_on_device(self, tensor: torch.Tensor, row: Any, call: int, key: int) -> None:
        current = self._current
        if current is None or current.device != tensor.device or self._waiting_rows() == DEVICE_ROWS:
            self.send()
            current = self._begin_device(tensor)
        at = self._waiting_rows()
        current.rows[at] = row[0]
        current.fields[at] = (call, key, _version(tensor))
        self.waiting.append(tensor)
        if self.recorder is not None:
            self.recorder.device_used = at + 1
        self._count = at + 1

    def _waiting_rows(self) -> int:
        return int(self.recorder.device_used) if self.recorder is not None else self._count

    def _begin_device(self, tensor: torch.Tensor) -> DeviceLooks:
        device = tensor.device
        current = self._devices.get(device)
        if current is None:
            current = self._devices[device] = DeviceLooks(device)
        self._current = current
        known = None if self.recorder is None else self.recorder.device_of(tensor)
        if known is not None:
            self.recorder.begin_device(
                device.index or 0,
                *known,
                int(current.rows.ctypes.data),
                int(current.fields.ctypes.data),
                DEVICE_ROWS,
            )
        return current

    def send(self) -> None:
        """Has what waits read by its device, in order on the stream that is current."""
        count = self._waiting_rows()
        if self._current is None or not count:
            return
        tensors = self.waiting[:]
        try:
            with Unseen(), self._stream_of(self._current.device):
                self._current.send(tensors, count)
        finally:
            self.waiting.clear()
            self._count = 0
            if self.recorder is not None:
                self.recorder.device_used = 0

    def _stream_of(self, device: torch.device) -> Any:
        """The stream on which the tensors that wait were made; whoever changes streams sends off what waits first."""
        if self.recorder is None or device.type != "cuda":
            return contextlib.nullcontext()
        raw = int(self.recorder.stream)
        if raw == torch._C._cuda_getCurrentRawStream(device.index or 0):
            return contextlib.nullcontext()
        stream = torch.cuda.ExternalStream(raw, device) if raw else torch.cuda.default_stream(device)
        return torch.cuda.stream(stream)
