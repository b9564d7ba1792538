"""Plants every fault of the catalogue in the example projects, and runs the projects as they are with many seeds.

    python -m benchmarks.mutants.run [--cuda] [--clean 50] [--first N] [--only WORD] [--at-once N] [--json FILE]
    python -m benchmarks.mutants.run --join FILE...

A fault counts as found where the pipeline fails, and as blamed where the earliest stage that it calls wrong is the one
in which the fault is. TIPC's own answer is in the table: it looks at the exit codes of the same commands. A project as
it is must pass, whatever the seed of its training: both in single precision, and torch's in mixed precision as well
(on a CPU Paddle has none, and what is said of that is no false alarm). ``--cuda`` does the same on a GPU with torch's
project, in single precision and O1 and O2 of bfloat16 and float16 each time. ``--join`` runs nothing: it puts together
what several runs have written, each of a part.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.mutants.catalogue import (
    CONTROLS,
    CONTROLS_ON_CUDA,
    CUDA,
    MUTANTS,
    NORMAL,
    ON_CUDA,
    PADDLE,
    PAIRS,
    TORCH,
    Change,
    Mutant,
)
from benchmarks.mutants.projects import Said, copied, judged
from benchmarks.tables import table
from trueline.records import Verdict

ROUND = ((PADDLE, NORMAL), (TORCH, NORMAL), (PADDLE, NORMAL), (TORCH, PAIRS))
ROUND_ON_CUDA = ((TORCH, CUDA),)

Row = dict[str, Any]
"""What was said of one run, for JSON."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One pipeline to run, in a fresh copy of a project with some changes."""

    project: str
    config: str
    changes: tuple[Change, ...] = ()
    seed: int = 0
    jobs: int = 2

    def run(self) -> Said:
        with tempfile.TemporaryDirectory(prefix="trueline-mutant-") as folder:
            project = copied(self.project, Path(folder))
            for change in self.changes:
                change.apply(project)
            return judged(project, self.config, seed=self.seed, jobs=self.jobs)


def run_all(trials: Sequence[Trial], at_once: int) -> Iterator[Said]:
    """In order. A trial changes the working directory and the environment: beside others it needs its own process."""
    if at_once == 1:
        yield from map(Trial.run, trials)
        return
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        yield from pool.map(Trial.run, trials)


def found(mutant: Mutant, said: Said) -> bool:
    wrong = [reason for reason in said.reasons if reason.startswith(("FAIL", "ERROR"))]
    return said.verdict >= Verdict.FAIL and any(mutant.says in reason for reason in wrong)


def blamed(mutant: Mutant, said: Said) -> bool:
    return found(mutant, said) and said.blamed == mutant.stage


def planted(mutants: Sequence[Mutant], jobs: int, at_once: int) -> Iterator[Row]:
    """Runs each fault in a fresh copy of its project."""
    trials = [Trial(one.project, one.config, one.changes, jobs=jobs) for one in mutants]
    for number, (mutant, said) in enumerate(zip(mutants, run_all(trials, at_once), strict=True), start=1):
        ok = "found" if found(mutant, said) else "MISSED"
        where = "" if blamed(mutant, said) else f", blamed on {said.blamed or 'nothing'} not {mutant.stage}"
        print(
            f"[{number}/{len(mutants)}] {mutant.kind}, {mutant.project}: {ok}{where} ({said.seconds:.0f} s)", flush=True
        )
        row = {"mutant": asdict(mutant), "said": asdict(said), "found": found(mutant, said)}
        yield {**row, "blamed": blamed(mutant, said)}


def clean_trials(count: int, first: int, jobs: int, on_cuda: bool) -> list[Trial]:
    """The projects as they are, each with its own seed; and with what was changed beside a fault and is none."""
    turns, controls = (ROUND_ON_CUDA, CONTROLS_ON_CUDA) if on_cuda else (ROUND, CONTROLS)
    trials = [Trial(*turns[number % len(turns)], seed=1000 + first + number, jobs=jobs) for number in range(count)]
    return trials + [Trial(one.project, one.config, one.changes, jobs=jobs) for one in controls if count]


