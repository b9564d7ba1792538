"""What a check of a corpus of API configs covers, and what it finds.

    python -m benchmarks.corpus_coverage [--corpus FILE] [--check FOLDER]... [--workers N] [--results FOLDER]

Runs ``trueline check FILE --target paddle:cpu --reference torch:cpu`` into FOLDER (a check that is there already goes
on), then computes from what was kept:

- how the lines end, one ending each;
- the share of lines that ended in a harness error or have no counterpart in torch (at most 1 % may);
- of the differentiable lines, the share whose gradients were compared (at least 95 % must), and the others with their
  reasons. A line is differentiable if it gives gradients of a floating or complex tensor in either framework; one that
  could not be compared at all is taken for differentiable.
- every finding, with the explanation that ``benchmarks/corpus_findings.toml`` holds for it.

Without a corpus the examples of the mapping are checked; without one but with kept checks these are read, and nothing
is executed. Writes ``corpus_coverage.json`` and ``corpus_findings.md``, which name lines by their numbers. Ends with 1
where a share is missed or a finding has no explanation.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import trueline
from trueline.cases import CaseResult, Ending, Status
from trueline.ops.mapping.rows import row_for
from trueline.records import Verdict

RESULTS = Path(__file__).parent / "results"
EXPLANATIONS = Path(__file__).parent / "corpus_findings.toml"
MOST_UNMAPPED, LEAST_GRADIENTS = 0.01, 0.95
FINDINGS = (Ending.MISMATCH, Ending.TARGET_RAISES, Ending.CRASHED, Ending.TIMED_OUT, Ending.OUT_OF_MEMORY)
NO_COUNTERPART = "no counterpart in "


@dataclass
class Coverage:
    """Counts of one check. Lines are told by where they stand and their API: ``late`` are those for which the reference
    or the measuring took too long, ``without_gradients`` differentiable ones whose gradients were not compared."""

    endings: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    unmapped: list[tuple[str, str]] = field(default_factory=list)
    differentiable: int = 0
    compared: int = 0
    without_gradients: list[tuple[str, str]] = field(default_factory=list)
    late: list[tuple[str, str]] = field(default_factory=list)
    findings: list[tuple[str, str, CaseResult]] = field(default_factory=list)
    """Where the line stands, its text, and what was found."""

    @property
    def unmapped_share(self) -> float:
        """Of all lines, those in harness errors or without a counterpart."""
        return len(self.unmapped) / max(self.lines, 1)

    @property
    def gradient_share(self) -> float:
        """Of the differentiable lines, those whose gradients were compared."""
        return self.compared / max(self.differentiable, 1)


def coverage_of(results: Sequence[CaseResult] | Iterator[CaseResult], lines: dict[str, str] | None = None) -> Coverage:
    """Counts the results of a check. ``lines`` has the text of a line by where it stands (``FILE:12``)."""
    found = Coverage()
    for result in results:
        ending, place = result.ending, result.case.calls[0] if result.case.calls else ""
        text, named = (lines or {}).get(place, place), f"{Path(place).name} {result.case.api}".strip()
        found.lines += 1
        found.endings[ending.value] += 1
        if ending is Ending.HARNESS_ERROR or result.measured.skipped.startswith(NO_COUNTERPART):
            found.unmapped.append((named, result.reason))
        elif ending in FINDINGS and result.measured.skipped:
            found.late.append((named, result.reason))
        elif ending in FINDINGS:
            found.findings.append((named, text, result))
        reason = gradients_missing(result)
        if reason is not None:
            found.differentiable += 1
            found.compared += not reason
            if reason:
                found.without_gradients.append((named, reason))
    return found


def gradients_missing(result: CaseResult) -> str | None:
    """Why the gradients of a line were not compared: empty where they were, None where it has none."""
    returned = result.measured.candidate.status is Status.RETURNED
    if not result.case.backward or not (returned or result.measured.skipped):
        return None
    if not result.findings:
        return result.reason
    gradients = [one for one in result.findings if one.evidence.part == "gradient"]
    missing = [one for one in gradients if one.verdict is Verdict.NOT_COMPARED]
    if not gradients:
        return None  # neither framework has a gradient
    return "; ".join(dict.fromkeys(one.reason for one in missing))


def explanations() -> list[dict[str, Any]]:
    """The rows of the file of explanations: ``api`` and ``line`` are patterns, ``reason`` a part of what is said."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    rows: list[dict[str, Any]] = toml.loads(EXPLANATIONS.read_text(encoding="utf-8"))["finding"]
    return rows


