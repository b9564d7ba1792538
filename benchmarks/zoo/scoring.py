"""Whether an answer is right: what a comparison said, held against where a case says that it should point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.zoo.spec import Case, Clean, Fault, Where

BEYOND = 3.0
"""A fault shows where a value that the program gives away is so many times farther off than rounding takes it."""
SPELLINGS = {
    "truediv": "div", "true_divide": "div", "rtruediv": "div", "divide": "div", "rsub": "sub", "subtract": "sub",
    "radd": "add", "iadd": "add", "rmul": "mul", "imul": "mul", "multiply": "mul", "isub": "sub", "itruediv": "div",
    "rpow": "pow", "bmm": "matmul", "mm": "matmul", "rmatmul": "matmul", "convolution": "conv", "conv2d": "conv",
    "conv1d": "conv", "conv3d": "conv", "float": "to", "half": "to", "bfloat16": "to", "double": "to", "type": "to",
    "cast": "to", "astype": "to", "concat": "cat", "log_softmax": "log_softmax", "cross_entropy_loss": "cross_entropy",
    "slice": "getitem", "index": "getitem", "setitem": "setitem", "swish": "silu", "where": "where",
    "amp_foreach_non_finite_check_and_unscale": "unscale",
}  # fmt: skip


def spelled(name: str) -> str:
    """``torch.Tensor.__mul__`` as ``mul``."""
    short = name.rpartition(".")[2].strip("_").lower().removeprefix("foreach_")
    return SPELLINGS.get(short, short)


def said(report: Any) -> dict[str, Any]:
    """What a comparison says, as plain data."""
    from trueline.cli.options import exit_code
    from trueline.report.wording import measured

    origin = report.origin
    counts = dict(report.counts)
    found: dict[str, Any] = {
        "verdict": report.verdict.name,
        "exit": exit_code(report.verdict, measured(report.counts), partial=False),
        "mode": report.mode,
    }
    found["calls"], found["passed"] = sum(counts.values()), counts.get("PASS", 0)
    if origin is None:
        return found
    first = origin.comparison.call
    sides = [
        [call for call in getattr(origin, f"{side}_calls") or (getattr(origin.comparison, side),) if call is not None]
        for side in ("reference", "candidate")
    ]
    calls = [call for side in sides for call in side]
    found["origin"] = {
        "kind": origin.kind,
        "apis": sorted({call.api for call in calls}),
        "modules": sorted({call.module for call in calls}),
        "names": list(origin.names),
        "reference": len(sides[0]),
        "candidate": len(sides[1]),
        "phase": origin.shows.value,
        "step": first.step,
        "call": first.name,
        "text": origin.explanation[:600],
    }
    return found


def is_right(case: Fault, row: Mapping[str, Any]) -> bool:
    origin = row.get("origin")
    return origin is not None and row["exit"] == 1 and any(_points(where, origin) for where in case.where)


def _points(where: Where, origin: Mapping[str, Any]) -> bool:
    if where.step != origin["step"]:
        return False
    if where.kind in ("data", "state", "update") and where.names:
        if any(_fits(name, pattern) for name in origin["names"] for pattern in where.names):
            return True
        if not where.apis:
            return False
    if where.phase != origin["phase"]:
        return False
    largest = 2 * where.calls + 4
    if max(origin["reference"], origin["candidate"]) > largest:
        return False
    wanted = {spelled(name) for name in where.apis}
    if wanted and not wanted & {spelled(name) for name in origin["apis"]}:
        return False
    return any(_fits(module, pattern) for module in origin["modules"] for pattern in where.modules)


def _fits(name: str, pattern: str) -> bool:
    """Whether a name is one that a pattern means. Patterns count from the model that the program built, names from the
    outermost module that it calls, which may lie within; a module that belongs to no model (a loss) has no path."""
    name = "" if name.startswith("<") else name
    if fnmatchcase(name, pattern):
        return True
    head, _, rest = pattern.partition(".")
    return bool(rest) and not set(head) & set("*?[") and fnmatchcase(name, rest)


def line(case: Case, row: Mapping[str, Any]) -> str:
    """A row for whoever works on it."""
    if row["data"] == "truth":
        return f"{case.name} {row['dtype']}: {({k: v for k, v in row.items() if k in ('apart', 'times', 'error')})}"
    good = _is_fine(case, row)
    origin = row.get("origin") or {}
    shown = " ".join(str(origin[key]) for key in ("kind", "call", "modules", "names")) if origin else ""
    error = row.get("error", "").strip().splitlines()[-1:] if "error" in row else ""
    return (
        f"{'ok   ' if good else 'WRONG'} {case.name} [{row['kind']}] {row['dtype']} {row['data']}: {row['verdict']} "
        f"exit {row['exit']} {row.get('passed')}/{row.get('calls')} {shown} {error} {row.get('seconds', 0):.1f}s"
    )


def table(rows: Iterable[Mapping[str, Any]], cases: Mapping[str, Case]) -> str:
    """The counts, as Markdown: one row for each half, dtype and kind of data."""
    rows = list(rows)
    visible = {
        (row["case"], row["dtype"]): float(row["times"]) > BEYOND
        for row in rows
        if row["data"] == "truth" and "times" in row
    }
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["data"] != "truth":
            groups.setdefault((row["half"], row["data"], row["dtype"]), []).append(row)
    lines = [
        "| half | data | dtype | faults | origin right | of those that show | exit 0 | exit 0 of those that show "
        "| clean | PASS | NOT COMPARED | FAIL | raised |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in sorted(groups):
        lines.append(f"| {' | '.join(key)} | {' | '.join(_counts(groups[key], cases, visible))} |")
    return "\n".join(lines)


def page(rows: Iterable[Mapping[str, Any]], cases: Mapping[str, Case], device: str) -> str:
    """The table as a page, with the cases of the half to work with that are not answered rightly."""
    rows = [row for row in rows if row["case"] in cases]
    wrong = sorted(
        f"- {row['case']} ({row['dtype']}, {row['data']}): {row['verdict']}"
        + (f", {row['origin']['kind']} {row['origin']['call']}" if row.get("origin") else "")
        for row in rows
        if row["half"] == "work" and row["data"] != "truth" and not _is_fine(cases[row["case"]], row)
    )
    head = (
        "# The zoo\n\nModels of other people's libraries, with faults that issue trackers report and with clean pairs; "
        f"made by `python -m benchmarks.zoo.run --device {device}`; `benchmarks/README.md` says what counts as right."
        "\n\n"
    )
    tail = "\n\n## Of the half that is worked with, not answered rightly\n\n" + ("\n".join(wrong) or "None.")
    return head + table(rows, cases) + tail + "\n"


def _is_fine(case: Case, row: Mapping[str, Any]) -> bool:
    return is_right(case, row) if isinstance(case, Fault) else row["verdict"] in ("PASS", "WARN")


def _counts(
    rows: Sequence[Mapping[str, Any]], cases: Mapping[str, Case], visible: Mapping[tuple[str, str], bool]
) -> list[str]:
    faults = [row for row in rows if isinstance(cases.get(row["case"]), Fault)]
    honest = [row for row in rows if isinstance(cases.get(row["case"]), Clean)]
    showing = [row for row in faults if visible.get((row["case"], row["dtype"]), True)]
    verdicts = Counter("PASS" if row["verdict"] == "WARN" else row["verdict"] for row in honest)

    def right(some: Sequence[Mapping[str, Any]]) -> str:
        return _of(sum(is_right(cases[row["case"]], row) for row in some), len(some))  # type: ignore[arg-type]

    return [
        str(len(faults)),
        right(faults),
        right(showing),
        _of(sum(row["exit"] == 0 for row in faults), len(faults)),
        _of(sum(row["exit"] == 0 for row in showing), len(showing)),
        str(len(honest)),
        _of(verdicts["PASS"], len(honest)),
        _of(verdicts["NOT_COMPARED"], len(honest)),
        _of(verdicts["FAIL"] + verdicts["ERROR"], len(honest)),
        str(sum(row["verdict"] == "raised" for row in rows)),
    ]


def _of(number: int, total: int) -> str:
    return f"{number} ({100 * number / total:.0f} %)" if total else "-"
