"""SIGINT and SIGTERM at random moments in the life of captured programs.

    python -m benchmarks.interrupts --signals 500

Each trial is a process of its own, forked from this one, which has imported torch; a share of them are real commands
(``trueline capture -- python p.py``) with Ctrl-C to their process group. Right is: the program does what it would do
without a capture, nobody waits for ever, the Run opens afterwards and holds every step that had ended.

Writes ``benchmarks/results/interrupts.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.interrupts_program import EXIT_CODES, KINDS, STEPS, Progress, run
from benchmarks.interrupts_runs import look_at
from benchmarks.tables import table

RESULTS = Path(__file__).parent / "results"
MODES = ("api", "module", "kernel", "api+module", "watch")
DATA = ("structure", "stats", "digest", "tensors")
LIMIT = 60.0
"""Seconds after the last signal, when nobody doubts any more that a process waits for ever; it takes 0.3 alone."""
PHASES = ("start", "forward", "backward", "optimizer", "stop", "exit")
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}


@dataclass
class Trial:
    """One program and the signals that it gets."""

    number: int
    kind: str
    mode: str
    data: str
    signal: str
    moment: float
    """The share of the life of such a program after which the signal comes."""
    second: float | None = None
    """Seconds until another one comes."""
    command: bool = False
    phase: str = ""
    late: bool = False
    """Whether the program had done all that it does when the last signal came."""
    outcome: str = ""
    exit: int | None = None
    note: str = ""
    log: str = field(default="", repr=False)


class ChildLife(BaseException):
    """Takes a forked child out of everything that its parent is in the middle of."""


def trials(count: int, commands: int, source: random.Random) -> list[Trial]:
    """Every mode with every kind of program and data, moments spread evenly over the life."""
    cells = list(itertools.product(MODES, DATA, KINDS))
    source.shuffle(cells)
    found = []
    for number in range(count):
        mode, data, kind = cells[number % len(cells)]
        name = "SIGINT" if kind == "goes on" or source.random() < 0.5 else "SIGTERM"
        moment = (number * 0.6180339887) % 1.0
        second = source.uniform(0, 0.05) if source.random() < 0.2 else None
        found.append(Trial(number, kind, mode, data, name, moment, second))
    for number in range(count, count + commands):
        mode, data, kind = cells[number % len(cells)]
        kind = "unaware" if kind == "own error" else kind
        found.append(Trial(number, kind, mode, data, "SIGINT", source.random(), command=True))
    return found


def live(trial: Trial, folder: Path) -> None:
    """The life of a forked child: the program, as if started anew."""
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = -signal.SIGKILL
    try:
        run(trial.kind, trial.mode, trial.data, str(folder / "run"), Progress(str(folder / "progress")))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:
        traceback.print_exc()
        code = 1
    _leave(code)


def _leave(code: int) -> None:
    """The end of the interpreter, without the seconds in which it takes apart what it had imported; the real commands
    have all of it."""
    try:
        threading._shutdown()
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    if code >= 0:
        os._exit(code)
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def fork(trial: Trial, folder: Path) -> int:
    folder.mkdir(parents=True)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        raise ChildLife(trial, folder)
    return pid


def wait_for(condition: Any, limit: float) -> Any:
    """What the condition gives, as soon as it gives anything; None after the limit."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if (found := condition()) is not None:
            return found
        time.sleep(0.001)
    return None


def ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def said(folder: Path) -> list[str]:
    try:
        return [line.partition(" ")[2] for line in (folder / "progress").read_text().splitlines()]
    except FileNotFoundError:
        return []


def phase_of(lines: list[str]) -> str:
    for line in reversed(lines):
        word = line.split()[0]
        if word in ("start", "forward", "backward", "optimizer", "stop"):
            return word if line != "stopped" else "exit"
        if word in ("stopped", "finished"):
            return "exit"
        if word in ("ready", "started", "step", "build"):
            return "start" if "forward" not in lines else "forward"
    return "start"


