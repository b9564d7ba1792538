"""A check of one call of a Run, as the page of a comparison offers it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli.main import main

pytest.importorskip("torch")


def test_one_call_is_checked_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = array(4, 4)
    run = write_run(tmp_path / "run", [Spec("torch.tanh", [x], [np.tanh(x)]), Spec("torch.exp", [x], [np.exp(x)])])
    source = f"{run}::torch.exp.0.forward@step=0,rank=0"
    assert main(["check", source, "--target", "torch:cpu", "--workers", "0"]) == 0
    told = "".join(capsys.readouterr().out.split())  # long words are broken
    assert "1casechecked" in told and source in told


def test_a_file_has_no_calls_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.txt").write_text('torch.exp(Tensor([2], "float32"))\n')
    assert main(["check", f"{tmp_path / 'lines.txt'}::torch.exp.0", "--target", "torch:cpu"]) == 2
    assert "a call can be named of a Run only" in capsys.readouterr().err
