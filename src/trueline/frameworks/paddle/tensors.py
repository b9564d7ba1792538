"""Looks at tensors: knows those it has seen, reads the others.

*Identity.* The output of one call is the input of the next. Address, version counter, shape and strides say so
without reading a byte, as long as somebody alive holds that memory: Paddle gives freed memory to the next tensor at
once. So each entry has a weak reference to a tensor that held the memory when it was seen, and counts only while that
tensor lives and still lies there.

*Changes without a trace.* Version counters do not move when an optimizer, a batch norm or the summing of gradients
writes. Whoever sees such a write says so (``changed``), which moves a counter of our own for that memory.
"""

from __future__ import annotations

import weakref
from typing import Any

import paddle

from trueline.dtypes import DType
from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.paddle.flatten import device_name, dtype_name, place_of
from trueline.frameworks.paddle.reading import Reader, Tensor, data_ptr, known_dtype
from trueline.records import Data

Look = tuple[int, int]
"""The number of a tensor and the number of its layout."""

Extent = tuple[int, int, int]
"""Where a tensor lies: the start of its block of memory, its first byte and the one after its last."""

_version = paddle.Tensor._inplace_version
_offset = paddle.Tensor._offset
_is_contiguous = paddle.Tensor.is_contiguous
_element_size = paddle.Tensor.element_size
_is_dense = paddle.Tensor.is_dense
_is_dist = paddle.Tensor.is_dist
_has_memory = paddle.Tensor._is_initialized
_ref = weakref.ref


class Writes:
    """Writes to memory that left no trace in a version counter, numbered from 1."""

    def __init__(self) -> None:
        self.count = 0
        self._blocks: dict[int, dict[tuple[int, int], int]] = {}

    def add(self, extent: Extent) -> None:
        block, first, end = extent
        self.count += 1
        self._blocks.setdefault(block, {})[first, end] = self.count

    def last_to(self, extent: Extent) -> int:
        """The number of the last write to any byte of an extent; 0 where there was none."""
        writes = self._blocks.get(extent[0])
        if writes is None:
            return 0
        _, first, end = extent
        return max((number for (start, stop), number in writes.items() if start < end and first < stop), default=0)


