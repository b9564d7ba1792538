"""Tensors as ``paddle.save`` writes them, read and written without Paddle and without executing anything.

Paddle writes a tensor as a pair of its name and a numpy array; bfloat16 as the bits in an array of uint16.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DType
from trueline.formats.limits import MOST_TENSOR_BYTES, read_bytes, refuse, shape_of
from trueline.formats.npy import dtype_of
from trueline.formats.pickles import Builder, Stateful, load

Array = np.ndarray[Any, Any]

_CODES = {
    "float16": "f2", "float32": "f4", "float64": "f8", "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4",
    "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "complex64": "c8",
    "complex128": "c16", "bfloat16": "u2", "float8_e4m3fn": "u1", "float8_e5m2": "u1",
}  # fmt: skip


class _Type(Stateful):
    def __init__(self, code: Any, path: object) -> None:
        self.code = code if isinstance(code, str) else "?"
        self.order = "<"
        self.path = path

    def set_state(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.order = state[1]

    def resolved(self) -> tuple[np.dtype[Any], DType]:
        return dtype_of(self.code if self.code[:1] in "<>|=" else self.order + self.code, self.path)


class NumpyArray(Stateful):
    """A numpy array in a file."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._shape: tuple[int, ...] = ()
        self._type: _Type | None = None
        self._fortran = False
        self._content: Any = b""

    def set_state(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 4:
            raise TypeError("an array without a state")
        _, shape, kind, fortran, content = state if len(state) == 5 else (1, *state)
        if not isinstance(kind, _Type) or not isinstance(content, bytes | memoryview | str):
            refuse(self._path, "it holds an array that is not one of numbers")
        self._shape, self._type, self._fortran = shape_of(shape, self._path), kind, fortran is True
        self._content = content.encode("latin-1") if isinstance(content, str) else content

    def array(self) -> tuple[Array, DType]:
        """Its numbers and their type."""
        if self._type is None:
            refuse(self._path, "it holds an array without content")
        numpy_type, dtype = self._type.resolved()
        if math.prod(self._shape) * numpy_type.itemsize != len(self._content):
            refuse(self._path, f"an array of shape {list(self._shape)} does not fit its {len(self._content):,} bytes")
        found = np.frombuffer(self._content, numpy_type).reshape(self._shape, order="F" if self._fortran else "C")
        return found.astype(numpy_type.newbyteorder("<"), copy=False), dtype


def read_paddle(path: Path) -> Any:
    """What a file of ``paddle.save`` holds: containers, numbers, NumpyArrays; a tensor is (name, NumpyArray)."""
    return load(read_bytes(path, MOST_TENSOR_BYTES), _names(path), None, path)[0]


def _names(path: object) -> dict[str, Any]:
    def encode(text: Any, how: Any = "latin1") -> bytes:
        if how not in ("latin1", "latin-1") or not isinstance(text, str):
            raise TypeError("an encoding that is not one of bytes")
        return text.encode("latin-1")

    def looked_up(text: Any, scope: Any) -> Any:
        # Paddle writes a DenseTensor as a look-up of 'data' in a table that it gives along: this is that, alone.
        if text != "data" or not isinstance(scope, dict) or set(scope) != {"data"}:
            refuse(path, "it asks to evaluate an expression", "nothing was executed")
        return scope["data"]

    def from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> NumpyArray:
        made = NumpyArray(path)
        made.set_state((1, shape, kind, order == "F", content))
        return made

    def items(values: Any = ()) -> tuple[Any, ...]:
        if not isinstance(values, tuple | list):
            raise TypeError("a tuple of what is no list")
        return tuple(values)

    names: dict[str, Any] = {
        "_codecs.encode": Builder(encode),
        "collections.OrderedDict": Builder(lambda: {}),
        "numpy.ndarray": "ndarray",
        "numpy.dtype": Builder(lambda code, *_: _Type(code, path)),
    }
    for home in ("builtins", "__builtin__"):
        names |= {f"{home}.tuple": Builder(items), f"{home}.eval": Builder(looked_up)}
    for home in ("numpy.core", "numpy._core"):
        names[f"{home}.multiarray._reconstruct"] = Builder(lambda *_: NumpyArray(path))
        names[f"{home}.numeric._frombuffer"] = Builder(from_buffer)
    return names


def can_write(dtype: str) -> bool:
    """Whether Paddle's files know a dtype."""
    return dtype in _CODES


def write_tensor(path: Path, name: str, array: Array, dtype: DType) -> None:
    """Writes one tensor, given as storage bits, into a new file that ``paddle.load`` reads."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    shape = b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", size) for size in array.shape) + b"t"
    kind = (
        b"cnumpy\ndtype\n"
        + _text(_CODES[dtype.name])
        + b"\x89\x88\x87R(K\x03"
        + _text("<" if dtype.itemsize > 1 else "|")
    )
    head = b"\x80\x04cbuiltins\ntuple\n" + _text(name) + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    head += b"K\x00\x85C\x01b\x87R(K\x01" + shape + kind + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    with open(path, "xb") as file:
        file.write(head + b"\x8e" + struct.pack("<Q", content.nbytes))
        file.write(content.data)
        file.write(b"tb\x86\x85R.")


def _text(text: str) -> bytes:
    content = text.encode()
    return b"X" + struct.pack("<I", len(content)) + content
