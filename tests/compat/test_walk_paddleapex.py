"""Walks through the document of PaddleAPEX, in its order, with its commands."""

from __future__ import annotations

import csv
import json
import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.compat.conftest import Shell
from tests.compat.printed import check_guide, check_languages, document

paddle = pytest.importorskip("paddle")

from trueline.compat.adopting import adopt  # noqa: E402
from trueline.compat.paddleapex.compare import main_direct  # noqa: E402
from trueline.compat.paddleapex.config import VARIABLE, read_config  # noqa: E402
from trueline.compat.paddleapex.replay import main as run_paddle  # noqa: E402
from trueline.compat.paddleapex.timed import main_memory, main_time  # noqa: E402
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
TARGETS = """
  target op:
  -  paddle.add
  -  paddle.mul
  -  paddle.tanh
  -  xxxxx
  -  paddle.distributed.fleet.layers.mpu.mp_ops._c_identity
  -  paddle.xxxx.xxx
  -  paddlenlp.transformers.fusion_ops.xxx
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    adopt("apex", tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """What the user does in an editor."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {text.count(old)} x {old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_demo(project: Path, adopted_shell: Shell) -> None:
    """Steps 1 to 4.3: the configuration is edited where the document says, the demo records two adds, under the names
    of the document."""
    edit(project / "paddleapex/api_tracer/configs/tool_config.yaml", "dump_mode: random", "dump_mode: real_data")
    (project / "demo.py").write_text(DEMO, encoding="utf-8")
    adopted_shell("python demo.py")
    folder = project / "dump_info" / "rank0_step0"
    recorded = json.loads((folder / "forward_rank0.json").read_text(encoding="utf-8"))
    assert list(recorded) == ["paddle.add*0", "paddle.add*1"]
    names = {path.name for path in folder.glob("*.pt")}
    assert names == {"Paddle*add*0.0.pt", "Paddle*add*0.1.pt", "Paddle*add*1.0.pt", "Paddle*add*1.1.pt"}
    assert recorded["paddle.add*1"]["args"][1]["real_data_path"] == "Paddle*add*1.1.pt"


def test_a_training(tmp_path: Path, shell: Shell) -> None:
    """Steps 5 and 20, with tensors, by a configuration of one's own."""
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    shell(f"export {VARIABLE}={config(tmp_path)}; python train.py")
    folder = tmp_path / "dump_info" / "rank0_step20"
    assert (tmp_path / "dump_info" / "rank0_step5").is_dir()
    names = {path.name for path in folder.iterdir()}
    assert {"forward_rank0.json", "forward_rank0_all.json", "forward_rank0_half.json"} <= names
    assert any(name.startswith("Paddle*nn.functional.linear*0.") and name.endswith(".pt") for name in names)
    recorded = json.loads((folder / "forward_rank0.json").read_text(encoding="utf-8"))
    linear = recorded["paddle.nn.functional.linear*1"]
    assert set(linear) == {"args", "kwargs", "dout_list"} and linear["dout_list"] != ["Failed"]


