"""TIPC's document on mixed precision, walked through: its folder, its config, its two commands, its lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.test_processes import ROOT
from tests.pipeline.tipc_project import calls, make_project, set_faults, short_config
from trueline.compat.tipc.__main__ import main as install

MODE = "lite_train_lite_infer"
CONFIG = "test_tipc/configs/tiny/train_amp_infer_python.txt"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_tipc" / "configs" / "tiny").mkdir(parents=True)
    assert install(["test_tipc"]) == 0
    amp = short_config().replace("norm_train", "amp_train")
    (tmp_path / CONFIG).write_text(amp.replace("amp_train:train.py", "amp_train:train.py --amp_level=O2"))
    (tmp_path / "prepare.sh").write_text("echo prepared $2 > prepared.txt\n")
    return tmp_path


def bash(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TRUELINE_PYTHON": sys.executable}
    return subprocess.run(["bash", *words], capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_the_document(project: Path) -> None:
    prepared = bash("test_tipc/prepare.sh", CONFIG, MODE)
    assert prepared.returncode == 0, prepared.stderr
    assert (project / "prepared.txt").read_text() == f"prepared {MODE}\n"
    assert calls(project) == []
    answer = bash("test_tipc/test_train_inference_python.sh", CONFIG, MODE)
    assert answer.returncode == 0, answer.stderr
    lines = [line for line in answer.stdout.splitlines() if "Run successfully with command - " in line]
    assert len(lines) == 5
    log = f"./test_tipc/output/tiny/{MODE}"
    folder = f"{log}/amp_train_gpus_-1_autocast_True_nodes_1.log"
    trained = f"train.py --amp_level=O2 --output-dir={folder} --epochs=5 --batch-size=4!"
    assert any(line.rstrip().endswith(trained) for line in lines)
    assert any(
        f"--batch-size=3 --benchmark=True > {log}/python_infer_cpu_batchsize_3.log 2>&1 !" in line for line in lines
    )
    assert (project / log / "results_python.log").read_text().count("Run successfully") == 5


def test_what_tipc_lets_through(project: Path) -> None:
    set_faults(project, train="fail")
    failed = bash("test_tipc/test_train_inference_python.sh", CONFIG, MODE)
    assert failed.returncode == 1 and "Run failed with command - " in failed.stdout
    assert calls(project) == ["train"]
    for words, message in (
        ((CONFIG, "lite_train_lite_inferr"), "no mode"),
        ((CONFIG,), "usage"),
        (("test_tipc/configs/none.txt", MODE), "no config"),
    ):
        answer = bash("test_tipc/prepare.sh", *words)
        assert answer.returncode == 2 and message in answer.stderr


def test_benchmarks_need_their_section(project: Path) -> None:
    answer = bash("test_tipc/benchmark_train.sh", CONFIG, "benchmark_train", "dynamic_bs8_fp32_DP_N1C1")
    assert answer.returncode == 2 and "train_benchmark_params" in answer.stderr


def test_scripts_of_a_project_are_not_written_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(["test_tipc"]) == 2
    assert "--replace" in capsys.readouterr().err
    assert install(["test_tipc", "--replace"]) == 0
    assert install([CONFIG]) == 2
