"""Two tables of ``acc_direct_cmp`` that were made elsewhere, as a comparison of three: enough for APEX's own answer.

Its rule needs the errors of the device and those of its peer, which stand in the tables. Ours needs the tensors, so
that beside these rows it says NOT_COMPARED.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueline.errors import UsageError
from trueline.records import (
    Call,
    CallComparison,
    ErrorRatio,
    Level,
    Phase,
    Role,
    TensorComparison,
    TensorRecord,
    Verdict,
)
from trueline.report.apex_csv import DETAILS, ENCODING

NO_TENSORS = "two tables hold no tensors: compare the replays themselves"
_NUMBERS = {
    "双百指标": "within_hundredth", "双千指标": "within_thousandth", "双万指标": "within_ten_thousandth",
    "二进制一致错误率": "unequal", "误差均衡性": "balance", "均方根误差": "rmse", "小值域错误占比": "small_share",
    "相对误差最大值": "max_rel", "相对误差平均值": "mean_rel",
}  # fmt: skip
_NAME = re.compile(r"'?(?P<api>.+)\*(?P<index>\d+)\.(?P<phase>forward|backward)\.output\.(?P<number>\d+)")


@dataclass(slots=True)
class Tables:
    """What ``write_apex_csv`` reads of a comparison."""

    calls: list[CallComparison] = field(default_factory=list)
    baseline: Any = None


def comparison_of(peer: Path, device: Path) -> Tables:
    """The rows of the device's table, each with the peer's row of the same name."""
    theirs = {row["API Name"]: row for row in _rows(peer)}
    groups: dict[tuple[str, int, str], list[TensorComparison]] = {}
    for row in _rows(device):
        match = _NAME.fullmatch(row["API Name"])
        if match is None:
            raise UsageError(
                f"{device}: {row['API Name']!r} is not the name of a tensor, as paddle.add*0.forward.output.0"
            )
        key = (match["api"], int(match["index"]), match["phase"])
        groups.setdefault(key, []).append(_tensor(row, theirs.get(row["API Name"])))
    found = Tables(baseline="a table")
    for number, ((api, index, phase), tensors) in enumerate(groups.items()):
        call = Call(number, api, index, 0, 0, Phase(phase), Level.API)
        found.calls.append(CallComparison(None, call, Verdict.NOT_COMPARED, NO_TENSORS, tuple(tensors)))
    return found


def newest_table(path: Path) -> Path:
    """The table itself, or the newest of a folder."""
    if path.is_file():
        return path
    found = sorted(path.glob("accuracy_checking_details_*.csv"))
    if not found:
        raise UsageError(f"{path} holds no accuracy_checking_details_*.csv: it is what was given to acc_direct_cmp -o")
    return found[-1]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, encoding=ENCODING, newline="") as stream:
            reader = csv.DictReader(stream)
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if tuple(reader.fieldnames or ())[: len(DETAILS)] != DETAILS:
        raise UsageError(f"{path} is not a table of acc_direct_cmp: its columns are others")
    return rows


def _tensor(ours: dict[str, str], theirs: dict[str, str] | None) -> TensorComparison:
    dtype = ours["DEVICE Dtype"].rpartition(".")[2].strip()
    record = TensorRecord(Role.OUTPUT, "out", 0, dtype, (), (), "")
    numbers = {f"apex_{name}": value for name, value in _numbers(ours).items()}
    if theirs is None or not dtype:
        reason = ours["Message"] if not dtype else "the peer's table has no such row"
        return TensorComparison(Role.OUTPUT, "out", None, record, Verdict.NOT_COMPARED, reason)
    numbers |= {f"apex_honest_{name}": value for name, value in _numbers(theirs).items()}
    errors = tuple(
        ErrorRatio(name, numbers[f"apex_{name}"], numbers[f"apex_honest_{name}"], 1.0)
        for name in _NUMBERS.values()
        if f"apex_{name}" in numbers and f"apex_honest_{name}" in numbers
    )
    reason = "" if errors else "the tables have no numbers for it"
    return TensorComparison(
        Role.OUTPUT, "out", None, record, Verdict.NOT_COMPARED, reason, errors=errors, numbers=numbers
    )


def _numbers(row: dict[str, str]) -> dict[str, float]:
    found = {}
    for column, name in _NUMBERS.items():
        try:
            found[name] = float(row[column])
        except (TypeError, ValueError):  # a blank where it does not apply
            continue
    return found
