"""Reads tensors: statistics by the CPU kernels straight from their memory, and the bytes to be stored.

A tensor is read when it is first seen. Paddle's optimizers, batch norms and gradient sums change memory in place
without a trace in any version counter, so nothing may be left to be read later. What lies on a device is copied to
the host first.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import paddle

from trueline.dtypes import DTYPES, DType
from trueline.frameworks.base import Notebook
from trueline.numerics import cpu
from trueline.numerics.layout import STATISTICS
from trueline.records import Data
from trueline.store.columns import Payload

CHUNK = 512
HELD_BYTES = 32 << 20
"""Bytes that wait for the writer before a batch is handed over."""

Tensor = Any

_BY_VALUE: dict[Any, DType] = {getattr(paddle, name): row for name, row in DTYPES.items() if hasattr(paddle, name)}
_BY_IDENTITY: dict[int, DType] = {id(dtype): row for dtype, row in _BY_VALUE.items()}
"""Most versions of Paddle have one object for each dtype, and to hash one takes longer than to read a small tensor. In
3.0 every tensor gives a new one."""


def known_dtype(dtype: Any) -> DType | None:
    """What we know of a dtype of Paddle's; None where that is nothing."""
    found = _BY_IDENTITY.get(id(dtype))
    return _BY_VALUE.get(dtype) if found is None else found


def dtype_key(dtype: Any) -> Any:
    """Stands for a dtype among what something is found by."""
    return id(dtype) if id(dtype) in _BY_IDENTITY else dtype


data_ptr = paddle.Tensor.data_ptr
_contiguous = paddle.Tensor.contiguous
_detach = paddle.Tensor.detach
_copy_to = paddle.Tensor._copy_to


class Reader:
    """Fills tables of statistics and hands them over."""

    def __init__(self, notebook: Notebook, data: Data) -> None:
        self._notebook = notebook
        self._digest = data in (Data.DIGEST, Data.TENSORS)
        self._keep = data is Data.TENSORS
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._rows = np.zeros(CHUNK, dtype=STATISTICS)
        self._reduce = cpu.RowReducer(self._rows, digest=self._digest)
        self._numbers: list[int] = []
        self._payloads: list[Payload] = []
        self._bytes = 0

    def read(
        self,
        tensor: Tensor,
        number: int,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        contiguous: bool,
        on_cpu: bool,
    ) -> None:
        if not on_cpu:
            tensor, contiguous = to_host(tensor), True
        numel = 1
        for size in shape:
            numel *= size
        pointer = data_ptr(tensor) if numel else 0
        with self._lock:
            row = len(self._numbers)
            if contiguous:
                self._reduce.contiguous(row, pointer, dtype.code, numel)
            elif not self._reduce.strided(row, pointer, dtype.code, shape, strides):
                tensor = _contiguous(_detach(tensor))
                pointer, contiguous = data_ptr(tensor), True
                self._reduce.contiguous(row, pointer, dtype.code, numel)
            self._numbers.append(number)
            if self._keep:
                content = content_of(pointer, numel, dtype, shape, None if contiguous else strides)
                self._payloads.append(Payload(number, dtype.name, shape, lambda: content))
                self._bytes += content.nbytes
            if row + 1 >= CHUNK or self._bytes > HELD_BYTES:
                self._send()

    def end_step(self) -> None:
        with self._lock:
            if self._numbers:
                self._send()

    def _send(self) -> None:
        numbers, rows, payloads = self._numbers, self._rows, self._payloads
        self._begin()
        self._notebook.hand_over(lambda: (np.array(numbers, dtype=np.int64), rows[: len(numbers)]), payloads)


def to_host(tensor: Tensor) -> Tensor:
    """A contiguous copy in the memory of the host; autograd does not hear of it."""
    with paddle.no_grad():
        return _copy_to(_contiguous(_detach(tensor)), paddle.CPUPlace(), True)


def content_of(
    pointer: int, numel: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> memoryview:
    """A copy of the elements at an address, in C order; ``strides`` (in elements) None means that they lie so."""
    if numel == 0:
        return memoryview(b"")
    if strides is None:
        return memoryview(ctypes.string_at(pointer, numel * dtype.itemsize))
    length = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(pointer)
    flat = np.frombuffer(memoryview(memory).cast("B"), dtype=np.dtype(dtype.storage))
    steps = [step * dtype.itemsize for step in strides]
    laid_out = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
    return memoryview(np.ascontiguousarray(laid_out).tobytes())
