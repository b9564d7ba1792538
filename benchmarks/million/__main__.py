"""Runs a synthetic campaign, kills it at random moments, resumes it, and proves that nothing was lost or done twice.

    python -m benchmarks.million [--framework torch|paddle] [--count 1000000] [--kills 50] [--workers N]
                                 [--seconds-limit S] [--planning-seconds S] [--folder DIR] [--seed N]

Every second kill is of the coordinator, the others of one of its processes; some come while it still plans. Exit code 1
where anything does not hold. Writes ``results/million.json`` and ``.md`` beside this folder. Where ``--seconds-limit``
ends it before its time (exit code 3), the same command with the same ``--folder`` goes on, kills and figures included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.million import corpus
from benchmarks.million.coordinate import EXECUTIONS, STATE, State
from benchmarks.million.proof import prove

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
_LOOK_SECONDS = 0.25
_WARM_CASES = 60_000
"""After so many cases a coordinator that was just started holds what it will hold: the database keeps pages at hand."""


@dataclass(slots=True)
class Life:
    """One coordinator, from start to end: (cases done, bytes in memory), sampled, and what it cost."""

    samples: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0
    seen: int = 0
    planning_cpu: float = 0.0
    executing_cpu: float = 0.0
    ended_by: str = ""


class Campaign:
    """A campaign over a corpus, started and killed again and again."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self.corpus = folder / "corpus.txt"
        self.ledger = folder / "check" / "ledger.db"
        self.executions = folder / EXECUTIONS
        self.executions.mkdir(exist_ok=True)
        self._random = random.Random(options.seed)
        self._moments = self._drawn()
        self.lives: list[Life] = []
        self.worker_kills = 0
        self.may_repeat = 0
        """Cases that kills of workers may have had executed again: one each, and those of all who die together."""
        self._kills = 0
        self._before = 0.0
        self._started = time.monotonic()
        self._progress = folder / "benchmark.json"
        if self._progress.exists():
            self._go_on(json.loads(self._progress.read_text(encoding="utf-8")))

    @property
    def seconds(self) -> float:
        """How long it has been running, earlier commands included."""
        return self._before + time.monotonic() - self._started

    def _go_on(self, kept: dict[str, Any]) -> None:
        self.lives = [Life(**life) for life in kept["lives"]]
        self._moments, self._kills, self._before = kept["moments"], kept["kills"], kept["seconds"]
        self.worker_kills, self.may_repeat = kept["worker kills"], kept["may repeat"]
        self._random.seed(self._options.seed + len(self.lives))

    def keep(self) -> None:
        """Leaves what the next command needs to go on."""
        content = {
            "lives": [asdict(life) for life in self.lives], "moments": self._moments, "kills": self._kills,
            "seconds": self.seconds, "worker kills": self.worker_kills, "may repeat": self.may_repeat,
        }  # fmt: skip
        self._progress.write_text(json.dumps(content), encoding="utf-8")

    def run(self) -> bool:
        """All kills, then to the end; False where time ran out."""
        moments = self._moments
        while True:
            life = Life()
            self.lives.append(life)
            process = self._start()
            try:
                finished = self._watch(process, life, moments)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
            if life.ended_by == "error":
                raise SystemExit(f"the coordinator ended by itself: {(self._folder / 'log.txt').read_text()[-2000:]}")
            if finished or self._late():
                return finished

    def _drawn(self) -> list[int]:
        """After how many cases to kill; the first few before any has ended."""
        kills = self._options.kills
        early = min(kills, max(1, kills // 10)) if kills else 0
        later = [self._random.randrange(int(0.97 * self._options.count)) for _ in range(kills - early)]
        return sorted([0] * early + later)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ, "TRUELINE_MILLION": str(self._folder), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }  # fmt: skip
        words = [sys.executable, "-m", "benchmarks.million.coordinate", str(self.corpus), str(self._folder / "check"),
                 self._options.framework, str(self._options.workers)]  # fmt: skip
        (self._folder / STATE).unlink(missing_ok=True)
        with open(self._folder / "log.txt", "ab") as log:
            return subprocess.Popen(words, env=environment, cwd=ROOT, stdout=log, stderr=log)

    def _watch(self, process: subprocess.Popen[bytes], life: Life, moments: list[int]) -> bool:
        """Looks at a coordinator until it ends or is killed; True where it ended by itself, its work done."""
        started = time.monotonic()
        planning = bool(moments) and moments[0] == 0
        deadline = started + self._random.uniform(0.1, 1.0) * self._options.planning_seconds if planning else None
        state: State | None = None
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS * (0.5 + self._random.random()))
            life.seconds = time.monotonic() - started
            if state is None and (self._folder / STATE).exists():
                state = State(self._folder / STATE)
            done = self._sample(process.pid, state, life)
            if self._late():
                life.ended_by = "time"
                process.kill()
            due = moments and (moments[0] <= done if deadline is None else time.monotonic() > deadline)
            if due and life.ended_by == "":
                moments.pop(0)
                if self._kill(process, life):
                    break
                deadline = None
        if state is not None:
            state.close()
        if life.ended_by:
            return False
        life.ended_by = "done" if process.wait() == 0 else "error"
        return life.ended_by == "done"

    def _sample(self, process: int, state: State | None, life: Life) -> int:
        if state is None:
            return -1
        done, life.seen, first, last = state.read()
        life.planning_cpu, life.executing_cpu = first, last - first
        resident = _resident(process)
        if life.seen and resident:
            life.samples.append((done, resident))
        return done if life.seen else -1

    def _kill(self, process: subprocess.Popen[bytes], life: Life) -> bool:
        """Kills the coordinator, or, every second time, one of its processes; True where it was the coordinator."""
        self._kills += 1
        below = _descendants(process.pid) if self._kills % 2 == 0 else []
        if below:
            chosen = self._random.choice(below)
            self.worker_kills += 1
            self.may_repeat += 1 + len(_descendants(chosen))
            os.kill(chosen, signal.SIGKILL)
            return False
        process.kill()
        life.ended_by = "kill"
        return True

    def _late(self) -> bool:
        limit = self._options.seconds_limit
        return limit is not None and time.monotonic() - self._started > limit


