"""Dumps as ptdbg_ascend and the api_accuracy_checker themselves write them, read by their doors.

``msprobe_26_2.zip`` was made by the program in it, with mindstudio-probe 26.2.0. The two predecessors do not run on
today's torch: their lines are written to the letter of what they wrote: four numbers and the outermost
frame last in ptdbg's pkl, its version in the folder, tuples of gradients; keys with an underscore, settings as
``{"type", "value"}`` in the checker's older JSON, with a star in the newer.
"""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from trueline.compat.api_accuracy_checker.run_ut import main as run_ut
from trueline.compat.ptdbg_ascend import compare, compare_distributed, parse

STACK = [["/path/linear.py", "134", "forward", "return F.linear(input, self.weight, self.bias)"],
         ["/path/train.py", "20", "<module>", "train()"]]  # fmt: skip


def ptdbg_dump(folder: Path, scale: float) -> None:
    """One rank of a dump of ptdbg 3.0."""
    random = np.random.default_rng(0)
    given, weight = random.normal(size=(8, 16)).astype(np.float32), random.normal(size=(4, 16)).astype(np.float32)
    made = (given @ weight.T * scale).astype(np.float32)
    arrived = np.ones((8, 4), np.float32)
    data = folder / "dump"
    data.mkdir(parents=True)
    with open(folder / "dump.pkl", "w", encoding="utf-8") as file:
        for name, array in (
            ("Functional_linear_0_forward_input.0", given), ("Functional_linear_0_forward_input.1", weight),
            ("Functional_linear_0_forward_output", made), ("Functional_linear_0_backward_input.0", arrived),
            ("Functional_linear_0_backward_output.0", arrived @ weight),
        ):  # fmt: skip
            numbers = [float(array.max()), float(array.min()), float(array.mean()), float(np.linalg.norm(array))]
            file.write(json.dumps([name, 0, [], "torch.float32", list(array.shape), numbers]) + "\n")
            np.save(data / f"{name}.npy", array)
            if name.endswith("forward_output"):
                file.write(json.dumps(["Functional_linear_0_forward_stack_info", STACK]) + "\n")


def test_a_dump_of_ptdbg_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, scale in (("npu", 1.01), ("gpu", 1.0)):
        ptdbg_dump(tmp_path / side / "ptdbg_dump_v3.0" / "rank0", scale)
    (tmp_path / "output").mkdir()
    folders = [str(tmp_path / side / "ptdbg_dump_v3.0") for side in ("npu", "gpu")]
    (table,) = compare_distributed(*folders, str(tmp_path / "output"), stack_mode=True)
    with open(table, encoding="utf-8", newline="") as stream:
        rows = {row["NPU Name"]: row for row in csv.DictReader(stream)}
    assert rows["Functional_linear_0_forward_output"]["Verdict"] == "FAIL"
    assert {rows[f"Functional_linear_0_backward_{what}.0"]["Verdict"] for what in ("input", "output")} == {"PASS"}
    assert "/path/train.py:20" in rows["Functional_linear_0_forward_output"]["NPU_Stack_Info"]
    capsys.readouterr()
    parse(str(tmp_path / "npu" / "ptdbg_dump_v3.0" / "rank0" / "dump.pkl"), "Functional_linear_0_forward")
    said = capsys.readouterr().out
    assert said.index("/path/train.py") < said.index("/path/linear.py")
    assert "    return F.linear(input, self.weight, self.bias)\n" in said


def test_dumps_of_msprobe_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ptdbg's successor: the same comparison, of a ``dump.json``; the planted product is named."""
    with zipfile.ZipFile(Path(__file__).with_name("msprobe_26_2.zip")) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "output").mkdir()
    files = {name: next((tmp_path / name / "step0").glob("proc*/dump.json")) for name in ("npu", "bench")}
    given = {f"{name}_pkl_path": str(file) for name, file in files.items()}
    table = compare({**given, "is_print_compare_log": False}, str(tmp_path / "output"))
    with open(table, encoding="utf-8", newline="") as stream:
        rows = {row["NPU Name"]: row for row in csv.DictReader(stream)}
    failed = [name for name, row in rows.items() if row["Verdict"] == "FAIL"]
    assert failed[0] == "Tensor___mul___0_forward_output" and rows[failed[0]]["Reason"]
    assert rows["Functional_linear_0_forward_output"]["Verdict"] == "PASS"
    said = capsys.readouterr().out
    assert "torch.Tensor.__mul__.0.forward went wrong first" in said and "args.1: 1.0 -> 1.01" in said


def checker_json(between: str) -> dict[str, Any]:
    def tensor(shape: list[int], **more: Any) -> dict[str, Any]:
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "Max": 3.029, "Min": -2.359,
                "requires_grad": False, **more}  # fmt: skip

    names = [between.join(words) for words in (("Functional", "linear", "0"), ("Functional", "dropout", "0"))]
    return {
        names[0]: {"args": [tensor([8, 16]), tensor([4, 16], requires_grad=True)], "kwargs": {}},
        names[1]: {"args": [tensor([8, 16]), {"type": "float", "value": 0.5}, {"type": "bool", "value": True},
                            {"type": "bool", "value": False}], "kwargs": {}},
    }  # fmt: skip


@pytest.mark.parametrize("between", ["_", "*"])
def test_files_of_the_checker_itself(tmp_path: Path, between: str, capsys: pytest.CaptureFixture[str]) -> None:
    forward, backward = tmp_path / "forward_info_2039.json", tmp_path / "backward_info_2039.json"
    forward.write_text(json.dumps(checker_json(between)), encoding="utf-8")
    arrived = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 4], "Max": 0.055, "Min": -0.111,
               "requires_grad": False}  # fmt: skip
    backward.write_text(json.dumps({between.join(("Functional", "linear", "0")): [arrived]}), encoding="utf-8")
    assert run_ut(["-forward", str(forward), "-backward", str(backward), "--out_path", str(tmp_path)]) == 0
    assert "by the document's rule: pass 2\n" in capsys.readouterr().out
    with open(tmp_path / "accuracy_checking_result.csv", encoding="utf-8-sig", newline="") as stream:
        found = {row["API name"]: row for row in csv.DictReader(stream)}
    assert set(found) == set(checker_json(between))
    assert found[between.join(("Functional", "linear", "0"))]["Backward Test Success"] == "pass"
