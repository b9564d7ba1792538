"""Statistics of many tensors on a GPU in one grouped launch, without a synchronisation and at little host cost.

``GroupedReducer.launch`` takes ``DESCRIPTOR`` rows and queues one copy and two kernels on the caller's current stream;
the ``STATISTICS`` rows stay in device memory. ``GroupedReducer.fetch`` queues one copy of all of them to pinned memory
and returns at once; whoever needs the rows waits for them, in any thread. A result depends on the tensor alone: not
on the other tensors of its launch, and not on the order in which anything runs.

The caller keeps the memory of a tensor alive and unchanged until its launch is queued; what comes later on the same
stream may change it.

Memory: two result buffers that grow (344 bytes a row each); for every stream that launches, one table (127 KB) and
scratch for the blocks of one launch (640 bytes a block, 42 MB at most: larger launches are cut in pieces); pinned
tables in a ring of 2 MB, which grows up to 16 MB while the host runs ahead of the device.

Importing this module imports neither torch nor Triton. ``plain_statistics`` does the same work with plain torch
operations, for accelerators that have no Triton.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import BY_CODE
from trueline.errors import MissingFrameworkError, UsageError
from trueline.numerics.cuda_driver import DirectKernel, Program, direct_kernel, driver
from trueline.numerics.fallback import widen
from trueline.numerics.layout import DESCRIPTOR, STATISTICS
from trueline.numerics.plain import plain_statistics

__all__ = ["Fetched", "GroupedReducer", "float8_values", "plain_statistics", "supported"]

SCRATCH_BLOCKS = 65536
"""The most blocks in one launch of the kernels; bounds the scratch."""
FIRST_SCRATCH_BLOCKS = 4096
FIRST_RESULT_ROWS = 4096
RING_STEP = 16
RING_LIMIT = 128
PAIRS_SINCE = (9, 0)
"""The first devices that compute with pairs of 16-bit integers."""
TABLE_CLASSES = (16, 64, 256, 512, 1024)
"""Tables are copied in one of these sizes, so that the views to copy can be made beforehand."""

_COMPONENT_SHIFT = np.array([int(BY_CODE[code].is_complex) for code in sorted(BY_CODE)], np.int64)
"""By dtype code: a complex number counts as two components."""
_LARGEST_INT32 = 2**31 - 1


def supported(device: Any) -> bool:
    """Whether this device can run the grouped kernels: a CUDA, ROCm or XPU device with Triton installed."""
    import importlib.util

    import torch

    kind = torch.device(device).type
    return kind in ("cuda", "xpu") and importlib.util.find_spec("triton") is not None


def float8_values() -> NDArray[np.float32]:
    """The 256 values of each 8-bit float type, in the order of their dtype codes (4 to 8)."""
    bits = np.arange(256, dtype=np.uint8)
    return np.array([widen(bits, BY_CODE[code]) for code in range(4, 9)], np.float32)


class Rows(Protocol):
    """Rows of a table that can write themselves into it."""

    def __len__(self) -> int: ...

    def fill(
        self, first: int, ends: int, table: int, shares: tuple[int, ...], program: int, results: int
    ) -> tuple[int, int, list[int], bool]:
        """Fills a table at these addresses with the rows from ``first`` on, as far as it goes, and sends it to the
        device where a ``Program`` is given. Gives how many rows, how many blocks they have, the positions of those
        whose tensors were changed since they were seen, and whether the table was sent."""


class Fetched:
    """The rows of one step on their way to the host."""

    def __init__(self, host: Any, event: Any) -> None:
        self._host = host
        self._event = event

    def ready(self) -> bool:
        """Whether ``wait`` would return at once."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> NDArray[np.void]:
        """The ``STATISTICS`` rows, by slot; those of slots never launched hold anything. Any thread may wait."""
        if self._event is not None:
            self._event.synchronize()
        rows: NDArray[np.void] = self._host.numpy().view(STATISTICS)
        return rows


