"""What the real PaddleAPEX wrote, on a CPU, of a few calls: our commands read it, and say of it what it says itself.

``real/paddleapex.zip`` holds, made by its version of December 2024 with Paddle 3.3.1:

    dump_info    by its Tracer, dump_mode real_data: two adds, matmul, topk, sum, the sum's backward
    replay       by its run_paddle -mode acc -dtype FP32 -real dump_info/rank0_step0
    changed      the same, then by paddle.load and paddle.save: one output 1.5 times as large, one moved by 0.0005, all
                 of matmul removed
    csv          by its acc_direct_cmp -bench replay/FLOAT32 -device changed; peer.csv and device.csv are the details of
                 the same against outputs with noise of 0.002 and of 0.006
"""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest

from trueline.compat.paddleapex.compare import main_direct, main_multi
from trueline.compat.paddleapex.replay import main as run_paddle
from trueline.report.apex_csv import DETAILS

REAL = Path(__file__).parent / "real" / "paddleapex.zip"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    with zipfile.ZipFile(REAL) as archive:
        archive.extractall(tmp_path / "real")
    return tmp_path / "real"


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def compared(bench: Path, device: Path, out: Path, code: int) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    assert main_direct(["-bench", str(bench), "-device", str(device), "-o", str(out)]) == code
    result, details = (next(out.glob(f"accuracy_checking_{kind}_*.csv")) for kind in ("result", "details"))
    return table(result), table(details)


def test_our_replay_of_its_dump_is_its_own(real: Path, tmp_path: Path) -> None:
    """To the bit, forward and backward: the same inputs, the same gradients fed."""
    pytest.importorskip("paddle")
    dump = real / "dump_info" / "rank0_step0"
    words = ["-json", str(dump / "forward_rank0_all.json"), "-real", str(dump), "-backend", "cpu", "--dtype", "FP32"]
    assert run_paddle([*words, "-out", str(tmp_path / "ours"), "-mode", "acc"]) == 0
    result, details = compared(real / "replay" / "FLOAT32", tmp_path / "ours", tmp_path / "result", 0)
    assert {row["Reason"] for row in result} == {"equal"} and len(result) == 5
    assert sum(".backward." in row["API Name"] for row in details) == 5


def test_its_table_is_ours(real: Path, tmp_path: Path) -> None:
    """Statuses and numbers of the old columns, row by row; and of matmul, which it leaves out, why."""
    result, details = compared(real / "replay" / "FLOAT32", real / "changed", tmp_path, 1)
    ours = {row["API Name"]: row for row in details}
    theirs = table(real / "csv" / "accuracy_checking_details.csv")
    assert len(theirs) == 8
    for row in theirs:
        mine = ours[row["API Name"]]
        assert [mine[name] for name in (*DETAILS[:4], "Status")] == [row[name] for name in (*DETAILS[:4], "Status")]
        for name in DETAILS[4:18]:
            if row[name].strip() and mine[name].strip():
                assert float(mine[name]) == pytest.approx(float(row[name]), rel=1e-5, abs=1e-9), (row["API Name"], name)
    mine = {row["API name"]: row for row in result}
    for row in table(real / "csv" / "accuracy_checking_result.csv"):
        for name in ("Forward Test Success", "Backward Test Success"):
            assert mine[row["API name"]][name].strip() == row[name].strip()
    assert "the device has no output of it" in mine["paddle.matmul*0"]["Reason"]
    assert mine["paddle.topk*0"]["Verdict"] == "FAIL"  # 0.0005 is no rounding of a choice, though the old rule lets it


def test_its_tables_are_compared_by_three(real: Path, tmp_path: Path) -> None:
    """acc_multi_cmp of two tables that it made, without the replays: the ratios of their errors."""
    peer, device = (real / "csv" / f"{name}.csv" for name in ("peer", "device"))
    assert main_multi(["-gpu", str(peer), "-npu", str(device), "-o", str(tmp_path)]) == 1
    rows = {row["API Name"]: row for row in table(next(tmp_path.glob("api_precision_compare_details_*.csv")))}
    errors = [{row["API Name"]: row["均方根误差"] for row in table(path)} for path in (peer, device)]
    assert set(rows) == set(errors[0]) and len(rows) == 11
    compared = {name: row for name, row in rows.items() if row["均方根误差比值"].strip()}
    assert len(compared) == 10  # but the indices of topk, which are compared by bits
    for name, row in compared.items():
        ratio = float(errors[1][name]) / float(errors[0][name])
        assert float(row["均方根误差比值"]) == pytest.approx(ratio)
        assert row["均方根误差判定结果"] == ("error" if ratio > 2 else "warning" if ratio > 1 else "pass")


def test_a_gradient_of_the_dump_is_fed(tmp_path: Path) -> None:
    """Also where the call gives several things, of which one has a gradient."""
    pytest.importorskip("paddle")
    np = pytest.importorskip("numpy")
    (tmp_path / "forward_rank0.json").write_text(
        '{"paddle.topk*0": {"args": [{"type": "paddle.Tensor", "dtype": "FLOAT32", "shape": [3, 5], "Max": 1.0, '
        '"Min": -1.0, "stop_gradient": false}, {"type": "int", "value": 2}], "kwargs": {}, "dout_list": '
        '[{"type": "paddle.Tensor", "dtype": "FLOAT32", "shape": [3, 2], "Max": 7.0, "Min": 7.0}]}}',
        encoding="utf-8",
    )
    words = ["-json", str(tmp_path / "forward_rank0.json"), "-backend", "cpu", "-out", str(tmp_path / "out")]
    assert run_paddle([*words, "-mode", "acc"]) == 0
    gradient = np.load(tmp_path / "out" / "backend_output_backward" / "paddle.topk*0.0.npy")
    assert sorted(gradient.ravel().tolist()) == [0.0] * 9 + [7.0] * 6
