"""What came of all pairs, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.random_programs.halves import HALVES

Row = dict[str, Any]


def page(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row["truth"] in ("keeps", "changes")]
    truths = Counter(row["truth"] for row in rows)
    kinds = sorted({kind for row in judged for kind in row["answers"]})
    lines = [
        "# Random small programs, and random edits of them",
        "",
        "`python -m benchmarks.random_programs`: each seed is a program and an edit; what the edit does is measured "
        "without the tool.",
        "",
        f"{len(rows)} seeds: {truths['changes']} edits change something, {truths['keeps']} keep everything, "
        f"{truths['between']} lie between rounding and effect, {truths['not finite']} give numbers that are not finite "
        f"and {truths['does not run']} do not run (none of these is judged).",
        "",
        "| half | data | changes | exit 0 | FAIL | the edited line named | keeps | FAIL | PASS or WARN | raised | "
        "sentence unfounded |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for half in HALVES:
        lines += [_line(half, kind, [row for row in judged if row["half"] == half]) for kind in kinds]
    lines += ["", "By edit, both halves and all data together:", "", "| edit | changes | exit 0 | keeps | FAIL |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for edit in sorted({row["edit"] for row in judged}):
        counts = [
            [
                answer
                for row in judged
                if row["edit"] == edit and row["truth"] == truth
                for answer in row["answers"].values()
            ]
            for truth in ("changes", "keeps")
        ]
        lines.append(
            f"| {edit} | {len(counts[0])} | {sum(one['exit'] == 0 for one in counts[0])} | {len(counts[1])} | "
            f"{sum(one['verdict'] in ('FAIL', 'ERROR') for one in counts[1])} |"
        )
    wrong = [
        f"- seed {row['seed']}, {kind}, {row['edit']}: {'; '.join(answer['wrong'])}"
        for row in judged
        if row["half"] == "work"
        for kind, answer in row["answers"].items()
        if answer["wrong"]
    ]
    lines += ["", "Wrong in the working half:", "", *(wrong or ["- nothing"])]
    return "\n".join([*lines, ""])


def _line(half: str, kind: str, rows: Sequence[Row]) -> str:
    changes, keeps = (
        [row["answers"][kind] for row in rows if row["truth"] == truth and kind in row["answers"]]
        for truth in ("changes", "keeps")
    )
    failed = [one for one in changes if one["verdict"] == "FAIL"]
    cells = (
        half,
        kind,
        len(changes),
        sum(one["exit"] == 0 for one in changes),
        len(failed),
        f"{sum(one['at_edit'] is True for one in failed)} of {sum(one['at_edit'] is not None for one in failed)}",
        len(keeps),
        sum(one["verdict"] in ("FAIL", "ERROR") for one in keeps),
        sum(one["verdict"] in ("PASS", "WARN") for one in keeps),
        sum(one["verdict"] == "RAISED" for one in (*changes, *keeps)),
        sum(any("says" in text or "other sides" in text for text in one["wrong"]) for one in (*changes, *keeps)),
    )
    return f"| {' | '.join(str(cell) for cell in cells)} |"
