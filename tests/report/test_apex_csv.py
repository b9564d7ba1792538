"""PaddleAPEX's pairs of CSV files from replays: its names, columns, order, words and encoding."""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path

import numpy as np
import pytest

import trueline
from trueline.campaign.execute import execute
from trueline.cli import main
from trueline.report.apex_csv import write_apex_csv

torch = pytest.importorskip("torch")

DETAILS = (
    "API Name,Bench Dtype,DEVICE Dtype,Shape,余弦相似度,最大绝对误差,双百指标,双千指标,双万指标,"
    "二进制一致错误率,误差均衡性,均方根误差,小值域错误占比,相对误差最大值,相对误差平均值,inf/nan错误率,"
    "相对误差错误率,绝对误差错误率,Status,Message"
)
MULTI_DETAILS = (
    "API Name,小值域错误比值,小值域判定结果,均方根误差比值,均方根误差判定结果,相对误差最大值比值,"
    "相对误差最大值判定结果,相对误差平均值比值,相对误差平均值判定结果,误差均衡性比值,误差均衡性判定结果,"
    "inf/nan错误率,inf/nan判定结果,相对误差错误率,相对误差判定结果,绝对误差错误率,绝对误差判定结果,"
    "二进制一致错误率,二进制一致错误率判定结果,双百错误率比值(Device/Bench),双千错误率比值(Device/Bench),"
    "双万错误率比值(Device/Bench),比对结果,比对算法,Message"
)


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apex")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6, 16, generator=generator)
    weight = torch.randn(24, 16, generator=generator).mul_(0.5).requires_grad_()
    with trueline.capture(folder / "program", data="tensors"):
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight))
        (hidden.transpose(0, 1) * 2.0).sum().backward()
        torch.argmax(hidden, dim=-1)
    program = folder / "program"
    execute(program, target="torch:cpu/float32", out=folder / "single", workers=0)
    execute(program, target="torch:cpu/bfloat16", out=folder / "half", workers=0)
    wrong = {"torch.nn.functional.gelu": "tests.diagnose.kernels:gelu_two_percent"}
    execute(program, target="torch:cpu/bfloat16", out=folder / "worse", overrides=wrong, workers=0)
    return folder


def read(path: Path) -> tuple[list[str], dict[str, dict[str, str]]]:
    assert path.read_bytes().startswith(codecs.BOM_UTF8)
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = {row[(reader.fieldnames or [""])[0]]: row for row in reader}
        return list(reader.fieldnames or []), rows


def test_two_runs(replays: Path, tmp_path: Path) -> None:
    with trueline.compare(replays / "single", replays / "half", standard="apex") as report:
        result, details = write_apex_csv(report, tmp_path, "20240131235959")
    assert (result.name, details.name) == (
        "accuracy_checking_result_20240131235959.csv", "accuracy_checking_details_20240131235959.csv",
    )  # fmt: skip
    columns, apis = read(result)
    assert columns == ["API name", "Forward Test Success", "Backward Test Success", "Message"]
    assert apis["torch.Tensor.transpose*0"]["Forward Test Success"] == "warning"  # unrounded inputs, as in APEX
    assert apis["torch.Tensor.transpose*0"]["Backward Test Success"] == "pass"
    assert apis["torch.argmax*0"]["Forward Test Success"] == "pass"
    assert apis["torch.argmax*0"]["Backward Test Success"] == " "
    columns, rows = read(details)
    assert columns == DETAILS.split(",")
    assert len(columns) == 20
    functional = "torch.nn.functional"
    assert set(rows) >= {f"{functional}.linear*0.forward.output.0", f"{functional}.gelu*0.backward.output.0"}
    row = rows["torch.nn.functional.gelu*0.forward.output.0"]
    assert (row["Bench Dtype"], row["DEVICE Dtype"], row["Shape"]) == ("torch.float32", "torch.bfloat16", "(6, 24)")
    assert row["二进制一致错误率"] == row["inf/nan错误率"] == row["相对误差错误率"] == row["绝对误差错误率"] == " "
    assert row["Status"] in ("pass", "warning", "error")
    exact = rows["torch.argmax*0.forward.output.0"]
    assert (exact["二进制一致错误率"], exact["余弦相似度"], exact["Status"]) == ("0.0", " ", "pass")


