"""acc_multi_cmp of two tables that were made elsewhere."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from trueline.compat.paddleapex.compare import main_multi
from trueline.report.apex_csv import DETAILS, MULTI_DETAILS

ROW = dict.fromkeys(DETAILS, " ")
GELU = "paddle.nn.functional.gelu*0.forward.output.0"


def details(path: Path, rmse: float, unequal: float = 0.0) -> str:
    rows = [
        ROW | {"API Name": GELU, "Bench Dtype": "paddle.float32", "DEVICE Dtype": "paddle.bfloat16", "Shape": "(4,)",
               "双百指标": "1.0", "双千指标": "0.5", "双万指标": "0.25", "误差均衡性": "0.1", "均方根误差": str(rmse),
               "小值域错误占比": "0", "相对误差最大值": "0.01", "相对误差平均值": "0.001", "Status": "warning"},
        ROW | {"API Name": "paddle.argmax*0.forward.output.0", "DEVICE Dtype": "paddle.int64", "Shape": "(4,)",
               "二进制一致错误率": str(unequal), "Status": "pass"},
    ]  # fmt: skip
    with open(path, "w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, DETAILS)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.mark.parametrize(("factor", "word", "code"), [(1.0, "pass", 0), (1.5, "warning", 0), (3.0, "error", 1)])
def test_ratios_of_two_tables(tmp_path: Path, factor: float, word: str, code: int) -> None:
    peer = details(tmp_path / "accuracy_checking_details_1.csv", 0.002)
    device = details(tmp_path / "accuracy_checking_details_2.csv", 0.002 * factor)
    assert main_multi(["-gpu", peer, "-npu", device, "-o", str(tmp_path / "out")]) == code
    (path,) = (tmp_path / "out").glob("api_precision_compare_details_*.csv")
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = {row["API Name"]: row for row in reader}
    assert tuple(reader.fieldnames or ()) == (*MULTI_DETAILS, "Verdict", "Reason")
    assert float(rows[GELU]["均方根误差比值"]) == pytest.approx(factor)
    assert (rows[GELU]["比对结果"], rows[GELU]["比对算法"]) == (word, "标杆比对法")
    assert rows[GELU]["Verdict"] == "NOT_COMPARED" and "no tensors" in rows[GELU]["Reason"]
    assert rows["paddle.argmax*0.forward.output.0"]["比对结果"] == "pass"


def test_integers_must_be_equal(tmp_path: Path) -> None:
    peer = details(tmp_path / "accuracy_checking_details_1.csv", 0.002)
    device = details(tmp_path / "accuracy_checking_details_2.csv", 0.002, unequal=0.25)
    assert main_multi(["-bench", peer, "-device", device, "-o", str(tmp_path / "out")]) == 1


def test_what_is_no_table_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peer = details(tmp_path / "accuracy_checking_details_1.csv", 0.002)
    (tmp_path / "other.csv").write_text("a,b\n", encoding="utf-8")
    assert main_multi(["-gpu", peer, "-npu", str(tmp_path / "other.csv"), "-o", str(tmp_path / "out")]) == 2
    assert "not a table of acc_direct_cmp" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main_multi(["-gpu", peer, "-npu", str(tmp_path / "empty"), "-o", str(tmp_path / "out")]) == 2
    assert "holds no accuracy_checking_details" in capsys.readouterr().err
    assert main_multi(["-gpu", peer, "-o", str(tmp_path / "out")]) == 2
    assert "two sides" in capsys.readouterr().err
