"""The calls that a light watch of Paddle holds on to, and what an examination makes of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import paddle

from trueline.dtypes import DType
from trueline.frameworks.base import Tally
from trueline.frameworks.light import Examination, HeldCall, HeldTensor, is_bad
from trueline.frameworks.paddle.flatten import device_name, dtype_name, flatten, place_of
from trueline.frameworks.paddle.reading import content_of, data_ptr, known_dtype, to_host
from trueline.frameworks.trees import Trees
from trueline.numerics.layout import DESCRIPTOR, pack_descriptor
from trueline.numerics.light import LOOK, look_batch, part_of
from trueline.records import Frame, Phase, Role
from trueline.store.columns import NONE
from trueline.tree import Tree, tensor_paths

Tensor = Any

CHANGED = "it was changed after the call"
GONE = "it was let go of to save memory"

_version = paddle.Tensor._inplace_version


class Book:
    """Numbers what repeats, as a notebook does, and keeps it."""

    def __init__(self, troubles: dict[str, int], tally: Tally) -> None:
        self.tally = tally
        self._troubles = troubles
        self._numbers: dict[tuple[str, Any], int] = {}
        self._rows: dict[str, list[tuple[Any, list[Any]]]] = {}

    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int:
        number = self._numbers.get((table, key))
        if number is None:
            rows = self._rows.setdefault(table, [])
            number = self._numbers[table, key] = len(rows)
            rows.append((key, row()))
        return number

    def trouble(self, error: BaseException) -> None:
        text = f"internal fault: {type(error).__name__}: {error}"
        self._troubles[text] = self._troubles.get(text, 0) + 1

    def tree(self, number: int) -> Tree:
        return self._rows["trees"][number][1][0]

    def module(self, number: int) -> tuple[str, str]:
        """(path, class) of a Layer."""
        if number == NONE:
            return "", ""
        key: tuple[str, str] = self._rows["modules"][number][0]
        return key


@dataclass(slots=True)
class Kept:
    """A call of the running step, as it is: ``before`` and ``after`` are version counters of inputs and outputs,
    ``changed`` the inputs that it changed, which stand behind the ``returned`` outputs. ``args`` is None where the
    tensors were let go of."""

    number: int
    api: str
    nth: int
    module: int
    context: str
    thread: int
    frame: tuple[CodeType, int] | None
    args: Any
    kwargs: dict[str, Any]
    result: Any
    inputs: list[Tensor]
    before: list[int]
    outputs: list[Tensor]
    after: list[int]
    returned: int
    changed: tuple[int, ...]
    arrived: dict[int, tuple[int, Tensor]] = field(default_factory=dict)
    """Output -> (when, the gradient that arrived)."""


class Ring:
    """The calls of the running step. Beyond a limit of bytes the oldest ones lose their tensors."""

    def __init__(self, book: Book, hold: float) -> None:
        self.book = book
        self.calls: list[Kept] = []
        self.updated: set[int] = set()
        """Parameters, by identity, that an optimizer has changed in this step."""
        self.next = itertools.count().__next__
        self._limit = int(hold) if hold >= 1 else int(hold * _free_bytes())
        self._bytes = 0
        self._first = 0
        self._hidden: dict[int, int] = {}

    def add(self, kept: Kept) -> None:
        self.calls.append(kept)
        self._bytes += sum(_size(tensor) for tensor in kept.outputs[: kept.returned])
        while self._bytes > self._limit and self._first < len(self.calls) - 1:
            self._drop(self.calls[self._first])
            self._first += 1

    def arrive(self, kept: Kept, position: int, gradient: Tensor) -> None:
        kept.arrived[position] = (self.next(), gradient)
        self._bytes += _size(gradient)

    def written(self, tensor: Tensor) -> None:
        """A write that left no trace in the version counter."""
        self._hidden[id(tensor)] = self._hidden.get(id(tensor), 0) + 1

    def is_hidden(self, tensor: Tensor) -> bool:
        return id(tensor) in self._hidden

    def turn(self) -> None:
        """Another step begins."""
        self.calls, self.updated, self._hidden = [], set(), {}
        self._bytes = self._first = 0

    clear = turn

    def _drop(self, kept: Kept) -> None:
        self._bytes -= sum(_size(tensor) for tensor in kept.outputs[: kept.returned])
        kept.args = kept.result = None
        kept.kwargs, kept.inputs, kept.outputs, kept.arrived = {}, [], [], {}


def _free_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 4 << 30


def _size(tensor: Tensor) -> int:
    size = int(tensor.element_size())
    for extent in tensor.shape:
        size *= extent
    return size


def look_at(tensors: Sequence[Tensor], rounds: Sequence[int | None] = ()) -> np.ndarray[Any, np.dtype[np.void]]:
    """One LOOK row for each tensor, read at once: whole, or the part whose turn it is in a round."""
    table = np.zeros(len(tensors), DESCRIPTOR)
    rows = np.zeros(len(tensors), LOOK)
    held = []
    for place, tensor in enumerate(tensors):
        dtype = known_dtype(tensor.dtype)
        if dtype is None or not tensor.is_dense() or not tensor._is_initialized() or 0 in tensor.shape:
            pack_descriptor(table, place, 0, 0, (0,), (1,))
            continue
        if not str(tensor.place).startswith("Place(cpu"):
            tensor = to_host(tensor)
        shape, strides = tuple(tensor.shape), tuple(tensor.strides)
        if not pack_descriptor(table, place, data_ptr(tensor), dtype.code, shape, strides):
            tensor = tensor.detach().contiguous()
            pack_descriptor(table, place, data_ptr(tensor), dtype.code, shape, tuple(tensor.strides))
        held.append(tensor)
        number = rounds[place] if rounds else None
        if number is not None:
            table[place : place + 1] = part_of(table[place : place + 1], number)
    look_batch(table, rows)
    return rows


def examined(step: int, calls: Sequence[Kept], updated: frozenset[int], ring: Ring) -> Examination:
    """Everything that is held of a step, read exactly."""
    return _Examiner(step, [kept for kept in calls if kept.args is not None], updated, ring).run(
        sum(kept.args is None for kept in calls)
    )


Row = tuple[Role, int, Tensor, int | None]
"""Role, leaf, tensor, and the version at which it was seen; None for gradients, which have none."""


class _Examiner:
    """Makes held calls of kept ones."""

    def __init__(self, step: int, calls: Sequence[Kept], updated: frozenset[int], ring: Ring) -> None:
        self._step = step
        self._calls = calls
        self._updated = updated
        self._ring = ring
        self._trees = Trees(ring.book)  # type: ignore[arg-type]
        self._numbers: dict[Any, int] = {}
        self._looks: dict[int, Any] = {}
        self._pending: list[tuple[int, Tensor]] = []
        self._drafts: dict[int, tuple[Any, ...]] = {}

    def run(self, missed: int) -> Examination:
        self._drafts = {kept.number: self._forward(kept) for kept in self._calls}
        backward = self._backward()
        self._read()
        held = [self._held(*drafted) for drafted in (*self._drafts.values(), *backward)]
        held.sort(key=lambda call: call.number)
        return Examination(self._step, _origin(held), tuple(held), missed)

    def _forward(self, kept: Kept) -> tuple[Any, ...]:
        leaves: list[Tensor] = []
        key: Any = (tuple([flatten(value, leaves) for value in kept.args]), None)
        if kept.kwargs:
            key = (key[0], tuple([(name, flatten(value, leaves)) for name, value in kept.kwargs.items()]))
        arguments = self._trees.arguments(key)
        returned: list[Tensor] = []
        result = self._trees.result(flatten(kept.result, returned), len(leaves), kept.changed, arguments)
        rows: list[Row] = [(Role.INPUT, leaf, tensor, kept.before[leaf]) for leaf, tensor in enumerate(kept.inputs)]
        rows += [
            (Role.OUTPUT, len(leaves) + place, tensor, kept.after[place]) for place, tensor in enumerate(kept.outputs)
        ]
        self._enter(rows)
        return kept, Phase.FORWARD, kept.number, None, arguments, result, rows

    def _backward(self) -> list[tuple[Any, ...]]:
        """The backward calls: what arrived at the outputs, and what went to the inputs, which is what arrived where
        they were made, or the gradient of a leaf."""
        made: dict[int, tuple[Kept, int]] = {
            id(tensor): (kept, place)
            for kept in self._calls
            for place, tensor in enumerate(kept.outputs[: kept.returned])
        }
        users: dict[int, list[Kept]] = {}
        for kept in self._calls:
            if kept.arrived:
                for tensor in {id(one): one for one in kept.inputs if not one.stop_gradient}.values():
                    users.setdefault(id(tensor), []).append(kept)
        drafts = []
        for kept in self._calls:
            if kept.arrived:
                drafts.append(self._one_backward(kept, made, users))
        return drafts

    def _one_backward(
        self, kept: Kept, made: Mapping[int, tuple[Kept, int]], users: Mapping[int, list[Kept]]
    ) -> tuple[Any, ...]:
        arrived = dict(sorted(kept.arrived.items()))
        going: dict[int, Tensor] = {}
        for leaf, tensor in enumerate(kept.inputs):
            if tensor.stop_gradient or self._answers(tensor, users) is not kept:
                continue
            gradient = _gradient_of(tensor, made)
            if gradient is not None and leaf not in going:
                going[leaf] = gradient
        first = len(kept.inputs)
        rows: list[Row] = [(Role.INPUT, place, pair[1], None) for place, pair in enumerate(arrived.values())]
        rows += [(Role.OUTPUT, len(arrived) + place, tensor, None) for place, tensor in enumerate(going.values())]
        self._enter(rows)
        forward = self._drafts[kept.number]
        key = (forward[4], forward[5], tuple(first + place for place in arrived), tuple(going))
        arguments, result = self._trees.backward(key)
        number = min(pair[0] for pair in arrived.values())
        return kept, Phase.BACKWARD, number, kept.number, arguments, result, rows

    def _answers(self, tensor: Tensor, users: Mapping[int, list[Kept]]) -> Kept | None:
        """The call that answers for the gradient of a tensor. It is the sum of what all calls sent that used it: one to
        which something bad arrived, else the one whose backward ran last, after which the sum was complete."""
        calls = users.get(id(tensor), [])
        if len(calls) < 2:
            return calls[0] if calls else None
        for kept in calls:
            if bool(is_bad(look_at([gradient for _, gradient in kept.arrived.values()])).any()):
                return kept
        return max(calls, key=lambda kept: max(when for when, _ in kept.arrived.values()))

    def _enter(self, rows: Sequence[Row]) -> None:
        for _, _, tensor, version in rows:
            key = _identity(tensor, version)
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                self._pending.append((self._numbers[key], tensor))

    def _read(self) -> None:
        looks = look_at([tensor for _, tensor in self._pending])
        self._looks = {number: looks[place] for place, (number, _) in enumerate(self._pending)}

    def _held(
        self, kept: Kept, phase: Phase, number: int, forward: int | None, arguments: int, result: int, rows: list[Row]
    ) -> HeldCall:
        book = self._ring.book
        trees = book.tree(arguments), book.tree(result)
        paths = {**dict(tensor_paths(trees[0])), **dict(tensor_paths(trees[1]))}
        module, kind = book.module(kept.module)
        stack = () if kept.frame is None else (Frame(kept.frame[0].co_filename, kept.frame[1], kept.frame[0].co_name),)
        return HeldCall(
            number, kept.api, kept.nth, self._step, phase, module, kind, kept.context, kept.thread, forward, *trees,
            stack, tuple(self._tensor(role, paths.get(leaf, f"leaf.{leaf}"), leaf, tensor, version)
                  for role, leaf, tensor, version in rows),
        )  # fmt: skip

    def _tensor(self, role: Role, path: str, leaf: int, tensor: Tensor, version: int | None) -> HeldTensor:
        missing = self._missing(tensor, version, role)
        number = self._numbers[_identity(tensor, version)]
        dtype = known_dtype(tensor.dtype)
        content = None if missing or dtype is None else _content(tensor, dtype)
        look = None if missing else self._looks[number]
        return HeldTensor(
            role, path, leaf, number, dtype_name(tensor.dtype), tuple(tensor.shape), tuple(tensor.strides),
            device_name(place_of(tensor)), not tensor.stop_gradient, look, missing, content,
        )  # fmt: skip

    def _missing(self, tensor: Tensor, version: int | None, role: Role) -> str:
        if not tensor.is_dense() or not tensor._is_initialized():
            return "it has no memory"
        if version is None:
            return ""
        if _version(tensor) != version or id(tensor) in self._updated:
            return CHANGED
        return CHANGED if role is Role.INPUT and self._ring.is_hidden(tensor) else ""


def _identity(tensor: Tensor, version: int | None) -> Any:
    """Equal for the same memory with the same content: everything here is alive, so addresses tell."""
    pointer = data_ptr(tensor) if tensor.is_dense() and tensor._is_initialized() else id(tensor)
    return pointer, version, str(tensor.dtype), int(np.prod(tensor.shape)), tuple(tensor.strides)[-1:]


def _gradient_of(tensor: Tensor, made: Mapping[int, tuple[Kept, int]]) -> Tensor | None:
    """The gradient that reached a tensor: where it was made, or what a leaf collected."""
    maker = made.get(id(tensor))
    if maker is not None:
        arrived = maker[0].arrived.get(maker[1])
        return None if arrived is None else arrived[1]
    gradient = tensor._grad_ivar() if tensor.is_leaf else None
    return gradient if gradient is not None and gradient.is_dense() and gradient._is_initialized() else None


def _content(tensor: Tensor, dtype: DType) -> Callable[[], memoryview]:
    def fetch() -> memoryview:
        whole = tensor if str(tensor.place).startswith("Place(cpu") else to_host(tensor)
        shape, strides = tuple(whole.shape), tuple(whole.strides)
        count = int(np.prod(shape)) if shape else 1
        return content_of(
            data_ptr(whole) if count else 0, count, dtype, shape, None if whole.is_contiguous() else strides
        )

    return fetch


def _origin(calls: Sequence[HeldCall]) -> HeldCall | None:
    """The first call that made something bad of clean inputs."""
    by_number = {call.number: call for call in calls}
    for call in calls:
        given = list(call.inputs)
        if call.forward is not None and call.forward in by_number:
            given += by_number[call.forward].inputs
        if any(tensor.bad for tensor in call.outputs) and not any(tensor.bad for tensor in given):
            return call
    return None