def test_the_numbers_are_those_of_the_formulas(replays: Path, tmp_path: Path) -> None:
    with trueline.compare(replays / "single", replays / "half", standard="apex") as report:
        pair = next(row for row in report.calls if row.call.name == "torch.nn.functional.linear.0.forward")
        (output,) = [tensor for tensor in pair.tensors if tensor.role.value == "output"]
        assert output.reference is not None and output.candidate is not None
        b = report.reference.rank(0).tensor(output.reference).astype(np.float64)
        bits = report.candidate.rank(0).tensor(output.candidate).astype(np.uint32) << 16
        d = bits.view(np.float32).astype(np.float64)
        _, details = write_apex_csv(report, tmp_path, "1")
    row = read(details)[1]["torch.nn.functional.linear*0.forward.output.0"]
    error = np.abs(d - b)
    relative = error / (np.abs(b) + 2.0**-8)
    normal = np.abs(b) > 1e-3
    assert float(row["余弦相似度"]) == pytest.approx((d * b).sum() / np.sqrt((d * d).sum() * (b * b).sum()))
    assert float(row["最大绝对误差"]) == pytest.approx(error.max())
    for column, limit in (("双百指标", 1e-2), ("双千指标", 1e-3), ("双万指标", 1e-4)):
        assert float(row[column]) == pytest.approx((relative < limit).mean())
    assert float(row["误差均衡性"]) == pytest.approx(abs((d > b).sum() - (d < b).sum()) / d.size)
    assert float(row["均方根误差"]) == pytest.approx(np.sqrt((error[normal] ** 2).mean()), rel=1e-3)
    assert float(row["相对误差最大值"]) == pytest.approx(relative[normal].max())
    assert float(row["相对误差平均值"]) == pytest.approx(relative[normal].mean())
    assert float(row["小值域错误占比"]) == pytest.approx((error[~normal] > 1e-5).mean() if (~normal).any() else 0.0)


def test_three_runs(replays: Path, tmp_path: Path) -> None:
    with trueline.compare(
        replays / "single", replays / "worse", baseline=replays / "half", standard="apex-multi"
    ) as report:
        result, details = write_apex_csv(report, tmp_path, "20240131235959")
        for pair in report.calls:  # the standard and the file say the same
            if pair.call.api.endswith("gelu"):
                assert pair.verdict.name == "FAIL"
    assert (result.name, details.name) == (
        "api_precision_compare_result_20240131235959.csv", "api_precision_compare_details_20240131235959.csv",
    )  # fmt: skip
    columns, apis = read(result)
    assert columns == ["API Name", "Forward Test Success", "Backward Test Success", "Message"]
    assert apis["torch.nn.functional.gelu*0"]["Forward Test Success"] == "error"
    assert apis["torch.nn.functional.linear*0"]["Forward Test Success"] == "pass"
    columns, rows = read(details)
    assert columns == MULTI_DETAILS.split(",")
    assert len(columns) == 25
    row = rows["torch.nn.functional.gelu*0.forward.output.0"]
    assert float(row["均方根误差比值"]) > 2 and row["均方根误差判定结果"] == "error"
    assert (row["比对结果"], row["比对算法"]) == ("error", "标杆比对法")
    same = rows["torch.nn.functional.linear*0.forward.output.0"]
    assert (same["均方根误差比值"], same["均方根误差判定结果"], same["比对结果"]) == ("1.0", "pass", "pass")
    exact = rows["torch.argmax*0.forward.output.0"]
    assert (exact["二进制一致错误率判定结果"], exact["比对算法"]) == ("pass", "二进制一致法")
    assert exact["均方根误差比值"] == " "


def test_the_option_writes_them_whatever_the_standard(
    replays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two, three = tmp_path / "two", tmp_path / "three"
    runs = [str(replays / name) for name in ("single", "half", "worse")]
    assert main(["compare", runs[0], runs[1], "--apex-csv", str(two)]) == 0
    assert main(["compare", runs[0], runs[2], "--baseline", runs[1], "--apex-csv", str(three)]) == 1
    names = sorted(path.name for folder in (two, three) for path in folder.iterdir())
    patterns = ("accuracy_checking_details", "accuracy_checking_result", "api_precision_compare_details",
                "api_precision_compare_result")  # fmt: skip
    assert all(re.fullmatch(rf"{one}_\d{{14}}\.csv", name) for one, name in zip(patterns, names, strict=True))
    written = capsys.readouterr().out
    assert all(name in written for name in names)