class _Kernel:
    """A Triton kernel that is compiled at its first launch; later launches skip Triton's argument handling, and Triton
    itself where the driver can be asked.

    All arguments are integers that Triton does not specialise, so the compiled kernel fits every later launch.
    """

    def __init__(self, function: Any, options: dict[str, int], *, direct: bool) -> None:
        self._function = function
        self._options = options
        self._may_be_direct = direct
        self._compiled: Any = None
        self.direct: DirectKernel | None = None

    def __call__(self, programs: int, stream: int | None, *arguments: int) -> None:
        if self.direct is not None:
            if self.direct(programs, stream, *arguments):
                return
            self.direct = None
        if self._compiled is not None:
            self._compiled[(programs, 1, 1)](*arguments, stream=stream)  # else Triton asks for it, which takes longer
            return
        compiled = self._function[(programs, 1, 1)](*arguments, **self._options)
        # the interpreter returns None, and what is not a compiled kernel is launched the long way every time
        if hasattr(type(compiled), "__getitem__") and hasattr(compiled, "packed_metadata"):
            self._compiled = compiled
            if self._may_be_direct:
                self.direct = direct_kernel(compiled, len(arguments))


class _Slot:
    """One pinned table of the ring. ``generation`` is the step in which it was last used."""

    def __init__(self, memory: Any, header: int) -> None:
        self.address: int = memory.data_ptr()
        self.ends: NDArray[np.int32] = memory[:header].numpy().view(np.int32)
        self.rows: NDArray[np.uint8] = memory[header:].numpy()
        self.ends_address: int = self.ends.ctypes.data
        self.rows_address: int = self.rows.ctypes.data
        self.views = [memory[: header + rows * DESCRIPTOR.itemsize] for rows in TABLE_CLASSES]
        self.generation = -1


class _Lane:
    """What belongs to one stream: the order of the stream protects it from the next launch."""

    def __init__(self, stream: Any, raw: int | None, table: Any, header: int) -> None:
        self.stream = stream
        self.raw = raw
        self.table = table
        self.views = [table[: header + rows * DESCRIPTOR.itemsize] for rows in TABLE_CLASSES]
        self.address: int = table.data_ptr()
        self.scratch: Any = None
        self.scratch_blocks = 0
        self.generation = -1


class _Results:
    """One of the two result buffers. ``ready`` is the event after which it may be written again."""

    def __init__(self) -> None:
        self.memory: Any = None
        self.rows = 0
        self.ready: Any = None


class _Streams:
    """Streams, events and pinned memory of one device; on the CPU, where only Triton's interpreter runs, nothing."""

    def __init__(self, device: Any) -> None:
        import torch

        self.device = device
        self.asynchronous = device.type != "cpu"
        self._module = getattr(torch, device.type) if self.asynchronous else None
        self._ask = getattr(torch._C, f"_{device.type}_getCurrentRawStream", None)
        self._device_now = getattr(torch._C, f"_{device.type}_getDevice", None)

    def current(self) -> Any:
        return self._module.current_stream(self.device) if self._module is not None else None

    def current_raw(self) -> int | None:
        """The address of the current stream; None where there are no streams."""
        if self._module is None:
            return None
        return int(self._ask(self.device.index)) if self._ask is not None else int(self.current().stream_id)

    def event(self, *, blocking: bool = False) -> Any:
        if self._module is None:
            return None
        # a thread that waits for a blocking event sleeps; only CUDA offers the choice
        return self._module.Event(blocking=True) if blocking and self.device.type == "cuda" else self._module.Event()

    def wrong_device(self) -> bool:
        if self._module is None:
            return False
        return bool((self._device_now or self._module.current_device)() != self.device.index)

    def guard(self) -> Any:
        return self._module.device(self.device)  # type: ignore[union-attr]


