"""One pair of calls as the page of a comparison shows it: arguments, statistics and measurements on both sides, the
stack, and the commands to go on."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from trueline.records import Call, CallComparison, Statistics, TensorComparison, TensorRecord
from trueline.report.call_commands import call_commands
from trueline.report.json import plain
from trueline.report.showing import arguments_of, render_result
from trueline.report.subject import ComparisonView

_METRICS = (
    "cosine", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "max_ulp", "mean_ulp", "bias", "equal", "count",
    "nan_mismatch", "infinity_mismatch",
)  # fmt: skip


def pair_details(comparison: ComparisonView, pair: CallComparison) -> dict[str, Any]:
    """One pair of calls as the page's side panel shows it."""
    call = pair.call
    return {
        "reason": pair.reason,
        "module_class": call.module_class,
        "level": call.level.value,
        "context": call.context,
        "arguments": _arguments(pair),
        "reference": _side(pair.reference),
        "candidate": _side(pair.candidate),
        "stack": [str(frame) for frame in call.stack],
        "tensors": [_tensor(tensor) for tensor in pair.tensors],
        "commands": call_commands(comparison, pair),
    }


def _arguments(pair: CallComparison) -> list[list[str | None]]:
    """Name, reference, candidate of each argument; None where a side has none. Those given by their place are told by
    their number; the others are laid side by side by their names."""
    sides = [{} if call is None else _numbered(call) for call in (pair.reference, pair.candidate)]
    names = list(dict.fromkeys(name for both in zip_longest(*sides) for name in both if name is not None))
    return [[name, sides[0].get(name), sides[1].get(name)] for name in names]


def _numbered(call: Call) -> dict[str, str]:
    return {name or str(place): text for place, (name, text) in enumerate(arguments_of(call))}


def _side(call: Call | None) -> dict[str, Any] | None:
    if call is None:
        return None
    return {
        "name": call.name,
        "module": call.module,
        "result": render_result(call),
        "raised": call.raised,
        "source": call.source,
    }


def _tensor(tensor: TensorComparison) -> dict[str, Any]:
    content: dict[str, Any] = {
        "role": tensor.role.value,
        "path": tensor.path,
        "verdict": int(tensor.verdict),
        "reason": tensor.reason,
        "distance": plain(tensor.distance),
        "estimated": tensor.estimated,
        "limit": plain(tensor.limit),
        "reference": record_details(tensor.reference),
        "candidate": record_details(tensor.candidate),
    }
    if (m := tensor.measurement) is not None:
        content["measurement"] = {name: plain(getattr(m, name)) for name in _METRICS}
    if tensor.errors:
        content["baseline"] = record_details(tensor.baseline)
        content["errors"] = [
            [one.metric, plain(one.candidate), plain(one.baseline), plain(one.ratio)] for one in tensor.errors
        ]
    return content


def record_details(record: TensorRecord | None) -> dict[str, Any] | None:
    """A tensor of one side: what it looks like, and its statistics or why there are none."""
    if record is None:
        return None
    numbers: Statistics | None = record.statistics
    content: dict[str, Any] = {"dtype": record.dtype, "shape": list(record.shape), "device": record.device}
    if numbers is None:
        return content | {"missing": record.missing or "no statistics"}
    infinities = numbers.positive_infinity + numbers.negative_infinity
    values = (numbers.minimum, numbers.maximum, numbers.mean, numbers.norm, numbers.nan, infinities, numbers.zeros)
    return content | {"statistics": [plain(value) for value in values]}
