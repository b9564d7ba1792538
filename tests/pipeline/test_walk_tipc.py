"""TIPC's document on mixed precision, walked through: its folder, its config, its commands, its lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.printed import check_guide, check_languages, document
from tests.pipeline.test_processes import ROOT
from tests.pipeline.tipc_project import calls, make_project, set_faults, short_config
from trueline.cli.main import main as trueline
from trueline.compat.adopting import adopt
from trueline.compat.tipc.__main__ import main as install
from trueline.pipeline import pipeline

MODE = "lite_train_lite_infer"
CONFIG = "test_tipc/configs/tiny/train_amp_infer_python.txt"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    adopt("tipc", ".")
    (tmp_path / "test_tipc" / "configs" / "tiny").mkdir()
    amp = short_config().replace("norm_train", "amp_train")
    (tmp_path / CONFIG).write_text(amp.replace("amp_train:train.py", "amp_train:train.py --amp_level=O2"))
    (tmp_path / "prepare.sh").write_text("echo prepared $2 > prepared.txt\n")
    return tmp_path


def bash(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TRUELINE_PYTHON": sys.executable, **variables}
    return subprocess.run(["bash", *words], capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_the_document(project: Path) -> None:
    prepared = bash("test_tipc/prepare.sh", CONFIG, MODE)
    assert prepared.returncode == 0, prepared.stderr
    assert (project / "prepared.txt").read_text() == f"prepared {MODE}\n"
    assert calls(project) == []
    answer = bash("test_tipc/test_train_inference_python.sh", CONFIG, MODE)
    assert answer.returncode == 0, answer.stderr
    lines = [
        " ".join(line.split()) for line in answer.stdout.splitlines() if "Run successfully with command - " in line
    ]
    assert len(lines) == 5
    log = f"./log/tiny/{MODE}"  # and no name of the model in the lines: as the document prints them
    head = f"Run successfully with command - {sys.executable}"
    assert lines[0] == f"{head} train.py --amp_level=O2 --output-dir={log}/amp_train_gpus_-1 --epochs=5 --batch-size=4!"
    assert lines[-1] == (
        f"{head} infer.py --use-gpu=False --model-dir={log}/amp_train_gpus_-1 --batch-size=3 --benchmark=True > "
        f"{log}/python_infer_cpu_batchsize_3.log 2>&1 !"
    )
    assert (project / log / "amp_train_gpus_-1" / "latest.pt").is_file()
    assert "this is infer" in (project / log / "python_infer_cpu_batchsize_3.log").read_text()
    assert (project / log / "results_python.log").read_text().count("Run successfully") == 5


def test_the_folder_of_the_document(project: Path) -> None:
    """Its last section: what the repository holds in the end."""
    for name in (
        "configs/model_name/train_infer_python.txt", "configs/model_name/train_amp_infer_python.txt",
        "docs/test_train_inference_python.md", "docs/test_train_amp_inference_python.md", "README.md", "prepare.sh",
        "test_train_inference_python.sh", "common_func.sh",
    ):  # fmt: skip
        assert (project / "test_tipc" / name).is_file(), name


def test_the_templates_hold_what_the_document_says(project: Path) -> None:
    """Lines 13 and 14 of the config; the commands of the page are those of the document."""
    folder = project / "test_tipc" / "configs" / "model_name"
    lines = (folder / "train_amp_infer_python.txt").read_text().splitlines()
    assert lines[12:14] == ["trainer:amp_train", "amp_train:train.py --amp_level=O2"]
    for config in ("train_infer_python.txt", "train_amp_infer_python.txt"):
        pipeline(folder / config, MODE, plan=True)
    page = (project / "test_tipc" / "docs" / "test_train_amp_inference_python.md").read_text(encoding="utf-8")
    for script in ("prepare.sh", "test_train_inference_python.sh"):
        assert f"bash test_tipc/{script} test_tipc/configs/model_name/train_amp_infer_python.txt {MODE}" in page


def test_o1_and_several_cards_as_printed(project: Path) -> None:
    """The lines of the document are those of cards 0 and 0,1 and of an interpreter python3.7."""
    text = short_config(python="python3.7", gpu_list="0|0,1").replace(
        "norm_train:train.py", "norm_train:train.py --amp_level=O1"
    )
    (project / CONFIG).write_text(text)
    found = [command.text for command in pipeline(CONFIG, MODE, plan=True, layout="log").plan.commands]
    log = f"./log/tiny/{MODE}"
    assert (
        found[0] == f"python3.7 train.py --amp_level=O1 --output-dir={log}/norm_train_gpus_0 --epochs=5 --batch-size=4"
    )
    assert any(f"infer.py --use-gpu=False --model-dir={log}/norm_train_gpus_0,1 --batch-size=1" in one for one in found)


def test_an_interpreter_that_is_not_there(project: Path) -> None:
    """A config says python3.7, as the document does: what is wrong is said before anything is run, with a way out."""
    (project / CONFIG).write_text(short_config(python="python3.7-missing"))
    answer = bash("test_tipc/test_train_inference_python.sh", CONFIG, MODE)
    assert answer.returncode == 2 and calls(project) == []
    assert "its interpreter 'python3.7-missing' does not run here" in answer.stderr
    assert "TRUELINE_PIPELINE_OPTIONS='--python" in answer.stderr
    options = f"--python {sys.executable}"
    answer = bash("test_tipc/test_train_inference_python.sh", CONFIG, MODE, TRUELINE_PIPELINE_OPTIONS=options)
    assert answer.returncode == 0 and len(calls(project)) == 5


OWN = """#!/bin/bash
source test_tipc/common_func.sh
FILENAME=$1
MODE=$2
dataline=$(cat ${FILENAME})
IFS=$'\\n'
lines=(${dataline})
model_name=$(func_parser_value "${lines[1]}")
if [ ${MODE} = "lite_train_lite_infer" ];then
    echo "data of ${model_name} below $(dirname $0)" > own.txt
