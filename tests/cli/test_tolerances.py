"""``trueline tolerances`` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import trueline
from trueline.cli.main import main


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks")
    lines = folder / "lines.txt"
    lines.write_text('paddle.tanh(Tensor([16, 8],"float32"), )\npaddle.abs(Tensor([3],"int32"), )\n')
    trueline.check(lines, target="torch:cpu", out=folder / "kept", workers=0)
    return folder / "kept"


def test_errors_are_told_and_files_are_written(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tolerances", str(kept), "--out", str(tmp_path / "tol"), "--margin", "3"]) == 0
    said = capsys.readouterr().out
    assert "Errors of 3 tensors of 2 cases, 2 APIs" in said
    assert "3 times what was seen" in said
    assert "paddle.tanh" in said and "grad x" in said
    names = {"tolerances.csv", "tolerances.json", "tol.csv", "tol_full.csv", "tol_stat.csv", "tol_stat_api.csv"}
    assert {path.name for path in (tmp_path / "tol").iterdir()} == names


def test_what_is_no_check_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tolerances", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_nothing_measured_is_no_clean_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text('paddle.tanh(Tensor([16, 8],"float32"), )\n')
    trueline.check(lines, target="torch:cpu", mode="target-only", out=tmp_path / "kept", workers=0)
    assert main(["tolerances", str(tmp_path / "kept")]) == 2
    assert "Nothing was measured" in capsys.readouterr().out