def clean(trials: Sequence[Trial], at_once: int) -> Iterator[Row]:
    for number, (trial, said) in enumerate(zip(trials, run_all(trials, at_once), strict=True), start=1):
        subject = f"clean {trial.project} {trial.config}, seed {trial.seed}"
        subject += ", small learning rate" if trial.changes else ""
        print(f"[{number}/{len(trials)}] {subject}: {said.verdict} ({said.seconds:.0f} s)", flush=True)
        alarm = said.verdict > Verdict.WARN
        for reason in said.reasons if alarm else ():
            print(f"    {reason}", flush=True)
        row = {"project": trial.project, "config": trial.config, "seed": trial.seed, "said": asdict(said)}
        yield {**row, "alarm": alarm}


def joined(files: Sequence[Path]) -> tuple[list[Row], list[Row]]:
    """Faults and clean runs of several files, in the order of the catalogue; what is there twice counts once."""
    parts = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    order = {(one.kind, one.project): number for number, one in enumerate(MUTANTS)}
    by_fault = {(row["mutant"]["kind"], row["mutant"]["project"]): row for part in parts for row in part["faults"]}
    by_run = {(row["seed"], row["project"], row["config"]): row for part in parts for row in part["clean"]}
    return [by_fault[key] for key in sorted(by_fault, key=order.__getitem__)], [by_run[key] for key in sorted(by_run)]


def written(faults: list[Row], clean_runs: list[Row]) -> str:
    """The table for people."""
    projects = _projects(row["mutant"]["project"] for row in faults)
    rows = []
    for kind in dict.fromkeys(row["mutant"]["kind"] for row in faults):
        cells = [kind]
        for project in projects:
            row = next(
                (one for one in faults if (one["mutant"]["kind"], one["mutant"]["project"]) == (kind, project)), None
            )
            cells += ["-", "-"] if row is None else [_answer(row), row["said"]["tipc"]]
        rows.append(cells)
    names = {PADDLE: "Paddle: ours", TORCH: "torch: ours"}
    text = table(("fault", *(name for one in projects for name in (names[one], "TIPC"))), rows)
    hits, right = sum(row["found"] for row in faults), sum(row["blamed"] for row in faults)
    text += f"\n{hits} of {len(faults)} faults found, {right} blamed on the right stage; "
    alarms = sum(row["alarm"] for row in clean_runs)
    warned = sum(not row["alarm"] and row["said"]["verdict"] != Verdict.PASS for row in clean_runs)
    return text + f"{alarms} false alarms and {warned} warnings in {len(clean_runs)} clean runs.\n"


def _projects(names: Iterable[str]) -> list[str]:
    there = set(names)
    return [name for name in (PADDLE, TORCH) if name in there]


def _answer(row: Row) -> str:
    if not row["found"]:
        return "MISSED"
    return row["said"]["blamed"] if row["blamed"] else f"{row['said']['blamed']} (should be {row['mutant']['stage']})"


def _keep(file: Path | None, faults: list[Row], clean_runs: list[Row]) -> None:
    """Written anew after every run: who is stopped has lost none but the last."""
    if file is not None:
        content = {"faults": faults, "clean": clean_runs}
        file.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="torch's project on a GPU, in five precisions")
    parser.add_argument("--clean", type=int, default=50, help="how many clean runs")
    parser.add_argument("--first", type=int, default=0, help="the number of the first clean run, to go on with others")
    parser.add_argument("--only", default="", help="faults whose kind, or whose project, holds this word")
    parser.add_argument("--jobs", type=int, default=2, help="commands of one pipeline at the same time")
    parser.add_argument("--at-once", type=int, default=1, help="pipelines at the same time")
    parser.add_argument("--json", type=Path, help="also write everything that was said here")
    parser.add_argument("--join", type=Path, nargs="+", help="put these files together instead of running anything")
    options = parser.parse_args()
    faults: list[Row] = []
    clean_runs: list[Row] = []
    if options.join:
        faults, clean_runs = joined(options.join)
        _keep(options.json, faults, clean_runs)
    else:
        chosen = [
            one
            for one in (ON_CUDA if options.cuda else MUTANTS)
            if options.only in one.kind or options.only in one.project
        ]
        trials = clean_trials(options.clean, options.first, options.jobs, options.cuda)
        for rows, made in (
            (faults, planted(chosen, options.jobs, options.at_once)),
            (clean_runs, clean(trials, options.at_once)),
        ):
            for row in made:
                rows.append(row)
                _keep(options.json, faults, clean_runs)
    print(written(faults, clean_runs))
    bad = any(not row["blamed"] for row in faults) or any(row["alarm"] for row in clean_runs)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
