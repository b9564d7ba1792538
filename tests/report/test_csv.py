"""The CSV report: ptdbg's columns and names, ptdbg's rule, no formulas."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from tests.report.fake_comparison import FakeComparison, measurement, tensor
from trueline.records import Call, CallComparison, Level, Phase, Role, TensorRecord, Verdict
from trueline.report.csv import COLUMNS, _reached, safe, write_csv
from trueline.report.ptdbg_names import call_name, tensor_name


def rows_of(comparison: FakeComparison) -> list[dict[str, str]]:
    stream = io.StringIO()
    written = write_csv(comparison, stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert written == len(rows)
    return rows


def call(api: str, phase: Phase = Phase.FORWARD, level: Level = Level.API, **more: object) -> Call:
    return Call(0, api, 3, 0, 0, phase, level, **more)  # type: ignore[arg-type]


def record(role: Role, path: str) -> TensorRecord:
    return TensorRecord(role, path, 0, "float32", (2,), (1,), "cpu")


def test_ptdbg_columns_come_first_and_in_order() -> None:
    assert COLUMNS[:11] == (
        "NPU Name", "Bench Name", "Npu Tensor Dtype", "Bench Tensor Dtype", "Npu Tensor Shape", "Bench Tensor Shape",
        "Cosine", "MaxAbsError", "MaxRelativeError", "One Thousandth Err Ratio", "Five Thousandths Err Ratio",
    )  # fmt: skip


def test_one_row_per_tensor_with_both_sides() -> None:
    rows = rows_of(FakeComparison(size=20, fault=9))
    assert len([row for row in rows if row["Call"] != "N/A"]) == 40
    origin = next(row for row in rows if row["Verdict"] == "FAIL")
    assert origin["NPU Name"] == origin["Bench Name"] == "Functional_gelu_1_backward_output.0"
    assert (origin["Distance"], origin["Limit"], origin["Victim"]) == ("0.00013", "8.7e-07", "no")
    assert origin["Npu Tensor Shape"] == "[8, 16, 32]"
    assert origin["Source"] == "model.py:41 in forward"


def test_what_the_programs_give_away_stands_below_the_calls() -> None:
    rows = rows_of(FakeComparison(size=20, fault=9))[40:]
    assert [row["NPU Name"] for row in rows[:4]] == [
        "loss:loss", "gradient:layers.0.weight", "gradient:layers.1.weight", "parameter:layers.0.weight",
    ]  # fmt: skip
    wrong = [row for row in rows if row["Verdict"] == "FAIL"]
    assert {row["Step"] for row in wrong} == {"1"} and {row["Victim"] for row in wrong} == {"yes"}
    assert len(rows) == 8 and {row["Call"] for row in rows} == {"N/A"}


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("torch.nn.functional.linear", "Functional_linear_3_forward"),
        ("torch.Tensor.__add__", "Tensor___add___3_forward"),
        ("torch.matmul", "Torch_matmul_3_forward"),
        ("torch._VF.lstm", "VF_lstm_3_forward"),
        ("torch.ops.aten.add.Tensor", "Aten_add.Tensor_3_forward"),
        ("torch.distributed.all_reduce", "Distributed_all_reduce_3_forward"),
        ("torch_npu.npu_rotary_mul", "NPU_npu_rotary_mul_3_forward"),
        ("mine.Square.apply", "Custom_mine.Square.apply_3_forward"),
    ],
)
def test_call_names(api: str, expected: str) -> None:
    assert call_name(call(api)) == expected


def test_module_calls_carry_path_and_class() -> None:
    found = call("torch.nn.Linear", level=Level.MODULE, module="encoder.fc", module_class="Linear")
    assert call_name(found) == "Module_encoder.fc_Linear_3_forward"


@pytest.mark.parametrize(
    ("phase", "role", "path", "expected"),
    [
        (Phase.FORWARD, Role.INPUT, "args.0", "input.0"),
        (Phase.FORWARD, Role.INPUT, "kwargs.weight", "input.weight"),
        (Phase.FORWARD, Role.OUTPUT, "out", "output"),
        (Phase.FORWARD, Role.OUTPUT, "out.1", "output.1"),
        (Phase.FORWARD, Role.OUTPUT, "args.0", "output.args.0"),
        (Phase.BACKWARD, Role.INPUT, "out", "input.0"),
        (Phase.BACKWARD, Role.OUTPUT, "args.0", "output.0"),
        (Phase.FORWARD, Role.PARAMETER, "weight", "parameters.weight"),
    ],
)
def test_tensor_names(phase: Phase, role: Role, path: str, expected: str) -> None:
    name = tensor_name(call("torch.matmul", phase), record(role, path))
    assert name == f"Torch_matmul_3_{phase.value}_{expected}"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cosine": 0.98, "max_abs": 0.002}, "No"),
        ({"cosine": 0.98, "max_abs": 0.001}, "Yes"),
        ({"cosine": 0.99, "max_abs": 5.0}, "Yes"),
        ({"nan_mismatch": 1}, "No"),
        ({"max_abs": float("nan")}, "N/A"),
    ],
)
def test_accuracy_reached_is_ptdbgs_rule(changes: dict[str, float], expected: str) -> None:
    measured = tensor(Role.OUTPUT, "out", 1e-6, 1e-5, Verdict.PASS)
    assert _reached(replace(measured, measurement=measurement(1e-6, **changes))) == expected


@pytest.mark.parametrize(
    ("distance", "estimated", "expected"),
    [
        (0.0, False, ("1.0", "Yes")),
        (0.0, True, ("N/A", "N/A")),
        (1e-6, True, ("N/A", "N/A")),
        (None, False, ("N/A", "N/A")),
    ],
)
def test_only_equal_tensors_reach_accuracy_without_a_measurement(
    distance: float | None, estimated: bool, expected: tuple[str, str]
) -> None:
    comparison = FakeComparison(size=1, fault=None)
    whole = comparison.pair(0)
    unmeasured = replace(whole.tensors[0], distance=distance, estimated=estimated, measurement=None)
    comparison.pair = lambda position: replace(whole, tensors=(unmeasured,))  # type: ignore[method-assign]
    row = rows_of(comparison)[0]
    assert (row["Cosine"], row["Accuracy Reached or Not"]) == expected


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_formulas_are_defused(text: str) -> None:
    assert safe(text) == f"'{text}"


def test_hostile_names_are_defused_in_the_file_and_numbers_keep_their_sign() -> None:
    rows = rows_of(FakeComparison(size=20, fault=9, api="=HYPERLINK(1)", module="@evil"))
    origin = next(row for row in rows if row["Verdict"] == "FAIL")
    assert origin["Module"] == "'@evil"
    assert origin["Call"].startswith("'=HYPERLINK")
    assert origin["NPU Name"].startswith("Custom_=")
    assert origin["NPU min"].startswith("-2.9")


def test_call_of_one_side_gives_a_row_without_the_other() -> None:
    comparison = FakeComparison(size=4, fault=None)
    lonely = CallComparison(None, call("torch.relu"), Verdict.NOT_COMPARED, "only the candidate makes this call")
    comparison.pair = lambda position: lonely  # type: ignore[method-assign]
    row = rows_of(comparison)[0]
    assert (row["NPU Name"], row["Bench Name"], row["Cosine"]) == ("Torch_relu_3_forward", "N/A", "N/A")
    assert row["Err_message"] == row["Reason"] == "only the candidate makes this call"
    assert list(row) == list(COLUMNS)
    assert None not in row.values()


def test_tensor_of_one_side_says_so() -> None:
    comparison = FakeComparison(size=1, fault=None)
    whole = comparison.pair(0)
    half = replace(whole.tensors[0], reference=None, distance=None, measurement=None)
    comparison.pair = lambda position: replace(whole, tensors=(half,))  # type: ignore[method-assign]
    row = rows_of(comparison)[0]
    assert row["Bench Name"] == "N/A"
    assert row["Err_message"] == "only the candidate has this tensor"
