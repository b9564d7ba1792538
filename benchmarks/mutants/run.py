"""Plants every fault of the catalogue in the example projects, and runs the projects as they are with many seeds.

    python -m benchmarks.mutants.run [--clean 50] [--first N] [--only WORD] [--json FILE] [--join FILE...]

A fault counts as found where the pipeline fails, and as blamed where the earliest stage that it calls wrong is the one
in which the fault is. TIPC's own answer is in the table: it looks at the exit codes of the same commands. A project as
it is must pass, whatever the seed of its training: both in single precision, and torch's in mixed precision as well
(on a CPU Paddle has none, and what is said of that is no false alarm). ``--join`` runs nothing: it puts together what
several runs have written, each of a part.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.mutants.catalogue import CONTROLS, MUTANTS, NORMAL, PADDLE, PAIRS, TORCH, Mutant
from benchmarks.mutants.projects import Said, copied, judged
from benchmarks.tables import table
from trueline.records import Verdict

ROUND = ((PADDLE, NORMAL), (TORCH, NORMAL), (PADDLE, NORMAL), (TORCH, PAIRS))


def found(mutant: Mutant, said: Said) -> bool:
    wrong = [reason for reason in said.reasons if reason.startswith(("FAIL", "ERROR"))]
    return said.verdict >= Verdict.FAIL and any(mutant.says in reason for reason in wrong)


def blamed(mutant: Mutant, said: Said) -> bool:
    return found(mutant, said) and said.blamed == mutant.stage


def planted(mutants: Sequence[Mutant], jobs: int) -> list[dict[str, Any]]:
    """Runs each fault in a fresh copy of its project."""
    rows = []
    for number, mutant in enumerate(mutants, start=1):
        with tempfile.TemporaryDirectory(prefix="trueline-mutant-") as folder:
            project = copied(mutant.project, Path(folder))
            for change in mutant.changes:
                change.apply(project)
            said = judged(project, mutant.config, jobs=jobs)
        ok = "found" if found(mutant, said) else "MISSED"
        where = "" if blamed(mutant, said) else f", blamed on {said.blamed or 'nothing'} not {mutant.stage}"
        print(
            f"[{number}/{len(mutants)}] {mutant.kind}, {mutant.project}: {ok}{where} ({said.seconds:.0f} s)", flush=True
        )
        rows.append({"mutant": asdict(mutant), "said": asdict(said), "found": found(mutant, said)})
        rows[-1]["blamed"] = blamed(mutant, said)
    return rows


def clean(count: int, first: int, jobs: int) -> list[dict[str, Any]]:
    """Runs the projects as they are, each with its own seed; and with what was changed beside a fault and is none."""
    wanted = [(*ROUND[number % len(ROUND)], 1000 + first + number, ()) for number in range(count)]
    wanted += [(one.project, one.config, 0, one.changes) for one in CONTROLS if count]
    rows = []
    for number, (name, config, seed, changes) in enumerate(wanted, start=1):
        with tempfile.TemporaryDirectory(prefix="trueline-clean-") as folder:
            project = copied(name, Path(folder))
            for change in changes:
                change.apply(project)
            said = judged(project, config, seed=seed, jobs=jobs)
        subject = f"clean {name} {config}, seed {seed}" + (", small learning rate" if changes else "")
        print(f"[{number}/{len(wanted)}] {subject}: {said.verdict} ({said.seconds:.0f} s)", flush=True)
        alarm = said.verdict > Verdict.WARN
        for reason in said.reasons if alarm else ():
            print(f"    {reason}", flush=True)
        rows.append({"project": name, "config": config, "seed": seed, "said": asdict(said), "alarm": alarm})
    return rows


def joined(files: Sequence[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Faults and clean runs of several files, in the order of the catalogue; what is there twice counts once."""
    parts = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    order = {(one.kind, one.project): number for number, one in enumerate(MUTANTS)}
    by_fault = {(row["mutant"]["kind"], row["mutant"]["project"]): row for part in parts for row in part["faults"]}
    by_run = {(row["seed"], row["project"], row["config"]): row for part in parts for row in part["clean"]}
    return [by_fault[key] for key in sorted(by_fault, key=order.__getitem__)], [by_run[key] for key in sorted(by_run)]


def written(faults: list[dict[str, Any]], clean_runs: list[dict[str, Any]]) -> str:
    """The table for people."""
    rows = []
    for kind in dict.fromkeys(row["mutant"]["kind"] for row in faults):
        cells = [kind]
        for project in (PADDLE, TORCH):
            row = next(
                (one for one in faults if (one["mutant"]["kind"], one["mutant"]["project"]) == (kind, project)), None
            )
            cells += ["-", "-"] if row is None else [_answer(row), row["said"]["tipc"]]
        rows.append(cells)
    text = table(("fault", "Paddle: ours", "TIPC", "torch: ours", "TIPC"), rows)
    hits, right = sum(row["found"] for row in faults), sum(row["blamed"] for row in faults)
    text += f"\n{hits} of {len(faults)} faults found, {right} blamed on the right stage; "
    alarms = sum(row["alarm"] for row in clean_runs)
    warned = sum(not row["alarm"] and row["said"]["verdict"] != Verdict.PASS for row in clean_runs)
    return text + f"{alarms} false alarms and {warned} warnings in {len(clean_runs)} clean runs.\n"


def _answer(row: dict[str, Any]) -> str:
    if not row["found"]:
        return "MISSED"
    return row["said"]["blamed"] if row["blamed"] else f"{row['said']['blamed']} (should be {row['mutant']['stage']})"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clean", type=int, default=50, help="how many clean runs")
    parser.add_argument("--first", type=int, default=0, help="the number of the first clean run, to go on with others")
    parser.add_argument("--only", default="", help="faults whose kind, or whose project, holds this word")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write everything that was said here")
    parser.add_argument("--join", type=Path, nargs="+", help="put these files together instead of running anything")
    options = parser.parse_args()
    if options.join:
        faults, clean_runs = joined(options.join)
    else:
        chosen = [one for one in MUTANTS if options.only in one.kind or options.only in one.project]
        faults = planted(chosen, options.jobs)
        clean_runs = clean(options.clean, options.first, options.jobs)
    if options.json:
        content = {"faults": faults, "clean": clean_runs}
        options.json.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    print(written(faults, clean_runs))
    bad = any(not row["blamed"] for row in faults) or any(row["alarm"] for row in clean_runs)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
