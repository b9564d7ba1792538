"""Executing without judging: outputs and gradients as a Run that compares like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

import trueline
from trueline.campaign.execute import execute
from trueline.errors import UsageError
from trueline.records import Phase, Verdict

KERNELS = "tests.campaign.kernels"
GELU = "torch.nn.functional.gelu"


def test_two_executions_are_equal_and_a_fault_in_one_is_found(program: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        report = execute(program, target="torch:cpu", out=tmp_path / name, workers=0)
        assert report.returned == report.cases > 10
    assert trueline.compare(tmp_path / "first", tmp_path / "second").verdict is Verdict.PASS
    execute(program, target="torch:cpu", out=tmp_path / "bad", overrides={GELU: f"{KERNELS}:gelu_scaled"}, workers=0)
    with trueline.compare(tmp_path / "first", tmp_path / "bad") as comparison:
        assert comparison.verdict is Verdict.FAIL
        assert comparison.first_divergence is not None
        assert comparison.first_divergence.api == GELU


def test_the_run_holds_inputs_outputs_gradients_and_sources(program: Path, tmp_path: Path) -> None:
    execute(program, target="torch:cpu", out=tmp_path / "run", workers=2)
    with trueline.open_run(tmp_path / "run") as run:
        assert run.info.options["target"] == "torch:cpu"
        calls = list(run.rank(0).trace())
        (forward,) = [call for call in calls if call.api == GELU and call.phase is Phase.FORWARD]
        (backward,) = [call for call in calls if call.api == GELU and call.phase is Phase.BACKWARD]
        assert [record.path for record in forward.tensors] == ["args.0", "out"]
        assert [record.path for record in backward.tensors] == ["out", "args.0"]
        assert backward.forward_id == forward.id
        assert "conftest.py" in forward.source
        assert all(record.stored and record.statistics for call in calls for record in call.tensors)
        bits = run.rank(0).tensor(forward.outputs[0])
        assert bits.shape == (8, 6, 16) and abs(bits).max() > 1
    assert not list((tmp_path / "run").glob(".spool-*"))


def test_a_call_that_dies_is_a_call_that_raised(program: Path, tmp_path: Path) -> None:
    report = execute(
        program, target="torch:cpu", out=tmp_path / "run", overrides={GELU: f"{KERNELS}:segfault"}, workers=1
    )
    assert report.outcomes["crashed"] == 1
    assert report.returned == report.cases - 1
    with trueline.open_run(tmp_path / "run") as run:
        (call,) = [call for call in run.rank(0).trace() if call.raised]
    assert call.api == GELU and "SIGSEGV" in call.raised


def test_a_run_is_not_written_over(program: Path, tmp_path: Path) -> None:
    execute(program, target="torch:cpu", out=tmp_path / "run", workers=0, limit=1)
    with pytest.raises(UsageError, match="exists already"):
        execute(program, target="torch:cpu", out=tmp_path / "run", workers=0, limit=1)
