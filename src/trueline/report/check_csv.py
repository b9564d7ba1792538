"""A check as CSV: a table of ours with one row for each tensor, and the two tables of the predecessors.

``accuracy_checking_result`` has one row for each API call tested, ``accuracy_checking_details`` one for each of its
tensors. The columns are those that PaddleAPEX's ``acc_direct_cmp`` writes (4 and 20 columns), and, with three more for
errors in ULP before Status, those of msprobe's ``acc_check``; both come from the api_accuracy_checker. As there, Status
is ``pass``, ``warning``, ``error`` or ``SKIP``, a blank stands for what does not apply, and names are
``Functional.linear.0.forward.output.0``. Their files begin with a byte order mark, and so do these two: it is written
here. Open all files as UTF-8 with ``newline=""``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from trueline.cases import CaseResult, CheckInfo, Ending, Evidence, Outcome, TensorFinding
from trueline.formats.names import stem_of
from trueline.records import Measurement, Verdict
from trueline.report.check_summary import skips_of
from trueline.report.check_wording import call_words, simulated_words, worst_element
from trueline.report.csv import NOTHING, safe

COLUMNS = (
    "Case", "API", "Call", "Verdict", "Reason", "Part", "Path", "Dtype", "Shape", "Tensor Verdict", "Score",
    "Tensor Reason", "Elements", "Equal", "Cosine", "Max Abs", "Mean Abs", "Max Rel", "Mean Rel", "RMSE", "Normalized",
    "Bias", "Max ULP", "Mean ULP", "NaN Mismatch", "Inf Mismatch", "Honest RMSE", "Honest Max ULP", "Honest Bias",
    "Worst Element", "Worst Gold", "Worst Candidate", "Status", "Status Reason", "Seconds", "Reference Status",
    "Calls", "First Call", "Module", "Source", "Ending",
)  # fmt: skip

RESULT_COLUMNS = ("API name", "Forward Test Success", "Backward Test Success", "Message")
_ULP_COLUMNS = ("ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比")
DETAILS_COLUMNS = (
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度", "最大绝对误差", "双百指标",
    "双千指标", "双万指标", "二进制一致错误率", "误差均衡性", "均方根误差", "小值域错误占比", "相对误差最大值",
    "相对误差平均值", "inf/nan错误率", "相对误差错误率", "绝对误差错误率", "Status", "Message",
)  # fmt: skip
"""As PaddleAPEX writes them."""
DETAILS_COLUMNS_ULP = (*DETAILS_COLUMNS[:-2], *_ULP_COLUMNS, *DETAILS_COLUMNS[-2:])
"""As msprobe writes them."""

BLANK = " "
_BYTE_ORDER_MARK = "\ufeff"
_STATUS = {
    Verdict.PASS: "pass", Verdict.WARN: "warning", Verdict.NOT_COMPARED: "SKIP", Verdict.FAIL: "error",
    Verdict.ERROR: "error",
}  # fmt: skip
_FLOAT_NUMBERS = (
    "bench_within_hundredth", "bench_within_thousandth", "bench_within_ten_thousandth", "", "msprobe_balance",
    "msprobe_rmse", "msprobe_small_share", "msprobe_max_rel", "msprobe_mean_rel", "msprobe_absolute_not_finite",
    "msprobe_absolute_relative", "msprobe_absolute_small",
)  # fmt: skip
_ULP_NUMBERS = ("msprobe_ulp_max", "msprobe_ulp_mean", "msprobe_ulp_share")
HALF = ("float16", "bfloat16")
_BENCH = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}


def write_check_csv(info: CheckInfo, results: Sequence[CaseResult], stream: TextIO) -> int:
    """Writes one row for each tensor, one for a case without any, and one for each line or call that became no case;
    gives the number of rows."""
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    rows = 0
    for result in results:
        for finding in result.findings or (None,):
            writer.writerow(_row(result, finding))
            rows += 1
    for place, reason, count in skips_of(info, results):
        writer.writerow(_skipped_row(place, reason, count))
        rows += 1
    return rows


def write_result_csv(info: CheckInfo, results: Sequence[CaseResult], stream: TextIO) -> int:
    """Writes ``accuracy_checking_result``; gives the number of rows."""
    stream.write(_BYTE_ORDER_MARK)
    writer = csv.writer(stream)
    writer.writerow(RESULT_COLUMNS)
    for name, result in _named(results):
        forward, backward = _direction(result, result.forward), _direction(result, result.backward)
        if result.forward is None and result.backward is None:
            forward = _STATUS[result.verdict]
        message = "" if result.verdict is Verdict.PASS else result.reason
        writer.writerow([safe(name), forward, backward, safe(message)])
    return len(results)


def write_details_csv(
    info: CheckInfo, results: Sequence[CaseResult], stream: TextIO, *, ulp: bool = True, wider: bool = True
) -> int:
    """Writes ``accuracy_checking_details``, with the columns of msprobe or, without ``ulp``, of PaddleAPEX; gives the
    number of rows. Without ``wider`` float32 and float64 are told against a benchmark of their own precision."""
    stream.write(_BYTE_ORDER_MARK)
    writer = csv.writer(stream)
    writer.writerow(DETAILS_COLUMNS_ULP if ulp else DETAILS_COLUMNS)
    rows = 0
    for name, result in _named(results):
        numbers = {"output": 0, "gradient": 0}
        for finding in result.findings:
            part = finding.evidence.part
            direction = "backward" if part == "gradient" else "forward"
            place = f"{name}.{direction}.output.{numbers.get(part, 0)}"
            numbers[part] = numbers.get(part, 0) + 1
            framework = "paddle" if result.case.api.startswith("paddle.") else "torch"
            writer.writerow([safe(place), *_details(finding, ulp, framework, wider)])
            rows += 1
    return rows


def _named(results: Iterable[CaseResult]) -> Iterator[tuple[str, CaseResult]]:
    """Cases by the predecessors' names: prefix, API and number of the call, or of the case where it has no call."""
    numbers: dict[str, int] = {}
    for result in results:
        case = result.case
        prefix, short = stem_of(case.api)
        number = _number_of_call(case.calls[0]) if case.calls else None
        if number is None:
            number = str(numbers.get(case.api, 0))
            numbers[case.api] = numbers.get(case.api, 0) + 1
        yield f"{prefix}.{short}.{number}", result