def lifetime(mode: str, data: str, folder: Path) -> float:
    """Seconds from ``ready`` to the end of the process, undisturbed."""
    times = []
    for turn in range(2):
        place = folder / f"life-{mode}-{data}-{turn}"
        pid = fork(Trial(0, "unaware", mode, data, "", 0.0), place)
        wait_for(lambda place=place: "ready" in said(place) or None, LIMIT)
        began = time.monotonic()
        code = wait_for(lambda pid=pid: ended(pid), LIMIT)
        times.append(time.monotonic() - began)
        if code != 0:
            raise SystemExit(f"the program fails by itself ({mode}, {data}, exit {code}): see {place}/log")
    return min(times)


def disturb(trial: Trial, folder: Path, life: float) -> None:
    """Runs a trial; fills in what came of it."""
    pid = fork(trial, folder)
    wait_for(lambda: "ready" in said(folder) or None, LIMIT)
    time.sleep(trial.moment * life * 1.05)
    _send(trial, folder, pid, os.kill)
    code = wait_for(lambda: ended(pid), LIMIT)
    if code is None:
        trial.note = _stacks(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    _conclude(trial, folder, code)


def command(trial: Trial, folder: Path) -> None:
    """A real command, interrupted as a terminal does it: every process of its group gets the signal."""
    folder.mkdir(parents=True)
    program = [sys.executable, "-m", "benchmarks.interrupts_program", trial.kind, str(folder / "progress")]
    asked = ["--watch"] if trial.mode == "watch" else ["--level", trial.mode, "--data", trial.data]
    line = [sys.executable, "-m", "trueline", "capture", "--out", str(folder / "run"), *asked, "--", *program]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
    wait_for(lambda: "ready" in said(folder) or None, LIMIT)
    time.sleep(trial.moment * 2.0)
    _send(trial, folder, process.pid, os.killpg)
    try:
        code: int | None = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        code = None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    _conclude(trial, folder, code)


def _send(trial: Trial, folder: Path, pid: int, kill: Any) -> None:
    trial.phase = phase_of(said(folder))
    try:
        kill(pid, SIGNALS[trial.signal])
        if trial.second is not None:
            time.sleep(trial.second)
            kill(pid, SIGNALS[trial.signal])
    except ProcessLookupError:
        trial.phase = "exit"
    trial.late = "finished" in said(folder)


def _stacks(pid: int) -> str:
    """Where a process hangs, if a tool is there to say so."""
    tool = shutil.which("py-spy")
    if tool is None:
        return f"wchan {Path(f'/proc/{pid}/wchan').read_text()}"
    return subprocess.run([tool, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False).stdout[-2000:]


def right_codes(trial: Trial, lines: list[str]) -> set[int]:
    """The exit codes with which this program, without a capture, could have ended."""
    number = -SIGNALS[trial.signal]
    if trial.command:
        number = 128 - number
    if trial.kind in EXIT_CODES:
        right = {EXIT_CODES[trial.kind]} if "handler" in lines else {0}
    elif trial.kind == "goes on":
        right = {0}
    else:
        right = {number}
    if trial.late or (trial.second is not None and "handler" in lines):
        # It may have met the end of the interpreter, where Python itself has given its handlers back: then it dies of
        # the signal, which a shell tells by the same code.
        right |= {0, number, -SIGNALS[trial.signal]} if trial.late else {number}
    return right


def _conclude(trial: Trial, folder: Path, code: int | None) -> None:
    lines = said(folder)
    trial.exit, trial.log = code, (folder / "log").read_text(errors="replace")[-2000:]
    if code is None:
        trial.outcome = "deadlock"
        return
    if code not in right_codes(trial, lines) and not _outside_all(trial, code):
        trial.outcome = "wrong exit code"
        return
    if "Traceback" in trial.log and "trueline" in trial.log.partition("Exception ignored")[2]:
        trial.note = "an exception was ignored"
    if code and trial.kind == "goes on":
        trial.outcome, trial.note = look_at(folder / "run", trial, lines)
        return
    if trial.kind == "goes on" and sum(line.endswith("done") for line in lines) < 1:
        trial.outcome, trial.note = "program lost", "no step was done"
        return
    if trial.kind == "goes on" and "finished" not in lines:
        trial.outcome, trial.note = "program lost", f"ended after {lines[-1:]}"
        return
    if trial.kind == "own error" and "handler" in lines and "caught" not in lines and not trial.late:
        trial.outcome, trial.note = "program lost", "its error did not reach it"
        return
    trial.outcome, trial.note = look_at(folder / "run", trial, lines)


def _outside_all(trial: Trial, code: int) -> bool:
    """Whether a KeyboardInterrupt came to a program that goes on where it does not catch one."""
    last = [line for line in trial.log.splitlines() if line.lstrip().startswith('File "')][-1:]
    return trial.kind == "goes on" and code in (-signal.SIGINT, 130) and "interrupts_program.py" in "".join(last)


def report(found: list[Trial], seed: int, seconds: float) -> str:
    outcomes = collections.Counter(trial.outcome for trial in found)
    text = (
        "# Interrupts of captures\n\n"
        f"`python -m benchmarks.interrupts --signals {len(found)} --seed {seed}`: SIGINT and SIGTERM at random moments "
        f"in the life of a small training ({STEPS} steps, Adam, now and then checkpointed) under a capture, "
        f"{seconds:.0f} s.\n\n"
        + table(["outcome", "programs"], [[name, str(count)] for name, count in outcomes.most_common()])
    )
    for title, of in (("when the signal came", "phase"), ("level", "mode"), ("data", "data"), ("program", "kind")):
        rows = []
        for value in sorted({getattr(trial, of) for trial in found}):
            counts = collections.Counter(trial.outcome for trial in found if getattr(trial, of) == value)
            rows.append([value, str(counts.total()), str(counts["ok"]), _others(counts)])
        text += "\n" + table([title, "programs", "ok", "otherwise"], rows)
    real = [trial for trial in found if trial.command]
    twice = sum(trial.second is not None for trial in found)
    text += f"\n{len(real)} of them were real commands with Ctrl-C to their process group "
    text += f"({sum(trial.outcome == 'ok' for trial in real)} ok); {twice} got a second signal within 50 ms.\n"
    return text


def _others(counts: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common() if name != "ok")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--commands", type=int, default=40, help="so many of them as real commands")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one trial of that number, its folder is kept")
    parser.add_argument("--keep", type=Path, help="a folder for what did not end well")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch  # every child has it from here

    import trueline.capture.session
    import trueline.diagnose.watching
    import trueline.frameworks.torch.doors
    import trueline.frameworks.torch.light  # noqa: F401

    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.Adam([weight]).step()  # imports what every optimizer does: it takes 1.7 s
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its jobs in the background ignore it
    began = time.monotonic()
    commands = min(options.commands, options.signals)
    planned = trials(options.signals - commands, commands, random.Random(options.seed))
    if options.only is not None:
        planned = [trial for trial in planned if trial.number == options.only]
    lives: dict[tuple[str, str], float] = {}
    scratch = Path(tempfile.mkdtemp(prefix="trueline-interrupts-"))  # not a context: children leave it, too
    for trial in planned:
        _one(trial, scratch, lives, options.keep)
    shutil.rmtree(scratch)
    found = [{name: value for name, value in asdict(trial).items() if name != "log"} for trial in planned]
    bad = [trial for trial in planned if trial.outcome != "ok"]
    if options.only is None:
        text = report(planned, options.seed, time.monotonic() - began)
        (options.out / "interrupts.md").write_text(text)
        whole = {"seed": options.seed, "trials": found}
        (options.out / "interrupts.json").write_text(json.dumps(whole, indent=1) + "\n")
        print(text)
    return 1 if bad else 0


def _one(trial: Trial, scratch: Path, lives: dict[tuple[str, str], float], keep: Path | None) -> None:
    folder = scratch / str(trial.number)
    if trial.command:
        command(trial, folder)
    else:
        cell = (trial.mode, trial.data)
        if cell not in lives:
            lives[cell] = lifetime(*cell, scratch)
        disturb(trial, folder, lives[cell])
    if trial.outcome != "ok":
        print(f"{trial.number}: {trial.outcome}: {trial}", flush=True)
        if keep is not None:
            shutil.copytree(folder, keep / str(trial.number), dirs_exist_ok=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        code = main()
    except ChildLife as child:
        code = None
        life = child.args
    if code is None:
        live(*life)
    else:
        sys.exit(code)
