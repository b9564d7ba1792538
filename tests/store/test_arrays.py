"""Runs whose tensors lie in .npy files of their own, for dumps that are made by links."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from trueline.store.arrays import ArrayFiles
from trueline.store.segments import segment_name


def test_each_tensor_is_a_npy_file(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    number, offset, size = ArrayFiles(tmp_path).append(7, "float32", (2, 3), memoryview(array.tobytes()))
    path = tmp_path / segment_name(number)
    assert np.array_equal(np.load(path), array) and size == array.nbytes
    assert path.read_bytes()[offset:] == array.tobytes()


def test_what_is_a_file_already_is_linked(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32)
    np.save(tmp_path / "given.npy", array)
    (tmp_path / "run").mkdir()
    files = ArrayFiles(tmp_path / "run")
    number, offset, _ = files.append(0, "float32", (6,), memoryview(array.tobytes()), tmp_path / "given.npy")
    path = tmp_path / "run" / segment_name(number)
    assert os.path.samefile(path, tmp_path / "given.npy") and files.bytes_written == 0
    assert path.read_bytes()[offset:] == array.tobytes()


def test_where_there_are_no_links_bytes_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*paths: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    array = np.arange(4, dtype=np.float16)
    np.save(tmp_path / "given.npy", array)
    files = ArrayFiles(tmp_path)
    number, offset, _ = files.append(0, "float16", (4,), memoryview(array.tobytes()), tmp_path / "given.npy")
    assert (tmp_path / segment_name(number)).read_bytes()[offset:] == array.tobytes() and files.bytes_written == 8
