"""How often triage is right: config lines whose failures are known by hand, checked, grouped and labelled.

    python -m benchmarks.triage --out results

Planted faults (``tests.helpers.faulty_paddle``) and real defects of Paddle stand among lines that pass. A case is told
rightly where its group has the label and the look that ``triage_truth`` says.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import trueline
from benchmarks.triage_truth import FAULTS, PLANTED, REAL, RIGHT, UNSUPPORTED, Truth
from trueline.campaign.triage import triage
from trueline.groups import Group, Triage

NOT_COVERED = (
    "The labels *ill-conditioned* and *reference or mapping wrong* are not in this table: no line here fails that way. "
    "Their rules are tested on made-up numbers only."
)
SECONDS = 10.0
GIGABYTES = 2.0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default=str(Path(__file__).parent / "results"), help="folder for triage.json and .md")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--scripts", type=int, default=50, help="groups that get a script (default: all)")
    chosen = options.parse_args()
    truths = (*PLANTED, *REAL, *UNSUPPORTED)
    with tempfile.TemporaryDirectory() as folder:
        found, seconds = run(truths, Path(folder), chosen.workers, chosen.scripts)
    rows = [row_of(truth, found) for truth in truths]
    alarms = [group.name for group in found.groups if not any(truth.api in group.apis for truth in truths)]
    content = {"cases": found.cases, "groups": len(found.groups), "alarms": alarms, **seconds, "rows": rows}
    Path(chosen.out, "triage.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    page = markdown(rows, found, alarms)
    Path(chosen.out, "triage.md").write_text(page, encoding="utf-8")
    print(page)
    return 0 if all(row["label right"] for row in rows) and not alarms else 1


def run(truths: Sequence[Truth], folder: Path, workers: int, scripts: int) -> tuple[Triage, dict[str, float]]:
    """Checks all lines and groups what fails; with the seconds that each took."""
    lines = folder / "lines.txt"
    lines.write_text("\n".join([*(line for truth in truths for line in truth.lines), *RIGHT]) + "\n", encoding="utf-8")
    started = time.perf_counter()
    overrides = {truth.api: f"{FAULTS}:{truth.fault}" for truth in truths if truth.fault}
    trueline.check(
        lines,
        target="paddle:cpu",
        reference="torch:cpu",
        overrides=overrides,
        out=folder / "check",
        workers=workers,
        timeout=SECONDS,
        memory=GIGABYTES,
    )
    checked = time.perf_counter()
    found = triage(
        folder / "check", workers=workers, timeout=SECONDS, memory=GIGABYTES, scripts=scripts, overrides=overrides
    )
    seconds = {"check seconds": round(checked - started, 1), "triage seconds": round(time.perf_counter() - checked, 1)}
    return found, seconds


def row_of(truth: Truth, found: Triage) -> dict[str, object]:
    """What was said of the lines of a truth."""
    groups = [group for group in found.groups if truth.api in group.apis]
    labels, looks = (sorted({text(group) for group in groups}) for text in (_label, _look))
    shown = [group for group in groups if group.folder is not None]
    return {
        "api": truth.api,
        "fault": truth.fault or "real",
        "lines": len(truth.lines),
        "truth": truth.label.value,
        "said": ", ".join(labels) or "nothing",
        "look": truth.look.value,
        "look said": ", ".join(looks) or "nothing",
        "label right": labels == [truth.label.value] and sum(group.size for group in groups) >= len(truth.lines),
        "look right": looks == [truth.look.value],
        "script": "none" if not shown else "shows it" if all(group.reproduced for group in shown) else "does not",
        "why": groups[0].why if groups else "",
    }


def _label(group: Group) -> str:
    return group.label.value


def _look(group: Group) -> str:
    return group.signature.look.value


def markdown(rows: Sequence[dict[str, object]], found: Triage, alarms: Sequence[str]) -> str:
    right, looks = (sum(bool(row[name]) for row in rows) for name in ("label right", "look right"))
    scripts = [row for row in rows if row["script"] != "none"]
    shown = sum(row["script"] == "shows it" for row in scripts)
    lines = [
        "# Triage",
        "",
        f"{len(rows)} known causes, {found.cases} cases in {len(found.groups)} groups: **{right} of {len(rows)}** have "
        f"the right label, {looks} the right look; {shown} of {len(scripts)} scripts show the failure; "
        f"{len(alarms)} groups of lines that are right.",
        "",
        NOT_COVERED,
        "",
        "| API | fault | truth | said | look | script |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        said = row["said"] if row["label right"] else f"**{row['said']}**"
        look = row["look said"] if row["look right"] else f"**{row['look said']}**"
        lines.append(f"| {row['api']} | {row['fault']} | {row['truth']} | {said} | {look} | {row['script']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