class TensorDesk:
    """Gives every tensor its number and sees to it that it is read once."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self._notebook = notebook
        self._structure_only = scope.data is Data.STRUCTURE
        self._integers = scope.integers
        self._reader = Reader(notebook, scope.data)
        self._objects: dict[int, tuple[Any, int, int, Extent, int, bool, Look]] = {}
        """What was found of a tensor object, by its identity: the shortest way."""
        self._seen: dict[Any, tuple[Any, Look]] = {}
        self._contents: dict[Any, tuple[Any, int]] = {}
        self._writes = Writes()
        self._layouts: dict[Any, tuple[int, bool]] = {}
        self._leaves: dict[int, Any] = {}
        """Leaves that collect gradients, by identity: weak references."""

    def look(self, tensor: Tensor) -> Look:
        """The number of this tensor as it is now, and of its layout."""
        known = self._objects.get(id(tensor))
        if known is not None:
            reference, pointer, version, extent, write, stopped, look = known
            if (
                reference() is tensor
                and data_ptr(tensor) == pointer
                and _version(tensor) == version
                and self._writes.last_to(extent) == write
                and tensor.stop_gradient is stopped
            ):
                return look
        return self._look_again(tensor)

    def look_all(self, tensors: list[Tensor], number: int, first_position: int, role: int, visits: list[int]) -> None:
        """Looks at all tensors of a call; appends a row (call, position, role, tensor, layout) for each."""
        look = self.look
        for position, tensor in enumerate(tensors, first_position):
            visits += (number, position, role, *look(tensor))

    def versions(self, tensors: list[Tensor]) -> list[int]:
        """What their version counters say, -1 where there is none: memory that is there afterwards was written to."""
        return [_version(tensor) if _is_dense(tensor) and _has_memory(tensor) else -1 for tensor in tensors]

    @property
    def last_write(self) -> int:
        """The number of the last write that ``changed`` was told of."""
        return self._writes.count

    def changed(self, tensors: list[Tensor]) -> None:
        """To be called with tensors whose memory was written to, whatever their version counters say."""
        for tensor in tensors:
            if _is_dense(tensor) and _has_memory(tensor):
                self._writes.add(_extent_of(tensor))

    def written_since(self, tensors: list[Tensor], write: int) -> list[int]:
        """Which of these tensors were written to, as told by ``changed``, after a given write; their positions."""
        if self._writes.count == write:
            return []
        return [
            position
            for position, tensor in enumerate(tensors)
            if _is_dense(tensor) and _has_memory(tensor) and self._writes.last_to(_extent_of(tensor)) > write
        ]

    def collects(self, leaf: Tensor) -> None:
        """To be called with a leaf that will be given a gradient."""
        if not self.is_collecting(leaf):
            self._leaves[id(leaf)] = _ref(leaf)

    def is_collecting(self, leaf: Tensor) -> bool:
        """Whether ``collects`` was told of it."""
        known = self._leaves.get(id(leaf))
        return known is not None and known() is leaf

    def gradients_summed(self) -> None:
        """A backward has run: gradients of leaves may have been added up where they lay."""
        for number, reference in list(self._leaves.items()):
            leaf = reference()
            if leaf is None:
                del self._leaves[number]
                continue
            gradient = _gradient_of(leaf)
            if gradient is not None:
                self.changed([gradient])

    def end_step(self) -> None:
        """Hands over what was read, and forgets every tensor."""
        self._reader.end_step()
        for table in (self._objects, self._seen, self._contents, self._leaves):
            table.clear()
        self._writes = Writes()

    def _look_again(self, tensor: Tensor) -> Look:
        dtype = known_dtype(tensor.dtype)
        if dtype is None or not _is_dense(tensor) or _is_dist(tensor):
            return self._look_odd(tensor)
        shape, stopped = tuple(tensor.shape), tensor.stop_gradient
        if not _has_memory(tensor):
            return self._without_memory(tensor, dtype, shape)
        pointer, version, strides = data_ptr(tensor), _version(tensor), tuple(tensor.strides)
        extent = _extent(pointer, _offset(tensor), shape, strides, dtype.itemsize)
        write = self._writes.last_to(extent)
        key = (pointer, version, write, shape, strides, dtype.code, stopped)
        known = self._seen.get(key)
        reference = _ref(tensor)
        if known is not None and _lies_at(known[0], pointer):
            look = known[1]
        else:
            look = self._first_look(tensor, dtype, key, reference)
        self._objects[id(tensor)] = (reference, pointer, version, extent, write, stopped, look)
        return look

    def _first_look(self, tensor: Tensor, dtype: DType, key: Any, reference: Any) -> Look:
        pointer, version, write, shape, strides, code, stopped = key
        layout, on_cpu = self._layout(tensor, dtype, shape, strides, stopped)
        contiguous = _is_contiguous(tensor)
        content = (pointer, version, write, code, _count(shape)) if contiguous else None
        known = self._contents.get(content) if contiguous else None
        if known is not None and _lies_at(known[0], pointer):
            number = known[1]
        else:
            number = self._notebook.next_tensor()
            self._read(tensor, number, dtype, shape, strides, contiguous, on_cpu)
            if content is not None:
                self._contents[content] = (reference, number)
        look = (number, layout)
        self._seen[key] = (reference, look)
        return look

    def _read(
        self,
        tensor: Tensor,
        number: int,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        contiguous: bool,
        on_cpu: bool,
    ) -> None:
        if self._structure_only:
            return
        if dtype.is_exact and not self._integers:
            self._notebook.missing.append((number, "integers were not asked for"))
        else:
            self._reader.read(tensor, number, dtype, shape, strides, contiguous, on_cpu)

    def _layout(
        self, tensor: Tensor, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], stopped: bool
    ) -> tuple[int, bool]:
        """The number of a layout, and whether it is one on the host."""
        place = place_of(tensor)
        key = (dtype.code, shape, strides, stopped, place)
        known = self._layouts.get(key)
        if known is None:
            device = device_name(place)
            row = [dtype.name, list(shape), list(strides), device, int(not stopped)]
            known = self._layouts[key] = (self._notebook.define("layouts", key, lambda: row), device == "cpu")
        return known

    def _without_memory(self, tensor: Tensor, dtype: DType, shape: tuple[int, ...]) -> Look:
        """A tensor without elements is read as such; any other without memory is not read."""
        layout, _ = self._layout(tensor, dtype, shape, _strides(shape), tensor.stop_gradient)
        number = self._notebook.next_tensor()
        if _count(shape) == 0:
            self._read(tensor, number, dtype, shape, _strides(shape), True, True)
        elif not self._structure_only:  # nothing is lost: there is nothing yet, or nothing any more
            self._notebook.missing.append((number, "it has no memory"))
        return number, layout

    def _look_odd(self, tensor: Tensor) -> Look:
        """Everything that is not a plain dense tensor: read what is inside it, or say why not."""
        if _is_dist(tensor):
            local = tensor._local_value()
            if _is_dense(local) and not _is_dist(local):
                return self._look_again(local)
        number = self._notebook.next_tensor()
        name, shape, device = dtype_name(tensor.dtype), _shape_of(tensor), device_name(place_of(tensor))
        layout = self._notebook.define(
            "layouts", ("odd", name, shape, device), lambda: [name, list(shape), [], device, 0]
        )
        if not self._structure_only:
            self._miss(number, _why_odd(tensor, name))
        return number, layout

    def _miss(self, number: int, reason: str) -> None:
        self._notebook.missing.append((number, reason))
        self._notebook.tally.miss(reason)


def _extent(pointer: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Extent:
    length = 1
    for size, step in zip(shape, strides, strict=True):
        length += (size - 1) * step
    return pointer - offset, pointer, pointer + max(length, 0) * itemsize


def _extent_of(tensor: Tensor) -> Extent:
    shape, strides = tuple(tensor.shape), tuple(tensor.strides)
    return _extent(data_ptr(tensor), _offset(tensor), shape, strides, _element_size(tensor))


def _lies_at(reference: Any, pointer: int) -> bool:
    """Whether the tensor that was seen still lives and still lies where it lay."""
    tensor = reference()
    return tensor is not None and data_ptr(tensor) == pointer


def _gradient_of(leaf: Tensor) -> Tensor | None:
    gradient = leaf._grad_ivar()
    return gradient if gradient is not None and _is_dense(gradient) and _has_memory(gradient) else None


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _shape_of(tensor: Tensor) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in tensor.shape)
    except Exception:  # some kinds of tensors have no single shape
        return ()


def _why_odd(tensor: Tensor, dtype: str) -> str:
    if tensor.is_selected_rows():
        return "selected rows are not read"
    if tensor.is_sparse():
        return "sparse tensors are not read"
    if not _is_dense(tensor):
        return "this kind of tensor is not read"
    return f"dtype {dtype} is not read"
