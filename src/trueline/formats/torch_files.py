"""Tensors as ``torch.save`` writes them, read and written without torch and without executing anything.

read_torch(path)       whatever the file holds: containers, numbers, and Tensors
write_tensor(path, …)  one tensor, as torch.load reads it (weights only)
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats import archives
from trueline.formats.limits import check_tensor, refuse, shape_of
from trueline.formats.pickles import Builder, load

Array = np.ndarray[Any, Any]

_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}  # fmt: skip
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}
_UNTYPED = "untyped"
_MOST_DATA = 64 << 20
"""Of the part of a file that describes; the numbers lie beside it."""


@dataclass(slots=True)
class Storage:
    """Bytes that tensors are views of. ``dtype`` is None where the tensor says what it is."""

    content: memoryview
    dtype: DType | None


@dataclass(slots=True)
class Tensor:
    """A tensor in a file."""

    storage: Storage
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    path: object

    def array(self) -> Array:
        """Its bits, in the storage type of its dtype, as a view of the file where it lies there contiguously."""
        storage = np.dtype(self.dtype.storage)
        content = self.storage.content
        flat = np.frombuffer(content, storage, len(content) // storage.itemsize)
        if 0 in self.shape:
            return np.empty(self.shape, storage)
        last = self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        if self.offset < 0 or min(self.strides, default=0) < 0 or last >= len(flat):
            refuse(self.path, f"a tensor of shape {list(self.shape)} needs more numbers than are stored")
        check_tensor(self.shape, self.dtype, len(content), self.path)
        strides = [step * storage.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides, writeable=False)


def read_torch(path: Path) -> Any:
    """What a file of ``torch.save`` holds."""
    archive = archives.Archive(path)
    found = [name for name in archive.names if name.endswith("/data.pkl")]
    if len(found) != 1:
        refuse(path, "it is an archive, but not one of torch.save (TorchScript, perhaps)")
    root = found[0][: -len("data.pkl")]
    if f"{root}byteorder" in archive.names and bytes(archive.read(f"{root}byteorder")[:8]) == b"big":
        refuse(path, "its numbers are big-endian", "save them on a little-endian machine")
    description = archive.read(found[0])
    if len(description) > _MOST_DATA:
        refuse(path, f"its description has {len(description):,} bytes")
    storages: dict[str, Storage] = {}

    def storage(reference: Any) -> Storage:
        if not (isinstance(reference, tuple) and len(reference) >= 5 and reference[0] == "storage"):
            refuse(path, "it refers to something that is not a storage")
        kind, key = reference[1], reference[2]
        if not (isinstance(kind, DType) or kind == _UNTYPED) or not isinstance(key, str):
            refuse(path, "it refers to a storage of an unknown type")
        if key not in storages:
            storages[key] = Storage(archive.read(f"{root}data/{key}"), kind if isinstance(kind, DType) else None)
        return storages[key]

    return load(description, _names(path), storage, path)[0]


def _names(path: object) -> dict[str, Any]:
    """What a file of tensors may name."""

    def tensor(storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, *rest: Any) -> Tensor:
        dtype = rest[1] if len(rest) > 1 and isinstance(rest[1], DType) else storage.dtype
        if not isinstance(storage, Storage) or type(offset) is not int or not isinstance(dtype, DType):
            raise TypeError("a tensor without a storage")
        shape, strides = shape_of(size, path), shape_of(stride, path)
        if len(shape) != len(strides):
            raise ValueError("shape and strides differ in length")
        return Tensor(storage, dtype, offset, shape, strides, requires_grad is True, path)

    def parameter(data: Any, requires_grad: Any = True, *_: Any) -> Any:
        if isinstance(data, Tensor):
            data.requires_grad = requires_grad is True
        return data

    def ordered(items: Any = ()) -> dict[Any, Any]:
        return {key: value for key, value in items if isinstance(key, str | int)}

    names: dict[str, Any] = {
        "torch._utils._rebuild_tensor": Builder(tensor),
        "torch._utils._rebuild_tensor_v2": Builder(tensor),
        "torch._utils._rebuild_tensor_v3": Builder(tensor),
        "torch._utils._rebuild_parameter": Builder(parameter),
        "torch._utils._rebuild_parameter_with_state": Builder(parameter),
        "torch.Size": Builder(tuple),
        "torch.device": Builder(lambda *parts: ":".join(str(part) for part in parts)[:64]),
        "collections.OrderedDict": Builder(ordered),
        "torch.storage.UntypedStorage": _UNTYPED,
    }
    names |= {f"torch.{storage}": DTYPES[dtype] for storage, dtype in _STORAGES.items()}
    return names | {f"torch.{name}": dtype for name, dtype in DTYPES.items()}


def write_tensor(path: Path, array: Array, dtype: DType, requires_grad: bool = False) -> None:
    """Writes one tensor, given as storage bits, into a new file that ``torch.load`` reads."""
    content = np.ascontiguousarray(array)
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _put(archive, "data.pkl", _description(array.shape, dtype, requires_grad))
        _put(archive, "byteorder", b"little")
        _put(archive, "data/0", content.reshape(-1).view(np.uint8).data)
        _put(archive, "version", b"3\n")


def _put(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    entry = zipfile.ZipInfo(f"archive/{name}")
    with archive.open(entry, "w", force_zip64=len(content) > 1 << 30) as file:
        file.write(content)


def _description(shape: Sequence[int], dtype: DType, requires_grad: bool) -> bytes:
    """The opcodes of one tensor over storage 0."""
    count = math.prod(shape)
    strides = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    typed = dtype.name in _STORAGE_OF
    kind = b"ctorch\n" + _STORAGE_OF[dtype.name].encode() if typed else b"ctorch.storage\nUntypedStorage"
    size = count if typed else count * dtype.itemsize
    parts = [
        b"\x80\x02ctorch._utils\n", b"_rebuild_tensor_v2\n((" if typed else b"_rebuild_tensor_v3\n((",
        _text("storage"), kind, b"\n", _text("0"), _text("cpu"), _number(size), b"tQK\x00",
        _numbers(shape), _numbers(strides), b"\x88" if requires_grad else b"\x89",
        b"ccollections\nOrderedDict\n)R", b"" if typed else b"ctorch\n" + dtype.name.encode() + b"\n", b"tR.",
    ]  # fmt: skip
    return b"".join(parts)


def _text(text: str) -> bytes:
    content = text.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def _number(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _numbers(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(_number(value) for value in values) + b"t"
