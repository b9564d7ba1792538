"""The light look at many tensors on a GPU in one launch, without a synchronisation: ``numerics.light`` for CUDA.

``LightReducer.launch`` takes ``DESCRIPTOR`` rows and queues one copy and one kernel on the caller's current stream;
``fetch`` queues the copy of all answers to pinned memory and returns at once. The caller keeps the memory of a tensor
alive and unchanged until its launch is queued.

8-bit floats have each their own NaN and infinity; they are copied to 32 bits first by whoever looks at them. Importing
this module imports neither torch nor Triton.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import BY_CODE
from trueline.errors import MissingFrameworkError, UsageError
from trueline.numerics.cuda import _COMPONENT_SHIFT, _LARGEST_INT32, _Kernel, _Streams
from trueline.numerics.layout import DESCRIPTOR
from trueline.numerics.light import LOOK

READ = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128", "complex32"})
"""Dtypes that the kernel reads; of all others only the number of elements is told."""
_INVERSE = 2**63 - 1
_READ_CODES = np.array([BY_CODE[code].name in READ for code in sorted(BY_CODE)])


class FetchedLooks:
    """Looks on their way to the host. ``launches`` are the descriptors' dtypes and numbers of elements."""

    def __init__(self, host: Any, event: Any, launches: list[NDArray[np.void]]) -> None:
        self._host = host
        self._event = event
        self._launches = launches

    def ready(self) -> bool:
        """Whether ``wait`` would return at once."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> NDArray[np.void]:
        """A ``LOOK`` row for each tensor, in the order of the launches."""
        if self._event is not None:
            self._event.synchronize()
        if self._host is None:
            return np.zeros(0, LOOK)
        return looks_of(self._host.numpy(), np.concatenate(self._launches))


class LightReducer:
    """Looks at batches of tensors on one device. Calls from several threads take turns."""

    def __init__(self, device: Any) -> None:
        import torch

        try:
            from trueline.numerics import cuda_light_kernels
        except ImportError as error:
            raise MissingFrameworkError(
                f"looks on {device} need Triton, which cannot be imported ({error}); install triton"
            ) from error
        self._torch = torch
        self._kernels = cuda_light_kernels
        self.device = torch.device(device)
        if self.device.type != "cpu" and self.device.index is None:
            self.device = torch.device(self.device.type, getattr(torch, self.device.type).current_device())
        self._streams = _Streams(self.device)
        direct = self.device.type == "cuda" and torch.version.hip is None
        self._look = _Kernel(cuda_light_kernels.look_at_blocks, {"num_warps": 4}, direct=direct)
        self._header = cuda_light_kernels.ROWS_PER_TABLE * 4
        self._lock = threading.Lock()
        self._results: list[tuple[Any, Any]] = []
        """What each launch writes, with the stream that it was queued on."""
        self._launches: list[NDArray[np.void]] = []

    def launch(self, descriptors: NDArray[np.void], slots: int) -> None:
        """Queues the looks at these tensors; they become rows ``slots``, ``slots + 1``, … of the next fetch."""
        done = sum(len(launch) for launch in self._launches)
        if descriptors.dtype != DESCRIPTOR or slots != done:
            raise UsageError(f"expected DESCRIPTOR rows and slot {done}, got {descriptors.dtype} and {slots}")
        with self._lock:
            most = self._kernels.ROWS_PER_TABLE
            for first in range(0, len(descriptors), most):
                if self._streams.wrong_device():
                    with self._streams.guard():
                        self._launch(descriptors[first : first + most])
                else:
                    self._launch(descriptors[first : first + most])

    def fetch(self) -> FetchedLooks:
        """Queues the copy of all looks launched since the last fetch."""
        with self._lock:
            results, self._results = self._results, []
            launches, self._launches = self._launches, []
            if not results:
                return FetchedLooks(None, None, [])
            if self._streams.wrong_device():
                with self._streams.guard():
                    return self._fetch(results, launches)
            return self._fetch(results, launches)

    def _launch(self, descriptors: NDArray[np.void]) -> None:
        torch, count = self._torch, len(descriptors)
        asynchronous = self._streams.asynchronous
        ends = np.cumsum(self._block_counts(descriptors))
        size = self._header + count * DESCRIPTOR.itemsize
        host = torch.empty(size, dtype=torch.uint8, pin_memory=asynchronous)
        table = host.numpy()
        header = table[: self._header].view(np.int32)
        header[:count] = ends
        header[count:] = _LARGEST_INT32
        table[self._header :] = np.ascontiguousarray(descriptors).view(np.uint8)
        there = host.to(self.device, non_blocking=True) if asynchronous else host
        results = torch.zeros(count * self._kernels.RESULT_WORDS, dtype=torch.int64, device=self.device)
        if ends[-1]:
            self._look(int(ends[-1]), self._streams.current_raw(), there.data_ptr(), results.data_ptr())
        self._results.append((results, self._streams.current()))
        self._launches.append(descriptors[["dtype", "numel"]].copy())

    def _fetch(self, results: list[tuple[Any, Any]], launches: list[NDArray[np.void]]) -> FetchedLooks:
        torch, stream = self._torch, self._streams.current()
        for memory, other in results:
            if stream is not None and other != stream:
                stream.wait_stream(other)
                memory.record_stream(stream)
        together = torch.cat([memory for memory, _ in results]) if len(results) > 1 else results[0][0]
        host = torch.empty(together.shape, dtype=torch.int64, pin_memory=self._streams.asynchronous)
        host.copy_(together, non_blocking=True)
        event = self._streams.event()
        if event is not None:
            event.record(stream)
        return FetchedLooks(host, event, launches)

    def _block_counts(self, descriptors: NDArray[np.void]) -> NDArray[np.int64]:
        """As ``block_size`` of the kernels; none for tensors that the kernel does not read."""
        kernels = self._kernels
        components = np.where(_READ_CODES[descriptors["dtype"]], descriptors["numel"], 0)
        components = components << _COMPONENT_SHIFT[descriptors["dtype"]]
        most = kernels.BLOCKS_PER_TENSOR * kernels.SPAN_ELEMENTS
        sizes = np.maximum(-(-components // most) * kernels.SPAN_ELEMENTS, kernels.BLOCK_ELEMENTS)
        counts: NDArray[np.int64] = -(-components // sizes)
        return counts


def looks_of(words: NDArray[np.int64], tensors: NDArray[np.void]) -> NDArray[np.void]:
    """``LOOK`` rows of the words that the kernel wrote for these tensors (columns dtype and numel)."""
    words = words.reshape(len(tensors), -1)
    looks = np.zeros(len(tensors), LOOK)
    looks["count"] = tensors["numel"] << _COMPONENT_SHIFT[tensors["dtype"]]
    for column, name in enumerate(
        ("nan", "positive_infinity", "negative_infinity", "zeros", "subnormals", "saturated")
    ):
        looks[name] = words[:, 2 + column]
    finite = looks["count"] - looks["nan"] - looks["positive_infinity"] - looks["negative_infinity"]
    read = _READ_CODES[tensors["dtype"]]
    largest = _values(words[:, 0], tensors["dtype"])
    smallest = _values(_INVERSE - words[:, 1], tensors["dtype"])
    looks["largest"] = np.where(read & (finite > 0), largest, np.nan)
    looks["smallest"] = np.where(read & (words[:, 1] > 0), smallest, np.nan)
    return looks


def _values(bits: NDArray[np.int64], codes: NDArray[np.int32]) -> NDArray[np.float64]:
    """The numbers behind bits of magnitudes."""
    values = np.full(len(bits), np.nan)
    for name, kind, shift in (("float32", np.float32, 0), ("float16", np.float16, 0), ("bfloat16", np.float32, 16)):
        chosen = np.isin(codes, _codes_of(name))
        width = np.uint16 if kind is np.float16 else np.uint32
        values[chosen] = (bits[chosen] << shift).astype(width).view(kind).astype(np.float64)
    chosen = np.isin(codes, _codes_of("float64"))
    values[chosen] = bits[chosen].astype(np.uint64).view(np.float64)
    return values


def _codes_of(component: str) -> list[int]:
    """The codes of a dtype and of the complex one made of it."""
    digits = next(dtype.digits for dtype in BY_CODE.values() if dtype.name == component)
    return [
        code
        for code, dtype in BY_CODE.items()
        if dtype.name == component or (dtype.is_complex and dtype.digits == digits)
    ]
