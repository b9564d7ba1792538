"""Measuring pairs of tensors from bytes, digests and sketches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, bfloat16, write_run
from trueline.compare import Measurer
from trueline.compare.measure import NOTES
from trueline.numerics.layout import to_measurement
from trueline.store import open_run


def measure(tmp_path: Path, left: list[Any], right: list[Any], data: str) -> tuple[Any, Any, Any, Measurer]:
    readers, traces = [], []
    for name, values in (("a", left), ("b", right)):
        run = open_run(write_run(tmp_path / name, [Spec("torch.f", [value]) for value in values], data=data))
        readers.append(run.rank(0))
        traces.append(run.rank(0).trace())
    pairs = np.concatenate([traces[0].visits[:, 3:5], traces[1].visits[:, 3:5]], axis=1)
    measurer = Measurer((readers[0], readers[1]), (traces[0], traces[1]), threads=2)
    return *measurer.measure(pairs), measurer


@pytest.mark.parametrize("data", ["tensors", "digest", "stats"])
def test_distance_and_equality(tmp_path: Path, data: str) -> None:
    x = array(64, 64)
    off = (x * (1 + 1e-3 * array(64, 64, seed=2))).astype(np.float32)
    rows, comparisons, exact, measurer = measure(tmp_path, [x, x], [x.copy(), off], data)
    assert rows["equal"].tolist() == [True, False]
    assert rows["distance"][0] == 0.0
    assert rows["distance"][1] == pytest.approx(1e-3, rel=0.35)
    assert (
        rows["estimated"].tolist() == {"tensors": [False, False], "digest": [False, True], "stats": [True, True]}[data]
    )
    assert rows["rms"][1] == pytest.approx(np.sqrt(np.square(x).mean()), rel=1e-5)
    if data == "tensors":
        assert exact.tolist() == [-1, 0]  # the digest shows that the first pair is equal: it is not read
        assert measurer.bytes_read == 2 * x.nbytes
        assert to_measurement(comparisons[0]).normalized == pytest.approx(rows["distance"][1])
    else:
        assert comparisons is None


def test_many_tensors_in_parallel_give_what_one_by_one_gives(tmp_path: Path) -> None:
    left = [array(3000, 1000, seed=n) for n in range(4)]
    right = [one + np.float32(1e-3) for one in left]
    rows, _, _, _ = measure(tmp_path, left, right, "tensors")
    for row, one, other in zip(rows, left, right, strict=True):
        wide = [side.astype(np.float64) for side in (one, other)]
        assert row["distance"] == pytest.approx(np.linalg.norm(wide[0] - wide[1]) / np.linalg.norm(wide[0]), rel=1e-6)


def test_dtypes_may_differ(tmp_path: Path) -> None:
    x = array(128, 64)
    for data in ("tensors", "stats"):
        rows, _, _, _ = measure(tmp_path / data, [x], [bfloat16(x)], data)
        assert rows["distance"][0] == pytest.approx(1.7e-3, rel=0.3)


def test_sizes_and_missing_data_have_notes(tmp_path: Path) -> None:
    rows, _, _, _ = measure(tmp_path / "x", [array(4)], [array(5)], "tensors")
    assert NOTES[int(rows["note"][0])] == "the two have different numbers of elements"
    assert np.isnan(rows["distance"][0])
    rows, _, _, _ = measure(tmp_path / "y", [array(4)], [array(4)], "structure")
    assert NOTES[int(rows["note"][0])] == "neither side has data of this tensor"
    assert not rows["equal"][0]


def test_not_finite_elements_are_counted(tmp_path: Path) -> None:
    x = array(100)
    spoiled = x.copy()
    spoiled[3], spoiled[5] = np.nan, np.inf
    for data in ("tensors", "stats"):
        rows, _, _, _ = measure(tmp_path / data, [x, spoiled], [spoiled, spoiled.copy()], data)
        assert rows["bad_mismatch"].tolist() == [2, 0]
        assert rows["bad_candidate"].tolist() == [2, 2]
        assert rows["equal"].tolist() == [False, True]


def test_empty_and_scalar_tensors(tmp_path: Path) -> None:
    for data in ("tensors", "stats"):
        empty, scalar = np.zeros((0, 3), dtype=np.float32), np.array(2.0, dtype=np.float32)
        rows, _, _, _ = measure(tmp_path / data, [empty, scalar], [empty.copy(), scalar.copy()], data)
        assert rows["equal"].all()
        assert rows["distance"].tolist() == [0.0, 0.0]
