"""The ways in: what a victim does with a file that came from an attacker, and what happened then.

Each way is one command (or a few), run under the guard with many names at once. ``WAYS`` has them by name.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hostile import files
from tests.hostile.bait import UNKNOWN, Bait
from tests.hostile.names import Hostile
from tests.hostile.victim import GUARD, PASSED, REACHED, REFUSED, Result, Row, Victim, finished, many, scripts_run
from trueline.store.seal import seal_database

EXECUTION = ("--workers", "1", "--timeout", "5")


def config_check(victim: Victim) -> Result:
    """A file of config lines under ``trueline check``, for each framework one."""
    result = Result(victim.calls)
    for framework, calls in victim.halves():
        _config_into(result, victim, calls, "--target", f"{framework}:cpu")
    return finished(victim, result)


def config_across(victim: Victim) -> Result:
    """The same with a reference of another framework, which translates the calls."""
    result = Result(victim.calls)
    _config_into(result, victim, victim.calls, "--target", "paddle:cpu", "--reference", "torch:cpu")
    return finished(victim, result)


def _config_into(result: Result, victim: Victim, calls: Sequence[Hostile], *words: str) -> None:
    path, out = victim.place("config.txt"), victim.place("check")
    owners = files.write_config(path, calls, victim.bait.fill)
    result.commands.append(victim.trueline("check", path, "--out", out, *EXECUTION, *words))
    rows, good = _ledger_rows(out, owners)
    result.rows.update(rows)
    result.good &= good


def _ledger_rows(folder: Path, owners: Mapping[int, int]) -> tuple[dict[int, Row], bool]:
    """What a kept check says of each line; and whether the first two lines passed."""
    rows: dict[int, Row] = {}
    good: set[int] = set()
    if not (folder / "ledger.db").exists():
        return rows, False
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        ledger.text_factory = lambda raw: raw.decode("utf-8", "replace")
        told = [(json.loads(case).get("calls", []), _row(ending, verdict, reason)) for case, ending, verdict, reason in
                ledger.execute("SELECT case_json, ending, verdict, reason FROM cases")]  # fmt: skip
        told += [([place], Row(REFUSED, reason)) for place, reason in ledger.execute("SELECT place, reason FROM skips")]
    for places, row in told:
        for place in places:
            line = int(found[1]) if (found := re.search(r":(\d+)$", place)) else 0
            good |= {line} if line in (1, 2) and row.state == PASSED else set()
            if line in owners:
                rows[owners[line]] = _worse(rows.get(owners[line]), row)
    return rows, bool(good)


def _row(ending: str | None, verdict: int | None, reason: str | None) -> Row:
    if ending is None or verdict is None:
        return Row(REACHED, "it never ended")
    if verdict <= 1:
        return Row(PASSED, reason or "")
    said = f"{ending}: {reason}"
    called = verdict > 2 or any(words in said for words in ("raise", "returned nothing", "returned no "))
    return Row(REACHED if called else REFUSED, said)


def _worse(one: Row | None, other: Row) -> Row:
    order = (REFUSED, REACHED, PASSED)
    return other if one is None or order.index(other.state) > order.index(one.state) else one


def run_check(victim: Victim) -> Result:
    """A Run under ``trueline check``, of each framework one."""
    result = Result(victim.calls)
    for framework, calls in victim.halves():
        run = files.write_hostile_run(victim.place("run"), calls, victim.bait.fill, framework=framework)
        _check_into(result, victim, run, framework)
    return finished(victim, result)


def journal_check(victim: Victim) -> Result:
    """A Run whose program was killed, under ``trueline check``."""
    result = Result(victim.calls)
    _check_into(result, victim, files.write_journal_run(victim.place("journal"), victim.calls, victim.bait.fill), "")
    return finished(victim, result)


def _check_into(result: Result, victim: Victim, run: Path, framework: str) -> None:
    told = victim.place("check.json")
    target = f"{framework or 'torch'}:cpu"
    result.commands.append(victim.trueline("check", run, "--target", target, "--json", told, *EXECUTION))
    cases = _json_of(told).get("cases", [])
    for case in cases:
        _take(result, case["module"], _case_row(case))
    result.good &= not framework or any(one["module"] == "good" and one["verdict"] == "PASS" for one in cases)


def _case_row(case: Mapping[str, Any]) -> Row:
    verdict = ("PASS", "WARN", "NOT_COMPARED", "FAIL", "ERROR").index(case["verdict"])
    return _row(case["ending"], verdict, case["reason"])


def one_call_check(victim: Victim) -> Result:
    """One call of a Run that the victim names by its place in it."""
    run = files.write_hostile_run(victim.place("run"), victim.calls, victim.bait.fill)
    done = victim.trueline("check", f"{run}::torch.relu@step=0,rank=0", "--target", "torch:cpu", *EXECUTION)
    return finished(victim, Result(victim.calls, [done], good=done.code in (0, 1)))


def _take(result: Result, module: str, row: Row) -> None:
    if module.startswith("n") and module[1:].isdigit():
        number = int(module[1:])
        result.rows[number] = _worse(result.rows.get(number), row)


def _json_of(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def run_exec(victim: Victim) -> Result:
    """A Run under ``trueline exec``, of each framework one."""
    result = Result(victim.calls)
    for framework, calls in victim.halves():
        run = files.write_hostile_run(victim.place("run"), calls, victim.bait.fill, framework=framework)
        out = victim.place("exec")
        result.commands.append(victim.trueline("exec", run, "--target", f"{framework}:cpu", "--out", out, *EXECUTION))
        good = False
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(out / "rank0" / "calls.db")) as made,
        ):
            query = """SELECT modules.path, names.text FROM calls JOIN modules ON modules.id = calls.module
                       LEFT JOIN names ON names.id = calls.raised"""
            for module, raised in made.execute(query):
                refused = raised is not None and ("no operator" in raised or "unsupported" in raised)
                _take(result, module, Row(PASSED if raised is None else REFUSED if refused else REACHED, raised or ""))
                good |= module == "good"
        result.good &= good
    return finished(victim, result)


def run_profile(victim: Victim) -> Result:
    """A Run under ``trueline profile``, of each framework one."""
    result = Result(victim.calls)
    states = {"returned": PASSED, "unsupported": REFUSED}
    for framework, calls in victim.halves():
        run = files.write_hostile_run(victim.place("run"), calls, victim.bait.fill, framework=framework)
        told = victim.place("profile.json")
        words = ("--target", f"{framework}:cpu", "--timeout", "5", "--budget", "0.01", "--threads", "1")
        result.commands.append(victim.trueline("profile", run, "--json", told, *words))
        cases = _json_of(told).get("cases", [])
        for case in cases:
            outcome = case["target"]["outcome"]
            _take(result, case["module"], Row(states.get(outcome["status"], REACHED), outcome["reason"]))
        result.good &= any(case["module"] == "good" for case in cases)
    return finished(victim, result)


def run_overflow(victim: Victim) -> Result:
    """A Run in which each call gives NaN, under ``trueline overflow``, with its page."""
    run = files.write_hostile_run(victim.place("run"), victim.calls, victim.bait.fill, nan=True)
    page = victim.place("overflow.html")
    done = victim.trueline("overflow", run, "--html", page)
    return finished(victim, Result(victim.calls, [done], pages=[page]))


def run_compare(victim: Victim) -> Result:
    """Two Runs that differ in every call, under ``trueline compare``, with its page and its table."""
    pair = _pair(victim, victim.calls)
    page, table = victim.place("compare.html"), victim.place("compare.csv")
    done = victim.trueline("compare", *pair, "--html", page, "--csv", table)
    return finished(victim, Result(victim.calls, [done], pages=[page, table]))


def _pair(victim: Victim, calls: Sequence[Hostile]) -> tuple[Path, Path]:
    fill = victim.bait.fill
    good = files.write_hostile_run(victim.place("good"), calls, fill)
    return good, files.write_hostile_run(victim.place("bad"), calls, fill, shift=0.3)


def each_compared(victim: Victim) -> Result:
    """A pair of Runs for each call alone, whose origin it then is: ``trueline compare`` tries it."""
    calls = [call for call in victim.calls if not call.raw]
    result = Result(calls)
    result.commands = many(victim, [["compare", *map(str, _pair(victim, [call]))] for call in calls])
    return finished(victim, result)


def each_shown(victim: Victim) -> Result:
    """``trueline show RUN CALL --save`` of each call: a script that makes it again, which the victim runs."""
    run = files.write_hostile_run(victim.place("run"), victim.calls, victim.bait.fill)
    with contextlib.closing(sqlite3.connect(run / "rank0" / "calls.db")) as calls:
        numbers = [number for (number,) in calls.execute("SELECT id FROM calls ORDER BY id")]
    folders = [victim.place("saved") for _ in numbers]
    commands = [["show", str(run), f"#{n}", "--save", str(at)] for n, at in zip(numbers, folders, strict=True)]
    result = Result(victim.calls, many(victim, commands))
    result.commands += scripts_run(victim, [script for at in folders for script in at.rglob("*.py")])
    result.good = any(at.exists() for at in folders)
    return finished(victim, result)


def run_told(victim: Victim) -> Result:
    """Commands that execute nothing: ``show``, ``report --html``, ``export``, of a Run whose stacks name a secret."""
    run = files.write_hostile_run(victim.place("run"), victim.calls, victim.bait.fill)
    _secret_sources(run, victim)
    page, table = victim.place("run.html"), victim.place("configs.txt")
    commands = [
        ("show", run),
        ("show", run, "#0", "--stack"),
        ("report", run, "--html", page),
        ("export", run, "--configs", table, "--counts"),
    ]
    commands += [("export", run, "--format", one, "--out", victim.place(one)) for one in files.FORMATS]
    return finished(victim, Result(victim.calls, many(victim, commands), pages=[page, table]))


def _secret_sources(run: Path, victim: Victim) -> None:
    """Stacks that name the victim's secrets as source files."""
    with contextlib.closing(sqlite3.connect(run / "rank0" / "calls.db")) as calls, calls:
        frames = [[victim.bait.fill(1)("{secret}"), 1, "forward"], ["trueline_canary.py", 1, "run"]]
        calls.execute("UPDATE stacks SET frames = ?", (json.dumps(frames),))
    seal_database(run / "rank0" / "calls.db")