fi
"""


@pytest.mark.parametrize("command", [["adopt", "tipc"], ["compat"]])
def test_the_preparation_of_a_project_is_kept_and_runs(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository that has TIPC: its prepare.sh is kept, prepares the data as ever, and comes back."""
    monkeypatch.chdir(tmp_path)
    config = make_project(tmp_path)
    (tmp_path / "test_tipc").mkdir()
    (tmp_path / "test_tipc" / "prepare.sh").write_text(OWN)
    if command == ["compat"]:
        assert install(["test_tipc"]) == 2  # it says so
        assert install(["test_tipc", "--replace"]) == 0
    else:
        assert trueline(command) == 0
    assert (tmp_path / "test_tipc" / "prepare.before-trueline.sh").read_text() == OWN
    answer = bash("test_tipc/prepare.sh", str(config), MODE)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "own.txt").read_text() == "data of tiny below test_tipc\n"
    if command != ["compat"]:
        assert trueline([*command, "--remove"]) == 0
        assert (tmp_path / "test_tipc" / "prepare.sh").read_text() == OWN


def test_a_preparation_that_calls_back_ends(project: Path) -> None:
    (project / "prepare.sh").write_text('bash test_tipc/prepare.sh "$@"\n')
    answer = bash("test_tipc/prepare.sh", CONFIG, MODE)
    assert answer.returncode == 2 and "which calls it" in answer.stderr


def test_an_interpreter_without_trueline_is_said(project: Path) -> None:
    (project / "bare").write_text("#!/bin/sh\nexit 1\n")
    (project / "bare").chmod(0o755)
    for script in ("prepare.sh", "test_train_inference_python.sh", "benchmark_train.sh"):
        answer = bash(f"test_tipc/{script}", CONFIG, MODE, TRUELINE_PYTHON="./bare")
        assert (
            answer.returncode == 2
            and "./bare has no trueline: install it there, or set TRUELINE_PYTHON" in answer.stderr
        )


def test_the_shared_functions(project: Path) -> None:
    """Those that a prepare.sh written for TIPC takes from common_func.sh."""
    script = """
    source test_tipc/common_func.sh
    func_parser_key "--epochs:lite_train_lite_infer=5|whole_train_whole_infer=90"
    func_parser_value "model_name:tiny"
    func_parser_value "url:http://host:80/x"
    func_parser_params "--epochs:lite_train_lite_infer=5|whole_train_whole_infer=90" whole_train_whole_infer
    func_parser_value_lite "key|value|more" "|"
    func_set_params --pretrained null
    func_set_params null x
    func_set_params --batch-size 4
    status_check 0 "python3 train.py" log.txt
    status_check 1 "python3 train.py" log.txt tiny
    """
    said = bash("-c", script)
    lines = said.stdout.splitlines()
    assert lines[:5] == ["--epochs", "tiny", "http://host:80/x", "90", "value"]
    assert [line.strip() for line in lines[5:8]] == ["", "", "--batch-size=4"]
    assert " Run successfully with command - python3 train.py!  " in lines[8]
    assert " Run failed with command - tiny - python3 train.py!  " in lines[9]
    assert (project / "log.txt").read_text().splitlines() == lines[8:]


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


def test_the_guides() -> None:
    check_languages("tipc")


def test_nothing_that_the_document_prints_is_forgotten() -> None:
    check_guide("tipc", "混合精度训练推理测试开发文档")


def test_every_file_of_the_printed_folder_is_there(project: Path) -> None:
    text = document("混合精度训练推理测试开发文档")
    tree = text[text.index("test_tipc\n    |--configs") :]
    printed = set(re.findall(r"\|-+(\w+\.(?:sh|md|txt))", tree[: tree.index("```")]))
    assert len(printed) >= 7
    assert printed <= {path.name for path in (project / "test_tipc").rglob("*") if path.is_file()}


def test_the_printed_lines_are_those_of_the_plan(project: Path) -> None:
    """With the config of the document: the second of its success lines, whole, and the first but for the slip in it."""
    text = document("混合精度训练推理测试开发文档")
    found = re.findall(r"Run successfully with command - (.+?)!$", text, re.MULTILINE)
    lines = [" ".join(one.split()) for one in found]
    lines[0] = lines[0].replace("python3.7 --amp_level=O1 train.py", "python3.7 train.py --amp_level=O1")  # their slip
    folder = project / "test_tipc" / "configs" / "model_name"
    config = (folder / "train_infer_python.txt").read_text(encoding="utf-8").replace("model_name", "mobilenet_v3_small")
    config = config.replace("python:python3", "python:python3.7").replace("train.py\n", "train.py --amp_level=O1\n", 1)
    (project / CONFIG).write_text(config.replace("mobilenet_v3_small:", "model_name:"), encoding="utf-8")
    planned = pipeline(CONFIG, MODE, plan=True, layout="log").plan.commands
    assert set(lines) <= {" ".join(command.text.split()) for command in planned}
