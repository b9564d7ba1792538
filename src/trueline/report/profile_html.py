"""A profile as one HTML page that opens from disk, asks nothing of the network and can be mailed (see ``html``).

It is made of the profile as JSON has it, so that one that was kept shows as the one that has just been measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from trueline.errors import UsageError
from trueline.profiles import CaseProfile, ProfileInfo
from trueline.records import Phase, Verdict
from trueline.report.html import Layout, write_page
from trueline.report.json import dumps
from trueline.report.page_data import DETAILED_BYTES, Vector, encode, said_once
from trueline.report.profile_json import profile_dict
from trueline.report.profile_wording import CaseSaid, profile_sentence

LAYOUT = Layout(
    "profile.html",
    "case",
    (
        "chinese_numbers.js", "chinese_profile.js", "small_table.js", "profile_data.js", "table.js",
        "profile_bars.js", "profile_details.js", "profile_main.js",
    ),
    ("small_table.css", "profile.css"),
)  # fmt: skip
_NO_VERDICT = 255
_TEXTS = ("api", "module", "source", "reason")


def write_profile_html(info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict, stream: TextIO) -> None:
    """Writes the page of a profile that was just measured. Open the file as UTF-8."""
    write_profile_page(profile_page_data(profile_dict(info, results, verdict)), stream)


def write_profile_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    title = f"{data['head']['verdict'].replace('_', ' ')}: {data['head']['summary']}"
    write_page(stream, LAYOUT, title, data)


def profile_page_data(profile: Mapping[str, Any], *, path: str = "") -> dict[str, Any]:
    """Everything the page shows, as JSON values; ``path`` is where the profile was kept."""
    try:
        cases: list[Mapping[str, Any]] = list(profile["cases"])
        columns, names = _columns(cases)
        details = _details(cases)
        head = {name: value for name, value in profile.items() if name != "cases"} | {"summary": _sentence(profile)}
        _ = head["verdict"].replace, head["info"]["limits"]["time"], head["totals"]["seconds"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{path or 'this'} is no profile that can be read; run trueline profile --out again") from None
    return {"head": {**head, "path": path}, "count": len(cases), "columns": columns, "names": names, "details": details}


def _sentence(profile: Mapping[str, Any]) -> str:
    """Said anew: a file keeps it in English alone."""
    cases = [
        CaseSaid(
            str(case["api"]),
            str(case["module"]),
            Verdict[case["verdict"]],
            None if case["accuracy"] is None else Verdict[case["accuracy"]],
            bool(case["target"]["phases"]),
        )
        for case in profile["cases"]
    ]
    return profile_sentence(cases, str(profile["info"]["target"]), str(profile["info"]["against"]))


def _columns(cases: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    texts = {name: [str(case[name]) for case in cases] for name in _TEXTS}
    texts["call"] = [str(case["call"]).removeprefix(str(case["api"])) for case in cases]
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name, values in texts.items():
        names[name], codes = said_once(np.array(values, dtype=object))
        columns[name] = encode(codes)
    columns["verdict"] = encode(np.array([Verdict[case["verdict"]] for case in cases], dtype=np.int64))
    columns["accuracy"] = encode(np.array([_accuracy(case) for case in cases], dtype=np.int64))
    columns["calls"] = encode(np.array([case["count"] for case in cases], dtype=np.int64))
    columns |= {name: encode(numbers) for name, numbers in _numbers(cases).items()}
    return columns, names


def _accuracy(case: Mapping[str, Any]) -> int:
    return _NO_VERDICT if case["accuracy"] is None else int(Verdict[case["accuracy"]])


def _numbers(cases: Sequence[Mapping[str, Any]]) -> dict[str, Vector]:
    """Seconds and bytes of one call on both sides, by direction, and one over the other; NaN where there is none."""
    rows = [_row(case) for case in cases]
    names = list(rows[0]) if rows else []
    return {name: np.array([row[name] for row in rows], dtype="<f4") for name in names}


def _row(case: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {"total": float(case["total"]), "lost": float(case["lost"])}
    sides = {"": case["target"], "against_": case["against"]}
    for prefix, side in sides.items():
        phases: Mapping[str, Any] = {} if side is None else side["phases"]
        for phase in Phase:
            found[f"{prefix}{phase.value}"] = _seconds(phases.get(phase.value))
        peaks = [one["memory"]["peak"] for one in phases.values() if one["memory"] is not None]
        found[f"{prefix}peak"] = float(max(peaks)) if peaks else math.nan
    for phase in Phase:
        ratio = case["ratios"].get(phase.value)
        found[f"ratio_{phase.value}"] = math.nan if ratio is None else float(ratio["value"])
    theirs = sum(one for one in (found["against_forward"], found["against_backward"]) if not math.isnan(one))
    compared = bool(case["ratios"]) and theirs > 0
    found["ratio"] = 1.0 + found["lost"] / max(case["count"], 1) / theirs if compared else math.nan
    found["share"] = _share(case["target"]["phases"])
    return found


def _seconds(phase: Mapping[str, Any] | None) -> float:
    return math.nan if phase is None else float(phase["timing"]["median"])


def _share(phases: Mapping[str, Any]) -> float:
    """Of the direction that takes longest: the part of its time that the device needs at least."""
    slowest = max(phases.values(), key=lambda one: float(one["timing"]["median"]), default=None)
    return math.nan if slowest is None or slowest["share"] is None else float(slowest["share"])


def _details(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of the cases that lost most, up to a fixed amount; they come in that order."""
    details: dict[str, Any] = {}
    budget = DETAILED_BYTES
    for position, case in enumerate(cases):
        budget -= len(dumps(case))
        if budget < 0:
            break
        details[str(position)] = case
    return details
