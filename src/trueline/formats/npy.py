"""numpy's ``.npy`` files, read without trusting them and written as numpy does.

The header is a Python literal; it is parsed as one, never evaluated. Arrays of objects are refused, and the size that
the header promises must be the size that the file has. What is read is mapped, so that nothing is copied.
"""

from __future__ import annotations

import ast
import math
import mmap
import struct
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats.limits import MOST_TENSOR_BYTES, plain_file, refuse, shape_of

Array = np.ndarray[Any, Any]

MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16
_KINDS = {"f2": "float16", "f4": "float32", "f8": "float64", "b1": "bool", "c8": "complex64", "c16": "complex128"}
_KINDS |= {f"i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)} | {
    f"u{size}": f"uint{8 * size}" for size in (1, 2, 4, 8)
}


def dtype_of(code: Any, path: object) -> tuple[np.dtype[Any], DType]:
    """numpy's type and ours for a type code like ``<f4``; only plain numbers are known."""
    if not isinstance(code, str) or code[1:] not in _KINDS or code[:1] not in ("<", ">", "|", "="):
        refuse(path, f"its elements are of type {str(code)[:40]!r}, which is not a plain number")
    return np.dtype(code), DTYPES[_KINDS[code[1:]]]


def read_npy(path: Path) -> tuple[Array, DType]:
    """The array in a file, mapped and read only, and its type."""
    size = plain_file(path)
    with open(path, "rb") as file:
        return read_opened(file, path, size)


def read_opened(file: BinaryIO, path: Path, size: int) -> tuple[Array, DType]:
    """The same of a file of a known size that stands at its beginning."""
    start = file.read(12)
    if start[:6] != MAGIC:
        refuse(path, "it is not a .npy file")
    version = start[6] if len(start) > 6 else 0
    if version not in (1, 2, 3):
        refuse(path, f"it is a .npy file of version {version}; versions 1 to 3 are known")
    form, width = ("<H", 2) if version == 1 else ("<I", 4)
    if len(start) < 8 + width:
        refuse(path, "it ends in its header")
    length = struct.unpack(form, start[8 : 8 + width])[0]
    begin = 8 + width
    if length > _MOST_HEADER or begin + length > size:
        refuse(path, "it ends in its header" if length <= _MOST_HEADER else "its header is absurdly long")
    file.seek(begin)
    header = _header(file.read(length), path)
    numpy_type, dtype = dtype_of(header["descr"], path)
    shape = shape_of(header["shape"], path)
    needed = math.prod(shape) * numpy_type.itemsize
    if needed > MOST_TENSOR_BYTES:
        refuse(path, f"an array of shape {list(shape)} would take {needed:,} bytes")
    at = begin + length
    if at + needed != size:
        refuse(path, f"its header promises {needed:,} bytes of numbers and it has {size - at:,}", "was it cut off?")
    return _mapped(file, numpy_type, shape, "F" if header["fortran_order"] is True else "C", at), dtype


def _header(text: bytes, path: Path) -> dict[str, Any]:
    if b"\\" in text:  # an escape may make the parser import what it needs to read it
        refuse(path, "its header cannot be read")
    try:
        found = ast.literal_eval(text.decode("ascii").strip())  # names of fields may be more, but those are refused
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        refuse(path, "its header cannot be read")
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        refuse(path, "its header does not say type, order and shape")
    return found


def _mapped(file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...], order: Literal["C", "F"], at: int) -> Array:
    """What lies in a file from a place on, as it lies there; np.memmap asks the system ten times as much."""
    if not math.prod(shape):
        return np.empty(shape, kind.newbyteorder("<"))
    content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array: Array = np.ndarray(shape, kind, content, at, order=order)
    return array.astype(kind.newbyteorder("<")) if kind.byteorder == ">" else array


def write_npy(path: Path, array: Array) -> None:
    with open(path, "xb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