def explained(text: str, result: CaseResult, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The first row that speaks of a finding, else what the mapping says of an example on which the two frameworks are
    known to differ; None where nothing does."""
    for row in rows:
        apis = row["api"] if isinstance(row["api"], list) else [row["api"]]
        meant = any(fnmatch.fnmatchcase(result.case.api, one) for one in apis) and row.get("line", "") in text
        ended = row.get("ending", result.ending.value) == result.ending.value
        if meant and ended and row.get("reason", "") in result.reason:
            return row
    known = row_for(result.case.api)
    differs = known is not None and text in known.differs
    return {"fault": "known", "why": known.disagreement} if known is not None and differs else None


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    with tempfile.TemporaryDirectory() as scratch:
        reports = _reports(options, Path(scratch))
        lines = {place: text for report in reports for source in report.info.sources for place, text in _lines(source)}
        found = coverage_of(chain.from_iterable(report.results for report in reports), lines)
        rows = explanations()
        told = [(named, result, explained(text, result, rows)) for named, text, result in found.findings]
    write(Path(options.results), found, told)
    unexplained = sum(row is None for _, _, row in told)
    good = found.unmapped_share <= MOST_UNMAPPED and found.gradient_share >= LEAST_GRADIENTS and not unexplained
    print(json.dumps(_numbers(found, unexplained), indent=2))
    return 0 if good else 1


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", help="a file of config lines (default: the examples of the mapping)")
    parser.add_argument("--check", action="append", default=[], help="the folder of the check; several are only read")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--results", default=str(RESULTS))
    return parser.parse_args(words)


def _reports(options: argparse.Namespace, scratch: Path) -> list[trueline.CheckReport]:
    if options.check and options.corpus is None:
        return [trueline.load_check(folder) for folder in options.check]
    folder = options.check[0] if options.check else scratch / "check"
    ops = None if options.corpus else "paddle.*"
    source = [options.corpus] if options.corpus else []
    return [trueline.check(source, ops=ops, target="paddle:cpu", reference="torch:cpu", out=folder,
                           workers=options.workers)]  # fmt: skip


def _lines(source: str) -> list[tuple[str, str]]:
    """The lines of a corpus by where they stand; none where it is no file."""
    if not Path(source).is_file():
        return []
    texts = Path(source).read_text(encoding="utf-8").splitlines()
    return [(f"{source}:{number}", text) for number, text in enumerate(texts, 1)]


def _numbers(found: Coverage, unexplained: int) -> dict[str, Any]:
    return {
        "lines": found.lines,
        "endings": dict(found.endings.most_common()),
        "reference or measuring too slow": len(found.late),
        "harness errors and unmapped": len(found.unmapped),
        "their share": round(found.unmapped_share, 4),
        "differentiable lines": found.differentiable,
        "with gradients compared": found.compared,
        "share of gradients compared": round(found.gradient_share, 4),
        "findings": len(found.findings),
        "findings without an explanation": unexplained,
    }


Told = list[tuple[str, CaseResult, dict[str, Any] | None]]


def write(results: Path, found: Coverage, told: Told) -> None:
    """Writes the figures and the findings."""
    results.mkdir(parents=True, exist_ok=True)
    numbers = _numbers(found, sum(row is None for _, _, row in told))
    (results / "corpus_coverage.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    text = ["# A corpus of API configs, Paddle on the CPU against torch: coverage and findings", ""]
    text += ["Made by `python -m benchmarks.corpus_coverage`. Lines are named by their numbers in the corpus.", ""]
    text += ["| what | number |", "| --- | --- |"]
    text += [f"| {name} | {_shown(value)} |" for name, value in numbers.items()]
    text += ["", *_section("No counterpart, or a harness error", found.unmapped)]
    text += _section("The reference, or measuring, took too long", found.late)
    text += _section("Differentiable lines whose gradients were not compared", found.without_gradients)
    text += _findings(told)
    (results / "corpus_findings.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")


def _shown(value: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in value.items()) if isinstance(value, dict) else str(value)


def _section(title: str, pairs: list[tuple[str, str]]) -> list[str]:
    rows = [f"- {named}: {_short(reason, 200)}" for named, reason in pairs]
    return [f"## {title} ({len(pairs)})", "", *(rows or ["None."]), ""]


def _findings(told: Told) -> list[str]:
    """Grouped by their explanation, those without one first."""
    groups: dict[str, list[tuple[str, CaseResult]]] = {}
    for named, result, row in told:
        title = "Not explained" if row is None else f"{row['fault']}: {row['why']}"
        groups.setdefault(title, []).append((named, result))
    lines = [f"## Findings, one by one ({len(told)})", ""]
    for title in sorted(groups, key=lambda one: (one != "Not explained", one)):
        lines += [f"### {title} ({len(groups[title])})", ""]
        lines += [
            f"- {named} ({', '.join(dict.fromkeys(spec.dtype for spec in result.case.tensors))}), "
            f"{result.ending.value}: {_short(result.reason, 220)}"
            for named, result in groups[title]
        ]
        lines.append("")
    return lines


def _short(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


if __name__ == "__main__":
    sys.exit(main())
