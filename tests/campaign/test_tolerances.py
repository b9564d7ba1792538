"""Tolerance statistics of a check: every tensor counted, outputs kept apart, tolerances that hold."""

from __future__ import annotations

import csv
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from tests.campaign.records import MEASUREMENT  # noqa: E402
from trueline.campaign.tolerance_groups import Group, errors_of, output_name  # noqa: E402
from trueline.campaign.tolerances import tolerances, write_tolerances  # noqa: E402
from trueline.cases import Evidence  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.report.tolerance_rows import (  # noqa: E402
    API_COLUMNS,
    STAT_COLUMNS,
    TOL_COLUMNS,
    Sums,
    ToleranceRow,
    Tolerances,
)

LINES = """\
paddle.tanh(Tensor([16, 8],"float32"), )
paddle.tanh(x=Tensor([5, 7],"float32"), )
paddle.tanh(Tensor([16, 8],"float16"), )
paddle.topk(Tensor([6, 9],"float32"), 3, )
paddle.mm(Tensor([12, 40],"float32"), Tensor([40, 6],"float32"), )
paddle.add(Tensor([4, 5],"int32"), Tensor([4, 5],"int32"), )
paddle.zeros(list[0,3,], )
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check of a kernel that is a little off in float32, in mode tolerance."""
    folder = tmp_path_factory.mktemp("tolerances")
    (folder / "lines.txt").write_text(LINES, encoding="utf-8")
    overrides = {"torch.matmul": "tests.helpers.mode_kernels:matmul_in_pieces"}
    trueline.check(
        folder / "lines.txt", target="torch:cpu", overrides=overrides, mode="tolerance", out=folder / "kept", workers=0
    )
    return folder / "kept"


@pytest.fixture(scope="module")
def found(kept: Path) -> Tolerances:
    return tolerances(kept)


def row_of(found: Tolerances, api: str, dtype: str, direction: str, path: str) -> ToleranceRow:
    (row,) = [
        row for row in found.rows if (row.api, row.dtype, row.direction, row.path) == (api, dtype, direction, path)
    ]
    return row


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_tensor_is_counted_and_outputs_are_apart(found: Tolerances) -> None:
    assert found.cases == 7
    assert found.tensors == sum(row.tensors for row in found.rows)
    assert {row.path for row in found.rows if row.api == "paddle.topk"} == {"out.0", "out.1", "x"}
    assert found.unmeasured == {"empty": 1}


def test_by_position_and_by_keyword_is_the_same_input(found: Tolerances) -> None:
    assert row_of(found, "paddle.tanh", "float32", "backward", "x").tensors == 2
    assert output_name("paddle.tanh", "args.0") == output_name("paddle.tanh", "kwargs.x") == "x"
    assert output_name("torch.nobody.knows", "args.0") == "args.0"
    assert output_name("paddle.tanh", "out.1") == "out.1"


def test_an_error_is_told_with_its_place_and_its_tolerances_hold(found: Tolerances) -> None:
    row = row_of(found, "paddle.mm", "float32", "forward", "out")
    assert row.spreads["absolute"].maximum > 0.0
    assert row.spreads["eps"].maximum == pytest.approx(row.spreads["eps"].quantiles[0].value)
    assert row.worst is not None and row.worst.config.startswith("paddle.mm(Tensor([12, 40]")
    assert len(row.worst.element) == 2
    off = abs(row.worst.actual - row.worst.expected)
    assert off == pytest.approx(row.spreads["absolute"].maximum, rel=1e-5)
    one = row.recommended
    assert one is not None and off <= one.atol + one.rtol * abs(row.worst.expected)
    assert one.coverage == pytest.approx(0.05)


def test_what_has_no_error_is_allowed_one_rounding(found: Tolerances) -> None:
    one = row_of(found, "paddle.tanh", "float16", "forward", "out").recommended
    assert one is not None and (one.rtol, one.atol) == (pytest.approx(2.0**-10, rel=0.1), 0.0)
    exact = row_of(found, "paddle.add", "int32", "forward", "out").recommended
    assert exact is not None and (exact.rtol, exact.atol) == (0.0, 0.0)


