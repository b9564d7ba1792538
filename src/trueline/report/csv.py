"""A comparison as CSV with ptdbg_ascend's columns, one row per tensor, and trueline's verdict beside them.

As in ptdbg, "NPU" is the candidate and "Bench" the reference. "Accuracy Reached or Not" is ptdbg's own rule, so it can
be read as before; it is N/A where nothing was measured element by element and the tensors are not known to be equal.
What the programs give away stands below the calls, in rows without a call. "Victim" says that a row follows from the
origin. Rows are streamed.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from typing import TextIO

from trueline.events import Progress
from trueline.records import (
    Call,
    CallComparison,
    ObservableComparison,
    Statistics,
    TensorComparison,
    TensorRecord,
    Verdict,
)
from trueline.report.ptdbg_names import call_name, tensor_name
from trueline.report.subject import ComparisonView, each_call, following, origin_position

NOTHING = "N/A"

COLUMNS = (
    "NPU Name", "Bench Name", "Npu Tensor Dtype", "Bench Tensor Dtype", "Npu Tensor Shape", "Bench Tensor Shape",
    "Cosine", "MaxAbsError", "MaxRelativeError", "One Thousandth Err Ratio", "Five Thousandths Err Ratio",
    "NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm",
    "Accuracy Reached or Not", "Err_message",
    "Verdict", "Reason", "Distance", "Estimated", "Limit", "Victim",
    "Call", "Step", "Rank", "Module", "Source",
)  # fmt: skip

METRICS = (
    "distance", "RMSE", "max absolute error", "max relative error", "mean relative error", "small value share",
    "balance", "max ULP", "unequal elements",
)  # fmt: skip
"""The errors against the gold of a three-way comparison (``ErrorRatio.metric``), in the order of their columns."""
THREE_WAY_COLUMNS = tuple(
    f"{side} {metric}" for metric in METRICS for side in ("Candidate", "Baseline", "Ratio of")
)

_FOLLOWS = "follows from the origin"
_COSINE_LIMIT = 0.99
_ABSOLUTE_LIMIT = 0.001
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|")


def write_csv(
    comparison: ComparisonView, stream: TextIO, progress: Progress | None = None, *, observables: bool = True
) -> int:
    """Writes all tensors of all calls, and what the programs give away; gives the number of rows. Open the
    file with ``newline=""``."""
    writer = csv.writer(stream)
    three_way = comparison.baseline is not None
    writer.writerow((*COLUMNS, *THREE_WAY_COLUMNS) if three_way else COLUMNS)
    series = comparison.series()
    follows = following(comparison, series, origin_position(comparison, series))
    rows = 0
    for place, pair in enumerate(each_call(comparison, "CSV: calls", progress)):
        for row, tensor in zip(_call_rows(pair, bool(follows[place])), pair.tensors or (None,), strict=True):
            writer.writerow([*row, *_three_way(tensor)] if three_way else row)
            rows += 1
    for one in comparison.observables if observables else ():
        writer.writerow([*_observable_row(one), *_three_way(None)] if three_way else _observable_row(one))
        rows += 1
    return rows


def safe(text: str) -> str:
    """A text that a spreadsheet takes for a text: what would start a formula gets a quote in front."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _call_rows(pair: CallComparison, follows: bool) -> Iterator[list[str]]:
    if pair.tensors:
        for tensor in pair.tensors:
            yield _tensor_row(pair, tensor, follows)
    else:
        yield [
            *_names(pair, None), *[NOTHING] * 17, NOTHING, safe(pair.reason),
            pair.verdict.name, safe(pair.reason), NOTHING, NOTHING, NOTHING, *_context(pair, follows),
        ]  # fmt: skip


def _tensor_row(pair: CallComparison, tensor: TensorComparison, follows: bool) -> list[str]:
    candidate, reference = tensor.candidate, tensor.reference
    return [
        *_names(pair, tensor),
        safe(candidate.dtype) if candidate else NOTHING,
        safe(reference.dtype) if reference else NOTHING,
        str(list(candidate.shape)) if candidate else NOTHING,
        str(list(reference.shape)) if reference else NOTHING,
        *_errors(tensor),
        *_statistics(candidate),
        *_statistics(reference),
        _reached(tensor),
        safe(_message(tensor)),
        tensor.verdict.name,
        safe(tensor.reason or (pair.reason if tensor.verdict >= Verdict.WARN else "")),
        _number(tensor.distance),
        NOTHING if tensor.distance is None else ("yes" if tensor.estimated else "no"),
        _number(tensor.limit),
        *_context(pair, follows),
    ]


