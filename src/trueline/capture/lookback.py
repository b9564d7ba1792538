"""The calls before an overflow, written as a Run.

All calls of the step that are still held go in, so that the way from the origin to the loss can be followed and ranks
can be put in order by their collectives. Of every tensor there are numbers; the bytes are kept of the calls that may be
the origin, whatever their size, then of the calls before and after it, the nearest first, until ``most_bytes``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trueline.capture.notebook import Notebook
from trueline.dtypes import DTYPES
from trueline.errors import TruelineError
from trueline.frameworks.light import Examination, HeldCall, HeldTensor
from trueline.numerics import cpu
from trueline.numerics.layout import STATISTICS
from trueline.records import Level
from trueline.store.columns import LEVELS, NONE, PHASES, ROLES, Payload

MOST_BYTES = 1 << 30
_MOST_STARTS = 8
_AFTER = 8
"""So many calls after the origin are its neighbours too."""
_SMALL = 1 << 14
"""Tensors of so many bytes are read exactly, wherever they are."""
_BATCH_BYTES = 64 << 20


@dataclass(slots=True)
class _Content:
    bits: memoryview
    kept: bool


def starts_of(calls: Sequence[HeldCall]) -> list[HeldCall]:
    """The calls that made something bad of what was not, in the order of time: NaN or infinity of clean inputs, or NaN
    of infinities. A backward call answers to what its forward call was given, too."""
    by_number = {call.number: call for call in calls}
    found = []
    for call in calls:
        bad = [tensor for tensor in call.outputs if tensor.bad]
        if not bad:
            continue
        given = list(call.inputs)
        if call.forward is not None and call.forward in by_number:
            given += by_number[call.forward].inputs
        inherited = [tensor for tensor in given if tensor.bad]
        turned = any(tensor.look["nan"] for tensor in bad) and not any(tensor.look["nan"] for tensor in inherited)
        if not inherited or turned:
            found.append(call)
    return found


class LookBack:
    """Writes examinations into a notebook, one step after the other."""

    def __init__(self, notebook: Notebook, *, calls: int, most_bytes: int = MOST_BYTES) -> None:
        self._notebook = notebook
        self._before = calls
        self._most_bytes = most_bytes
        self._numbers: dict[int, int] = {}

    def write(self, examination: Examination) -> None:
        """Writes one step; what the tensors hold is read before this returns."""
        calls = examination.calls
        self._numbers = {}
        kept = self._kept(calls, examination.origin)
        identities = {call.number: self._notebook.next_call() for call in calls}
        self._notebook.step = examination.step
        read: set[int] = set()
        rows: list[tuple[int, np.ndarray]] = []
        payloads: list[Payload] = []
        size = 0
        for call in calls:
            self._enter(call, identities)
            for tensor in call.tensors:
                number = self._number(tensor)
                if number in read:
                    continue
                read.add(number)
                content = self._content(tensor, tensor.number in kept)
                row = _statistics(tensor, content)
                if row is None:
                    self._notebook.missing.append((number, tensor.missing or "it was not looked at"))
                    continue
                rows.append((number, row))
                if content is not None and content.kept:
                    payloads.append(_payload(number, tensor, content.bits))
                    size += content.bits.nbytes
            if size > _BATCH_BYTES:
                self._hand_over(rows, payloads)
                rows, payloads, size = [], [], 0
        self._hand_over(rows, payloads)
        if examination.missed:
            self._notebook.tally.miss("a call of the step that was no longer held", examination.missed)

    def _hand_over(self, rows: list[tuple[int, np.ndarray]], payloads: list[Payload]) -> None:
        numbers = np.array([number for number, _ in rows], dtype=np.int64)
        table = np.concatenate([row for _, row in rows]) if rows else np.empty(0, STATISTICS)
        self._notebook.hand_over(lambda: (numbers, table), payloads)

    def _number(self, tensor: HeldTensor) -> int:
        """The number of a tensor in the Run: those of an examination hold for one step only."""
        number = self._numbers.get(tensor.number)
        if number is None:
            number = self._numbers[tensor.number] = self._notebook.next_tensor()
        return number

    def _kept(self, calls: Sequence[HeldCall], origin: HeldCall | None) -> set[int]:
        """The tensors, by their numbers in the examination, whose bytes are kept."""
        places = {call.number: place for place, call in enumerate(calls)}
        starts = starts_of(calls)[:_MOST_STARTS]
        if origin is not None and origin.number in places and origin not in starts:
            starts.insert(0, origin)
        kept: set[int] = set()
        for start in starts:
            for call in self._family(start, calls, places):
                kept.update(tensor.number for tensor in call.tensors)
        left = self._most_bytes - sum(_bytes({tensor.number: tensor for call in starts for tensor in call.tensors}))
        first = origin if origin is not None and origin.number in places else (starts[0] if starts else None)
        if first is None:
            return kept
        for call in self._neighbours(places[first.number], calls):
            fresh = {tensor.number: tensor for tensor in call.tensors if tensor.number not in kept}
            size = sum(_bytes(fresh))
            if size <= left:
                left -= size
                kept.update(fresh)
        return kept

    @staticmethod
    def _family(start: HeldCall, calls: Sequence[HeldCall], places: dict[int, int]) -> Iterator[HeldCall]:
        """A call and, of a backward one, its forward call, without which it cannot be replayed."""
        yield start
        if start.forward is not None and start.forward in places:
            yield calls[places[start.forward]]

    def _neighbours(self, place: int, calls: Sequence[HeldCall]) -> Iterator[HeldCall]:
        """The calls around a place, the nearest first."""
        for distance in range(1, max(self._before, _AFTER) + 1):
            if distance <= self._before and place - distance >= 0:
                yield calls[place - distance]
            if distance <= _AFTER and place + distance < len(calls):
                yield calls[place + distance]

    @staticmethod
    def _content(tensor: HeldTensor, kept: bool) -> _Content | None:
        """The bits, where they are to be kept, or so few that they may as well be read exactly."""
        if tensor.content is None or tensor.missing or tensor.dtype not in DTYPES:
            return None
        size = math.prod(tensor.shape) * DTYPES[tensor.dtype].itemsize
        if not kept and size > _SMALL:
            return None
        try:
            return _Content(tensor.content(), kept)
        except TruelineError:  # another thread of the program has changed it since: what the look told is left
            return None

    def _enter(self, call: HeldCall, identities: dict[int, int]) -> None:
        """Writes down one call and what it was given."""
        notebook, number = self._notebook, identities[call.number]
        for tensor in call.tensors:
            row = [tensor.dtype, list(tensor.shape), list(tensor.strides), tensor.device, int(tensor.requires_grad)]
            layout = notebook.define("layouts", repr(row), lambda row=row: row)  # type: ignore[misc]
            notebook.visits.extend((number, tensor.leaf, ROLES.index(tensor.role), self._number(tensor), layout))
        frames = [[frame.file, frame.line, frame.function] for frame in call.stack]
        notebook.calls.extend(
            (
                number,
                LEVELS.index(Level.API),
                PHASES.index(call.phase),
                self._name(call.api),
                call.nth,
                call.step,
                notebook.define("modules", (call.module, call.module_class), lambda: [call.module, call.module_class]),
                self._name(call.context),
                call.thread,
                NONE if call.forward is None else identities.get(call.forward, NONE),
                notebook.define("trees", repr(call.arguments), lambda: [call.arguments]),
                notebook.define("trees", repr(call.result), lambda: [call.result]),
                self._name(call.raised) if call.raised else NONE,
                notebook.define("stacks", repr(frames), lambda: [frames]) if frames else NONE,
            )
        )

    def _name(self, text: str) -> int:
        return self._notebook.define("names", text, lambda: [text])


def _bytes(tensors: dict[int, HeldTensor]) -> Iterator[int]:
    for tensor in tensors.values():
        yield math.prod(tensor.shape) * (DTYPES[tensor.dtype].itemsize if tensor.dtype in DTYPES else 0)


def _payload(number: int, tensor: HeldTensor, bits: memoryview) -> Payload:
    return Payload(number, tensor.dtype, tensor.shape, lambda: bits)


def _statistics(tensor: HeldTensor, content: _Content | None) -> np.ndarray | None:
    """One STATISTICS row: of the bits where they are there, else what the look tells, and NaN for what it does not."""
    row = np.zeros(1, STATISTICS)
    if content is not None:
        dtype = DTYPES[tensor.dtype]
        empty = not content.bits.nbytes
        bits = np.empty(0, dtype.storage) if empty else np.frombuffer(content.bits, dtype=np.uint8).view(dtype.storage)
        cpu.reduce_batch(cpu.describe(bits, dtype), row, digest=content.kept)
        return row
    if tensor.look is None:
        return None
    look = tensor.look
    for name in ("count", "nan", "positive_infinity", "negative_infinity", "zeros"):
        row[name] = look[name]
    row["minimum"], row["maximum"], row["mean"], row["norm"] = math.nan, look["largest"], math.nan, math.nan
    known = [float(look[name]) for name in ("smallest", "largest")]
    exponents = [math.frexp(one)[1] - 1 if math.isfinite(one) and one > 0 else None for one in known]
    row["exponent_min"] = 0 if exponents[0] is None else exponents[0]
    row["exponent_max"] = -1 if exponents[1] is None else exponents[1]
    return row
