"""A comparison as the pairs of CSV files that PaddleAPEX writes, with its names, columns, words and encoding.

Two Runs give ``accuracy_checking_result_<time>.csv`` and ``accuracy_checking_details_<time>.csv`` (``acc_direct_cmp``),
three give ``api_precision_compare_result_<time>.csv`` and ``api_precision_compare_details_<time>.csv``
(``acc_multi_cmp``). The numbers and the words are APEX's, whatever standard the comparison was judged by. Columns that
APEX always leaves blank (its rules for them never match) are blank. A call that APEX would have no row for has one here
too, as ``SKIP`` with the reason: nothing is left out in silence.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from trueline.events import Progress
from trueline.records import Call, CallComparison, Phase, Role, TensorComparison, Verdict
from trueline.report.csv import safe
from trueline.report.subject import ComparisonView, each_call

RESULT = ("API name", "Forward Test Success", "Backward Test Success", "Message")
DETAILS = (
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度", "最大绝对误差", "双百指标", "双千指标",
    "双万指标", "二进制一致错误率", "误差均衡性", "均方根误差", "小值域错误占比", "相对误差最大值", "相对误差平均值",
    "inf/nan错误率", "相对误差错误率", "绝对误差错误率", "Status", "Message",
)  # fmt: skip
MULTI_RESULT = ("API Name", "Forward Test Success", "Backward Test Success", "Message")
MULTI_DETAILS = (
    "API Name", "小值域错误比值", "小值域判定结果", "均方根误差比值", "均方根误差判定结果", "相对误差最大值比值",
    "相对误差最大值判定结果", "相对误差平均值比值", "相对误差平均值判定结果", "误差均衡性比值", "误差均衡性判定结果",
    "inf/nan错误率", "inf/nan判定结果", "相对误差错误率", "相对误差判定结果", "绝对误差错误率", "绝对误差判定结果",
    "二进制一致错误率", "二进制一致错误率判定结果", "双百错误率比值(Device/Bench)", "双千错误率比值(Device/Bench)",
    "双万错误率比值(Device/Bench)", "比对结果", "比对算法", "Message",
)  # fmt: skip

ENCODING = "utf-8-sig"
BLANK = " "
"""What APEX writes where something does not apply."""
_WORDS = {
    Verdict.PASS: "pass",
    Verdict.WARN: "warning",
    Verdict.FAIL: "error",
    Verdict.ERROR: "error",
    Verdict.NOT_COMPARED: "SKIP",
}
_RATIOS = (("small_share", 2.0), ("rmse", 2.0), ("max_rel", 10.0), ("mean_rel", 2.0), ("balance", 2.0))
"""Number -> the ratio above which APEX says error; above 1 it warns. The balance is shown and does not count."""
_SHARES = ("within_hundredth", "within_thousandth", "within_ten_thousandth")
_COMPARED_BY_RATIO = ("float16", "bfloat16", "float32")
_BINARY, _BENCHMARK = "二进制一致法", "标杆比对法"
_NO_ERROR_RATIO = 10000.0


@dataclass(slots=True)
class _Api:
    """One line of the result file."""

    forward: str = BLANK
    backward: str = BLANK
    messages: list[str] = field(default_factory=list)


def write_apex_csv(
    comparison: ComparisonView, folder: Path, stamp: str, progress: Progress | None = None
) -> tuple[Path, Path]:
    """Writes the pair of files into a folder; gives their paths, result first. ``stamp`` is the time in their names,
    ``20240131235959``."""
    three_way = comparison.baseline is not None
    names = ("api_precision_compare_{}_{}.csv" if three_way else "accuracy_checking_{}_{}.csv")
    result, details = (folder / names.format(kind, stamp) for kind in ("result", "details"))
    apis: dict[str, _Api] = {}
    with _opened(details) as stream:
        writer = csv.writer(stream)
        writer.writerow(MULTI_DETAILS if three_way else DETAILS)
        for pair in each_call(comparison, "APEX CSV: calls", progress):
            rows = list(_multi_rows(pair) if three_way else _rows(pair))
            writer.writerows(row.cells for row in rows)
            _enter(apis, pair, rows)
    with _opened(result) as stream:
        writer = csv.writer(stream)
        writer.writerow(MULTI_RESULT if three_way else RESULT)
        for name, api in apis.items():
            writer.writerow([safe(name), api.forward, api.backward, safe("; ".join(dict.fromkeys(api.messages)))])
    return result, details


def _opened(path: Path) -> TextIO:
    return open(path, "w", encoding=ENCODING, newline="")


@dataclass(frozen=True, slots=True)
class _Detail:
    cells: Sequence[str]
    verdict: Verdict
    message: str = ""


def _enter(apis: dict[str, _Api], pair: CallComparison, rows: Sequence[_Detail]) -> None:
    """What the result file says of an API: as in APEX, the last error or warning of its tensors counts."""
    api = apis.setdefault(_key(pair), _Api())
    word = _overall([row.verdict for row in rows])
    if pair.call.phase is Phase.BACKWARD:
        api.backward = word
    else:
        api.forward = word
    api.messages += [row.message for row in rows if row.message]


def _overall(verdicts: Sequence[Verdict]) -> str:
    spoken = [one for one in verdicts if one in (Verdict.WARN, Verdict.FAIL, Verdict.ERROR)]
    if spoken:
        return _WORDS[spoken[-1]]
    return _WORDS[Verdict.PASS] if Verdict.PASS in verdicts else _WORDS[Verdict.NOT_COMPARED]


def _key(pair: CallComparison) -> str:
    """``paddle.add*0``: APEX numbers the calls of an API from 0."""
    call: Call = pair.call
    where = "" if (call.step, call.rank) == (0, 0) else f"@step{call.step}_rank{call.rank}"
    return f"{call.api}*{call.index}{where}"


def _framework(call: Call | None) -> str:
    """As APEX writes a dtype: ``paddle.float32``; of calls of torch ``torch.float32``."""
    return "torch" if call is not None and call.api.startswith("torch.") else "paddle"


def _outputs(pair: CallComparison) -> list[TensorComparison]:
    return [tensor for tensor in pair.tensors if tensor.role is Role.OUTPUT]


def _name(pair: CallComparison, number: int) -> str:
    return safe(f"{_key(pair)}.{pair.call.phase.value}.output.{number}")


def _rows(pair: CallComparison) -> Iterator[_Detail]:
    outputs = _outputs(pair)
    for number, tensor in enumerate(outputs):
        numbers = tensor.numbers
        reference, candidate = tensor.reference, tensor.candidate
        exact = "apex_rmse" not in numbers
        message = "" if tensor.verdict is Verdict.PASS else tensor.reason
        yield _Detail(
            [
                _name(pair, number),
                f"{_framework(pair.reference)}.{reference.dtype}" if reference is not None else BLANK,
                f"{_framework(pair.candidate)}.{candidate.dtype}" if candidate is not None else BLANK,
                _shape(candidate.shape if candidate is not None else ()),
                BLANK if exact or tensor.measurement is None else _number(tensor.measurement.cosine),
                *(_cell(numbers, f"apex_{name}") for name in ("max_abs", *_SHARES)),
                _cell(numbers, "apex_unequal") if exact else BLANK,
                *(_cell(numbers, f"apex_{name}") for name in ("balance", "rmse", "small_share", "max_rel", "mean_rel")),
                BLANK, BLANK, BLANK,
                _WORDS[tensor.verdict],
                safe(message),
            ],
            tensor.verdict,
            message,
        )  # fmt: skip
    if not outputs:
        cells = [_name(pair, 0), *[BLANK] * 17, _WORDS[pair.verdict], safe(pair.reason)]
        yield _Detail(cells, pair.verdict, pair.reason)


def _multi_rows(pair: CallComparison) -> Iterator[_Detail]:
    outputs = _outputs(pair)
    for number, tensor in enumerate(outputs):
        yield _multi_row(_name(pair, number), tensor)
    if not outputs:
        yield _skipped(_name(pair, 0), pair.reason)


def _multi_row(name: str, tensor: TensorComparison) -> _Detail:
    numbers = tensor.numbers
    if not tensor.errors or tensor.candidate is None:
        return _skipped(name, tensor.reason)
    dtype = tensor.candidate.dtype
    if "apex_rmse" not in numbers:
        if not _is_exact(dtype):
            return _skipped(name, f"PaddleAPEX skips {dtype} here")
        rate = numbers.get("apex_unequal", 0.0)
        verdict = Verdict.FAIL if rate else Verdict.PASS
        word = _WORDS[verdict]
        cells = [name, *[BLANK] * 16, _number(rate), word, BLANK, BLANK, BLANK, word, _BINARY, ""]
        return _Detail(cells, verdict)
    if dtype not in _COMPARED_BY_RATIO:
        return _skipped(name, f"PaddleAPEX skips {dtype} here")
    cells, verdict = [name], Verdict.PASS
    for metric, fails in _RATIOS:
        ratio = _ratio(numbers.get(f"apex_{metric}"), numbers.get(f"apex_honest_{metric}"))
        found = Verdict.FAIL if ratio > fails else Verdict.WARN if ratio > 1.0 else Verdict.PASS
        cells += [_number(ratio), _WORDS[found]]
        if metric != "balance":
            verdict = max(verdict, found)
    cells += [BLANK] * 8
    for share in _SHARES:
        ours, theirs = (numbers.get(f"apex_{side}{share}") for side in ("", "honest_"))
        missed = [None if one is None else 1.0 - one for one in (ours, theirs)]
        cells.append(_number(_ratio(missed[0], missed[1])))
    cells += [_WORDS[verdict], _BENCHMARK, ""]
    return _Detail(cells, verdict)


def _skipped(name: str, reason: str) -> _Detail:
    return _Detail([name, *[BLANK] * 21, "skip", BLANK, safe(reason)], Verdict.NOT_COMPARED, reason)


def _is_exact(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "bool"))


def _ratio(ours: float | None, theirs: float | None) -> float:
    """APEX's: nothing to nothing is 1, something to nothing or a blank 10000."""
    if ours is None or theirs is None:
        return _NO_ERROR_RATIO
    if theirs == 0.0:
        return 1.0 if ours == 0.0 else _NO_ERROR_RATIO
    return abs(ours / theirs)


def _cell(numbers: Mapping[str, float], name: str) -> str:
    return _number(numbers[name]) if name in numbers else BLANK


def _number(value: float) -> str:
    return "nan" if math.isnan(value) else repr(float(value))


def _shape(shape: Sequence[int]) -> str:
    """As Python writes a tuple."""
    return str(tuple(shape))