class GroupedReducer:
    """Reduces batches of tensors on one device; see the module. Calls from several threads take turns."""

    def __init__(self, device: Any) -> None:
        import torch

        try:
            from trueline.numerics import cuda_fold, cuda_kernels
        except ImportError as error:
            raise MissingFrameworkError(
                f"grouped statistics on {device} need Triton, which cannot be imported ({error}); "
                "install triton, or use plain_statistics"
            ) from error
        self._torch = torch
        self._kernels = cuda_kernels
        self.device = torch.device(device)
        if self.device.type != "cpu" and self.device.index is None:
            self.device = torch.device(self.device.type, getattr(torch, self.device.type).current_device())
        self._streams = _Streams(self.device)
        self._header = cuda_kernels.ROWS_PER_TABLE * 4
        options = {"num_warps": 4, "PAIRS": False}
        if self.device.type == "cuda" and torch.version.hip is None:
            options["PAIRS"] = torch.cuda.get_device_capability(self.device) >= PAIRS_SINCE
            # the careful path would take registers away from the straight one, whose speed is in its warps
            options["maxnreg"] = 128
        self._shares = (
            cuda_kernels.ROWS_PER_TABLE,
            SCRATCH_BLOCKS,
            cuda_kernels.BLOCK_ELEMENTS,
            cuda_kernels.BLOCKS_PER_TENSOR,
            cuda_kernels.SPAN_ELEMENTS,
            sum(1 << code for code in BY_CODE if BY_CODE[code].is_complex),
        )
        direct = self.device.type == "cuda" and torch.version.hip is None
        self._driver = driver() if direct else None
        self._reduce = _Kernel(cuda_kernels.reduce_blocks, options, direct=direct)
        self._fold = _Kernel(cuda_fold.fold_blocks, {"num_warps": 8}, direct=direct)
        self._float8 = torch.from_numpy(float8_values()).to(self.device)
        self._program = Program()
        self._programmed: tuple[int, int, int] | None = None
        """What the program was made for: the addresses of table and scratch, and whether digests are wanted."""
        self._lock = threading.Lock()
        self._ring: list[_Slot] = []
        self._next = 0
        self._lanes: dict[int | None, _Lane] = {}
        self._results = (_Results(), _Results())
        self._generation = 0
        self._fetches: deque[tuple[int, Any]] = deque()
        """The steps whose rows were asked for, each with the event after which nothing of it is in use."""
        self._finished = -1
        """The last step of which we know that."""
        self._used = 0
        with self._lock:
            self._extend_ring()
        # the table above was written by the stream that is current now; others may launch first
        if self._streams.asynchronous:
            self._streams.current().synchronize()

    def launch(self, descriptors: NDArray[np.void], slots: int, *, digest: bool = False) -> None:
        """Queues the statistics of the tensors; they become rows ``slots``, ``slots + 1``, … of the next fetch."""
        count = len(descriptors)
        if descriptors.dtype != DESCRIPTOR or slots < 0:
            raise UsageError(f"expected DESCRIPTOR rows and a slot number, got {descriptors.dtype} and {slots}")
        if not count:
            return
        if descriptors["dtype"].max() >= len(_COMPONENT_SHIFT):
            raise UsageError(f"unknown dtype code {descriptors['dtype'].max()} in a descriptor")
        with self._lock:
            if self._streams.wrong_device():
                with self._streams.guard():
                    self._launch(descriptors, slots, int(digest))
            else:
                self._launch(descriptors, slots, int(digest))

    def launch_rows(self, rows: Rows, slots: int, *, digest: bool = False) -> list[int]:
        """As ``launch``, for rows that fill the tables themselves; gives what they say of changed tensors."""
        with self._lock:
            if self._streams.wrong_device():
                with self._streams.guard():
                    return self._launch_rows(rows, slots, int(digest))
            return self._launch_rows(rows, slots, int(digest))

    def fetch(self) -> Fetched:
        """Queues the copy of all rows launched since the last fetch, and starts the next step at slot 0."""
        with self._lock:
            if self._streams.wrong_device():
                with self._streams.guard():
                    return self._fetch()
            return self._fetch()

    def _launch(self, descriptors: NDArray[np.void], slots: int, digest: int) -> None:
        lane = self._enter_lane(slots + len(descriptors))
        ends = np.cumsum(self._block_counts(descriptors))
        first, done, count = 0, 0, len(descriptors)
        if count <= self._kernels.ROWS_PER_TABLE and ends[-1] <= SCRATCH_BLOCKS:
            self._launch_piece(lane, descriptors, ends, int(ends[-1]), slots, digest)
            return
        while first < count:
            last = int(np.searchsorted(ends, done + SCRATCH_BLOCKS, side="right"))
            last = min(max(last, first + 1), first + self._kernels.ROWS_PER_TABLE)
            piece = ends[first:last] - done
            self._launch_piece(lane, descriptors[first:last], piece, int(piece[-1]), slots + first, digest)
            first, done = last, int(ends[last - 1])

    def _launch_rows(self, rows: Rows, slots: int, digest: int) -> list[int]:
        lane = self._enter_lane(slots + len(rows))
        first, changed = 0, []
        results: int = self._results[self._generation & 1].memory.data_ptr()
        program = self._program_for(lane, digest)
        while first < len(rows):
            slot = self._free_slot()
            place = results + (slots + first) * STATISTICS.itemsize
            count, blocks, found, sent = rows.fill(
                first, slot.ends_address, slot.rows_address, self._shares, program, place
            )
            slot.generation = self._generation
            if not sent:
                self._send_table(lane, slot, count, blocks, slots + first, digest)
                program = self._program_for(lane, digest)
            first += count
            changed += found
        return changed

    def _launch_piece(
        self, lane: _Lane, descriptors: NDArray[np.void], ends: NDArray[np.int64], blocks: int, slots: int, digest: int
    ) -> None:
        count = len(descriptors)
        slot = self._free_slot()
        slot.ends[:count] = ends
        slot.ends[count:] = _LARGEST_INT32
        raw = np.ascontiguousarray(descriptors).view(np.uint8)
        slot.rows[: raw.size] = raw
        self._send_table(lane, slot, count, blocks, slots, digest)

    def _send_table(self, lane: _Lane, slot: _Slot, count: int, blocks: int, slots: int, digest: int) -> None:
        """Copies a table to the device and has its tensors read."""
        self._copy_table(lane, slot, count)
        self._programmed = None  # the kernels' arguments are written anew
        if blocks > lane.scratch_blocks:
            self._grow_scratch(lane, blocks)
        scratch = lane.scratch.data_ptr()
        if blocks:
            self._reduce(blocks, lane.raw, lane.address, scratch, self._float8.data_ptr(), digest)
        memory = self._results[self._generation & 1].memory
        self._fold(count, lane.raw, lane.address, scratch, memory.data_ptr() + slots * STATISTICS.itemsize, digest)

    def _program_for(self, lane: _Lane, digest: int) -> int:
        """The address of a Program for this lane; 0 where there is none: before the kernels are compiled."""
        reduce, fold = self._reduce.direct, self._fold.direct
        if self._driver is None or reduce is None or fold is None or lane.scratch is None:
            return 0
        scratch = lane.scratch.data_ptr()
        if self._programmed == (lane.address, scratch, digest):
            return ctypes.addressof(self._program)
        results = fold.address_of(2)
        if results is None:
            return 0
        self._programmed = lane.address, scratch, digest
        reduce.set(lane.address, scratch, self._float8.data_ptr(), digest)
        fold.set(lane.address, scratch, 0, digest)
        self._program = Program(
            self._driver.copy_address,
            self._driver.launch_address,
            lane.raw,
            lane.address,
            self._header,
            reduce.described(),
            fold.described(),
            results,
            lane.scratch_blocks,
        )
        return ctypes.addressof(self._program)

    def _copy_table(self, lane: _Lane, slot: _Slot, count: int) -> None:
        slot.generation = self._generation
        size = self._header + count * DESCRIPTOR.itemsize
        if self._driver is not None and not self._driver.copy(lane.address, slot.address, size, lane.raw):
            return
        place = 0
        while TABLE_CLASSES[place] < count:
            place += 1
        lane.views[place].copy_(slot.views[place], non_blocking=True)

    def _fetch(self) -> Fetched:
        used, self._used = self._used, 0
        if not used:
            return Fetched(self._torch.empty(0, dtype=self._torch.uint8), None)
        lane = self._enter_lane(0)
        self._wait_for_other_lanes(lane)
        results = self._results[self._generation & 1]
        size = used * STATISTICS.itemsize
        host = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=self._streams.asynchronous)
        host.copy_(results.memory[:size], non_blocking=True)
        event = self._streams.event(blocking=True)
        if event is not None:
            event.record(lane.stream)
        results.ready = event
        self._fetches.append((self._generation, event))
        self._generation += 1
        return Fetched(host, event)

    def _block_counts(self, descriptors: NDArray[np.void]) -> NDArray[np.int64]:
        """As ``_block_size`` of the kernels: whole spans, and no more blocks than a tensor may have."""
        kernels = self._kernels
        components = descriptors["numel"] << _COMPONENT_SHIFT[descriptors["dtype"]]
        most = kernels.BLOCKS_PER_TENSOR * kernels.SPAN_ELEMENTS
        if components.max() <= kernels.BLOCKS_PER_TENSOR * kernels.BLOCK_ELEMENTS:
            counts: NDArray[np.int64] = -(-components // kernels.BLOCK_ELEMENTS)
            return counts
        sizes = np.maximum(-(-components // most) * kernels.SPAN_ELEMENTS, kernels.BLOCK_ELEMENTS)
        counts = -(-components // sizes)
        return counts

    def _enter_lane(self, rows: int) -> _Lane:
        """The lane of the current stream, ordered after whatever last touched the result buffer."""
        raw = self._streams.current_raw()
        lane = self._lanes.get(raw)
        if lane is None:
            size = self._header + self._kernels.ROWS_PER_TABLE * DESCRIPTOR.itemsize
            table = self._torch.empty(size, dtype=self._torch.uint8, device=self.device)
            lane = self._lanes[raw] = _Lane(self._streams.current(), raw, table, self._header)
        stream = lane.stream
        results = self._results[self._generation & 1]
        if rows > results.rows:
            self._grow_results(lane, results, rows)
        if lane.generation != self._generation:
            lane.generation = self._generation
            if stream is not None and results.memory is not None:
                results.memory.record_stream(stream)
                if results.ready is not None:
                    stream.wait_event(results.ready)
        self._used = max(self._used, rows)
        return lane

    def _wait_for_other_lanes(self, lane: _Lane) -> None:
        for other in self._lanes.values():
            if other is not lane and other.generation == self._generation:
                event = self._streams.event()
                event.record(other.stream)
                lane.stream.wait_event(event)

    def _grow_results(self, lane: _Lane, results: _Results, rows: int) -> None:
        """Moves the rows of this step into a larger buffer, ordered between what was and will be written."""
        self._wait_for_other_lanes(lane)
        size = max(2 * results.rows, rows, FIRST_RESULT_ROWS)
        memory = self._torch.empty(size * STATISTICS.itemsize, dtype=self._torch.uint8, device=self.device)
        if results.memory is not None:
            memory[: results.memory.numel()].copy_(results.memory)
            if lane.stream is not None:
                results.memory.record_stream(lane.stream)
        results.ready = self._streams.event()
        if results.ready is not None:
            results.ready.record(lane.stream)
        results.memory, results.rows = memory, size
        for other in self._lanes.values():
            other.generation = -1 if other is not lane else other.generation

    def _grow_scratch(self, lane: _Lane, blocks: int) -> None:
        lane.scratch_blocks = min(max(2 * lane.scratch_blocks, blocks, FIRST_SCRATCH_BLOCKS), SCRATCH_BLOCKS)
        size = lane.scratch_blocks * self._kernels.PARTIAL_WORDS
        lane.scratch = self._torch.empty(size, dtype=self._torch.float64, device=self.device)

    def _free_slot(self) -> _Slot:
        """The oldest pinned table. The host waits only if it is ``RING_LIMIT`` launches ahead of the device."""
        slot = self._ring[self._next]
        if slot.generation > self._finished and self._streams.asynchronous and not self._is_over(slot.generation):
            if len(self._ring) < RING_LIMIT:
                self._extend_ring()
                slot = self._ring[self._next]
            else:
                self._wait_until_over(slot.generation)
        self._next = (self._next + 1) % len(self._ring)
        return slot

    def _is_over(self, generation: int) -> bool:
        """Whether the device is done with all that was queued in a step."""
        while self._fetches and self._fetches[0][1].query():
            self._finished = self._fetches.popleft()[0]
        return generation <= self._finished

    def _wait_until_over(self, generation: int) -> None:
        for past, event in self._fetches:
            if past == generation:
                event.synchronize()
                return
        for lane in self._lanes.values():  # so many launches in one step
            lane.stream.synchronize()

    def _extend_ring(self) -> None:
        """Inserts fresh tables before the oldest one."""
        size = self._header + self._kernels.ROWS_PER_TABLE * DESCRIPTOR.itemsize
        shape = (RING_STEP, size)
        memory = self._torch.empty(shape, dtype=self._torch.uint8, pin_memory=self._streams.asynchronous)
        fresh = [_Slot(memory[row], self._header) for row in range(RING_STEP)]
        self._ring[self._next : self._next] = fresh
