"""The example projects, from one command each: they pass as they are, and the mixed precision that Paddle has not on a
CPU is said not to have taken place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.mutants.projects import judged

from trueline.records import Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def project(name: str, folder: Path) -> Path:
    made = folder / name
    shutil.copytree(EXAMPLES / name, made)
    subprocess.run([sys.executable, "data.py"], cwd=made, check=True, capture_output=True)
    return made


def test_the_paddle_example_passes(tmp_path: Path) -> None:
    pytest.importorskip("paddle")
    said = judged(project("paddle_mobilenet", tmp_path), "train_infer_python.txt")
    assert said.verdict is Verdict.PASS, said.reasons
    assert said.commands == 6  # training, evaluation, export, three batch sizes


def test_the_torch_example_passes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = judged(project("torch_transformer", tmp_path), "train_infer_python.txt")
    assert said.verdict is Verdict.PASS, said.reasons
    assert said.commands == 6


def test_the_torch_example_passes_in_mixed_precision(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = judged(project("torch_transformer", tmp_path), "train_pairs_infer_python.txt")
    assert said.verdict is Verdict.PASS, said.reasons
    assert said.commands == 12


def test_mixed_precision_of_paddle_on_a_cpu_did_not_take_place(tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle")
    if paddle.is_compiled_with_cuda():
        pytest.skip("this is about builds for the CPU")
    said = judged(project("paddle_mobilenet", tmp_path), "train_amp_infer_python.txt")
    assert said.verdict is Verdict.NOT_COMPARED and said.tipc == "6/6 success"
    assert any("O2 did not take place" in reason for reason in said.reasons), said.reasons
