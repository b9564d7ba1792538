"""Tensor bytes in ``.npy`` files, one for each tensor: for Runs that live as long as it takes to make a dump of them,
or to compare two dumps.

What a dump names is then a link to the file that the capture wrote, and what is read of a dump a link to its file, so
that nothing is written twice. A Run that is kept has its tensors in safetensors files (``segments``); to whoever reads
one, both are files in which bytes lie at a place.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

from trueline.dtypes import DTYPES
from trueline.store.segments import segment_name


class ArrayFiles:
    """Writes tensors as numbered files in one folder; what ``SegmentWriter`` is to a Run that is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self.bytes_written = 0

    def append(
        self, tensor: int, dtype: str, shape: tuple[int, ...], content: memoryview, file: Path | None = None
    ) -> tuple[int, int, int]:
        """Stores one tensor, by a link where it is the end of a ``file``; gives (file number, offset, bytes)."""
        self._number += 1
        path = self._folder / segment_name(self._number)
        if file is not None and _linked(file, path):
            return self._number, file.stat().st_size - content.nbytes, content.nbytes
        head = _head(np.dtype(DTYPES[dtype].storage), shape)
        with open(path, "xb") as stream:
            stream.write(head)
            stream.write(content)
        self.bytes_written += content.nbytes
        return self._number, len(head), content.nbytes

    def close(self) -> None:
        """Every file is whole already."""


def _linked(file: Path, path: Path) -> bool:
    try:
        os.link(file, path)
    except OSError:  # another file system, or one without links
        return False
    return True


def _head(kind: np.dtype[np.void], shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()