def drawn(shape: list[int], low: float, high: float, *, gradient: bool = True) -> dict[str, object]:
    """A tensor as the Tracer writes it."""
    return {"type": "paddle.Tensor", "dtype": "FLOAT32", "shape": shape, "Max": high, "Max_origin": high, "Min": low,
            "Min_origin": low, "stop_gradient": not gradient}  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A JSON file of the Tracer, without tensors."""
    entries = {
        "paddle.matmul*0": {"args": [drawn([8, 16], -2.0, 2.0), drawn([16, 4], -1.0, 1.0)], "kwargs": {},
                            "dout_list": [drawn([8, 4], -0.1, 0.1)]},
        "paddle.add*0": {"args": [drawn([3, 4], -1.0, 1.0), drawn([3, 4], -1.0, 1.0)], "kwargs": {},
                         "dout_list": ["Failed"]},
        "paddle.add*1": {"args": [drawn([5], -1.0, 1.0), drawn([5], -1.0, 1.0)], "kwargs": {}, "dout_list": ["Failed"]},
    }  # fmt: skip
    path = tmp_path / "forward_rank0.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_step_5_and_6(project: Path, dump: Path, adopted_shell: Shell) -> None:
    """The commands as they are printed, the brackets filled in."""

    def apex(command: str, codes: tuple[int, ...] = (0,)) -> str:
        done = adopted_shell(f"cd paddleapex/apex && {command}", folder=project, codes=codes)
        return done.stdout + done.stderr

    gpu, npu, result = (project / name for name in ("gpu_repo", "npu_repo", "result"))
    command = f"python run_paddle.py -json {dump} -backend cpu -out{gpu} --dtype FP32,FP16,BF16"
    apex(f"{command} -mode all -op paddle.matmul,paddle.add")
    assert {one.name for one in gpu.iterdir()} == {"FP32", "FP16", "BF16", "Warning_list.txt"}
    fp32 = gpu / "FP32"
    assert {"backend_output", "backend_output_backward"} <= {one.name for one in fp32.iterdir()}
    assert (fp32 / "backend_output" / "paddle.matmul*0.0.npy").exists()
    assert (fp32 / "backend_output_backward" / "paddle.matmul*0.0.npy").exists()
    assert "BF16 paddle.add*0: unsupported: no kernel" in (gpu / "Warning_list.txt").read_text(encoding="utf-8")
    shutil.copytree(gpu, npu)  # what another machine would have brought

    said = apex(f"python acc_direct_cmp.py -gpu {gpu} -npu {npu} -o {result}")
    assert "both replays were made on paddle:cpu" in said and "exit code 0: neither finds something wrong" in said
    columns, rows = table(only(result / "FP32", "accuracy_checking_result_*.csv"))
    assert columns == (*RESULT, *OURS)
    assert [row["API name"] for row in rows] == ["paddle.matmul*0", "paddle.add*0", "paddle.add*1"]
    assert {row["Forward Test Success"] for row in rows} == {"pass"} and {row["Verdict"] for row in rows} == {"PASS"}
    columns, rows = table(only(result / "FP32", "accuracy_checking_details_*.csv"))
    assert columns == (*DETAILS, *OURS)
    assert "paddle.matmul*0.backward.output.1" in {row["API Name"] for row in rows}
    _, rows = table(only(result / "BF16", "accuracy_checking_result_*.csv"))
    assert {row["Verdict"] for row in rows} == {"NOT_COMPARED"} and "no kernel" in rows[0]["Reason"]
    assert "no kernel" in (result / "BF16" / "compare_warning.txt").read_text(encoding="utf-8")

    # 2: three replays
    apex(f"python acc_direct_cmp.py -gpu {fp32} -gpu {npu / 'FP32'} -o {project / 'peer'}")
    apex(f"python acc_direct_cmp.py -gpu {fp32} -npu {npu / 'FP32'} -o {project / 'device'}")
    apex(f"python acc_multi_cmp.py -gpu {project / 'peer'} -npu {project / 'device'} -o {project / 'third'}")
    assert table(only(project / "third", "api_precision_compare_result_*.csv"))[0] == (*MULTI_RESULT, *OURS)
    columns, rows = table(only(project / "third", "api_precision_compare_details_*.csv"))
    assert columns == (*MULTI_DETAILS, *OURS) and rows

    # 6: time and memory, of the same replays: -mode all is mem and pro too
    timed = [fp32, npu / "FP32"]
    apex(f"python prof_cmp.py -gpu {timed[0]} -npu {timed[1]} -o {result}", (0, 1))
    columns, rows = table(result / "prof_checking_result.csv")
    assert columns == (*PROF_COLUMNS, *OURS) and float(rows[0]["Device/Bench Time Ratio"]) > 0.0
    apex(f"python mem_cmp.py -bench {timed[0]} -device {timed[1]} -o {result}")
    columns, rows = table(result / "memory_checking_result.csv")
    assert columns == (*MEMORY_COLUMNS, *OURS) and {row["Memory Difference"] for row in rows} == {"0"}
    assert (timed[0] / "profile_analyze.log").read_text(encoding="utf-8").count("\tforward\t") == 3
    assert "matmul*0*FLOAT32.backward:\t" in (timed[0] / "memory_analyze.log").read_text(encoding="utf-8")


def replay(dump: Path, out: Path, *words: str) -> Path:
    assert run_paddle(["-json", str(dump), "-backend", "cpu", "-out", str(out), "-mode", "acc", *words]) == 0
    return out


def compared(bench: Path, device: Path, out: Path, code: int = 0) -> dict[str, dict[str, str]]:
    """The rows of the result, by key."""
    assert main_direct(["-gpu", str(bench), "-npu", str(device), "-o", str(out)]) == code
    _, rows = table(only(out, "accuracy_checking_result_*.csv"))
    return {row["API name"]: row for row in rows}


def as_the_old_tool(replay: Path, out: Path) -> Path:
    """The same outputs as PaddleAPEX's own ``save_tensor`` writes them, by Paddle itself."""
    for mine, theirs in (("backend_output", "output"), ("backend_output_backward", "output_backward")):
        (out / theirs).mkdir(parents=True)
        for key in {path.name.rpartition("*")[0] + "*" + path.name.rpartition("*")[2].partition(".")[0]
                    for path in (replay / mine).iterdir()}:  # fmt: skip
            files = sorted((replay / mine).glob(f"{key.replace('*', '[*]')}.*.npy"))
            tensors = [paddle.to_tensor(np.load(file)) for file in files]
            paddle.save([False, tensors[0] if len(tensors) == 1 else tensors], str(out / theirs / key))
    return out