def run_viewed(victim: Victim) -> Result:
    """``trueline view`` of a Run: the page, and the details that the browser asks for."""
    run = files.write_hostile_run(victim.place("run"), victim.calls, victim.bait.fill)
    _secret_sources(run, victim)
    page = victim.place("view.html")
    script = GUARD / "viewer.py"
    done = victim.python(script, run, page)
    return finished(victim, Result(victim.calls, [done], pages=[page], good=page.exists()))


def head_fields(victim: Victim) -> Result:
    """A Run whose ``run.json`` names modules wherever it names anything."""
    run = files.write_hostile_run(victim.place("run"), [], victim.bait.fill)
    evil = "trueline_canary"
    options = {
        "data": evil,
        "level": evil,
        "targets": [f"{evil}:run"],
        "apis": [f"{evil}.*"],
        "overrides": [f"{evil}:run"],
    }
    files.rewrite_head(
        run / "run.json",
        {"framework": evil, "framework_version": f"{evil}:run", "devices": [f"{evil}:0"], "options": options,
         "command": ["python", "-c", victim.bait.fill(1)("{python}")], "git_commit": victim.bait.fill(1)("$({shell})")},
    )  # fmt: skip
    out = victim.place("exec")
    commands = [
        ("show", run),
        ("check", run, "--target", "torch:cpu", *EXECUTION),
        ("exec", run, "--target", "torch:cpu", "--out", out, *EXECUTION),
        ("compare", run, run),
        ("overflow", run),
        ("report", run, "--html", victim.place("run.html")),
    ]
    return finished(victim, Result([], many(victim, commands)))


