"""The tables of detection power and false alarms, from the judged calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.power.defects import shown
from benchmarks.power.opinfo import LeftOut
from benchmarks.power.reality import LEAST_DRIFT
from benchmarks.power.recipes import Wrong, is_held_out
from benchmarks.power.trials import STANDARDS, is_alarm
from benchmarks.tables import table

Row = dict[str, Any]
SMALL = 8.0
"""Mistakes below so many roundings (see ``reality``) are small."""

HOW = (
    "A wrong kernel counts as found in a dtype when at least one of the calls it is tried on is FAIL or ERROR; a false "
    "alarm is an honest call that is. A call that an implementation refuses (it raises, or has no such kernel) is no "
    "call of it and is counted apart, and so is what a standard does not compare. A third of the kernels and of the "
    "operators, chosen by a hash of their names, was never looked at while the standard was made: the columns `held "
    "out`. `Small mistakes` put the whole result off by less than eight roundings of its dtype. `allclose` (1e-5, "
    "1e-8) and `assert-close` compare with the same-dtype result of torch; `precheck` and the rules of msprobe with "
    "the benchmark that these tools compute."
)

IMPLEMENTATIONS = (
    "`decomposed` is torch's decompositions, `references` are its Python references (forward alone), `relaid` other "
    "memory layouts, `threaded` four threads, `traced` torch.compile with inductor's decompositions and no generated "
    "code (one operator in four), `compiled` torch.compile with inductor on the CPU (one operator in 36 and one "
    "sample of each, for every call is a run of the C++ compiler), `cuda` torch's own kernels on a GPU, with cuDNN's "
    "TF32 off.\n"
)


def document(
    rows: Sequence[Row], kernels: Sequence[Wrong], realities: dict[str, Row], left_out: Sequence[LeftOut]
) -> Row:
    """Everything that was measured, without the calls on which there is nothing to say."""
    wrong = _wrong_trials([row for row in rows if row["kind"] == "wrong"], kernels, realities)
    calls = [{**row, "held_out": _is_held_out(row)} for row in rows if row["kind"] == "honest"]
    executed = [row for row in calls if not row["raised"] and not row["skipped"]]
    defects = shown()
    honest = [row for row in executed if (row["implementation"], row["operator"]) not in defects]
    reasons: Counter[str] = Counter()
    for one in left_out:
        reasons[one.reason] += one.count
    refused = Counter(f"{row['implementation']}: {_kind(row)}" for row in calls if row["raised"] or row["skipped"])
    return {
        "how": HOW,
        "machine": "; ".join(sorted({row["machine"] for row in calls})) or "nothing",
        "wrong": {"summary": _power(wrong), "kernels": wrong},
        "honest": {
            "summary": {
                **_alarms(honest, lambda row: "all"),
                **_alarms([row for row in honest if not row["same"]], lambda row: "those that differ in some bit"),
            },
            "implementations": _alarms(honest, lambda row: row["implementation"]),
            "dtypes": _alarms(honest, lambda row: row["dtype"]),
            "alarms": [_alarm(row) for row in honest if is_alarm(row["verdicts"]["calibrated"])],
            "not compared": _counted(honest, lambda row: row["reasons"].get("calibrated", ""), "NOT_COMPARED"),
            "operators": sorted({row["operator"] for row in honest}),
        },
        "defects": [_defect(key, what, executed) for key, what in defects.items()],
        "refused": dict(refused.most_common(60)),
        "left out": dict(reasons.most_common()),
        "left out operators": {
            reason: sorted({one.operator for one in left_out if one.reason == reason}) for reason in reasons
        },
    }


def add_honest(found: Row, other: Row) -> None:
    """Adds the honest calls of a document that was made on another machine to those of this one."""
    ours, theirs = found["honest"], other["honest"]
    for name in ("summary", "implementations", "dtypes", "not compared"):
        ours[name] = _sum(ours[name], theirs[name])
    ours["alarms"] += theirs["alarms"]
    ours["operators"] = sorted({*ours["operators"], *theirs["operators"]})
    found["defects"] += [row for row in other["defects"] if row["calls"]]
    found["refused"] = _sum(found["refused"], other["refused"])
    found["machine"] += f"; {', '.join(theirs['implementations'])}: {other['machine']}"


def _sum(one: Any, other: Any) -> Any:
    """Two trees of counts, added leaf by leaf."""
    if not isinstance(one, dict):
        return one + other
    both = {key: _sum(one[key], other[key]) if key in one and key in other else None for key in {**one, **other}}
    return {key: (one | other)[key] if value is None else value for key, value in both.items()}


def _is_held_out(row: Row) -> bool:
    return is_held_out(row["operator"].partition("[")[0])


def _defect(key: tuple[str, str], what: str, executed: Sequence[Row]) -> Row:
    calls = [row for row in executed if (row["implementation"], row["operator"]) == key]
    alarms = {name: sum(is_alarm(row["verdicts"][name]) for row in calls) for name in STANDARDS}
    return {"implementation": key[0], "operator": key[1], "what": what, "calls": len(calls), "alarms": alarms}


def _wrong_trials(rows: Sequence[Row], kernels: Sequence[Wrong], realities: dict[str, Row]) -> list[Row]:
    by_trial: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_trial[row["id"], row["dtype"]].append(row)
    found = []
    for kernel in kernels:
        for dtype in (str(one).removeprefix("torch.") for one in kernel.dtypes):
            calls = by_trial.get((kernel.id, dtype), [])
            if not calls:
                continue
            found.append(
                {
                    "id": kernel.id,
                    "api": kernel.api,
                    "kind": kernel.kind,
                    "mistake": kernel.mistake,
                    "direction": kernel.direction,
                    "dtype": dtype,
                    "held_out": kernel.held_out,
                    "reality": realities.get(f"{kernel.id}/{dtype}", {}),
                    "broken": next((row["skipped"] for row in calls if row["skipped"]), ""),
                    "raised": next((row["raised"] for row in calls if row["raised"]), ""),
                    "found": {name: any(is_alarm(row["verdicts"][name]) for row in calls) for name in STANDARDS},
                    "verdict": max((row["verdicts"]["calibrated"] for row in calls), key=_order),
                    "score": max((row["scores"].get("calibrated", 0.0) for row in calls), default=0.0),
                    "reason": next(
                        (row["reasons"]["calibrated"] for row in calls if "calibrated" in row["reasons"]), ""
                    ),
                }
            )
    return found


def _order(verdict: str) -> int:
    return ("PASS", "WARN", "NOT_COMPARED", "FAIL", "ERROR").index(verdict)


def _kind(row: Row) -> str:
    return (row["raised"] or row["skipped"]).partition("\n")[0][:100]


def _power(trials: Sequence[Row]) -> dict[str, Row]:
    """For each standard: found of all, and of each group."""
    groups: dict[str, Callable[[Row], bool]] = {
        "all": lambda row: True,
        "looked at": lambda row: not row["held_out"],
        "held out": lambda row: row["held_out"],
        "forward": lambda row: row["direction"] == "forward",
        "backward": lambda row: row["direction"] == "backward",
        "float32": lambda row: row["dtype"] == "float32",
        "bfloat16": lambda row: row["dtype"] == "bfloat16",
        "float16": lambda row: row["dtype"] == "float16",
        "small mistakes": _is_small,
    }
    summary: dict[str, Row] = {}
    for name in STANDARDS:
        counts: Row = {
            group: [sum(row["found"][name] for row in chosen), len(chosen)]
            for group, belongs in groups.items()
            for chosen in [[row for row in trials if belongs(row)]]
        }
        by_kernel: dict[str, list[bool]] = defaultdict(list)
        for row in trials:
            by_kernel[row["id"]].append(row["found"][name])
        counts["kernels in every dtype"] = [sum(all(each) for each in by_kernel.values()), len(by_kernel)]
        counts["kernels in some dtype"] = [sum(any(each) for each in by_kernel.values()), len(by_kernel)]
        summary[name] = counts
    return summary


def _is_small(trial: Row) -> bool:
    """Whether the whole result is off by less than eight roundings: what is not seen by looking at it."""
    reality = trial["reality"]
    return bool(reality) and not reality["other"] and 0 < reality["bulk"] < SMALL


def _alarms(calls: Sequence[Row], group: Callable[[Row], str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in calls:
        into = found.setdefault(
            group(row),
            {"calls": 0, "held out": 0, "same bits": 0, "alarms": {}, "held out alarms": {}, "not compared": {}},
        )
        into["calls"] += 1
        into["held out"] += row["held_out"]
        into["same bits"] += row["same"]
        for name in STANDARDS:
            alarm, skipped = is_alarm(row["verdicts"][name]), row["verdicts"][name] == "NOT_COMPARED"
            into["alarms"][name] = into["alarms"].get(name, 0) + alarm
            into["held out alarms"][name] = into["held out alarms"].get(name, 0) + (alarm and row["held_out"])
            into["not compared"][name] = into["not compared"].get(name, 0) + skipped
    return found


def _alarm(row: Row) -> Row:
    kept = {key: row[key] for key in ("operator", "api", "implementation", "dtype", "id", "held_out")}
    return {**kept, "reason": row["reasons"].get("calibrated", ""), "score": row["scores"].get("calibrated")}


def _counted(calls: Sequence[Row], what: Callable[[Row], str], verdict: str) -> dict[str, int]:
    chosen = (what(row)[:120] for row in calls if row["verdicts"]["calibrated"] == verdict)
    return dict(Counter(chosen).most_common(40))


def _share(pair: Sequence[int]) -> str:
    return f"{pair[0]} of {pair[1]} ({pair[0] / pair[1]:.1%})" if pair[1] else "-"


def _rate(alarms: int, calls: int) -> str:
    return f"{alarms} of {calls} ({alarms / calls:.3%})" if calls else "-"


def markdown(found: Row) -> str:
    parts = ["# Detection power and false alarms\n", found["how"] + "\n", _main_table(found)]
    parts += ["## Wrong kernels found\n", _power_table(found)]
    parts += ["## False alarms\n", IMPLEMENTATIONS, _alarm_table(found)]
    parts += [
        "## Every false alarm of `calibrated`\n",
        _alarm_list(found),
        "## Missed by `calibrated`\n",
        _missed(found),
        "## Defects of honest implementations\n",
        _defects(found),
    ]
    parts += ["## Not compared, refused, left out\n", _rest(found), "## Every wrong kernel\n", _kernels(found)]
    return "\n".join(parts)


def _main_table(found: Row) -> str:
    power, every = found["wrong"]["summary"], found["honest"]["summary"].get("all")
    rows = []
    for name in STANDARDS:
        alarms = _rate(every["alarms"][name], every["calls"]) if every else "-"
        rows.append([f"`{name}`", _share(power[name]["all"]), alarms])
    kernels = found["wrong"]["kernels"]
    note = (
        f"{len({row['id'] for row in kernels})} wrong kernels of {len({row['api'] for row in kernels})} operators, "
        f"{len(kernels)} trials over dtypes; {every['calls'] if every else 0} honest calls of "
        f"{len(found['honest']['operators'])} operators of the database. Measured with {found['machine']}.\n"
    )
    return table(["standard", "wrong kernels found", "false alarms"], rows) + "\n" + note


def _power_table(found: Row) -> str:
    power = found["wrong"]["summary"]
    columns = list(next(iter(power.values())))
    return table(["standard", *columns], [[f"`{name}`", *(_share(power[name][c]) for c in columns)] for name in power])


def _alarm_table(found: Row) -> str:
    honest = found["honest"]
    rows = []
    for title, groups in (("", honest["summary"]), ("", honest["implementations"]), ("", honest["dtypes"])):
        for group, counts in sorted(groups.items()):
            cells = [f"{counts['alarms'][name]}" for name in STANDARDS]
            held = f"{counts['held out alarms']['calibrated']} of {counts['held out']}"
            rest = [held, str(counts["not compared"]["calibrated"]), str(counts["same bits"])]
            rows.append([title + group, str(counts["calls"]), *cells, *rest])
    header = ["calls by", "calls", *(f"`{name}`" for name in STANDARDS), "held out, `calibrated`"]
    return table([*header, "not compared, `calibrated`", "same bits as torch"], rows)


def _defects(found: Row) -> str:
    rows = [
        [row["operator"], row["implementation"], row["what"], str(row["calls"]), str(row["alarms"]["calibrated"])]
        for row in found["defects"]
    ]
    note = "Not counted above. The evidence is a few lines of plain torch in `defects.py`, executed for this table.\n"
    return note + "\n" + table(["operator", "implementation", "what is wrong", "calls", "`calibrated` alarms"], rows)


def _alarm_list(found: Row) -> str:
    rows = [
        [row["operator"], row["dtype"], row["implementation"], row["id"].rpartition("/")[2], row["reason"]]
        for row in found["honest"]["alarms"]
    ]
    return table(["operator", "dtype", "implementation", "sample", "reason"], rows) if rows else "None.\n"


def _missed(found: Row) -> str:
    rows = [
        [row["id"], row["api"], row["dtype"], row["mistake"], f"{row['score']:.2f}", row["verdict"]]
        for row in found["wrong"]["kernels"]
        if not row["found"]["calibrated"]
    ]
    return table(["kernel", "operator", "dtype", "mistake", "score", "verdict"], rows) if rows else "None.\n"


def _rest(found: Row) -> str:
    rows = [["not compared", reason, str(count)] for reason, count in found["honest"]["not compared"].items()]
    rows += [["refused", reason, str(count)] for reason, count in found["refused"].items()]
    rows += [["left out", reason, str(count)] for reason, count in found["left out"].items()]
    return table(["", "reason", "count"], rows)


def _kernels(found: Row) -> str:
    rows = [
        [
            row["id"],
            row["api"].removeprefix("torch."),
            row["direction"],
            row["dtype"],
            row["kind"],
            row["mistake"],
            _size(row["reality"]),
            *("yes" if row["found"][name] else "**no**" for name in STANDARDS),
        ]
        for row in found["wrong"]["kernels"]
    ]
    header = [
        "kernel",
        "operator",
        "direction",
        "dtype",
        "kind",
        "mistake",
        "how wrong",
        *(f"`{n}`" for n in STANDARDS),
    ]
    return table(header, rows)


def _size(reality: Row) -> str:
    if not reality:
        return "-"
    if reality["other"]:
        return reality["other"]
    if abs(reality["drift"]) >= LEAST_DRIFT:
        return f"{reality['drift']:+.2g} ULP in the mean"
    if reality["excess"]:
        return f"{reality['excess']:.3g} times torch's error"
    return f"{reality['size']:.3g} ULP, {reality['bulk']:.3g} roundings"
