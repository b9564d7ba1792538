"""Launches a compiled Triton kernel, and copies a table, by the CUDA driver itself.

Triton and torch take tens of microseconds for what the driver does in three; a capture does it dozens of times in a
step. Everything is asked of the driver before it is used: a kernel whose parameters are not what is expected, and a
machine without this driver, go the long way.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

THREADS_PER_WARP = 32
MOST_EXTRA = 2
"""Pointers to scratch memory that Triton appends to the parameters of every kernel; ours need none."""


class Driver:
    """The functions of the driver, called without letting go of the interpreter's lock: they return at once."""

    def __init__(self) -> None:
        library = ctypes.PyDLL("libcuda.so.1")
        self.launch = library.cuLaunchKernel
        self.launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
        self.copy = library.cuMemcpyHtoDAsync_v2
        self.copy.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self.copy_address, self.launch_address = (
            ctypes.cast(function, ctypes.c_void_p).value for function in (self.copy, self.launch)
        )
        self._parameter = library.cuFuncGetParamInfo
        size = ctypes.POINTER(ctypes.c_size_t)
        self._parameter.argtypes = [ctypes.c_void_p, ctypes.c_size_t, size, size]

    def parameter_sizes(self, function: int) -> list[int]:
        """The bytes of each parameter of a kernel."""
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        found: list[int] = []
        while self._parameter(function, len(found), ctypes.byref(offset), ctypes.byref(size)) == 0:
            found.append(size.value)
        return found


@cache
def driver() -> Driver | None:
    """The driver of NVIDIA's devices; None where there is none, or one that is too old to be asked."""
    try:
        return Driver()
    except (OSError, AttributeError):
        return None


class Kernel(ctypes.Structure):
    """How one kernel is launched."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("threads", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
    )


class Program(ctypes.Structure):
    """How a table is sent to the device and read there, for C code that does all of it at once."""

    _fields_ = (
        ("copy", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("table", ctypes.c_uint64),
        ("header", ctypes.c_uint64),
        ("reduce", Kernel),
        ("fold", Kernel),
        ("results", ctypes.c_void_p),
        ("blocks", ctypes.c_int64),
    )


class DirectKernel:
    """A compiled kernel that is launched by the driver; all its arguments are integers."""

    def __init__(self, compiled: Any, sizes: list[int], count: int) -> None:
        found = driver()
        assert found is not None, "asked before"
        self._launch = found.launch
        self._function: int = compiled.function
        self._threads = THREADS_PER_WARP * compiled.metadata.num_warps
        self._shared: int = compiled.metadata.shared
        self._cells: list[Any] = [(ctypes.c_uint64 if size == 8 else ctypes.c_uint32)(0) for size in sizes]
        self._arguments = self._cells[:count]
        self._pointers = (ctypes.c_void_p * len(sizes))(*[ctypes.addressof(cell) for cell in self._cells])

    def set(self, *arguments: int) -> None:
        for cell, argument in zip(self._arguments, arguments, strict=True):
            cell.value = argument

    def described(self) -> Kernel:
        """The same for C code; good as long as this object lives."""
        return Kernel(self._function, self._threads, self._shared, ctypes.addressof(self._pointers))

    def address_of(self, argument: int) -> int | None:
        """Where the value of an argument stands, which has 8 bytes; None where it has fewer."""
        cell = self._arguments[argument]
        return ctypes.addressof(cell) if ctypes.sizeof(cell) == 8 else None

    def __call__(self, programs: int, stream: int | None, *arguments: int) -> bool:
        """Queues the kernel; False where the driver refused, and nothing was queued."""
        self.set(*arguments)
        refused = self._launch(
            self._function, programs, 1, 1, self._threads, 1, 1, self._shared, stream, self._pointers, None
        )
        return not refused


def direct_kernel(compiled: Any, count: int) -> DirectKernel | None:
    """How to launch a compiled kernel that takes ``count`` integers; None where it must be launched the long way."""
    metadata = getattr(compiled, "metadata", None)
    if driver() is None or not isinstance(getattr(compiled, "function", None), int) or metadata is None:
        return None
    needs = ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "launch_pdl")
    if getattr(metadata, "num_ctas", 1) != 1 or any(getattr(metadata, name, 0) for name in needs):
        return None
    sizes = driver().parameter_sizes(compiled.function)  # type: ignore[union-attr]
    extra = len(sizes) - count
    if not 0 <= extra <= MOST_EXTRA or any(size not in (4, 8) for size in sizes[:count]) or set(sizes[count:]) - {8}:
        return None
    return DirectKernel(compiled, sizes, count)

