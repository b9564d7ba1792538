"""Arrays of exact bits in safetensors files, of any dtype that we know.

Written by hand, the format being a header and the bytes: the library's own writer knows no arrays of bits, and its
interface changed between the versions that we accept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayIn

_ALIGNMENT = 8


def write_arrays(path: Path, arrays: Mapping[str, ArrayIn]) -> None:
    """Writes arrays by name. Types that safetensors does not know are bytes in one more dimension; the file's metadata
    says what they are."""
    header: dict[str, Any] = {}
    foreign: dict[str, str] = {}
    contents: list[bytes] = []
    end = 0
    for name, array in arrays.items():
        kind = dtype_named(array.dtype)
        content = np.ascontiguousarray(array.bits, dtype=np.dtype(kind.storage)).tobytes()
        shape = [*array.bits.shape] if kind.safetensors else [*array.bits.shape, kind.itemsize]
        if kind.safetensors is None:
            foreign[name] = kind.name
        header[name] = {"dtype": kind.safetensors or "U8", "shape": shape, "data_offsets": [end, end + len(content)]}
        contents.append(content)
        end += len(content)
    if foreign:
        header["__metadata__"] = foreign
    text = json.dumps(header).encode()
    text = text.ljust(-(-len(text) // _ALIGNMENT) * _ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(contents)
