"""What a run of the odd programs found, as JSON and as Markdown."""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.odd_programs import judge, observe
from benchmarks.odd_programs.halves import HALVES
from benchmarks.tables import table

RESULTS = Path(__file__).resolve().parents[1] / "results"
_COLUMNS = {
    **{level: [f"{level}/{data}" for data in observe.DATA] for level in observe.LEVELS},
    "witness": ["api/stats/witness"],
    "watch": ["watch"],
    "no kernels": [observe.TWIN],
}


_COPIED = (
    "With tensors kept, content is copied as it was before the program changes it: the copies are tensors, made by "
    "torch's own operators, to whoever lists all objects or profiles all operators."
)
_DISPATCHED = " torch's profiler has entries of its own for every dispatch mode, by which kernels are told."
_LAST_FRAME = "A call of torch in the very last frame: torch asks us about a kernel from one frame of Python."
_PARAMETERS = "The watch asks parameters for their gradients, and holds them until the step ends."
LIMITS = {
    "depth_at_which_operators_fail": _LAST_FRAME,
    "recursion_of_several_threads": _LAST_FRAME,
    "gradients_die_with_their_parameters": _PARAMETERS,
    "modules_replaced_in_a_loop_die": _PARAMETERS,
    "objects_known_to_the_collector": _COPIED,
    "profiler_counts_writing_in_place": _COPIED + _DISPATCHED,
    "profiler_sees_the_operators_of_a_step": _COPIED + _DISPATCHED,
    "signatures_and_code_of_torch": (
        "Functions for which torch has no hook are seen by exchanging their code: who reads the code reads ours."
    ),
    "what_a_program_sees_of_the_mode_stacks": (
        "torch asks only those modes that are on its stack, and anybody may look at that."
    ),
}
"""Programs of the working half that observing changes, with the reason why it must: they are counted as changed."""


def totals(rows: list[dict[str, Any]], half: str) -> dict[str, Any]:
    """Programs and pairs of a half by their outcome."""
    mine = [row for row in rows if row["half"] == half]
    judged = [row for row in mine if row["ways"]]
    pairs = Counter(judge.outcome_of(found) for row in judged for found in row["ways"].values())
    untouched = sum(all(not found for found in row["ways"].values()) for row in judged)
    bad, skipped = (sum(key in row for row in mine) for key in ("bad", "skip"))
    return {
        "programs": len(mine),
        "the same in every way": untouched,
        "changed in some way": len(judged) - untouched,
        "bad": bad,
        "skipped": skipped,
        "pairs": sum(pairs.values()),
        "outcomes": dict(pairs.most_common()),
    }


def _cell(row: dict[str, Any], ways: list[str]) -> str:
    """The outcomes of some ways in few words."""
    outcomes = {way: judge.outcome_of(row["ways"][way]) for way in ways if way in row["ways"]}
    kinds = Counter(outcomes.values())
    if not kinds:
        return "-"
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(
        f"{kind} ({' '.join(way.split('/')[1] for way, found in outcomes.items() if found == kind)})"
        for kind in kinds
        if kind != judge.SAME
    )


def _line(row: dict[str, Any]) -> list[str]:
    if "bad" in row or "skip" in row:
        return [row["name"], row["half"], "bad" if "bad" in row else "skipped", *["-"] * (len(_COLUMNS) - 1)]
    return [row["name"], row["half"], *(_cell(row, ways) for ways in _COLUMNS.values())]


def failures(rows: list[dict[str, Any]], half: str) -> list[list[str]]:
    """Program, ways and outcome with the first detail; ways with the same detail are put together."""
    lines = []
    for row in rows:
        if row["half"] != half:
            continue
        if "bad" in row:
            lines.append([row["name"], "bare", "bad", row["bad"]])
        grouped: dict[tuple[str, str], list[str]] = {}
        for way, found in row["ways"].items():
            if found:
                grouped.setdefault((found[0][0], found[0][1]), []).append(way)
        for (kind, detail), ways in grouped.items():
            lines.append([row["name"], " ".join(ways), kind, detail])
    return lines


def markdown(rows: list[dict[str, Any]], halves: list[str]) -> str:
    import torch

    ways = [way for way in observe.WAYS if any(way in row["ways"] for row in rows)]
    head = (
        f"# Odd programs, bare and observed\n\ntorch {torch.__version__}, Python {platform.python_version()}, "
        f"{len(ways)} of {len(observe.WAYS)} ways to observe: {', '.join(ways)}. The rule of the halves is in "
        "`benchmarks/odd_programs/halves.py`: the counted half is only counted.\n\n"
    )
    parts = []
    for half in HALVES:
        found = totals(rows, half)
        outcomes = ", ".join(f"{number} {kind}" for kind, number in found.pop("outcomes").items())
        parts.append([half, *(str(value) for value in found.values()), outcomes])
    keys = [key for key in totals(rows, "work") if key != "outcomes"]
    text = head + table(["half", *keys, "outcomes of pairs"], parts)
    text += "\n" + table(["program", "half", *_COLUMNS], [_line(row) for row in sorted(rows, key=lambda r: r["name"])])
    for half in halves:
        found = [[name, ways, kind, _one_line(detail)] for name, ways, kind, detail in failures(rows, half)]
        text += f"\n## What differs in the {half} half\n\n"
        text += table(["program", "ways", "outcome", "first detail"], found) if found else "Nothing.\n"
        reasons = [[row["name"], LIMITS[row["name"]]] for row in rows if row["half"] == half and row["name"] in LIMITS]
        if reasons:
            text += f"\n## What of the {half} half stays changed, and why\n\n" + table(["program", "reason"], reasons)
    return text


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]


def _without_details(row: dict[str, Any]) -> dict[str, Any]:
    ways = {way: [[kind, ""] for kind, _ in found[:1]] for way, found in row["ways"].items()}
    return {**row, "ways": ways, **({"bad": "bad"} if "bad" in row else {})}


def write(rows: list[dict[str, Any]], arguments: argparse.Namespace, full: bool) -> None:
    halves = list(HALVES) if arguments.details else ["work"]
    kept = [row if row["half"] in halves else _without_details(row) for row in rows]
    document = {"totals": {half: totals(rows, half) for half in HALVES}, "programs": kept}
    out = Path(arguments.out) if arguments.out else RESULTS / "odd_programs.json" if full else None
    if out is not None:
        out.write_text(json.dumps(document, indent=1) + "\n")
    text = markdown(rows, halves)
    if full and not arguments.details:
        (RESULTS / "odd_programs.md").write_text(text)
    print(text)
