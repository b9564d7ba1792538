"""Markdown tables of the benchmark results; a cell without a number shows its reason as a note below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLUMNS = ("peer stats", "ours stats", "peer tensors", "ours tensors")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


class Notes:
    """The reasons for missing numbers, said once each."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def cell(self, entry: dict[str, Any], text: str) -> str:
        """The formatted text, or a dash with a note where the entry is an error."""
        if "error" not in entry:
            return text.format(**entry)
        if entry["error"] not in self.reasons:
            self.reasons.append(entry["error"])
        return f"- [{self.reasons.index(entry['error']) + 1}]"

    def text(self) -> str:
        return "".join(f"[{number}] not measured: {reason}\n\n" for number, reason in enumerate(self.reasons, 1))


def _against(ours: dict[str, Any], other: dict[str, Any], key: str, inverse: bool = False) -> str:
    """How many times better ours is, where both were measured; for a cost (``inverse``) the other way round."""
    if "error" in ours or "error" in other or key not in ours or key not in other:
        return "-"
    if inverse:
        return f"{other[key] / max(ours[key], 1e-9):.1f}x"
    return f"{ours[key] / max(other[key], 1e-9):.1f}x"


def steps(part: dict[str, Any], notes: Notes) -> str:
    rows = []
    for workload, cells in part.items():
        if "bare" not in cells:
            rows.append([workload, "bare", notes.cell(cells, ""), "", "", "", "", ""])
            continue
        bare = cells["bare"]
        rows.append([workload, "bare", f"{seconds(bare['min'])} ({seconds(bare['median'])})", *[""] * 5])
        for name in COLUMNS:
            cell = cells[name]
            if "error" in cell:
                rows.append([workload, name, notes.cell(cell, ""), *[""] * 5])
                continue
            rate = size = ""
            if "gb_per_s_best" in cell:
                rate = f"{cell['gb_per_s_best']:.2f} ({cell['gb_per_s_median']:.2f})"
                size = f"{cell['bytes'] / 1e6:.0f}"
                if "unique_bytes" in cell:
                    size += f", unique {cell['unique_bytes'] / 1e6:.0f}"
            rows.append(
                [
                    workload,
                    name,
                    f"{seconds(cell['min'])} ({seconds(cell['median'])})",
                    f"{seconds(cell['added_min'])} ({seconds(cell['added_median'])})",
                    f"{cell['ratio_min']:.2f} ({cell['ratio_median']:.2f})"
                    + (f", memory {cell['peak_ratio']:.2f}" if "peak_ratio" in cell else ""),
                    f"{cell['records']} / {cell['tensors']}",
                    size,
                    rate,
                ]
            )
        stats = _against(cells["ours stats"], cells["peer stats"], "added_min", inverse=True)
        dump = _against(cells["ours tensors"], cells["peer tensors"], "gb_per_s_best")
        rows.append([workload, "**ours against the peer**", "", f"stats {stats} less", "", "", "", f"dump {dump}"])
    header = ["workload", "tool", "step min (median)", "added", "x bare", "records / tensors", "MB", "GB/s (median)"]
    return "## Step time\n\n" + table(header, rows)


def inactive(part: dict[str, Any], notes: Notes) -> str:
    rows = [
        [workload, notes.cell(cell, "{ratio_min:.3f}"), notes.cell(cell, "{ratio_median:.3f}")]
        for workload, cell in part.items()
    ]
    text = "## A step that is not captured\n\n"
    return text + table(["workload", "x bare, minima", "x bare, medians"], rows)


def compare(part: dict[str, Any], notes: Notes) -> str:
    rows = []
    for workload, cells in part.items():
        for name in COLUMNS:
            cell = cells[name]
            size = rate = ""
            if "gb_per_s_best" in cell:
                size, rate = f"{cell['gb']:.2f}", f"{cell['gb_per_s_best']:.3f}"
            rows.append([workload, name, notes.cell(cell, "{min:.2f} ({median:.2f})"), size, rate])
        factor = _against(cells["ours tensors"], cells["peer tensors"], "gb_per_s_best")
        rows.append([workload, "**ours against the peer**", "", "", factor])
    header = ["workload", "tool", "seconds min (median)", "GB, both sides", "GB/s"]
    return "## Compare, the whole command\n\n" + table(header, rows)


def tiny(part: dict[str, Any], notes: Notes) -> str:
    rows = [
        [
            tool,
            notes.cell(cell, "{records}"),
            notes.cell(cell, "{us_per_record:.1f}"),
            notes.cell(cell, "{us_first_tenth:.1f}"),
            notes.cell(cell, "{us_last_tenth:.1f}"),
        ]
        for tool, cells in part.items()
        for cell in cells
    ]
    header = ["tool", "records", "µs per record, all", "first tenth", "last tenth"]
    return "## Tiny records (8 elements, statistics)\n\n" + table(header, rows)


def startup(part: dict[str, Any], notes: Notes) -> str:
    rows = [[tool, notes.cell(cell, "{min:.2f} ({median:.2f})")] for tool, cell in sorted(part.items())]
    return "## Start-up: `compare --help`\n\n" + table(["tool", "seconds min (median)"], rows)


PARTS = {"steps": steps, "inactive": inactive, "compare": compare, "tiny": tiny, "startup": startup}


def overhead(document: dict[str, Any]) -> str:
    """The whole page of ``benchmarks.overhead``."""
    machine, notes = document["machine"], Notes()
    head = (
        f"# Capture and compare, cost\n\n{machine['cores']} cores, {machine['threads']} torch thread(s), "
        f"torch {machine['torch']}, Python {machine['python']}. Peer: {document['peer']}."
        f"{' Quick run: one round.' if document['quick'] else ''}\n\n"
    )
    body = "\n".join(write(document[name], notes) for name, write in PARTS.items() if name in document)
    return head + body + "\n" + notes.text()