def _observable_row(one: ObservableComparison) -> list[str]:
    """What the programs give away: the same columns, ``gradient:layers.0.weight`` for a name, and no call."""
    candidate, reference = one.candidate, one.reference
    name = safe(f"{one.kind}:{one.name}")
    nothing = "" if candidate and reference else safe(one.reason)
    return [
        name if candidate else NOTHING,
        name if reference else NOTHING,
        safe(candidate.dtype) if candidate else NOTHING,
        safe(reference.dtype) if reference else NOTHING,
        str(list(candidate.shape)) if candidate else NOTHING,
        str(list(reference.shape)) if reference else NOTHING,
        *[NOTHING] * 5,
        *_statistics(candidate),
        *_statistics(reference),
        NOTHING,
        nothing,
        one.verdict.name,
        safe(one.reason),
        _number(one.distance),
        NOTHING if one.distance is None else ("yes" if one.estimated else "no"),
        _number(one.limit),
        "yes" if one.reason == _FOLLOWS else "no",
        NOTHING,
        str(one.step),
        str(one.rank),
        "",
        "",
    ]


def _three_way(tensor: TensorComparison | None) -> list[str]:
    errors = {error.metric: error for error in tensor.errors} if tensor is not None else {}
    cells: list[str] = []
    for metric in METRICS:
        error = errors.get(metric)
        values = (None,) * 3 if error is None else (error.candidate, error.baseline, error.ratio)
        cells += [_number(value) for value in values]
    return cells


def _names(pair: CallComparison, tensor: TensorComparison | None) -> list[str]:
    candidate = tensor.candidate if tensor else None
    reference = tensor.reference if tensor else None
    return [_name(pair.candidate, candidate, tensor is None), _name(pair.reference, reference, tensor is None)]


def _name(call: Call | None, record: TensorRecord | None, whole_call: bool) -> str:
    if call is None or (record is None and not whole_call):
        return NOTHING
    return safe(call_name(call) if record is None else tensor_name(call, record))


def _context(pair: CallComparison, follows: bool) -> list[str]:
    call = pair.call
    victim = "yes" if follows else "no"
    return [victim, safe(call.name), str(call.step), str(call.rank), safe(call.module), safe(call.source)]


def _is_equal(tensor: TensorComparison) -> bool:
    """Whether the two tensors are known to be equal bit for bit, so that nothing had to be measured."""
    return tensor.measurement is None and tensor.distance == 0.0 and not tensor.estimated


def _errors(tensor: TensorComparison) -> list[str]:
    if _is_equal(tensor):
        return ["1.0", "0.0", "0.0", "1.0", "1.0"]
    measurement = tensor.measurement
    if measurement is None:
        return [NOTHING] * 5
    thousandth, five_thousandths = measurement.within[1], measurement.within[2]
    values = (measurement.cosine, measurement.max_abs, measurement.max_rel, thousandth, five_thousandths)
    return [_number(value) for value in values]


def _statistics(record: TensorRecord | None) -> list[str]:
    statistics: Statistics | None = record.statistics if record else None
    if statistics is None:
        return [NOTHING] * 4
    return [_number(v) for v in (statistics.maximum, statistics.minimum, statistics.mean, statistics.norm)]


def _reached(tensor: TensorComparison) -> str:
    """ptdbg's rule: No where the cosine is below 0.99 and the largest absolute error above 0.001. NaN or Inf on one
    side only is No, as there."""
    measurement = tensor.measurement
    if measurement is None:
        return "Yes" if _is_equal(tensor) else NOTHING
    if measurement.nan_mismatch or measurement.infinity_mismatch:
        return "No"
    if math.isnan(measurement.max_abs):
        return NOTHING
    return "No" if measurement.cosine < _COSINE_LIMIT and measurement.max_abs > _ABSOLUTE_LIMIT else "Yes"


def _message(tensor: TensorComparison) -> str:
    """What kept the tensors from being compared, as ptdbg says it in Err_message; empty where nothing did."""
    if tensor.candidate is None:
        return "only the reference has this tensor"
    if tensor.reference is None:
        return "only the candidate has this tensor"
    return tensor.reason if tensor.measurement is None and tensor.distance is None else ""


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return str(value) if not math.isfinite(value) else repr(float(value))