def test_what_is_compared_is_what_lies_there(tmp_path: Path, dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outputs that were changed, that were removed, and those of the real PaddleAPEX."""
    bench = replay(dump, tmp_path / "bench")
    device = shutil.copytree(bench, tmp_path / "device")
    changed = device / "backend_output" / "paddle.add*1.0.npy"
    values = np.load(changed)
    np.save(changed, values * np.float32(1.5))
    (device / "backend_output" / "paddle.matmul*0.0.npy").unlink()
    rows = compared(bench, device, tmp_path / "changed", 1)
    assert rows["paddle.add*1"]["Forward Test Success"] == "error" and rows["paddle.add*1"]["Verdict"] == "FAIL"
    assert rows["paddle.add*0"]["Forward Test Success"] == "pass"
    assert "the device has no output of it" in rows["paddle.matmul*0"]["Message"]
    assert "exit code 1: the old rule and trueline find something wrong" in capsys.readouterr().out

    theirs = as_the_old_tool(bench, tmp_path / "theirs")
    rows = compared(bench, theirs, tmp_path / "mixed")
    assert {row["Forward Test Success"] for row in rows.values()} == {"pass"} and len(rows) == 3
    assert rows["paddle.matmul*0"]["Backward Test Success"] == "pass"
    paddle.save([False, paddle.to_tensor(values * 2)], str(theirs / "output" / "paddle.add*1"))
    assert compared(theirs, bench, tmp_path / "theirs_wrong", 1)["paddle.add*1"]["Verdict"] == "FAIL"


def test_a_leg_is_what_a_run_in_its_dtype_alone_is(
    tmp_path: Path, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of several dtypes has its own inputs; fed all the same ones on request, which is said."""
    alone = replay(dump, tmp_path / "alone", "--dtype", "FP32")
    legs = replay(dump, tmp_path / "legs", "--dtype", "FP32,BF16")
    assert "every dtype has its own inputs" in capsys.readouterr().err
    rows = compared(alone, legs / "FP32", tmp_path / "result")
    assert {row["Reason"] for row in rows.values()} == {"equal"}
    compared(legs / "FP32", legs / "BF16", tmp_path / "dtypes", 2)
    assert "the inputs of float32 and bfloat16 were rounded each to its own" in capsys.readouterr().err
    same = replay(dump, tmp_path / "same", "--dtype", "FP32,BF16", "--same_inputs")
    assert "those that bfloat16 can hold" in capsys.readouterr().err
    assert compared(alone, same / "FP32", tmp_path / "other", 1)["paddle.matmul*0"]["Verdict"] == "FAIL"


def old_logs(folder: Path, microseconds: float, held: int) -> Path:
    """As PaddleAPEX's own run_paddle writes them."""
    folder.mkdir()
    line = "paddle.add*0.{0}\tdtype\tFLOAT32\tinput shape\t[[2, 3], [2, 3]]\toutput shape\t[2, 3]\t{0}\t{1}\n"
    text = line.format("forward", microseconds) + line.format("backward", -1)
    (folder / "profile_analyze.log").write_text(text, encoding="utf-8")
    (folder / "memory_analyze.log").write_text(f"paddle.add*0*FLOAT32.forward:\t{held}\n", encoding="utf-8")
    return folder


def test_the_logs_of_the_old_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its ratio and its difference; and no verdict, since they have no spread."""
    sides = ["-gpu", str(old_logs(tmp_path / "gpu", 12.5, 24)), "-npu", str(old_logs(tmp_path / "npu", 25.0, 56))]
    for command, file in ((main_time, "prof_checking_result.csv"), (main_memory, "memory_checking_result.csv")):
        assert command([*sides, "-o", str(tmp_path / "result")]) == 2
        assert "trueline's verdict: NOT_COMPARED; exit code 2" in capsys.readouterr().out
        _, (row,) = table(tmp_path / "result" / file)
        assert row["Verdict"] == "NOT_COMPARED" and "no spread" in row["Reason"]
        if command is main_time:
            assert [row[name] for name in PROF_COLUMNS[:5]] == [
                "paddle.add*0.forward", "FLOAT32", "[[2, 3], [2, 3]]", "[[2, 3]]", "forward",
            ]  # fmt: skip
            times = [float(row[name]) for name in PROF_COLUMNS[5:]]
            assert times == pytest.approx([12.5, 25.0, 2.0])
        else:
            assert list(row.values())[:4] == ["paddle.add*0*FLOAT32.forward", "24", "56", "32"]
    for name, column in (("profile_analyze.log", "Time(us)"), ("memory_analyze.log", "Memory Usage (B)")):
        (tmp_path / "npu" / name).write_text("", encoding="utf-8")  # nothing is lost silently
        main = main_time if "profile" in name else main_memory
        main([*sides, "-o", str(tmp_path / "alone")])
        _, (row,) = table(next((tmp_path / "alone").glob(f"{name[:4]}*.csv")))
        assert float(row[f"Bench {column}"]) > 0.0 and row[f"Device {column}"] == "None"
    (tmp_path / "npu" / "profile_analyze.log").write_text("nonsense\n", encoding="utf-8")
    assert main_time([*sides, "-o", str(tmp_path / "result")]) == 2
    assert "profile_analyze.log, line 1: it is no line of PaddleAPEX" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["gpu", "npu"])
def test_a_backend_that_is_not_there_is_an_error(
    tmp_path: Path, dump: Path, backend: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trueline.compat.places.gpus", lambda: 0)
    words = ["-json", str(dump), "-backend", backend, "-out", str(tmp_path / "out"), "-mode", "acc"]
    assert run_paddle(words) == 2
    assert f"-backend {backend}: no " in (said := capsys.readouterr().err) and "--fallback cpu" in said
    assert not (tmp_path / "out").exists()
    assert run_paddle([*words, "--fallback", "cpu"]) == 0
    assert "the APIs run on the CPU, paddle:cpu" in capsys.readouterr().err


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
    """op_target.yaml as the document prints it, with its placeholders, and one function more."""
    (tmp_path / "op_target.yaml").write_text(TARGETS, encoding="utf-8")
    text = CONFIG.format(mode="random", asynchronous=False).replace('"None"', "./op_target.yaml").replace("5, 20", "0")
    (tmp_path / "tool_config.yaml").write_text(text, encoding="utf-8")
    demo = DEMO.replace("y = paddle.add(a,a)\n    apex", "y = paddle.tanh(paddle.exp(y))\n    apex")
    (tmp_path / "demo.py").write_text(demo, encoding="utf-8")
    said = shell("python demo.py", **{VARIABLE: str(tmp_path / "tool_config.yaml")})
    folder = tmp_path / "dump_info" / "rank0_step0"
    recorded = json.loads((folder / "forward_rank0.json").read_text(encoding="utf-8"))
    assert list(recorded) == ["paddle.add*0", "paddle.tanh*0"]
    for name in ("xxxxx", "paddle.xxxx.xxx", "paddlenlp.transformers.fusion_ops.xxx"):
        assert f"trueline does not record {name}: " in said.stderr
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
        (["-json", "{file}", "-op", "paddle.add*7"], "did you mean paddle.add*0?"),
        (["-json", "{file}", "-op", "paddle.relu"], "has no paddle.relu"),
        (["-json", "{file}", "-op", "xyz"], "its keys look like paddle.add*0"),
        (["-json", "{file}", "-real", "missing"], "no folder"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "forward_rank0.json"
    file.write_text('{"paddle.add*0": {"args": [], "kwargs": {}, "dout_list": ["Failed"]}}', encoding="utf-8")
    assert run_paddle([*(word.format(file=file) for word in words), "-backend", "cpu", "-out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_the_guides() -> None:
    check_languages("paddleapex")


def test_nothing_that_the_document_prints_is_forgotten() -> None:
    check_guide("paddleapex", "# PaddleAPEX")


def test_what_is_walked_is_what_is_printed() -> None:
    """The demo and the list of functions of these tests are those of the document."""
    text = document("# PaddleAPEX")
    begin, end = text.index("    import paddle\n"), text.index("apex.stop()\n") + len("apex.stop()\n")
    printed = [line for line in textwrap.dedent(text[begin:end]).splitlines() if line.strip()]
    assert printed == [line for line in DEMO.splitlines() if line.strip()]
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    ours = [line for line in TARGETS.splitlines() if line.strip() and "tanh" not in line]
    assert [line.rstrip() for line in found[1].splitlines()] == ours