def _resident(process: int) -> int:
    try:
        words = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE")


def _descendants(process: int) -> list[int]:
    """The processes below a process."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                after = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(after[1]), []).append(int(entry))
    found, waiting = [], [process]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def slope(lives: list[Life]) -> dict[str, float]:
    """How memory grows with cases, in the life that saw most of them, once it is warm: bytes a case."""
    longest = max(lives, key=lambda life: life.seen)
    begun = longest.samples[0][0] if longest.samples else 0
    warm = [(done, size) for done, size in longest.samples if done - begun > min(_WARM_CASES, longest.seen / 2)]
    most = max((size for life in lives for _, size in life.samples), default=0)
    if len(warm) < 3:
        return {"bytes_a_case": float("nan"), "most_bytes": most, "over_cases": 0}
    done, sizes = np.array(warm, dtype=np.float64).T
    return {
        "bytes_a_case": float(np.polyfit(done, sizes, 1)[0]),
        "most_bytes": most,
        "first_bytes": float(sizes[0]),
        "last_bytes": float(sizes[-1]),
        "over_cases": float(done[-1] - done[0]),
    }


def figures(campaign: Campaign, options: argparse.Namespace, finished: bool) -> dict[str, Any]:
    lives = campaign.lives
    seen = sum(life.seen for life in lives)
    executing = [life for life in lives if life.seen]
    proof = prove(campaign.ledger, campaign.executions, campaign.corpus, options.count, campaign.may_repeat)
    return {
        "framework": options.framework,
        "lines": options.count,
        "workers": options.workers,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "finished": finished,
        "holds": finished and not proof.faults,
        "seconds": campaign.seconds,
        "kills_of_coordinator": sum(life.ended_by == "kill" for life in lives),
        "kills_of_workers": campaign.worker_kills,
        "may_repeat": campaign.may_repeat,
        "cases_a_second": seen / max(sum(life.seconds for life in executing), 1e-9),
        "coordinator_microseconds_a_case": 1e6 * sum(life.executing_cpu for life in lives) / max(seen, 1),
        "planning_cpu_seconds": sum(life.planning_cpu for life in lives),
        "resume_cpu_seconds": float(np.median([life.planning_cpu for life in executing[1:]] or [0.0])),
        "ledger_bytes": campaign.ledger.stat().st_size,
        "memory": slope(lives),
        "proof": proof.as_json(),
    }


def told(found: dict[str, Any]) -> str:
    proof, memory = found["proof"], found["memory"]
    faults = proof["faults"] or ["time ran out before the end"]
    endings = ", ".join(f"{count:,} {ending}" for ending, count in proof["endings"].items())
    rows = [
        ("machine", found["machine"]),
        ("lines", f"{found['lines']:,} ({found['framework']}), {found['workers']} workers"),
        ("killed with -9", f"coordinator {found['kills_of_coordinator']} times, "
                           f"one of its processes {found['kills_of_workers']}"),
        ("every line in exactly one row", "yes" if found["holds"] else "NO: " + "; ".join(faults)),
        ("rows, and lines skipped with reason", f"{proof['rows']:,} + {proof['skipped']:,}"),
        ("endings", f"{endings}; {proof['otherwise']:,} otherwise than by their line (killed with their worker)"),
        ("executions", f"{proof['executed']:,}; {proof['executed_again']:,} cases more than once, "
                       f"at most {proof['most_executions']} times; {proof['interrupted']:,} were in flight at a kill"),
        ("rate", f"{found['cases_a_second']:,.0f} cases/s, restarts included; {found['seconds']:,.0f} s in all"),
        ("coordinator", f"{found['coordinator_microseconds_a_case']:.0f} us of CPU a result, judged and written; "
                        f"planning {found['planning_cpu_seconds']:.1f} s of CPU in all, a resume "
                        f"{found['resume_cpu_seconds']:.1f} s"),
        ("memory of the coordinator", f"at most {memory['most_bytes'] / 1e6:.0f} MB, growing by "
                                      f"{memory['bytes_a_case']:.1f} bytes a case over the last "
                                      f"{memory['over_cases']:,.0f} cases of the longest life"),
        ("ledger", f"{found['ledger_bytes'] / 1e6:,.0f} MB"),
    ]  # fmt: skip
    table = "\n".join(f"| {name} | {text} |" for name, text in rows)
    return f"# A campaign of {found['lines']:,} lines, killed at random\n\n| | |\n|---|---|\n{table}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=sorted(corpus.LINES), default="torch")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds-limit", type=float)
    parser.add_argument("--planning-seconds", type=float, default=6.0, help="the early kills come within so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where to work (default: a temporary folder, removed at the end)")
    parser.add_argument("--results", default=str(RESULTS), help="where million.json and million.md are written")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="trueline-million-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        campaign = Campaign(options, folder)
        if not campaign.corpus.exists():
            corpus.write(campaign.corpus, options.count, options.framework)
        finished = campaign.run()
        if not finished and options.folder is not None:
            campaign.keep()
            print(f"{campaign.seconds:,.0f} s so far; the same command goes on in {folder}")
            return 3
        found = figures(campaign, options, finished)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    results = Path(options.results)
    (results / "million.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (results / "million.md").write_text(told(found), encoding="utf-8")
    print(told(found))
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
