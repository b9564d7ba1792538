"""Cases and what was measured of them as plain JSON, and back: what travels to workers and lies in ledgers.

Floats that JSON cannot say are the strings ``nan``, ``inf`` and ``-inf``. Fields that are as by default are left out,
so that a record written by an older version still reads; evidence is written as ``compact`` says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, TypeVar

from trueline.cases import Case, CaseMeasured, CheckInfo, Evidence, Outcome, Status, Stored, Target, TensorSpec
from trueline.records import Measurement, Statistics
from trueline.replay.compact import evidence_from_list, evidence_to_list

Record = TypeVar("Record")
Json = dict[str, Any]


def case_to_json(case: Case) -> Json:
    """Written out, like its counterpart: it is done for every line of a campaign."""
    content: Json = {"api": case.api, "arguments": case.arguments}
    if case.tensors:
        content["tensors"] = [tensor_to_json(spec) for spec in case.tensors]
    if case.gradients:
        content["gradients"] = [tensor_to_json(spec) for spec in case.gradients]
    for name in ("backward", "autocast", "seed"):
        if value := getattr(case, name):
            content[name] = value
    if case.count != 1:
        content["count"] = case.count
    if case.calls:
        content["calls"] = list(case.calls)
    for name in ("module", "source", "draw"):
        if value := getattr(case, name):
            content[name] = value
    return content


def case_from_json(content: Mapping[str, Any]) -> Case:
    get = content.get
    return Case(
        content["api"],
        content["arguments"],
        tuple([tensor_from_json(spec) for spec in get("tensors", ())]),
        tuple([tensor_from_json(spec) for spec in get("gradients", ())]),
        get("backward", False),
        get("autocast", ""),
        get("seed", 0),
        get("count", 1),
        tuple(get("calls", ())),
        get("module", ""),
        get("source", ""),
        get("draw", 0),
    )


def tensor_to_json(spec: TensorSpec) -> Json:
    content: Json = {"path": spec.path, "dtype": spec.dtype, "shape": [int(size) for size in spec.shape]}
    if spec.strides is not None:
        content["strides"] = [int(step) for step in spec.strides]
    if spec.requires_grad:
        content["requires_grad"] = True
    if spec.statistics is not None:
        content["statistics"] = _flat(spec.statistics)
    if spec.domain:
        content["domain"] = spec.domain
    if spec.stored is not None:
        content["stored"] = _flat(spec.stored)
    return content


def tensor_from_json(content: Mapping[str, Any]) -> TensorSpec:
    get = content.get
    strides, statistics, stored = get("strides"), get("statistics"), get("stored")
    return TensorSpec(
        content["path"],
        content["dtype"],
        tuple(content["shape"]),
        None if strides is None else tuple(strides),
        get("requires_grad", False),
        None if statistics is None else _statistics(statistics),
        get("domain", ""),
        None if stored is None else Stored(**stored),
    )


def target_to_json(target: Target) -> Json:
    return {"target": str(target), "overrides": dict(target.overrides)}


def target_from_json(content: Mapping[str, Any]) -> Target:
    return Target.parse(content["target"], content["overrides"])


def outcome_to_json(outcome: Outcome) -> Json:
    return _written(outcome, status=lambda status: status.value)


def outcome_from_json(content: Mapping[str, Any]) -> Outcome:
    return Outcome(
        _STATUSES[content["status"]],
        content.get("reason", ""),
        float(content.get("seconds", 0.0)),
        content.get("peak_bytes", 0),
        content.get("simulated", ""),
    )


_STATUSES = {status.value: status for status in Status}


def measured_to_json(measured: CaseMeasured) -> Json:
    return _written(
        measured, candidate=outcome_to_json, reference=_maybe(outcome_to_json), evidence=_each(evidence_to_list)
    )


def written_measured(measured: CaseMeasured) -> str:
    """The same as text, as ledgers hold it."""
    return _ENCODER.encode(measured_to_json(measured))


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def measured_from_json(content: Mapping[str, Any]) -> CaseMeasured:
    """Written out, for it is done for every case that is read back from a ledger."""
    reference = content.get("reference")
    return CaseMeasured(
        content["key"],
        outcome_from_json(content["candidate"]),
        None if reference is None else outcome_from_json(reference),
        tuple([_evidence_in(one) for one in content.get("evidence", ())]),
        content.get("skipped", ""),
    )


def info_to_json(info: CheckInfo) -> Json:
    return _written(info)


def info_from_json(content: Mapping[str, Any]) -> CheckInfo:
    return _read(CheckInfo, content, sources=tuple, variants=tuple)


def _evidence_in(content: Any) -> Evidence:
    if isinstance(content, list):
        return evidence_from_list(content)
    return _read(  # as checks of version 1 have it
        Evidence,
        content,
        shape=tuple,
        gold=_maybe(_measurement),
        honest=_maybe(_measurement),
        direct=_maybe(_measurement),
        numbers=lambda numbers: {name: float(value) for name, value in numbers.items()},
    )


def _measurement(content: Mapping[str, Any]) -> Measurement:
    return Measurement(**{name: _number(value) for name, value in content.items()})


def _statistics(content: Mapping[str, Any]) -> Statistics:
    return Statistics(**{name: _number(value) for name, value in content.items()})


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_number(item) for item in value)
    return float(value) if isinstance(value, str) else value


def _flat(record: Any) -> Json | None:
    return None if record is None else {name: plain(getattr(record, name)) for name in _names(type(record))}


def plain(value: Any) -> Any:
    """A value in what JSON knows."""
    if isinstance(value, bool | int | str) or value is None:
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "item"):  # a numpy scalar
        return plain(value.item())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _written(record: Any, **writers: Callable[[Any], Any]) -> Json:
    content: Json = {}
    for name, default in _names(type(record)).items():
        value = getattr(record, name)
        if value is default or value == default:
            continue
        content[name] = writers[name](value) if name in writers else plain(value)
    return content


def _read(kind: type[Record], content: Mapping[str, Any], **readers: Callable[[Any], Any]) -> Record:
    known = _names(kind)
    return kind(
        **{name: readers[name](value) if name in readers else value for name, value in content.items() if name in known}
    )


def _names(kind: type[Any]) -> dict[str, Any]:
    """The fields of a record with their defaults."""
    if kind not in _known:
        _known[kind] = {field.name: _default(field) for field in fields(kind)}
    return _known[kind]


_known: dict[type[Any], dict[str, Any]] = {}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _each(writer: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda items: [writer(item) for item in items]


def _maybe(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)
