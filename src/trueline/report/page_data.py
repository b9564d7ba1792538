"""The data inside the HTML page: one compact column per property of all calls, and details of the calls that matter.

200,000 calls take about 6 MB as columns (base64 of little-endian arrays, strings said once) where one object per call
would take 100. Details are kept for the calls that differ, then for some others, up to a fixed amount.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trueline.records import Call, CallComparison, Origin, Phase, Verdict
from trueline.report.given_away import given_page
from trueline.report.json import comparison_head, dumps, origin_dict
from trueline.report.origin_wording import (
    SHOWN,
    advice,
    calls_of,
    confirmation,
    finding,
    is_of_calls,
    is_region,
    is_taken,
    short_names,
    why,
)
from trueline.report.pair_details import pair_details
from trueline.report.pair_details import record_details as record_details  # the page of a Run shows tensors alike
from trueline.report.partial import partial_first, partial_runs
from trueline.report.subject import Columns, ComparisonView, following, origin_position
from trueline.report.tensor_error import tensor_error, with_gold, with_slices
from trueline.report.verdict_wording import next_commands, notes_of
from trueline.report.wording import module_of

DETAILED_CALLS = 2_000
DETAILED_BYTES = 20_000_000
_NEIGHBOURS = 40
"""Calls before the origin whose details are kept although they agree: people look there first."""
_PICTURES = 4
"""Tensors of the origin whose error is drawn."""
_TEXT_COLUMNS = ("api", "module", "source", "reference_module")
_FLOAT_COLUMNS = ("output_distance", "input_distance", "limit")

Vector = np.ndarray[Any, Any]


def page_data(comparison: ComparisonView, most: int | None = None) -> dict[str, Any]:
    """Everything the page shows, as JSON values; with the details of at most so many calls."""
    series = comparison.series()
    count = len(series["verdict"])
    origin = origin_position(comparison, series)
    series = {**series, "inherited": following(comparison, series, origin)}
    if comparison.origin is not None and not is_of_calls(comparison.origin):
        origin = None  # values explain it: the call in which it shows is no origin
    details, known = _details(comparison, series, origin, DETAILED_CALLS if most is None else most)
    columns, names = _columns(_completed(series, known))
    partial = partial_runs((comparison.reference, comparison.candidate, comparison.baseline))
    return {
        "head": partial_first(partial, _head(comparison, origin)),
        "count": count,
        "columns": columns,
        "names": names,
        "details": details,
    }


def _head(comparison: ComparisonView, position: int | None) -> dict[str, Any]:
    head = comparison_head(comparison)
    head["position"] = position
    head["next"] = [{"why": w, "command": text} for w, text in next_commands(comparison, html_written=True)]
    head["notes"] = notes_of(comparison)
    head["given_away"] = given_page(comparison)
    origin = comparison.origin
    if origin is not None:
        head["origin"] = _origin(comparison, origin, position)
    return head


def _origin(comparison: ComparisonView, origin: Origin, position: int | None) -> dict[str, Any]:
    """The cause as the page tells it; of the calls that explain it as many as can be read."""
    told = origin_dict(origin)
    pair = origin.comparison
    told |= {
        "why": why(origin),
        "finding": finding(origin),
        "confirmation": confirmation(origin, comparison.mode, baseline=comparison.baseline is not None),
        "advice": advice(origin),
        "module": module_of(pair.call),
        "names": short_names(origin),
        "region": is_region(origin),
        "taken": is_taken(origin),
        "sources": [one.source if one is not None else None for one in (pair.reference, pair.candidate)],
    }
    for side, calls in zip(("reference_calls", "candidate_calls"), calls_of(origin), strict=True):
        told[side] = [[call.name, call.source] for call in calls[:SHOWN]]
        told[f"more_{side}"] = max(0, len(calls) - SHOWN)
    if position is not None:
        told["detail"] = _pictured(comparison, pair, position)
    return told


def _pictured(comparison: ComparisonView, pair: CallComparison, position: int) -> dict[str, Any]:
    """Details with a picture of the error of the tensors that differ, where they were kept. The gold is among them
    where the origin could be replayed at all: nobody has to wait for a replay that was not asked for."""
    details = pair_details(comparison, pair)
    origin = comparison.origin
    differing = [place for place, tensor in enumerate(pair.tensors) if tensor.verdict is not Verdict.PASS]
    for place in differing[:_PICTURES]:
        picture = with_slices(tensor_error(comparison, position, place), comparison, position, place)
        if "missing" not in picture and origin is not None and origin.confirmed is not None:
            picture["gold"] = with_gold(comparison, position, place)
        details["tensors"][place]["picture"] = picture
    return details


def _completed(series: Columns, known: Mapping[int, Call]) -> dict[str, Vector]:
    """The columns of the page: number and source of a call are taken from the calls at hand where the comparison does
    not give them for all (-1 and empty elsewhere); what was not compared has no distance."""
    columns = {name: np.asarray(values) for name, values in series.items()}
    count = len(columns["verdict"])
    if "index" not in columns:
        columns["index"] = np.full(count, -1, dtype=np.int64)
        for position, call in known.items():
            columns["index"][position] = call.index
    if "source" not in columns:
        columns["source"] = np.full(count, "", dtype=object)
        for position, call in known.items():
            columns["source"][position] = call.source
    columns.setdefault("alone", np.zeros(count, dtype=np.int64))
    columns.setdefault("reference_module", columns["module"])
    unknown = columns["verdict"].astype(np.int64) == Verdict.NOT_COMPARED  # uninitialised memory, for example
    columns["output_distance"] = np.where(unknown, np.nan, columns["output_distance"])
    return columns


def _columns(series: Mapping[str, Vector]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name in _TEXT_COLUMNS:
        names[name], codes = said_once(series[name])
        columns[name] = encode(codes)
    for name in _FLOAT_COLUMNS:
        with np.errstate(over="ignore"):
            columns[name] = encode(series[name].astype("<f4"))
    for name in ("step", "rank", "verdict", "index", "inherited", "alone"):
        columns[name] = encode(series[name].astype(np.int64))
    columns["backward"] = encode((series["phase"] == Phase.BACKWARD.value).astype(np.int64))
    return columns, names


def said_once(texts: Vector) -> tuple[list[str], Vector]:
    """The distinct texts in order of appearance, and the number of each row's text."""
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(str(text), len(numbers)) for text in texts), np.int64, len(texts))
    return list(numbers), codes


