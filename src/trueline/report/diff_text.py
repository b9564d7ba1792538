"""The differences between two checks for a terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TextIO

from trueline.cases import CheckInfo
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Span, heading, line
from trueline.report.csv import safe
from trueline.report.json import dumps, plain
from trueline.report.wording import plural

FORMAT = "trueline-diff"
VERSION = 1
_WORDS = {
    "new failure": ("New failures", "bad"),
    "fixed": ("Fixed", "good"),
    "changed": ("Changed", "strong"),
    "appeared": ("Appeared", "dim"),
    "gone": ("Gone", "dim"),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One case that is not as it was. An ending is empty where there is none: the case is not in that check, or has not
    ended there."""

    kind: str
    key: str
    api: str
    line: str
    old_ending: str
    new_ending: str
    old_reason: str
    new_reason: str


COLUMNS = tuple(field.name for field in fields(Difference))


def diff_blocks(
    names: tuple[str, str], counts: Mapping[str, int], known: int, same: int, found: Sequence[Difference]
) -> list[Block]:
    """What differs, what is new first; ``found`` are the differences to tell one by one."""
    new = counts["new failure"]
    word, style = ("NEW FAILURES", "bad") if new else ("NO NEW FAILURES", "good")
    told = [f"{count:,} {kind}" for kind, count in counts.items() if count and kind != "new failure"]
    sentence = f"{plural(new, 'case')} fail now and did not before" if new else "nothing fails that did not before"
    blocks: list[Block] = [
        Paragraph((Span(word, style), Span(f"  {sentence}", "strong"))),
        BLANK,
        Fields((
            ("old", names[0]), ("new", names[1]),
            ("cases", ", ".join([f"{new:,} new failures", *told, f"{known:,} fail in both", f"{same:,} as before"])),
        )),
    ]  # fmt: skip
    for kind, (title, title_style) in _WORDS.items():
        members = [one for one in found if one.kind == kind]
        if not members:
            continue
        blocks += [BLANK, heading(title)]
        blocks += [_case(one, title_style) for one in members]
        if counts[kind] > len(members):
            blocks.append(line(f"and {counts[kind] - len(members):,} more", "dim", indent=2))
    return blocks


def baseline_blocks(
    name: str, counts: Mapping[str, int], known: int, new: Sequence[Difference]
) -> list[Block]:
    """How a check stands against a baseline: what decides its exit code."""
    fixed = f", {counts['fixed']:,} fixed" if counts["fixed"] else ""
    said = f"{counts['new failure']:,} new failures, {known:,} known{fixed}"
    blocks: list[Block] = [BLANK, heading(f"Against the baseline {name}")]
    blocks.append(Paragraph((Span(said, "bad" if counts["new failure"] else "good"),), 2))
    blocks += [_case(one, "bad") for one in new]
    if counts["new failure"] > len(new) > 0:
        blocks.append(line(f"and {counts['new failure'] - len(new):,} more", "dim", indent=2))
    return blocks


def _case(one: Difference, style: str) -> Paragraph:
    endings = " -> ".join(ending or "-" for ending in (one.old_ending, one.new_ending))
    reason = one.new_reason if one.new_ending not in ("", "pass") else one.old_reason
    where = f"  {one.line}" if one.line else ""
    return Paragraph((Span(one.api, style), Span(f"  {endings}{where}\n", "dim"), Span(f"  {reason[:160]}")), 2)


def write_diff_json(
    infos: tuple[CheckInfo, CheckInfo], names: tuple[str, str], counts: Mapping[str, int], known: int, same: int,
    found: Iterable[Difference], stream: TextIO,
) -> None:  # fmt: skip
    """``{"format", "version", "old", "new", "counts": {kind: cases}, "known", "same", "cases": [{kind, key, ...}]}``,
    one case a line."""
    sides = [{"folder": name, "info": plain(info)} for name, info in zip(names, infos, strict=True)]
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "old": sides[0], "new": sides[1],
                            "counts": dict(counts), "known": known, "same": same}  # fmt: skip
    stream.write(dumps(head)[:-1] + ',\n"cases": [')
    for position, one in enumerate(found):
        stream.write(("\n" if position == 0 else ",\n") + dumps({name: getattr(one, name) for name in COLUMNS}))
    stream.write("\n]}\n")


def write_diff_csv(found: Iterable[Difference], stream: TextIO) -> int:
    """One row a case that differs; gives how many."""
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    rows = 0
    for one in found:
        writer.writerow([safe(getattr(one, name)) for name in COLUMNS])
        rows += 1
    return rows
