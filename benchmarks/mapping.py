"""How well the mapping between Paddle and torch holds: every row executed on both frameworks.

    python -m benchmarks.mapping

Writes ``benchmarks/results/mapping.md`` and ``mapping.json``: numbers of rows, APIs and cases, what was compared, and
every disagreement with its explanation. Ends with 1 where something disagrees that no row explains.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LARGEST = 20_000
"""Cases of the catalogue with more elements are left out: the question here is what is computed, not how fast."""


def main() -> int:
    warnings.simplefilter("ignore")
    from tests.ops.mapping_harness import held, may_differ

    from trueline.ops.mapping.rows import rows

    started = time.perf_counter()
    counts: Counter[str] = Counter()
    unexplained: list[dict[str, Any]] = []
    explained: list[dict[str, Any]] = []
    for row in rows().values():
        for one in held(row):
            counts["cases"] += 1
            counts["outputs compared"] += one.outputs
            counts["gradients compared"] += one.gradients
            counts["cases with gradients"] += bool(one.gradients)
            if not one.problems:
                counts["agreeing"] += 1
                continue
            entry = {"api": row.paddle, "case": one.example, "found": one.problems[0], "why": row.disagreement}
            (explained if may_differ(row, one.example) else unexplained).append(entry)
    found = {
        "apis": len(rows()),
        "of them functions of ours on the torch side": sum(row.composite for row in rows().values()),
        **counts,
        "disagreeing as explained": len(explained),
        "disagreeing without explanation": len(unexplained),
        "APIs with an explained disagreement": len({entry["api"] for entry in explained}),
        "seconds": round(time.perf_counter() - started, 1),
        **_from_torch(),
    }
    _write(found, explained, unexplained)
    print(json.dumps(found, indent=2))
    return 1 if unexplained else 0


def _from_torch() -> dict[str, int]:
    """The catalogue of torch's operators, executed by Paddle as far as it has a counterpart."""
    from tests.ops.mapping_harness import held_from_torch

    from trueline.ops.catalogue import catalogue_cases
    from trueline.ops.facts import Kind, facts_of
    from trueline.ops.mapping.translate import NoCounterpart

    seen: set[str] = set()
    agreeing: set[str] = set()
    counts: Counter[str] = Counter()
    for case in catalogue_cases():
        drawn = facts_of(case.api).kind in (Kind.RANDOM, Kind.UNDEFINED)
        if drawn or sum(math.prod(spec.shape) for spec in case.tensors) > LARGEST:
            continue
        seen.add(case.api)
        try:
            one = held_from_torch(case)
        except NoCounterpart:
            counts["torch cases without a counterpart"] += 1
            continue
        if one.problems:
            counts["torch cases that differ, or that Paddle refuses"] += 1
        else:
            counts["torch cases that agree"] += 1
            agreeing.add(case.api)
    return {"torch APIs of the catalogue": len(seen), "of them with agreeing cases in Paddle": len(agreeing), **counts}


def _write(found: dict[str, Any], explained: list[dict[str, Any]], unexplained: list[dict[str, Any]]) -> None:
    lines = ["# The mapping between Paddle and torch, executed", ""]
    lines += ["| what | number |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in found.items()), ""]
    for title, entries in (("Disagreements, explained", explained), ("Disagreements without explanation", unexplained)):
        lines += [f"## {title}", ""]
        by_reason: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            by_reason.setdefault(entry["why"] or "no reason given", []).append(entry)
        for why, group in sorted(by_reason.items()):
            apis = sorted({entry["api"] for entry in group})
            lines += [f"- **{why}**: {', '.join(apis)}", f"  - for example `{group[0]['case']}`: {_short(group[0])}"]
        lines += ["" if entries else "None.", ""]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "mapping.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    record = {"found": found, "explained": explained, "unexplained": unexplained}
    (RESULTS / "mapping.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _short(entry: dict[str, Any]) -> str:
    text = " ".join(entry["found"].split())
    return text if len(text) <= 160 else text[:157] + "..."


if __name__ == "__main__":
    sys.exit(main())