def encode(values: Vector) -> dict[str, str]:
    """A column: the name of the smallest JavaScript array that holds it, and its bytes."""
    if values.dtype.kind != "f":
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        values = values.astype(np.min_scalar_type(high) if low >= 0 else "<i4")
        if values.dtype.itemsize == 8:
            raise OverflowError(f"a column of the page goes up to {high}; a page can say up to 4294967295")
    kind = {"u1": "Uint8", "u2": "Uint16", "u4": "Uint32", "i4": "Int32", "f4": "Float32"}[values.dtype.str[1:]]
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"type": f"{kind}Array", "data": base64.b64encode(little.tobytes()).decode("ascii")}


def _details(
    comparison: ComparisonView, series: Columns, origin: int | None, most: int
) -> tuple[dict[str, Any], dict[int, Call]]:
    """Details by position, and the calls that they are of."""
    details: dict[str, Any] = {}
    known: dict[int, Call] = {}
    budget = DETAILED_BYTES
    for position in _worth_details(series, origin):
        if len(details) >= most or budget < 0:
            break
        pair = comparison.calls[position]
        detail = pair_details(comparison, pair)
        budget -= len(dumps(detail))
        details[str(position)] = detail
        known[position] = pair.call
    return details, known


def _worth_details(series: Columns, origin: int | None) -> Iterator[int]:
    """Positions, the most telling ones first: the origin and what came before it, calls that failed or warn, those
    that follow from it, then the rest in order."""
    verdict = np.asarray(series["verdict"]).astype(np.int64)
    inherited = np.asarray(series["inherited"]).astype(bool)
    rank = np.full(len(verdict), 3)
    rank[inherited] = 2
    rank[np.isin(verdict, [Verdict.WARN, Verdict.FAIL, Verdict.ERROR]) & ~inherited] = 1
    if origin is not None:
        rank[max(0, origin - _NEIGHBOURS) : origin + 1] = 0
    yield from np.argsort(rank, kind="stable").tolist()
