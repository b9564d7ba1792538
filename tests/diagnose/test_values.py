"""The columns of a comparison for its page, and the elements of its tensors on both sides and in float64."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.diagnose.test_compare_runs import compare, program
from tests.helpers.synthetic import Spec, array
from trueline.diagnose import Comparison, compare_runs
from trueline.errors import CorruptRunError


def position_of(report: Comparison, name: str) -> int:
    return next(n for n, pair in enumerate(report.calls) if pair.call.name == name)


def place_of(report: Comparison, position: int, path: str) -> int:
    return next(n for n, tensor in enumerate(report.calls[position].tensors) if tensor.path == path)


def test_columns_say_number_line_and_who_makes_a_call_alone(tmp_path: Path) -> None:
    with compare(tmp_path, program(), program(inserted=True)) as report:
        series, calls = report.series(), list(report.calls)
    assert series["index"].tolist() == [pair.call.index for pair in calls]
    assert series["source"].tolist() == [pair.call.source for pair in calls]
    assert series["module"].tolist() == [pair.call.module for pair in calls]
    alone = [1 if pair.reference is None else 2 if pair.candidate is None else 0 for pair in calls]
    assert series["alone"].tolist() == alone and alone.count(1) == 1
    before = ["" if pair.reference is None else pair.reference.module for pair in calls]
    assert series["reference_module"].tolist() == before


def test_a_call_of_the_reference_alone_brings_its_own_names(tmp_path: Path) -> None:
    with compare(tmp_path, program(inserted=True), program()) as report:
        series = report.series()
    (row,) = np.flatnonzero(series["alone"])
    assert series["alone"][row] == 2 and series["api"][row] == "torch.clone"
    assert series["module"][row] == series["reference_module"][row] == "layers.1" and series["phase"][row] == "forward"


def test_elements_are_those_that_were_kept(tmp_path: Path) -> None:
    with compare(tmp_path, program(), program(fault="layers.1.matmul")) as report:
        position = position_of(report, "torch.matmul.1.forward")
        reference, candidate, dtype = report.elements(position, place_of(report, position, "out"))
        assert reference.shape == candidate.shape == (32, 64) and dtype.name == "float32"
        assert reference.dtype == np.float64 and np.allclose(candidate, reference * 1.002, rtol=1e-6)


def test_why_there_are_no_elements_is_said(tmp_path: Path) -> None:
    with compare(tmp_path, program(), program(), data="stats") as report:
        assert report.elements(0, 0) == "the reference did not keep this tensor: capture with --data tensors"
    one, other = (Spec("torch.relu", [array(4, n)], [array(4, n)], source=("m.py", 1, "f")) for n in (4, 5))
    with compare(tmp_path / "shapes", [one], [other]) as report:
        found = report.elements(0, 0)
        assert isinstance(found, str) and "[4, 4] and [4, 5]" in found


def test_the_gold_is_the_reference_replayed_in_float64(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with compare(tmp_path, program(), program(fault="layers.1.matmul")) as report:
        position = position_of(report, "torch.matmul.1.forward")
        place = place_of(report, position, "out")
        gold = report.gold(position, place)
        reference, candidate, _ = report.elements(position, place)
        given = [report.elements(position, place_of(report, position, f"args.{n}"))[0] for n in (0, 1)]
        assert isinstance(gold, np.ndarray) and np.allclose(gold, given[0] @ given[1], rtol=1e-13, atol=1e-13)
        assert np.abs(gold - reference).max() < 1e-5 < np.abs(gold - candidate).max()
        assert report.gold(position, place_of(report, position, "args.0")) == (
            "it was given to the call: the call did not make it"
        )


def test_what_cannot_be_replayed_has_a_reason_in_place_of_a_gold(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    drawn = [Spec("torch.rand_like", [array(4, 4)], [array(4, 4, seed=5)])]
    with compare(tmp_path, drawn, drawn) as report:
        assert isinstance(report.gold(0, place_of(report, 0, "out")), str)


def test_of_three_runs_the_reference_is_the_gold(tmp_path: Path) -> None:
    with compare(tmp_path, program(), program()):
        pass
    paths: list[Any] = [tmp_path / name for name in ("a", "b", "a")]
    with compare_runs(paths[0], paths[1], baseline=paths[2]) as report:
        assert report.gold(0, 0) == "the reference is the gold of this comparison"


def test_what_two_frameworks_lay_out_differently_is_turned(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    from tests.helpers.twins import paddle_run, torch_run

    with compare_runs(torch_run(tmp_path / "torch"), paddle_run(tmp_path / "paddle"), replay=False) as report:
        turned = [
            (position, place)
            for position, pair in enumerate(report.calls)
            for place, tensor in enumerate(pair.tensors)
            if "axes of the reference in the order" in tensor.reason and "linear" in pair.call.api
        ]
        assert turned
        for position, place in turned[:4]:
            reference, candidate, _ = report.elements(position, place)
            tensor = report.calls[position].tensors[place]
            assert tensor.reference is not None and tensor.candidate is not None
            assert candidate.shape == tensor.candidate.shape and np.allclose(reference, candidate, atol=1e-4)


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_what_is_damaged_is_no_reason_but_an_error(side: str, tmp_path: Path) -> None:
    """Where a tensor is first read to replay a call, too."""
    pytest.importorskip("torch")
    with compare(tmp_path, program(), program(fault="layers.1.matmul")) as report:
        runs = {"reference": report.reference.path, "candidate": report.candidate.path}
    flip(runs[side] / "rank0")
    with pytest.raises(CorruptRunError, match=r"tensors-00000\.safetensors: tensor \d+ in it is not what was recorded"):
        compare_runs(runs["reference"], runs["candidate"]).close()


def flip(rank: Path) -> None:
    """Changes one bit of each tensor that was kept."""
    with closing(sqlite3.connect(rank / "calls.db")) as database:
        kept = database.execute("SELECT file, offset FROM bytes WHERE nbytes > 0").fetchall()
    for file, offset in kept:
        with open(rank / f"tensors-{file:05d}.safetensors", "r+b") as stream:
            stream.seek(offset)
            (first,) = stream.read(1)
            stream.seek(offset)
            stream.write(bytes([first ^ 1]))