def test_the_files_have_the_columns_of_the_predecessor(kept: Path, tmp_path: Path) -> None:
    found = write_tolerances(kept, tmp_path / "tol")
    rows = {name: table(tmp_path / "tol" / f"{name}.csv") for name in ("tol", "tol_full", "tol_stat", "tol_stat_api")}
    columns = {"tol": TOL_COLUMNS, "tol_full": TOL_COLUMNS, "tol_stat": STAT_COLUMNS, "tol_stat_api": API_COLUMNS}
    assert all(tuple(rows[name][0]) == columns[name] for name in columns)
    assert len(rows["tol"]) == len(rows["tol_full"]) == found.tensors  # no output of several is lost
    assert sum(int(row["count"]) for row in rows["tol_stat"]) == found.tensors
    assert {row["dtype"] for row in rows["tol"]} == {"paddle.float32", "paddle.float16", "paddle.int32", "paddle.int64"}
    full = [(row["API"], row["dtype"], row["config"], row["mode"]) for row in rows["tol_full"]]
    assert full == sorted(full)
    matmul = next(row for row in rows["tol_full"] if row["API"] == "paddle.mm" and row["mode"] == "forward")
    raw = next(row for row in rows["tol"] if row["config"] == matmul["config"] and row["mode"] == "forward")
    assert matmul["max_abs_diff"] == f"{float(raw['max_abs_diff']):.6e}"


def test_the_counts_of_an_api_add_up(kept: Path, tmp_path: Path) -> None:
    write_tolerances(kept, tmp_path)
    rows = [row for row in table(tmp_path / "tol_stat_api.csv") if row["API"] == "paddle.tanh"]
    assert [(row["dtype"], row["mode"], row["count"], row["percentage"]) for row in rows] == [
        ("dtypes:paddle.float16/paddle.float32", "modes:forward/backward", "6", "100.0"),
        ("dtypes:paddle.float16/paddle.float32", "forward", "3", "50.0"),
        ("dtypes:paddle.float16/paddle.float32", "backward", "3", "50.0"),
        ("paddle.float16", "forward", "1", "16.67"),
        ("paddle.float16", "backward", "1", "16.67"),
        ("paddle.float32", "forward", "2", "33.33"),
        ("paddle.float32", "backward", "2", "33.33"),
    ]


def test_the_mode_writes_them_by_itself(kept: Path) -> None:
    assert json.loads((kept / "tolerances" / "tolerances.json").read_text())["tensors"] > 0
    (row,) = [row for row in table(kept / "tolerances" / "tolerances.csv") if row["API"] == "paddle.add"]
    assert row["absolute max"] == "0.000000e+00" and row["eps max"] == ""


def test_infinities_do_not_hide_the_rest() -> None:
    sums = Sums()
    for value in (1.0, math.inf, math.nan, 3.0):
        sums.add(value)
    assert sums.count == 4
    assert sums.cells() == ["1.000000e+00", "inf", "2.000000e+00"]


def test_wrong_tensors_recommend_nothing() -> None:
    group = Group("paddle.abs", "float32", "forward", "out", "paddle.")
    evidence = Evidence("output", "out", "float32", (2, 3))
    measurement = replace(MEASUREMENT, max_rel=0.1, nan_mismatch=2, worst_reference=0.5)
    group.add(evidence, measurement, errors_of(measurement, "float32"), "abs", wrong=True)
    assert group.recommended(2.0, 0.95) is None
    assert (group.wrong, group.nan_tensors, group.nan_elements) == (1, 1, 2)
    fine = replace(measurement, max_abs=1e-7, nan_mismatch=0)
    group.add(evidence, fine, errors_of(fine, "float32"), "abs", wrong=False)
    one = group.recommended(2.0, 0.95)
    assert one is not None and one.tensors == 1 and 2e-7 <= one.atol <= 2.2e-7


def test_what_is_no_check_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write_tolerances(tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wish", [{"margin": 0.5}, {"confidence": 1.0}, {"confidence": 0.0}])
def test_wishes_that_make_no_sense_are_told(kept: Path, wish: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        tolerances(kept, **wish)


def test_memory_does_not_grow_with_the_check(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.campaign import shelf
    from trueline.campaign import tolerances as module

    rows = list(shelf.stream(kept))
    peaks = []
    for times in (20, 200):
        monkeypatch.setattr(module, "stream", lambda folder, times=times: (row for _ in range(times) for row in rows))
        tracemalloc.start()
        assert tolerances(kept).cases == 7 * times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 2**20