def _number_of_call(name: str) -> str | None:
    """The number in ``torch.relu.3.forward``."""
    parts = name.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2].isdecimal() else None


def _direction(result: CaseResult, verdict: Verdict | None) -> str:
    return BLANK if verdict is None else _STATUS[verdict]


def _details(finding: TensorFinding, ulp: bool, framework: str, wider: bool) -> list[str]:
    evidence, numbers = finding.evidence, finding.evidence.numbers
    own = not wider and evidence.dtype not in HALF
    bench = evidence.dtype if own else _BENCH.get(evidence.dtype, evidence.dtype)
    shape = str(tuple(evidence.shape))
    cosine = largest = BLANK
    metrics = [BLANK] * len(_FLOAT_NUMBERS)
    if own and not evidence.exact:
        cosine, largest, *metrics = _own_precision(evidence)
    elif evidence.exact:
        metrics[3] = _told(numbers.get("bench_unequal"))
    else:
        cosine = _told(None if evidence.gold is None else evidence.gold.cosine)
        largest = _told(numbers.get("bench_max_abs"))
        metrics = [_told(numbers.get(name)) for name in _FLOAT_NUMBERS]
    units = [_told(None if own else numbers.get(name)) for name in _ULP_NUMBERS] if ulp else []
    message = "" if finding.verdict is Verdict.PASS else finding.reason
    return [
        f"{framework}.{bench}", f"{framework}.{evidence.dtype}", shape, cosine, largest, *metrics, *units,
        _STATUS[finding.verdict], safe(message),
    ]  # fmt: skip


def _own_precision(evidence: Evidence) -> list[str]:
    """The columns from the cosine to the relative errors, against a benchmark in the same dtype; what is only defined
    against a wider one is blank."""
    found, numbers = evidence.direct, evidence.numbers
    shares = [numbers.get(f"direct_{share}") for share in ("within_hundredth", "within_thousandth",
                                                           "within_ten_thousandth")]  # fmt: skip
    if found is None:
        return [_told(value) for value in (None, numbers.get("direct_max_abs"), *shares, *[None] * 9)]
    odd = (found.nan_mismatch + found.infinity_mismatch) / found.count if found.count else None
    values = (found.cosine, numbers.get("direct_max_abs"), *shares, None, None, found.rmse, None, found.max_rel,
              found.mean_rel, odd, None, None)  # fmt: skip
    return [_told(value) for value in values]


def _told(value: float | None) -> str:
    """A number as the predecessors print it: fourteen digits, a blank for none."""
    return BLANK if value is None else f"{value:.14f}" if math.isfinite(value) else str(value)


def _row(result: CaseResult, finding: TensorFinding | None) -> list[str]:
    case, measured = result.case, result.measured
    reference = measured.reference
    tensor = [NOTHING] * 27 if finding is None else _tensor_cells(finding)
    return [
        case.key, safe(case.api), safe(call_words(case, name=False)), result.verdict.name, safe(result.reason),
        *tensor,
        measured.candidate.status.value, safe(_how(measured.candidate)), f"{measured.candidate.seconds:.6f}",
        NOTHING if reference is None else reference.status.value,
        str(case.count), safe(case.calls[0]) if case.calls else NOTHING, safe(case.module), safe(case.source),
        result.ending.value,
    ]  # fmt: skip


def _skipped_row(place: str, reason: str, count: int) -> list[str]:
    """What became no case was neither executed nor compared."""
    where = safe(place) if place else NOTHING
    words = {"Call": where, "Verdict": Verdict.NOT_COMPARED.name, "Reason": safe(reason), "Calls": str(count),
             "First Call": where, "Ending": Ending.SKIPPED.value}  # fmt: skip
    return [words.get(column, NOTHING) for column in COLUMNS]


def _tensor_cells(finding: TensorFinding) -> list[str]:
    evidence = finding.evidence
    return [
        evidence.part, safe(evidence.path), evidence.dtype, str(list(evidence.shape)), finding.verdict.name,
        _cell(finding.score), safe(finding.reason), *_measured_cells(evidence),
    ]  # fmt: skip


def _measured_cells(evidence: Evidence) -> list[str]:
    found: Measurement | None = evidence.gold or evidence.direct
    if found is None:
        return [NOTHING] * 20
    honest = evidence.honest
    own = (None, None, None) if honest is None else (honest.rmse, honest.max_ulp, honest.bias)
    worst = worst_element(evidence)
    place = [NOTHING] * 3 if worst is None else [str(list(worst.position)), _cell(worst.gold), _cell(worst.candidate)]
    values = (
        found.count, found.equal, found.cosine, found.max_abs, found.mean_abs, found.max_rel, found.mean_rel,
        found.rmse, found.normalized, found.bias, found.max_ulp, found.mean_ulp, found.nan_mismatch,
        found.infinity_mismatch, *own,
    )  # fmt: skip
    return [*(_cell(value) for value in values), *place]


def _how(outcome: Outcome) -> str:
    return f"simulated {simulated_words(outcome.simulated)}" if outcome.simulated else outcome.reason


def _cell(value: float | None) -> str:
    return NOTHING if value is None else repr(value)
