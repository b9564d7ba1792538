"""Writes the calls of another tool into one rank of a Run.

Tensors that were kept are stored and measured as a capture would measure them. Of the others only max, min, mean and
norm are known: their statistics have no sketch (NaN), so that nothing compares them element by element, and say of NaN
and infinity only that there are some.

Those tools write every tensor of every call to a file of its own, also the output of one call that is the input of the
next. Tensors of the same content get the same number here, as the memory they were; constants and small ones do not,
which may be alike by chance.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.dtypes import DType, dtype_named
from trueline.formats.foreign import ForeignCall, ForeignTensor, Summary
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS
from trueline.records import Certificate, Level, Phase
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, VISIT_COLUMNS, Batch, Payload
from trueline.store.definitions import Definitions
from trueline.store.writer import RankWriter

Array = np.ndarray[Any, Any]

_TELLING = 16
"""Fewer elements than this may be alike by chance."""
_MOST_CALLS, _MOST_BYTES = 64, 16 << 20
"""So much is read and written at once: what it costs to do that for one call alone is more than a small call itself."""


_FRAMEWORK_FILES = tuple(
    f"{home}-packages/{name}/" for home in ("site", "dist") for name in ("torch", "torch_npu", "paddle")
)


class IncomingCalls:
    """Adds calls, in order, to one rank of a Run."""

    def __init__(self, writer: RankWriter) -> None:
        self._writer = writer
        self._definitions = Definitions()
        self._waiting: list[tuple[ForeignCall, int]] = []
        self._waiting_bytes = 0
        self._found = _Found()
        self._known: dict[object, int] = {}
        self._files: dict[object, tuple[int, str]] = {}
        """Files that were read already, under another name: their tensor, and its dtype."""
        self._forward: dict[tuple[object, ...], tuple[int, int]] = {}
        self._nth: Counter[tuple[int, str, Phase]] = Counter()
        self.counts: Counter[str] = Counter()
        self.not_recorded: Counter[str] = Counter()
        self.remarks: Counter[str] = Counter()
        self.calls = self.tensors = self.visits = self.bytes_seen = 0
        self.stored = 0

    def add(self, call: ForeignCall, step: int) -> None:
        """One call of a step. Its files are read now, since whoever gives it may close them behind it."""
        self._read(call)
        self._waiting.append((call, step))
        self._waiting_bytes += sum(_size_of(tensor) for _, tensor in call.tensors)
        if len(self._waiting) >= _MOST_CALLS or self._waiting_bytes >= _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the calls that wait."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        found, self._found = self._found, _Found()
        if not waiting:
            return
        _measure(list(found.contents.values()))
        batch = _Tensors()
        calls, visits = [], []
        for call, step in waiting:
            visits += [
                [self.calls, place, ROLES.index(role), self._tensor(tensor, found, batch), self._layout(tensor)]
                for place, (role, tensor) in enumerate(call.tensors)
            ]
            calls.append(self._call(call, step))
        self.visits += len(visits)
        self._writer.submit(
            Batch(
                definitions=self._definitions.take(),
                calls=np.array(calls, dtype=np.int64),
                visits=np.array(visits, dtype=np.int64).reshape(-1, len(VISIT_COLUMNS)),
                statistics=batch.statistics if batch.rows else None,
                missing=batch.missing,
                payloads=batch.payloads,
            )
        )

    def _read(self, call: ForeignCall) -> None:
        """What lies in the files of a call, each file once."""
        found = self._found
        for _, tensor in call.tensors:
            file = found.files[id(tensor)] = _file_of(tensor)
            if tensor.fetch is not None and (file is None or not (file in found.known or file in self._files)):
                found.contents[id(tensor)] = _content(tensor.fetch)
                found.known.add(file)

    def certificate(self) -> Certificate:
        return Certificate(
            calls=dict(self.counts),
            tensors=self.tensors,
            visits=self.visits,
            bytes_seen=self.bytes_seen,
            bytes_stored=self._writer.bytes_stored,
            not_recorded=dict(self.not_recorded),
        )

    def _call(self, call: ForeignCall, step: int) -> list[int]:
        key = (step, call.level, call.api, call.module if call.level is Level.MODULE else "", call.index)
        forward, nth = NONE, call.index
        if call.phase is Phase.BACKWARD and key in self._forward:
            forward, nth = self._forward[key]
        elif call.level is Level.MODULE:
            # Those tools count the calls of each module; a Run counts those of each class.
            nth = self._nth[step, call.api, call.phase]
            self._nth[step, call.api, call.phase] += 1
        if call.phase is Phase.FORWARD:
            self._forward[key] = (self.calls, nth)
        module = (call.module, call.module_class)
        row = {
            "id": self.calls,
            "level": LEVELS.index(call.level),
            "phase": PHASES.index(call.phase),
            "api": self._definitions.name(call.api),
            "nth": nth,
            "step": step,
            "module": self._definitions.define("modules", repr(module), [*module]),
            "context": self._definitions.name(call.context),
            "thread": 0,
            "forward": forward,
            "arguments": self._definitions.tree(call.arguments),
            "result": self._definitions.tree(call.result),
            "raised": NONE,
            "stack": self._stack(call),
        }
        self.calls += 1
        self.counts[f"{call.level.value} {call.phase.value}"] += 1
        return [row[column] for column in CALL_COLUMNS]

    def _tensor(self, tensor: ForeignTensor, found: _Found, batch: _Tensors) -> int:
        """The number of a tensor; what is known of it goes into the batch if it is new."""
        file = found.files[id(tensor)]
        if file in self._files:
            number, tensor.dtype = self._files[file]
            return number
        if tensor.fetch is not None:
            kept = found.of(tensor, tensor.fetch)
            tensor.dtype = kept.dtype.name  # what lies there counts, not what the dump says
            if kept.remark:
                self.remarks[kept.remark] += 1
            self.bytes_seen += kept.array.nbytes
            likeness = _likeness(tensor, kept.row, ("digest", int(kept.row["digest"])))
            number, fresh = self._number(likeness)
            if fresh:
                batch.keep(number, kept.row, kept.array, tensor)
                self.stored += kept.array.nbytes
            if file is not None and not kept.remark:
                self._files[file] = number, tensor.dtype
            return number
        digest = _digest_of(tensor.checksum)
        if digest or (tensor.summary is not None and not tensor.summary.empty):
            row = _from_summary(tensor, digest)
            content = ("checksum", digest) if digest else _values(tensor.summary or Summary())
            number, fresh = self._number(_likeness(tensor, row, content))
            if fresh:
                batch.numbers.append(number)
                batch.rows.append(row)
            return number
        number, _ = self._number(None)
        reason = tensor.missing or "the dump keeps neither numbers nor statistics of it"
        batch.missing.append((number, reason))
        self.not_recorded[reason if not tensor.missing else "a file of the dump is missing"] += 1
        return number

    def _number(self, likeness: object) -> tuple[int, bool]:
        found = self._known.get(likeness) if likeness is not None else None
        if found is not None:
            return found, False
        number = self.tensors
        self.tensors += 1
        if likeness is not None:
            self._known[likeness] = number
        return number, True

    def _layout(self, tensor: ForeignTensor) -> int:
        strides = [math.prod(tensor.shape[place + 1 :]) for place in range(len(tensor.shape))]
        layout = [tensor.dtype, list(tensor.shape), strides, tensor.device, int(tensor.requires_grad)]
        return self._definitions.define("layouts", repr(layout), layout)

    def _stack(self, call: ForeignCall) -> int:
        if not call.stack:
            return NONE
        # Those tools keep the frames of the framework too; a Run says where in the user's code a call was made.
        own = [frame for frame in call.stack if not any(part in frame.file for part in _FRAMEWORK_FILES)]
        frames = [[frame.file, frame.line, frame.function] for frame in own or call.stack]
        return self._definitions.define("stacks", repr(frames), [frames])


@dataclass(slots=True)
class _Content:
    """What lies in a file: an array that is contiguous, and one STATISTICS row of it, with digest."""

    array: Array
    dtype: DType
    remark: str
    row: Any = None


class _Found:
    """What lies in the files of several calls, by the tensors that name them."""

    def __init__(self) -> None:
        self.files: dict[int, object] = {}
        self.contents: dict[int, _Content] = {}
        self.known: set[object] = set()
        """The files among them."""

    def of(self, tensor: ForeignTensor, fetch: Callable[[], tuple[Array, DType, str]]) -> _Content:
        content = self.contents.get(id(tensor))
        if content is None:  # another name for a file of which something was to be said
            _measure([content := _content(fetch)])
        return content


def _content(fetch: Callable[[], tuple[Array, DType, str]]) -> _Content:
    array, dtype, remark = fetch()
    return _Content(np.ascontiguousarray(array).reshape(array.shape), dtype, remark)


def _size_of(tensor: ForeignTensor) -> int:
    """The bytes of memory that a tensor takes once it is read; a file that is only mapped takes none."""
    if tensor.fetch is None or tensor.file is not None:
        return 0
    return math.prod(tensor.shape) * dtype_named(tensor.dtype).itemsize


class _Tensors:
    """What is new of the tensors of one call."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.rows: list[Any] = []
        self.payloads: list[Payload] = []
        self.missing: list[tuple[int, str]] = []

    def keep(self, number: int, row: Any, array: Array, tensor: ForeignTensor) -> None:
        self.numbers.append(number)
        self.rows.append(row)
        content = memoryview(array.reshape(-1).view(np.uint8).data)
        file = tensor.file if _is_mapped(array) else None
        self.payloads.append(Payload(number, tensor.dtype, tensor.shape, lambda: content, file))

    def statistics(self) -> tuple[Any, Any]:
        return np.array(self.numbers, dtype=np.int64), np.array(self.rows, dtype=STATISTICS)