def imported(format: str) -> Callable[[Victim], Result]:
    def way(victim: Victim) -> Result:
        dump, run = victim.place(format), victim.place("imported")
        calls = files.write_dump(dump, format, victim.calls, victim.bait.fill)
        told, target = victim.place("check.json"), "paddle:cpu" if format == "apex" else "torch:cpu"
        commands = [
            ("import", dump, "--format", format, "--out", run),
            ("check", run, "--target", target, "--json", told, *EXECUTION),
            ("overflow", run),
        ]
        result = Result(calls, many(victim, commands))
        result.good = result.commands[0].code == 0
        _take_by_name(victim, result, files.told_whole(dump, calls, victim.bait.fill), _json_of(told).get("cases", []))
        return finished(victim, result)

    way.__doc__ = f"A dump of {format} under ``trueline import``, and the Run under check and overflow."
    return way


def _take_by_name(
    victim: Victim, result: Result, told: Sequence[Hostile], cases: Sequence[Mapping[str, Any]]
) -> None:
    """What is said of calls, by their name, but for names of which the dump has lost what is hostile in a call."""
    lost = {call.name for call in result.calls if call not in told}
    named = {victim.bait.fill(call.number)(call.name): call.number for call in told if call.name not in lost}
    for case in cases:
        if case["api"] in named:
            _take(result, f"n{named[case['api']]}", _case_row(case))


