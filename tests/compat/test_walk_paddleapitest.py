"""Walks through the document of PaddleAPITest's engineV2, in its order, with its commands."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.compat.conftest import ROOT, Shell
from tests.compat.printed import check_guide, check_languages, document

pytest.importorskip("paddle")
pytest.importorskip("torch")

from trueline.compat.adopting import adopt
from trueline.compat.paddleapitest.engine import main
from trueline.compat.paddleapitest.log_folder import FILES
from trueline.compat.paddleapitest.retest_remover import main as retest_remover
from trueline.compat.paddleapitest.tol_csv_stat import statistics
from trueline.errors import UsageError
from trueline.report.tolerance_rows import API_COLUMNS, STAT_COLUMNS, TOL_COLUMNS

FIRST = """
paddle.abs(Tensor([2, 3],"float32"), )
paddle.add(Tensor([4, 5],"float32"), Tensor([4, 5],"float32"), )
paddle.topk(Tensor([3, 7],"float64"), 2, )
"""
QUOTED = 'paddle.abs(Tensor([2, 3],""float32""), )'
SECOND = """
paddle.add(Tensor([4, 5],"float32"), Tensor([4, 5],"float32"), )
paddle.matmul(Tensor([3, 4],"float32"), Tensor([4, 5],"float32"), )
paddle.nonsense(Tensor([3],"float32")
"""
LOG = "tester/api_config/test_log_tol"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that has adopted PaddleAPITest, with sets of its own."""
    adopt("apitest", tmp_path)
    configs = tmp_path / "tester" / "api_config" / "5_accuracy"
    (configs / "accuracy_1.txt").write_text(FIRST, encoding="utf-8")
    (configs / "accuracy_2.txt").write_text(SECOND, encoding="utf-8")
    return tmp_path


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def table(path: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    return tuple(reader.fieldnames or ()), rows


DIRECT = (
    'python engineV2.py --api_config_file_pattern="tester/api_config/5_accuracy/accuracy_*.txt" --accuracy=True '
    '--test_tol=True --num_gpus=-1 --num_workers_per_gpu=-1 --log_dir="tester/api_config/test_log_tol" '
    '>> "tester/api_config/test_log_tol/log.log" 2>&1'
)
"""Of section 4."""


def edit(path: Path, old: str, new: str) -> None:
    """What the user does in an editor."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {text.count(old)} x {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_document(project: Path, adopted_shell: Shell) -> None:
    folder = project / LOG
    # 4: the command itself; the folder of its log is there
    adopted_shell(DIRECT)
    everything = {line for text in (FIRST, SECOND) for line in text.split("\n") if line}
    assert sorted(lines(folder / "checkpoint.txt")) == sorted(everything)
    by_status = {status: lines(folder / f"api_config_{status}.txt") for status in FILES}
    assert sorted(line for found in by_status.values() for line in found) == sorted(everything)
    assert len(by_status["pass"]) == 4 and len(by_status["skip"]) == 1
    assert "[Pass] paddle.abs" in (folder / "log_inorder.log").read_text(encoding="utf-8")
    assert "Total cases: 5" in (folder / "log.log").read_text(encoding="utf-8")
    columns, rows = table(folder / "tol.csv")
    assert columns == TOL_COLUMNS
    assert {(row["API"], row["mode"]) for row in rows} >= {("paddle.matmul", "forward"), ("paddle.matmul", "backward")}

    # 4, again: going on where everything was tested tests nothing
    adopted_shell(DIRECT)
    assert "0 to test" in (folder / "log.log").read_text(encoding="utf-8")

    # and testing again what was skipped: TEST_LOG_PATH is changed in the tool, and it is run
    remover = project / "tools" / "retest_remover.py"
    edit(remover, 'TEST_LOG_PATH = "tester/api_config/test_log"', f'TEST_LOG_PATH = "{LOG}"')
    assert "skip: 1 configs" in adopted_shell("python tools/retest_remover.py").stdout
    assert not (folder / "api_config_skip.txt").exists()
    assert len(lines(folder / "checkpoint.txt")) == 4
    edit(remover, 'LOG_PREFIXES = ["skip", ', 'LOG_PREFIXES = ["api_config_pass", "skip", ')
    adopted_shell("python retest_remover.py", folder=project / "tools")  # from its own folder too
    adopted_shell(DIRECT)
    assert len(lines(folder / "checkpoint.txt")) == 5
    assert len(table(folder / "tol.csv")[1]) == 2 * len(rows)

    # 5: statistics, in the same way
    counting = project / "tools" / "tol_csv_stat.py"
    edit(counting, 'TEST_LOG_PATH = "tester/api_config/test_log"', f'TEST_LOG_PATH = "{LOG}"')
    adopted_shell("python tools/tol_csv_stat.py")
    full, twice = table(folder / "tol_full.csv"), len(rows)
    assert full[0] == TOL_COLUMNS and len(full[1]) == twice
    assert table(folder / "tol_stat.csv")[0] == STAT_COLUMNS
    columns, rows = table(folder / "tol_stat_api.csv")
    assert (
        columns == API_COLUMNS and sum(int(row["count"]) for row in rows if row["mode"].startswith("modes:")) == twice
    )


EDITS = (
    ('LOG_DIR="tester/api_config/test_log"', 'LOG_DIR="tester/api_config/test_log_tol"'),
    ("    # --test_tol=True", "    --test_tol=True"),
)
"""What section 3 changes in the copy of the script."""


def ended(folder: Path) -> str:
    """The log of a run in the background, when it has said the last."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        logs = sorted(folder.glob("log_2*.log"))
        text = logs[-1].read_text(encoding="utf-8") if logs else ""
        if "Results: " in text or "0 to test" in text:
            return text
        time.sleep(0.1)
    raise AssertionError(f"it did not end: {text}")


def test_the_script(tmp_path: Path, adopted_shell: Shell) -> None:
    """3: run-example.sh, copied and changed as the document says; run, and run again when nothing is left. What is
    adopted is enough: a few configs come along."""
    adopt("apitest", tmp_path)
    adopted_shell("cp run-example.sh run_tol.sh")
    for old, new in EDITS:
        edit(tmp_path / "run_tol.sh", old, new)
    said = adopted_shell("./run_tol.sh").stdout
    assert "执行中" in said and "进程已在后台运行" in said and "错误" not in said
    text = ended(tmp_path / LOG)
    assert "Failed cases: 0" in text and "Skipped cases: 0" in text
    names = {path.name for path in (tmp_path / LOG).iterdir()}
    assert {"checkpoint.txt", "api_config_pass.txt", "log_inorder.log", "tol.csv"} <= names
    assert "错误" not in adopted_shell("./run_tol.sh").stdout


def test_the_script_as_it_is_printed(project: Path, adopted_shell: Shell) -> None:
    """Pasted from the document, it starts, and starts again when nothing is left to test."""
    found = re.search(r"```bash\n(#!/bin/bash\n.*?)```", document("gpu_accuracy_tolerance"), re.DOTALL)
    assert found is not None
    (project / "run_tol.sh").write_text(found[1], encoding="utf-8")
    for _ in range(2):
        said = adopted_shell("chmod +x run_tol.sh && ./run_tol.sh").stdout
        assert "执行中" in said
        ended(project / LOG)


def test_the_script_of_an_installation(tmp_path: Path, adopted_shell: Shell) -> None:
    """Copied from where the installed names are, in a folder that has adopted nothing."""
    copy = 'cp "$(python -m trueline.compat)/PaddleAPITest/run-example.sh" run_tol.sh'
    adopted_shell(f"{copy} && ./run_tol.sh", codes=(1,))
    (log,) = (tmp_path / "tester/api_config/test_log").glob("log_2*.log")
    assert "engineV2: no file matches" in log.read_text(encoding="utf-8")  # started, with nothing to test


def test_the_guides() -> None:
    check_languages("paddleapitest")


def test_nothing_that_the_document_prints_is_forgotten() -> None:
    check_guide("paddleapitest", "gpu_accuracy_tolerance")


def test_a_kill_loses_nothing(tmp_path: Path) -> None:
    """Killed in the middle and started again: every config is tested, and stands in one file, once."""
    configs = [f'paddle.add(Tensor([{size}, 9],"float32"), Tensor([{size}, 9],"float32"), )' for size in range(2, 62)]
    (tmp_path / "configs.txt").write_text("\n".join(configs), encoding="utf-8")
    folder = tmp_path / "log"
    words = ["--api_config_file=configs.txt", "--accuracy=True", "--test_tol=True", "--test_cpu=True", "--log_dir=log",
             "--num_gpus=1"]  # fmt: skip
    command = [sys.executable, "-m", "trueline.compat", "engineV2", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(lines(folder / "checkpoint.txt")) < 5 and time.monotonic() < until and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    assert running.wait() != 0
    assert 5 <= len(lines(folder / "checkpoint.txt")) < len(configs)
    subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=240)
    assert sorted(lines(folder / "checkpoint.txt")) == sorted(configs)
    assert sorted(lines(folder / "api_config_pass.txt")) == sorted(configs)
    assert {row["config"] for row in table(folder / "tol.csv")[1]} == set(configs)
    assert {row["config"] for row in table(folder / "verdicts.csv")[1]} == set(configs)


def test_the_old_answer_stands_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """stanh of float64 keeps its constants in float32: the old tolerances pass it, trueline does not."""
    config = tmp_path / "configs.txt"
    config.write_text('paddle.stanh(Tensor([32, 8],"float64"), )\n', encoding="utf-8")
    words = [f"--api_config_file={config}", "--accuracy=True", "--test_cpu=True", f"--log_dir={tmp_path / 'log'}"]
    assert main(words) == 1
    assert lines(tmp_path / "log" / "api_config_pass.txt")
    (row,) = table(tmp_path / "log" / "verdicts.csv")[1]
    assert (row["engineV2"], row["Verdict"], row["Ending"]) == ("pass", "FAIL", "mismatch")
    said = capsys.readouterr().out
    assert "[Pass] paddle.stanh" in said
    assert "Exit code 1: by the old rule none of these fails; trueline finds something wrong (verdicts.csv)" in said


@pytest.mark.parametrize("mode", ["paddle_only", "accuracy_stable", "paddle_torch_gpu_performance"])
def test_the_other_modes(tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = 'paddle.abs(Tensor([64, 64],"float32"), )'
    words = [f"--api_config={config}", f"--{mode}=True", "--test_cpu=True", "--use_cached_numpy=False"]
    assert main(words) in (0, 1)
    said = capsys.readouterr().out
    assert "Tested cases: 1" in said and "pass: 1" in said
    if "performance" in mode:
        assert "[Prof] paddle.abs" in said and "paddle/torch" in said


def test_amp(capsys: pytest.CaptureFixture[str]) -> None:
    config = 'paddle.matmul(Tensor([8, 8],"float32"), Tensor([8, 8],"float32"), )'
    main([f"--api_config={config}", "--accuracy=True", "--test_amp=True", "--test_cpu=True"])
    assert "Tested cases: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--accuracy=Ture", "--api_config=x"], "neither True nor False"),
        (["--api_config=paddle.abs()"], "choose one of"),
        (["--accuracy=True", "--paddle_only=True", "--api_config=x"], "2 were asked for"),
        (["--accuracy=True"], "nothing to test"),
        (["--accuracy=True", "--api_config_file=missing.txt"], "no file missing.txt"),
        (["--accuracy=True", "--api_config_file_pattern=missing_*.txt"], "no file matches"),
        (["--accuracy=True", "--api_config=x", "--gpu_ids=a"], "--gpu_ids"),
        (["--accuracy=True", "--api_config=x", "--gpu_ids=0,1", "--num_gpus=3"], "different numbers"),
        (["--accuracy=True", "--api_config=x", "--num_workers_per_gpu=0"], "--num_workers_per_gpu"),
        (["--paddle_only=True", "--test_tol=True", "--api_config=x"], "goes with --accuracy"),
        (["--accuracy=True", "--nonsense=1"], "nonsense"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_folder_of_the_old_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files as PaddleAPITest's own engineV2 leaves them, written to the letter: configs are in
    checkpoint.txt from when they began, a skip is what is in no other file. The tools and our engine go on there."""
    configs = [line for line in FIRST.split("\n") if line]
    for name, content in {
        "checkpoint.txt": configs,
        "api_config_pass.txt": configs[:1],
        "api_config_timeout.txt": configs[1:2],
        "api_config_skip.txt": configs[2:],
        "log_inorder.log": ["2026-11-15 19:29:45.145733 Worker PID: 14571, Assigned GPU ID: 0",
                            f"2026-11-15 19:29:45.147287 GPU 0 14571 test begin: {configs[0]}", f"[Pass] {configs[0]}"],
        "tol.csv": [",".join(TOL_COLUMNS), f'paddle.abs,"{QUOTED}",paddle.float32,forward,0.0,0.0',
                    f'paddle.abs,"{QUOTED}",paddle.float32,backward,1e-07,2e-07'],
    }.items():  # fmt: skip
        (tmp_path / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    assert retest_remover(["--log_prefixes", "timeout,skip"], test_log_path=tmp_path) == 0
    assert lines(tmp_path / "checkpoint.txt") == configs[:1] and not (tmp_path / "api_config_skip.txt").exists()
    assert statistics(tmp_path) == 2
    (tmp_path / "configs.txt").write_text(FIRST, encoding="utf-8")
    words = ["--accuracy=True", "--test_tol=True", "--test_cpu=True", f"--log_dir={tmp_path}"]
    assert main([f"--api_config_file={tmp_path / 'configs.txt'}", *words]) == 0
    assert "3 configs, 1 of them in checkpoint.txt, 2 to test" in capsys.readouterr().out
    assert sorted(lines(tmp_path / "api_config_pass.txt")) == configs
    assert {row["config"] for row in table(tmp_path / "tol.csv")[1]} == set(configs)


def test_statistics_need_a_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no tol\*\.csv"):
        statistics(tmp_path)
    (tmp_path / "tol.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UsageError, match="columns"):
        statistics(tmp_path)
