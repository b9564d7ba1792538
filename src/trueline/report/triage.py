"""Groups of failures as text: Markdown for a file, blocks for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from trueline.groups import Group, Opinion, Triage
from trueline.report.blocks import BLANK, Block, Row, Table, heading, line

_STYLES = {
    "crashes the process": "bad",
    "target wrong": "bad",
    "too slow": "bad",
    "nondeterministic": "warn",
    "undecided": "warn",
}


def triage_blocks(found: Triage, *, rows: int = 20) -> list[Block]:
    """What is told on a terminal: the labels, the first groups, and where the rest is."""
    failed = sum(group.size for group in found.groups)
    blocks: list[Block] = [
        heading(f"{failed:,} of {found.cases:,} cases of {found.check} in {_counted(len(found.groups), 'group')}"),
        line(f"target {found.target}, reference {found.reference}", "dim"),
        BLANK,
        Table(
            ("label", "groups", "cases"),
            tuple(
                Row((label, str(sum(group.label.value == label for group in found.groups)), f"{count:,}"),
                    _STYLES.get(label, ""))
                for label, count in found.labels.items()
            ),
            frozenset({"groups", "cases"}),
        ),
    ]  # fmt: skip
    for group in found.groups[:rows]:
        blocks += [BLANK, *_group_blocks(group)]
    if len(found.groups) > rows:
        blocks += [BLANK, line(f"{len(found.groups) - rows} more groups: {found.folder / 'groups.md'}", "dim")]
    return [*blocks, BLANK, line(f"written: {found.folder / 'groups.md'}, {found.folder / 'groups.json'}", "dim")]


def _group_blocks(group: Group) -> list[Block]:
    blocks: list[Block] = [
        line(f"{group.name}: {group.label.value}", _STYLES.get(group.label.value, "strong")),
        line(f"{what_of(group)}; {_size(group)}", indent=2),
        line(group.why, indent=2),
        line(f"for example {_example(group)}", "dim", indent=2),
    ]
    if group.folder is not None:
        shown = "shows it" if group.reproduced else f"does not show it: {group.note}"
        blocks.append(line(f"{group.folder / 'repro.py'} {shown}", "dim", indent=2))
    return blocks


def groups_markdown(found: Triage) -> str:
    """All groups as a Markdown page."""
    failed = sum(group.size for group in found.groups)
    lines = [
        f"# Failures of {found.check.name}",
        "",
        f"{failed:,} of {found.cases:,} cases, in {_counted(len(found.groups), 'group')}. Target `{found.target}`, "
        f"reference `{found.reference}`.",
        "",
        "| ending | cases |",
        "|---|---:|",
        *(f"| {name} | {count:,} |" for name, count in found.endings.items()),
        "",
        "| group | label | failure | cases | of |",
        "|---|---|---|---:|---:|",
    ]
    for group in found.groups:
        lines.append(f"| {group.name} | {group.label.value} | {_cell(what_of(group))} | {group.size} | {group.of} |")
    for group in found.groups:
        lines += ["", *_section(group)]
    for reason, count in found.left_out.items():
        lines += ["", f"Not looked at: {count:,} cases, {reason}."]
    return "\n".join(lines) + "\n"


def _section(group: Group) -> list[str]:
    lines = [f"## {group.name}", "", f"**{group.label.value}**: {group.why}", "", f"{what_of(group)}; {_size(group)}."]
    if group.folder is not None:
        script = f"`groups/{group.name}/repro.py`"
        lines.append(f"{script} shows it." if group.reproduced else f"{script} does not show it: {group.note}.")
    elif group.note:
        lines.append(f"({group.note})")
    lines.append("")
    lines += [f"- `{member.line}` {member.api}: {_cell(member.reason)}" for member in group.members[:5]]
    if group.size > 5:
        lines.append(f"- and {group.size - 5:,} more")
    told = [words for opinion in group.opinions if (words := opinion_words(opinion))]
    return [*lines, "", *(f"Done again: {words}." for words in told[:1])] if told else lines


def opinion_words(opinion: Opinion) -> str:
    """What was tried, in words."""
    parts = [
        f"as it was: {opinion.again}" if opinion.again else "",
        f"other inputs: {', '.join(opinion.seeds)}" if opinion.seeds else "",
        f"in float64: {opinion.double}" if opinion.double else "",
        f"in float32: {opinion.single}" if opinion.single else "",
        _numbers(opinion),
        "seconds by elements: " + ", ".join(f"{one.elements:,}: {one.target:.2g}" for one in opinion.timings)
        if opinion.timings
        else "",
    ]
    return "; ".join(part for part in parts if part)


_TOLD = {
    "error": "error",
    "honest": "of the reference in this dtype",
    "moved": "of the gold by a rounding",
    "own": "from its own float64",
    "frameworks": "between the frameworks in float64",
    "repeat": "between repetitions",
}


def _numbers(opinion: Opinion) -> str:
    told = [f"{words} {opinion.numbers[name]:.2g}" for name, words in _TOLD.items() if name in opinion.numbers]
    edges = opinion.numbers.get("edges", 0.0)
    if edges > 0.99 and opinion.numbers.get("border", 0.0) < 1.0:
        told.append("only at the edges of the tensor")
    elif edges > 0.99:
        told.append("all of the edges of the tensor and nothing else")
    return ", ".join(told)


def what_of(group: Group) -> str:
    signature = group.signature
    names = ", ".join(group.apis[:3]) + (f" and {len(group.apis) - 3} more" if len(group.apis) > 3 else "")
    where = " ".join(part for part in (signature.dtype, signature.direction) if part)
    detail = f" ({signature.detail})" if signature.detail else ""
    return f"{names}{f', {where}' if where else ''}: {signature.look.value}{detail}"


def _size(group: Group) -> str:
    return f"{_counted(group.size, 'case')} of {group.of:,} of {'this API' if len(group.apis) == 1 else 'these APIs'}"


def _example(group: Group) -> str:
    members: Sequence[object] = group.members
    return f"{group.members[0].line}" if members else ""


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
