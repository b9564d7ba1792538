"""Walks through the document of PaddleAPEX, in its order, with its commands."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.compat.conftest import NAMES, Shell

paddle = pytest.importorskip("paddle")

from trueline.compat.paddleapex.compare import main_direct  # noqa: E402
from trueline.compat.paddleapex.config import VARIABLE, read_config  # noqa: E402
from trueline.compat.paddleapex.replay import main as run_paddle  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.report.apex_csv import DETAILS, MULTI_DETAILS, MULTI_RESULT, RESULT  # noqa: E402
from trueline.report.profile_csv import MEMORY_COLUMNS, PROF_COLUMNS  # noqa: E402

OURS = ("Verdict", "Reason")
CONFIG = """
op_target_path: "None"
dump_root_path: ./dump_info
remote_path: ./remote
Async_dump: {asynchronous}
dump_mode: {mode}
profile_mode: True
target_step: [5, 20]     # counted from 0
dump_unique: False
split_dump: True
"""
DEMO = """
import paddle
from paddleapex import Tracer

if __name__ == "__main__":
    a = paddle.randn([2,2])
    b = paddle.randn([2,2])

    apex = Tracer()
    apex.start()
    y = paddle.add(a,a)
    y = paddle.add(a,a)
    apex.stop()
"""
TRAINING = """
import paddle
from paddleapex import Tracer

paddle.seed(1)
model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.GELU(), paddle.nn.Linear(16, 4))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
apex = Tracer()
for step in range(21):
    apex.start()
    loss = paddle.nn.functional.softmax(model(paddle.randn([4, 8]))).max()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    apex.stop()
"""


def table(path: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    return tuple(reader.fieldnames or ()), rows


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def config(folder: Path, mode: str = "real_data", asynchronous: bool = False) -> str:
    path = folder / "tool_config.yaml"
    path.write_text(CONFIG.format(mode=mode, asynchronous=asynchronous), encoding="utf-8")
    return str(path)


def test_the_document(tmp_path: Path, shell: Shell) -> None:
    apex = NAMES / "paddleapex" / "apex"
    # Steps 1 to 4: the demo, with the configuration that comes along
    (tmp_path / "demo.py").write_text(DEMO, encoding="utf-8")
    shell("python demo.py")
    recorded = json.loads((tmp_path / "dump_info/rank0_step0/forward_rank0.json").read_text(encoding="utf-8"))
    assert list(recorded) == ["paddle.add*0"]  # equal calls once: dump_unique

    # A training, steps 5 and 20, with tensors, by a configuration of one's own
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    shell(f"export {VARIABLE}={config(tmp_path)}; python train.py")
    folder = tmp_path / "dump_info" / "rank0_step20"
    assert (tmp_path / "dump_info" / "rank0_step5").is_dir()
    names = {path.name for path in folder.iterdir()}
    assert {"forward_rank0.json", "forward_rank0_all.json", "forward_rank0_half.json"} <= names
    assert any(name.startswith("paddle.nn.functional.linear*0.") and name.endswith(".pt") for name in names)
    recorded = json.loads((folder / "forward_rank0.json").read_text(encoding="utf-8"))
    linear = recorded["paddle.nn.functional.linear*1"]
    assert set(linear) == {"args", "kwargs", "dout_list"} and linear["dout_list"] != ["Failed"]

    # Step 5.1: two replays and their comparison
    dump = folder / "forward_rank0.json"
    words = f"-json {dump} -backend cpu -out {tmp_path / 'gpu_repo'} --dtype FP32,BF16 -mode acc"
    shell(f"python run_paddle.py {words}", folder=apex)
    shutil.copytree(tmp_path / "gpu_repo", tmp_path / "npu_repo")  # what another machine would have brought
    fp32 = tmp_path / "gpu_repo" / "FP32"
    assert {"backend_output", "backend_output_backward", "Warning_list.txt"} <= {one.name for one in fp32.iterdir()}
    assert (fp32 / "backend_output" / "paddle.nn.functional.linear*1.0.npy").exists()
    assert (fp32 / "backend_output_backward" / "paddle.nn.functional.linear*1.0.npy").exists()
    result = tmp_path / "result"
    shell(
        f"python acc_direct_cmp.py -gpu {tmp_path / 'gpu_repo'} -npu {tmp_path / 'npu_repo'} -o {result}", folder=apex
    )
    columns, rows = table(only(result / "FP32", "accuracy_checking_result_*.csv"))
    assert columns == (*RESULT, *OURS)
    assert {row["API name"] for row in rows} == set(recorded)
    assert {row["Forward Test Success"] for row in rows} == {"pass"} and {row["Verdict"] for row in rows} == {"PASS"}
    columns, rows = table(only(result / "FP32", "accuracy_checking_details_*.csv"))
    assert columns == (*DETAILS, *OURS)
    assert "paddle.nn.functional.linear*1.backward.output.0" in {row["API Name"] for row in rows}

    # Step 5.2: three replays
    shell(f"python acc_direct_cmp.py -gpu {fp32} -gpu {tmp_path / 'gpu_repo/BF16'} -o {tmp_path / 'peer'}",
          folder=apex, codes=(0, 1))  # fmt: skip
    shell(f"python acc_direct_cmp.py -gpu {fp32} -npu {tmp_path / 'npu_repo/BF16'} -o {tmp_path / 'device'}",
          folder=apex, codes=(0, 1))  # fmt: skip
    shell(f"python acc_multi_cmp.py -gpu {tmp_path / 'peer'} -npu {tmp_path / 'device'} -o {tmp_path / 'third'}",
          folder=apex, codes=(0, 1))  # fmt: skip
    assert table(only(tmp_path / "third", "api_precision_compare_result_*.csv"))[0] == (*MULTI_RESULT, *OURS)
    columns, rows = table(only(tmp_path / "third", "api_precision_compare_details_*.csv"))
    assert columns == (*MULTI_DETAILS, *OURS) and rows

    # Step 6: time and memory
    timed = [tmp_path / "timed_gpu", tmp_path / "timed_npu"]
    words = f"-json {dump} -backend cpu -out {timed[0]} --dtype FP32 -mode mem,pro -op 'paddle.nn.functional.linear*0'"
    shell(f"python run_paddle.py {words}", folder=apex)
    shutil.copytree(*timed)
    shell(f"python prof_cmp.py -gpu {timed[0]} -npu {timed[1]} -o {result}", folder=apex, codes=(0, 1))
    columns, rows = table(result / "prof_checking_result.csv")
    assert columns == (*PROF_COLUMNS, *OURS) and float(rows[0]["Device/Bench Time Ratio"]) > 0.0
    shell(f"python mem_cmp.py -bench {timed[0]} -device {timed[1]} -o {result}", folder=apex)
    columns, rows = table(result / "memory_checking_result.csv")
    assert columns == (*MEMORY_COLUMNS, *OURS) and {row["Memory Difference"] for row in rows} == {"0"}
    assert (timed[0] / "profile_analyze.log").read_text(encoding="utf-8").count("\tforward\t") == 1
    assert "linear*0*FLOAT32.backward:\t" in (timed[0] / "memory_analyze.log").read_text(encoding="utf-8")


def test_one_operator_and_torch(tmp_path: Path, shell: Shell) -> None:
    """-op runs some calls alone; run_torch runs the calls of Paddle by torch."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    shell(f"export {VARIABLE}={config(tmp_path, asynchronous=True)}; python train.py")
    dump = tmp_path / "dump_info" / "rank0_step5" / "forward_rank0_all.json"
    assert not list(dump.parent.glob("*.pt"))
    real = tmp_path / "remote" / "rank0_step5"
    assert list(real.glob("*.pt"))
    words = f"-json {dump} -real {real} -backend cpu -mode acc -op paddle.nn.functional.gelu*0".split()
    assert run_paddle([*words, "-out", str(tmp_path / "paddle")]) == 0
    assert {path.name for path in (tmp_path / "paddle" / "backend_output").iterdir()} == {
        "paddle.nn.functional.gelu*0.0.npy"
    }
    line = " ".join(f"'{word}'" for word in words)
    shell(f"python -m trueline.compat run_torch {line} -out {tmp_path / 'torch'}")
    assert (
        main_direct(["-bench", str(tmp_path / "torch"), "-device", str(tmp_path / "paddle"), "-o", str(tmp_path)]) == 0
    )


