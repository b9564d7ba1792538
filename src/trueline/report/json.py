"""Reports as JSON: strict (no NaN or Infinity tokens) and streamed, one call a line.

A float that JSON cannot say is the string ``"nan"``, ``"inf"`` or ``"-inf"``. ``"format"`` names the layout and
``"version"`` grows when a field changes its meaning: since 2, ``inherited`` says that a call follows from the origin
(without an origin none does), and ``observables`` tell what the programs give away.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from trueline.events import Progress
from trueline.records import (
    Call,
    CallComparison,
    Certificate,
    Measurement,
    ObservableComparison,
    Origin,
    RunInfo,
    Statistics,
    TensorComparison,
    TensorRecord,
)
from trueline.report.given_away import given_dict
from trueline.report.origin_wording import calls_of, headline, is_of_calls
from trueline.report.partial import partial_certificates, partial_first, partial_runs
from trueline.report.subject import ComparisonView, each_call, following, origin_position
from trueline.report.verdict_wording import next_commands, unmatched_lines, verdict_sentence

FORMAT = "trueline-comparison"
VERSION = 2


def write_json(comparison: ComparisonView, stream: TextIO, progress: Progress | None = None) -> int:
    """Writes the whole comparison; gives the number of calls."""
    head = dumps(comparison_head(comparison))
    stream.write(head[:-1] + ',\n"observables": [')
    for place, one in enumerate(comparison.observables):
        stream.write(("\n" if place == 0 else ",\n") + dumps(observable_dict(one)))
    stream.write('\n],\n"calls": [')
    series = comparison.series()
    follows = following(comparison, series, origin_position(comparison, series))
    count = 0
    for pair in each_call(comparison, "JSON: calls", progress):
        content = pair_dict(pair) | {"inherited": bool(follows[count])}
        stream.write(("\n" if count == 0 else ",\n") + dumps(content))
        count += 1
    stream.write("\n]}\n")
    return count


def comparison_head(comparison: ComparisonView) -> dict[str, Any]:
    """Everything about a comparison but its calls."""
    origin = comparison.origin
    runs = (comparison.reference, comparison.candidate, comparison.baseline)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "verdict": comparison.verdict.name,
        "summary": verdict_sentence(comparison),
        "standard": comparison.standard,
        "mode": comparison.mode,
        "counts": dict(comparison.counts),
        "given_away": given_dict(comparison),
        "too_little": list(comparison.too_little),
        "reference": {"path": str(comparison.reference.path), **plain(comparison.reference.info)},
        "candidate": {"path": str(comparison.candidate.path), **plain(comparison.candidate.info)},
        "baseline": None
        if comparison.baseline is None
        else {"path": str(comparison.baseline.path), **plain(comparison.baseline.info)},
        "origin": None
        if origin is None
        else origin_dict(origin),
        "first_divergence": comparison.first_divergence and call_dict(comparison.first_divergence, tensors=False),
        "unmatched": unmatched_lines(comparison),
        "missing_ranks": plain(comparison.missing_ranks),
        "notes": list(comparison.notes),
        "next": [{"why": why, "command": text} for why, text in next_commands(comparison)],
    }
    return partial_first(partial_runs(runs), content)


def origin_dict(origin: Origin) -> dict[str, Any]:
    """Where the two part, and why: ``call`` is that in which it shows, ``of_calls`` whether calls are the cause."""
    left, right = calls_of(origin)
    return {
        "kind": origin.kind,
        "headline": headline(origin),
        "names": list(origin.names),
        "of_calls": is_of_calls(origin),
        "call": call_dict(origin.comparison.call, tensors=False),
        "reference_calls": [call_dict(call, tensors=False) for call in left],
        "candidate_calls": [call_dict(call, tensors=False) for call in right],
        "explanation": origin.explanation,
        "confirmed": origin.confirmed,
        "evidence": plain(origin.evidence),
        "comparison": pair_dict(origin.comparison) | {"inherited": False},
    }


def observable_dict(one: ObservableComparison) -> dict[str, Any]:
    """Something that the programs give away, or a parameter that they begin with."""
    return {
        **plain(_without(one, "reference", "candidate")),
        "reference": None if one.reference is None else tensor_dict(one.reference),
        "candidate": None if one.candidate is None else tensor_dict(one.candidate),
    }


def pair_dict(pair: CallComparison) -> dict[str, Any]:
    """One pair of calls with its tensors."""
    call = pair.call
    return {
        "name": call.name,
        "api": call.api,
        "index": call.index,
        "phase": call.phase.value,
        "level": call.level.value,
        "step": call.step,
        "rank": call.rank,
        "module": call.module,
        "source": call.source,
        "reference": None if pair.reference is None else {"id": pair.reference.id, "name": pair.reference.name},
        "candidate": None if pair.candidate is None else {"id": pair.candidate.id, "name": pair.candidate.name},
        "verdict": pair.verdict.name,
        "reason": pair.reason,
        "inherited": pair.inherited,
        "input_distance": plain(pair.input_distance),
        "output_distance": plain(pair.output_distance),
        "limit": plain(pair.limit),
        "tensors": [_tensor_pair(tensor) for tensor in pair.tensors],
    }


def call_dict(call: Call, *, tensors: bool = True) -> dict[str, Any]:
    """One call as it was recorded."""
    content: dict[str, Any] = {
        "name": call.name,
        **plain(_without(call, "stack", "arguments", "result", "tensors")),
        "source": call.source,
    }
    content["stack"] = [plain(frame) for frame in call.stack]
    content["arguments"], content["result"] = plain(call.arguments), plain(call.result)
    if tensors:
        content["tensors"] = [tensor_dict(record) for record in call.tensors]
    return content


def tensor_dict(record: TensorRecord) -> dict[str, Any]:
    """One tensor leaf with its statistics. The sketch is left out: it is for machines and 64 numbers long."""
    return {**plain(_without(record, "statistics")), "statistics": statistics_dict(record.statistics)}


def statistics_dict(statistics: Statistics | None) -> dict[str, Any] | None:
    return None if statistics is None else plain(_without(statistics, "sketch"))


def run_dict(path: Path, info: RunInfo, certificates: Mapping[int, Certificate]) -> dict[str, Any]:
    """The head of a Run and what each rank says about its own completeness."""
    content = {
        "path": str(path),
        "info": plain(info),
        "certificates": {str(rank): plain(certificate) for rank, certificate in certificates.items()},
    }
    return partial_first(partial_certificates(str(path), dict(certificates)), content)


def dumps(value: Any) -> str:
    """Strict JSON on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Turns records into JSON values."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if issubclass(kind, Enum):
        return value.name if issubclass(kind, int) else value.value
    if is_dataclass(kind):
        return {name: plain(getattr(value, name)) for name in _field_names(kind)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return plain(value.item())
    return value if isinstance(value, str | int) else str(value)


_AS_THEY_ARE = frozenset((str, bool, int, type(None)))
"""Types of JSON's own, which most values have."""


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _tensor_pair(tensor: TensorComparison) -> dict[str, Any]:
    measurement: Measurement | None = tensor.measurement
    return {
        "role": tensor.role.value,
        "path": tensor.path,
        "verdict": tensor.verdict.name,
        "reason": tensor.reason,
        "distance": plain(tensor.distance),
        "estimated": tensor.estimated,
        "limit": plain(tensor.limit),
        "reference": None if tensor.reference is None else tensor_dict(tensor.reference),
        "candidate": None if tensor.candidate is None else tensor_dict(tensor.candidate),
        "measurement": None if measurement is None else plain(measurement),
        "baseline": None if tensor.baseline is None else tensor_dict(tensor.baseline),
        "errors": [plain(error) for error in tensor.errors],
    }


def _without(record: Any, *names: str) -> dict[str, Any]:
    """The fields of a record but for some, one level deep."""
    kind: Any = type(record)
    return {name: getattr(record, name) for name in _field_names(kind) if name not in names}