def _file_of(tensor: ForeignTensor) -> object:
    """What tells a file from all others, where several names may stand for it; None where it has one."""
    if tensor.file is None:
        return None
    found = tensor.file.stat()
    return (found.st_dev, found.st_ino, tensor.dtype) if found.st_nlink > 1 else None


def _is_mapped(array: Array) -> bool:
    """Whether an array is memory of a file, as it lies there."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap) and array.flags.c_contiguous


def _measure(contents: list[_Content]) -> None:
    """Fills in the rows, with digests."""
    rows = np.zeros(len(contents), dtype=STATISTICS)
    descriptors = np.zeros(len(contents), dtype=DESCRIPTOR)
    for place, content in enumerate(contents):
        descriptors[place] = cpu.describe(content.array.reshape(-1), content.dtype)[0]
    if contents:
        cpu.reduce_batch(descriptors, rows, digest=True)
    for content, row in zip(contents, rows, strict=True):
        content.row = row


def _digest_of(checksum: str) -> int:
    """A checksum of another tool as a digest, which only says whether two are the same; 0 where there is none. The
    length goes in, so that those of two kinds are never taken for one another."""
    try:
        value = int(checksum, 16)
    except ValueError:
        return 0
    return (value ^ (len(checksum) << 56)) & ((1 << 63) - 1) or 1


def _from_summary(tensor: ForeignTensor, digest: int) -> Any:
    """A STATISTICS row from four numbers: no sketch, at most a checksum; of NaN and infinity that there are some."""
    summary = tensor.summary or Summary()
    found = _values(summary)
    row = np.zeros(1, dtype=STATISTICS)
    row["count"] = math.prod(tensor.shape) * (2 if dtype_named(tensor.dtype).is_complex else 1)
    for name, value in zip(("maximum", "minimum", "mean", "norm"), found, strict=True):
        row[name] = value if value is not None and math.isfinite(value) else math.nan
    known = [value for value in found if value is not None]
    row["nan"] = int(any(math.isnan(value) for value in known))
    row["positive_infinity"] = int(summary.maximum == math.inf)
    row["negative_infinity"] = int(summary.minimum == -math.inf)
    row["exponent_min"], row["exponent_max"] = 0, -1
    row["sketch"] = math.nan
    row["digest"] = digest
    return row[0]


def _values(summary: Summary) -> tuple[float | None, float | None, float | None, float | None]:
    return summary.maximum, summary.minimum, summary.mean, summary.norm


def _likeness(tensor: ForeignTensor, row: Any, content: tuple[object, ...]) -> object:
    """By what two tensors are known to be the same; None where being alike says nothing."""
    if row["count"] < _TELLING or not (content[0] == "checksum" or row["minimum"] < row["maximum"]):
        return None
    return (tensor.dtype, int(row["count"]), tensor.shape if content[0] != "digest" else (), *content)
