"""One tensor from a file of any of the kinds that dumps have: ``.npy``, torch's ``.pt``, Paddle's ``.pt``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats import archives, npy
from trueline.formats.limits import plain_file, refuse
from trueline.formats.paddle_files import NumpyArray, read_paddle
from trueline.formats.torch_files import Tensor, read_torch

Array = np.ndarray[Any, Any]

_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How files of torch before 1.6 begin."""
_SAME_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""What numpy keeps for a type that it does not know."""


def read_tensor(path: Path, dtype: str = "", shape: tuple[int, ...] | None = None) -> tuple[Array, DType, str]:
    """The bits of the one tensor in a file, in the storage type of its dtype; the dtype; and what is to be said of it.

    ``dtype`` and ``shape`` are what the dump says of it. Tools widen what they cannot save (bfloat16 as float32); where
    nothing is lost by going back, the dump's own dtype is given, else what lies there, with a remark.
    """
    found, kept = _read(path)
    if shape is not None and found.shape != shape:
        if found.size != int(np.prod(shape, dtype=np.int64)):
            refuse(path, f"it has shape {list(found.shape)}, the dump says {list(shape)}")
        found = found.reshape(shape)
    if not dtype or dtype == kept.name:
        return found, kept, ""
    return _as_said(found, kept, DTYPES[dtype])


def _read(path: Path) -> tuple[Array, DType]:
    size = plain_file(path)
    with open(path, "rb") as file:
        start = file.read(16)
        if start.startswith(npy.MAGIC):
            file.seek(0)
            return npy.read_opened(file, path, size)
    if start.startswith(archives.MAGIC):
        value = read_torch(path)
        if not isinstance(value, Tensor):
            refuse(path, f"it holds {type(value).__name__}, not one tensor")
        return value.array(), value.dtype
    if start.startswith(_LEGACY):
        refuse(path, "it is in the form of torch before 1.6", "load it with torch and save it again")
    if start[:1] == b"\x80":
        value = read_paddle(path)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            value = value[1]
        if not isinstance(value, NumpyArray):
            refuse(path, f"it holds {type(value).__name__}, not one tensor")
        return value.array()
    refuse(path, "it is neither a .npy file nor one of torch.save or paddle.save")


def _as_said(found: Array, kept: DType, said: DType) -> tuple[Array, DType, str]:
    if _SAME_BITS.get(said.name) == kept.name:
        return found, said, ""
    narrowed = narrow(found, kept, said)
    if narrowed is None:
        return found, kept, f"saved as {kept.name}, though the dump says {said.name}"
    return narrowed, said, ""


def narrow(found: Array, kept: DType, said: DType) -> Array | None:
    """The same numbers in the type that the dump says; None where that would change any of them."""
    with np.errstate(all="ignore"):
        if said.name == "bfloat16" and kept.name in ("float32", "float64"):
            single = found.astype(np.float32)
            bits = np.ascontiguousarray(single).view(np.uint32)
            exact = not np.any(bits & 0xFFFF) and _equal(single.astype(found.dtype), found)
            return (bits >> np.uint32(16)).astype(np.uint16) if exact else None
        storage = np.dtype(said.storage)
        if said.name in _SAME_BITS or kept.name in _SAME_BITS or said.name == "complex32" or said.code in (6, 7, 8):
            return None
        if kept.is_complex and not said.is_complex:
            return None
        back = found.astype(storage)
        return back if _equal(back.astype(found.dtype), found) else None


def _equal(left: Array, right: Array) -> bool:
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