def test_functions_can_be_chosen(tmp_path: Path, shell: Shell) -> None:
    """op_target.yaml, with the key as the document spells it."""
    (tmp_path / "op_target.yaml").write_text("target op:\n-  paddle.add\n-  paddle.tanh\n", encoding="utf-8")
    text = CONFIG.format(mode="random", asynchronous=False).replace('"None"', "./op_target.yaml").replace("5, 20", "0")
    (tmp_path / "tool_config.yaml").write_text(text, encoding="utf-8")
    demo = DEMO.replace("y = paddle.add(a,a)\n    apex", "y = paddle.tanh(paddle.exp(y))\n    apex")
    (tmp_path / "demo.py").write_text(demo, encoding="utf-8")
    shell("python demo.py", **{VARIABLE: str(tmp_path / "tool_config.yaml")})
    folder = tmp_path / "dump_info" / "rank0_step0"
    recorded = json.loads((folder / "forward_rank0.json").read_text(encoding="utf-8"))
    assert list(recorded) == ["paddle.add*0", "paddle.tanh*0"]
    assert not list(folder.glob("*.pt"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dump_mode: nonsense", "random or real_data"),
        ("target_step: [a]", "not a value of target_step"),
        ("Async_dump: maybe", "not a value of Async_dump"),
        ("nonsense: 1", "not a key"),
    ],
)
def test_a_wrong_configuration_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tool_config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        read_config(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-json", "missing.json"], "no file"),
        (["-json", "{file}", "-mode", "fast"], "-mode"),
        (["-json", "{file}", "-dtype", "FP8"], "-dtype"),
        (["-json", "{file}", "-op", "paddle.add*7"], "its keys look like paddle.add"),
        (["-json", "{file}", "-real", "missing"], "no folder"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "forward_rank0.json"
    file.write_text('{"paddle.add*0": {"args": [], "kwargs": {}, "dout_list": ["Failed"]}}', encoding="utf-8")
    assert run_paddle([*(word.format(file=file) for word in words), "-backend", "cpu", "-out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
