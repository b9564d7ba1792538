"""``trueline capture --watch``: its options, told apart from those of a capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueline.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--overflow-nums", "2"], "add --watch"),
        (["--exit-after"], "add --watch"),
        (["--watch", "--data", "tensors"], "--data has no meaning for a watch"),
        (["--watch", "--apis", "torch.*"], "--apis has no meaning for a watch"),
        (["--watch", "--overflow-nums", "0"], "overflow_nums takes a whole number from 1"),
        (["--watch", "--rotation", "0"], "rotation takes a whole number from 1"),
        (["--watch", "--hold", "-1"], "hold takes a share"),
    ],
)
def test_options_that_do_not_belong_are_refused_before_anything_runs(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "ran"
    code = main(["capture", "--out", str(tmp_path / "run"), *words, "--", "touch", str(marker)])
    assert code == 2
    assert said in capsys.readouterr().err
    assert not marker.exists()


def test_a_program_without_a_framework_was_not_watched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--watch", "--out", str(tmp_path / "run"), "--", "true"]) == 2
    assert "nothing was watched" in capfd.readouterr().err