def kept_check(victim: Victim) -> Result:
    """The folder of a check that somebody else kept, its ledger full of hostile names: ``report``, ``triage``,
    ``tolerances``, ``diff``, and going on with it."""
    folder = _failed_check(victim, len(victim.calls))
    before = victim.place("before")
    shutil.copytree(folder, before)
    keys = files.rewrite_check(folder, victim.calls, victim.bait.fill)
    page, table = victim.place("check.html"), victim.place("check.csv")
    commands = [
        ("report", folder, "--html", page, "--csv", table, "--junit", victim.place("junit.xml")),
        ("triage", folder, "--workers", "1", "--timeout", "5", "--scripts", "20"),
        ("tolerances", folder),
        ("diff", before, folder),
    ]
    result = Result([one for one in victim.calls if one.number in keys.values()], many(victim, commands))
    result.pages = [page, table]
    result.commands += scripts_run(victim, sorted((folder / "triage").rglob("*.py")))
    return finished(victim, result)


def retried_check(victim: Victim) -> Result:
    """The same folder, given to ``trueline check --retry all``, as whoever received it would go on with it."""
    folder = _failed_check(victim, min(40, len(victim.calls)))
    files.rewrite_check(folder, victim.calls, victim.bait.fill)
    words = ("--target", "torch:cpu", "--override", "torch.relu=wrong:relu", "--out", folder, "--retry", "all")
    commands = [victim.trueline("check", victim.folder / "failing.txt", *words, "--save-failures", *EXECUTION)]
    commands += scripts_run(victim, sorted((folder / "failures").rglob("*.py")))
    return finished(victim, Result(victim.calls, commands))


def named_in_check(victim: Victim) -> Result:
    """The folder of a check whose own settings name an override, a standard and a target of the attacker's."""
    kept = _failed_check(victim, 3)
    evil = {"torch.relu": "trueline_canary:run", "torch.abs": "trueline_canary:run"}
    commands: list[Sequence[str | Path]] = []
    for changes in (
        {"overrides": evil},
        {"standard": "trueline_canary:Evil"},
        {"standard": victim.bait.fill(1)("{script}")},
        {"target": "trueline_canary:cpu", "reference": "trueline_canary:cpu"},
        {"target": "torch:cpu+trueline_canary"},
    ):
        folder = victim.place("named")
        shutil.copytree(kept, folder)
        files.rewrite_head(folder / "check.json", changes)
        _rewrite_identity(folder, changes)
        commands += [("report", folder), ("triage", folder, "--workers", "1"), ("diff", kept, folder)]
    return finished(victim, Result([], many(victim, commands)))


