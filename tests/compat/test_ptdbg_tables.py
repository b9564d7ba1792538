"""What ptdbg's advisor says of a table, ``shape_flag``, and one table of all ranks."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueline.compat.ptdbg_ascend.tables import advice_of

pytest.importorskip("torch")

from trueline.compat.ptdbg_ascend import compare, compare_distributed

Values = dict[str, Any]


def dump(folder: Path, name: str, tensors: Values) -> None:
    """A dump as ptdbg writes it."""
    data = folder / name
    data.mkdir(parents=True)
    with open(folder / f"{name}.pkl", "w", encoding="utf-8") as file:
        for tensor, values in tensors.items():
            array = np.asarray(values, np.float32)
            numbers = [float(array.max()), float(array.min()), float(array.mean())]
            file.write(json.dumps([tensor, 0, [], "torch.float32", list(array.shape), numbers]) + "\n")
            np.save(data / f"{tensor}.npy", array)


def compared(tmp_path: Path, npu: Values, bench: Values, *options: Any, **named: Any) -> list[dict[str, str]]:
    for name, tensors in (("npu", npu), ("bench", bench)):
        dump(tmp_path / name, name, tensors)
    (tmp_path / "output").mkdir()
    given = {f"{name}_pkl_path": str(tmp_path / name / f"{name}.pkl") for name in ("npu", "bench")}
    return rows(compare({**given, "is_print_compare_log": False}, str(tmp_path / "output"), *options, **named))


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def advice(tmp_path: Path) -> str:
    (file,) = (tmp_path / "output").glob("advisor_*.txt")
    return file.read_text(encoding="utf-8")


RELU = {"Torch_relu_0_forward_input.0": [1.0, 2.0, 3.0], "Torch_relu_0_forward_output": [1.0, 2.0, 3.0]}
WRONG = {**RELU, "Torch_relu_0_forward_output": [3.0, -2.0, 1.0]}
OTHER_DATA = {"Torch_relu_0_forward_input.0": [3.0, -2.0, 1.0], "Torch_relu_0_forward_output": [3.0, 0.0, 1.0]}
LONGER = {"Torch_relu_0_forward_input.0": [1.0] * 4, "Torch_relu_0_forward_output": [1.0] * 4}


def test_an_output_whose_inputs_agree_is_suspect_and_says_why(tmp_path: Path) -> None:
    table = compared(tmp_path, WRONG, RELU)
    assert table[1]["Verdict"] == "FAIL" and "out differs by" in table[1]["Reason"]
    said = advice(tmp_path)
    assert "Line: 3\nSuspect Nodes: Torch_relu_0_forward_output\n" in said
    assert "output of the forward and its inputs agree: the API itself is suspect" in said


def test_an_input_does_not_blame_its_api(tmp_path: Path) -> None:
    compared(tmp_path, OTHER_DATA, RELU)
    said = advice(tmp_path)
    assert "Line: 2\nSuspect Nodes: Torch_relu_0_forward_input.0\n" in said
    assert "this is an input: the API itself is not to blame" in said


def test_where_nothing_was_compared_nothing_is_praised(tmp_path: Path) -> None:
    compared(tmp_path, LONGER, RELU)
    said = advice(tmp_path)
    assert "nothing was compared" in said and "reach the accuracy" not in said


def test_what_was_compared_is_counted(tmp_path: Path) -> None:
    compared(tmp_path, RELU, RELU)
    assert "all 2 tensors that were compared reach the accuracy of ptdbg's rule" in advice(tmp_path)


@pytest.mark.parametrize(("name", "words"), [
    ("Torch_relu_0_backward_input.0", "a gradient that arrived"),
    ("Torch_relu_0_backward_output.0", "output of the backward and its inputs agree"),
])  # fmt: skip
def test_backward_rows(tmp_path: Path, name: str, words: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text(f"NPU Name,Accuracy Reached or Not,Victim\n{name},No,no\n", encoding="utf-8")
    assert words in advice_of(table).lines[2]


def test_shape_flag_matches_by_shape(tmp_path: Path) -> None:
    table = compared(tmp_path, LONGER, RELU, True)
    assert [(row["NPU Name"], row["Bench Name"]) for row in table] == [
        *((name, "N/A") for name in LONGER), *(("N/A", name) for name in RELU)
    ]  # fmt: skip
    assert {row["Accuracy Reached or Not"] for row in table} == {"N/A"}
    assert all("shape_flag" in row["Err_message"] for row in table)
    assert (table[0]["Npu Tensor Shape"], table[0]["Bench Tensor Shape"]) == ("[4]", "N/A")


def test_without_shape_flag_they_are_a_pair(tmp_path: Path) -> None:
    table = compared(tmp_path, LONGER, RELU)
    assert [(row["Npu Tensor Shape"], row["Bench Tensor Shape"]) for row in table] == [("[4]", "[3]")] * 2


def test_one_table_of_all_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, tensors in ((0, RELU), (1, WRONG)):
        dump(tmp_path / "npu" / f"rank{rank}", "dump", tensors)
        dump(tmp_path / "bench" / f"rank{rank}", "dump", RELU)
    (tmp_path / "output").mkdir()
    found = compare_distributed(str(tmp_path / "npu"), str(tmp_path / "bench"), str(tmp_path / "output"))
    (merged,) = (tmp_path / "output").glob("compare_result_merged_*.csv")
    table = rows(merged)
    assert len(found) == 2 and len(table) == sum(len(rows(path)) for path in found)
    assert [row["Rank folder"] for row in table] == ["rank0"] * 2 + ["rank1"] * 2
    said = capsys.readouterr().out
    assert "rank0: first not reached by ptdbg's rule: none; trueline: PASS" in said
    assert "rank1: first not reached by ptdbg's rule: Torch_relu_0_forward_output; trueline: FAIL" in said