def _rewrite_identity(folder: Path, changes: Mapping[str, Any]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as ledger, ledger:
        (text,) = ledger.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
        ledger.execute(
            "UPDATE meta SET value = ? WHERE key = 'identity'", (json.dumps({**json.loads(text), **changes}),)
        )
    seal_database(folder / "ledger.db")


def _failed_check(victim: Victim, count: int) -> Path:
    """A check of as many lines that all fail, since the victim's own override is wrong."""
    lines, folder = victim.folder / "failing.txt", victim.place("kept")
    lines.write_text("".join(f'torch.relu(Tensor([{n + 2}],"float32"), )\n' for n in range(count)))
    words = ("--target", "torch:cpu", "--override", "torch.relu=wrong:relu", "--out", folder, *EXECUTION)
    done = victim.trueline("check", lines, *words)
    assert done.code == 1, done.err
    victim.bait.lay()
    return folder


def each_alone(victim: Victim) -> Result:
    """Files that hold one call which may spoil a whole file: the file is refused, or that call is."""
    calls = [call for call in victim.every if call.alone]
    paths = []
    for call in calls:
        path = victim.place("alone")
        if call.raw:
            files.write_config(path, [call], victim.bait.fill)
        else:
            files.write_hostile_run(path, [call], victim.bait.fill)
        paths.append(path)
    commands = [("check", path, "--target", "torch:cpu", *EXECUTION) for path in paths]
    return finished(victim, Result(calls, many(victim, commands)))


def failing_texts(victim: Victim) -> Result:
    """Calls that are executed and fail, with texts among their arguments that would be Python in a script: the scripts
    that ``--save-failures`` keeps, which trueline itself runs once."""
    path, out = victim.place("texts.txt"), victim.place("check")
    fill = victim.bait.fill(1)
    texts = ["');{python};('", "{{python}}", "\\');{python};(\\'", "'''+{python}+'''", "\\u0027+{python}+\\u0027"]
    lines = [
        f'paddle.nn.functional.relu(Tensor([{n + 2}],"float32"), name="{fill(one)}", )' for n, one in enumerate(texts)
    ]
    path.write_text("\n".join(lines) + "\n")
    words = ("--override", "paddle.nn.functional.relu=wrong:relu", "--out", out, "--save-failures", *EXECUTION)
    commands = [victim.trueline("check", path, "--target", "paddle:cpu", *words)]
    commands.append(victim.trueline("triage", out, "--workers", "1"))
    scripts = sorted(out.rglob("*.py"))
    commands += scripts_run(victim, scripts)
    return finished(victim, Result([], commands, good=bool(scripts)))


WAYS: dict[str, Callable[[Victim], Result]] = {
    "config lines under check": config_check,
    "config lines under check across frameworks": config_across,
    "Run under check": run_check,
    "journal under check": journal_check,
    "one call of a Run under check": one_call_check,
    "Run under exec": run_exec,
    "Run under profile": run_profile,
    "Run under overflow": run_overflow,
    "Runs under compare": run_compare,
    "each call compared": each_compared,
    "scripts of show --save": each_shown,
    "Run under show, report, export": run_told,
    "Run under view": run_viewed,
    "run.json that names modules": head_fields,
    **{f"{one} under import, check, overflow": imported(one) for one in ("msprobe", "ptdbg", "checker", "apex")},
    "kept check under report, triage, tolerances, diff": kept_check,
    "kept check gone on with": retried_check,
    "kept check that names modules": named_in_check,
    "files that one call may spoil": each_alone,
    "scripts of failures": failing_texts,
}


def tried(name: str, folder: Path, calls: Sequence[Hostile], seconds: float = 120.0) -> Result:
    """One way, on a machine of its own."""
    place = folder / re.sub(r"\W+", "_", name)
    with Bait(place / "bait", [call.number for call in calls] or [UNKNOWN + 1]) as bait:
        return WAYS[name](Victim(place / "work", bait, calls, seconds))
