"""Damages Runs and checks at random and reads them with every command.

    python -m benchmarks.damage --mutations 2000 --seed 1 --jobs 2
    python -m benchmarks.damage --source tensors --only 1234        one mutation again, with what was answered

Small Runs are captured from real programs (statistics, tensors, digests, module level, two ranks, Paddle, one whose
program was killed), and a check is made of a few config lines. Each mutation damages a copy in one way and lets every
command that reads such a folder read it, in a process that has 30 seconds and two gigabytes for each. What comes of it:

    right        the same answer as of the folder before
    told         exit code 2 and one sentence that names the file or folder; or an answer that says what is damaged
    another Run  another answer, of a folder that was changed by somebody who knows the format and sealed it again
    traceback    an error that nobody caught
    hang, memory more than 30 seconds, more than two gigabytes
    wrong        another answer, and nothing said

The mutations are divided by a hash of their number: one half is for work on the code, the other is only counted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.damage_commands import Answer, Command, call, commands
from benchmarks.damage_sources import SOURCES, Source, make_sources
from benchmarks.damage_ways import Damage, damage

RESULTS = Path(__file__).resolve().parent / "results"
SECONDS = 30.0
MEMORY_BYTES = 2 << 30
GOOD = ("right", "told", "another Run")
BAD = ("traceback", "hang", "memory", "wrong")
_TELLING = re.compile(
    r"damaged|cannot read|cannot be read|incomplete|not kept|were removed|no rank|was removed|is missing|is not as|"
    r"world size|has no|altered|changed after|could not be read"
)
_OF_A_CAPTURE = "ended without a word"
"""What is said of a Run whose program was killed: that its end is missing, wherever that is."""


def _tells(answer: Answer, right: Answer) -> bool:
    """Whether an answer says of something that it is damaged, oftener than the right answer does: all of the words
    stand in the scripts of a page as well."""
    told = Counter(_TELLING.findall(answer.words + answer.content))
    more = told - Counter(_TELLING.findall(right.words + right.content))
    return bool(more) or _OF_A_CAPTURE in answer.words + answer.content


@dataclass(frozen=True)
class Reading:
    """What one command made of one mutation."""

    number: int
    half: str
    source: str
    way: str
    file: str
    sealed: bool
    command: str
    outcome: str
    words: str


def half_of(seed: int, number: int) -> str:
    """Whether a mutation is one to work with, or only counted."""
    return "counted" if hashlib.sha256(f"{seed}/{number}".encode()).digest()[0] % 2 else "worked with"


class Slow(BaseException):
    """A command that takes too long."""


def _too_slow(*_: object) -> None:
    raise Slow


class Reader:
    """Reads copies of one source, damaged and not."""

    def __init__(self, source: Source, clean: Path, work: Path) -> None:
        self.source, self._clean, self._work = source, clean, work
        self.commands = commands(source)
        with self._copied() as folder, _inside(folder):
            for command in self._quick():  # whatever is imported late is imported now
                _cleaned()
                call(command)
        with self._copied() as folder:
            self._right = self._read(folder, self._quick())
        with self._copied() as folder:
            again = self._read(folder, self._quick())
        for command in self._quick():
            first, second = self._right[command.name], again[command.name]
            if first.code is None or (first.code, first.content) != (second.code, second.content):
                raise RuntimeError(f"{source.name}: {command.name} does not answer the same twice: {first} {second}")

    def _quick(self) -> list[Command]:
        return [command for command in self.commands if command.every <= 10]

    def _right_of(self, command: Command) -> Answer:
        """What a command says of the folder as it was; of the slow ones it is asked when it is needed."""
        if command.name not in self._right:
            with self._copied() as folder:
                self._right.update(self._read(folder, [command]))
        return self._right[command.name]

    def mutate(self, seed: int, number: int) -> Iterator[Reading]:
        """The readings of one mutation."""
        chance = random.Random(f"{seed}/{number}")
        with self._copied() as folder:
            done = damage(folder / "run", folder / "elsewhere", chance)
            due = [command for command in self.commands if chance.randrange(command.every) == 0]
            answers = self._read(folder, due)
        for command in due:
            outcome = self._outcome(answers[command.name], self._right_of(command), done)
            words = "" if outcome in ("right", "another Run") else answers[command.name].words[:600]
            yield Reading(number, half_of(seed, number), self.source.name, done.way, done.file, done.sealed,
                          command.name, outcome, words)  # fmt: skip

    def _outcome(self, answer: Answer, right: Answer, done: Damage) -> str:
        if answer.code is None:
            kind = answer.words.partition(" ")[0]
            return {"Slow": "hang", "Killed": "hang", "MemoryError": "memory"}.get(kind, "traceback")
        if (answer.code, answer.content) == (right.code, right.content):
            return "right"
        if answer.code == 2:
            named = done.file in answer.words or re.search(r"\b(run|rank ?\d+)\b", answer.words)
            if named or _tells(answer, right):
                return "told"
        if done.sealed and answer.words + answer.content:
            return "another Run"
        return "told" if _tells(answer, right) else "wrong"

    @contextlib.contextmanager
    def _copied(self) -> Iterator[Path]:
        folder = self._work / "copy"
        shutil.copytree(self._clean, folder)
        (folder / "elsewhere").mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def _read(self, folder: Path, due: Sequence[Command]) -> dict[str, Answer]:
        """The answers of commands, each process going on until one of them kills it or takes too long."""
        answers: dict[str, Answer] = {}
        while len(answers) < len(due):
            left = due[len(answers) :]
            answers.update(_in_a_child(folder, left))
        return answers


def _in_a_child(folder: Path, due: Sequence[Command]) -> dict[str, Answer]:
    """At least one answer: a child that ends before has answered that it was killed."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        _answer_all(folder, due, into)
    os.close(into)
    found: dict[str, Answer] = {}
    with os.fdopen(out, "rb") as stream:
        for command in due:
            ready, _, _ = select.select([stream], [], [], SECONDS + 15.0)
            line = stream.readline() if ready else b""
            if not line:
                os.kill(child, signal.SIGKILL)
                what = "Killed" if not ready else "Died"
                found[command.name] = Answer(None, f"{what} while it was read", "")
                break
            found[command.name] = Answer(**json.loads(line))
    os.waitpid(child, 0)
    return found


def _answer_all(folder: Path, due: Sequence[Command], into: int) -> None:
    """The life of a child."""
    try:
        signal.signal(signal.SIGALRM, _too_slow)
        os.chdir(folder)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
        with os.fdopen(into, "wb", buffering=0) as stream:
            for command in due:
                _cleaned()
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
                try:
                    answer = call(command)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                stream.write(json.dumps(asdict(answer)).encode() + b"\n")
    finally:
        os._exit(0)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _cleaned() -> None:
    for path in Path().glob("out*"):
        if path.name == "elsewhere":
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if Path("twin").joinpath("ledger.db").exists() and not Path("twin_again").exists():
        shutil.copytree("run", "twin_again", symlinks=True, copy_function=_copy) if Path("run").is_dir() else None


def _copy(source: str, target: str) -> None:
    """A file or a pipe, as it is."""
    if stat.S_ISFIFO(os.stat(source).st_mode):
        os.mkfifo(target)
    else:
        shutil.copy2(source, target)


def read_all(sources: Sequence[Source], clean: Path, work: Path, seed: int, numbers: Sequence[int]) -> list[Reading]:
    """The readings of some mutations; those of one source together, so that its right answers are made once."""
    found = []
    for place, source in enumerate(sources):
        mine = [number for number in numbers if number % len(sources) == place]
        if not mine:
            continue
        reader = Reader(source, clean / source.name, work)
        for done, number in enumerate(mine):
            found += reader.mutate(seed, number)
            if done % 50 == 49:
                bad = Counter(reading.outcome for reading in found if reading.outcome in BAD)
                print(f"{source.name}: {done + 1} of {len(mine)}; so far {dict(bad)}", file=sys.stderr, flush=True)
    return found


def _in_jobs(
    jobs: int, sources: Sequence[Source], clean: Path, work: Path, seed: int, numbers: list[int]
) -> list[Reading]:
    """The same in several processes."""
    children = []
    for job in range(jobs):
        answer = work / f"answer{job}"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = numbers[job * len(numbers) // jobs : (job + 1) * len(numbers) // jobs]
                (work / f"job{job}").mkdir()
                found = read_all(sources, clean, work / f"job{job}", seed, mine)
                answer.write_text(json.dumps([asdict(one) for one in found]), encoding="utf-8")
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        children.append((child, answer))
    found = []
    for child, answer in children:
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError("a job ended before its time")
        found += [Reading(**one) for one in json.loads(answer.read_text(encoding="utf-8"))]
    return found


def summary(readings: Sequence[Reading]) -> dict[str, Any]:
    """How many readings came to what, by half, source, command and kind of damage."""
    return {
        "mutations": len({reading.number for reading in readings}),
        "readings": len(readings),
        "by half": _counts(readings, "half"),
        "by source": _counts(readings, "source"),
        "by command": _counts(readings, "command"),
        "by damage": _counts(readings, "way", lambda way: way.partition(":")[0]),
    }


def _counts(readings: Sequence[Reading], name: str, short: Any = str) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for reading in readings:
        found.setdefault(short(getattr(reading, name)), Counter())[reading.outcome] += 1
    return {key: {outcome: found[key][outcome] for outcome in (*GOOD, *BAD)} for key in sorted(found)}


def page(content: dict[str, Any], words: str) -> str:
    """The results as Markdown."""
    lines = ["# Damaged Runs and checks", "", f"`{words}`", ""]
    lines += [f"{content['mutations']:,} mutations, {content['readings']:,} readings by commands.", ""]
    for title in ("by half", "by source", "by command", "by damage"):
        lines += [f"| {title} | {' | '.join((*GOOD, *BAD))} |", "| --- |" + " ---: |" * 7]
        for key, counts in content[title].items():
            lines.append(f"| {key} | " + " | ".join(f"{counts[outcome]:,}" for outcome in (*GOOD, *BAD)) + " |")
        lines.append("")
    lines += ["`another Run`: the folder was changed and sealed again by somebody who knows the format.", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--source", action="append", default=[], choices=[source.name for source in SOURCES])
    parser.add_argument("--only", type=int, action="append", help="only this mutation, told in full")
    parser.add_argument("--half", choices=("worked with", "counted"), help="only mutations of one half")
    parser.add_argument("--clean", type=Path, help="a folder for the sources, made once")
    parser.add_argument(
        "--findings", type=Path, help="a file for what was bad, one JSON a line (of the half to work with)"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/damage.md and .json")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trueline-damage-", dir=_memory()) as scratch:
        clean = options.clean or Path(scratch) / "clean"
        sources = _made(clean, options.source)
        os.environ["OMP_NUM_THREADS"] = "1"
        numbers = options.only or [
            n for n in range(options.mutations) if options.half in (None, half_of(options.seed, n))
        ]
        readings = _in_jobs(options.jobs, sources, clean, Path(scratch), options.seed, numbers)
    content = summary(readings)
    words = f"python -m benchmarks.damage --mutations {options.mutations} --seed {options.seed}"
    print(page(content, words), f"in {time.monotonic() - began:.0f} s")
    _tell(readings, options)
    if options.write:
        (RESULTS / "damage.md").write_text(page(content, words), encoding="utf-8")
        (RESULTS / "damage.json").write_text(
            json.dumps({"command": words, **content}, indent=1) + "\n", encoding="utf-8"
        )
    return 1 if any(reading.outcome in BAD for reading in readings) else 0


def _tell(readings: Sequence[Reading], options: argparse.Namespace) -> None:
    """What is bad of the half to work with; of the other half nothing but the counts is ever shown."""
    bad = [one for one in readings if one.outcome in BAD and (one.half == "worked with" or options.only)]
    if options.findings is not None:
        options.findings.write_text("".join(json.dumps(asdict(one)) + "\n" for one in bad), encoding="utf-8")
    for one in readings if options.only else ():
        print(f"{one.outcome:10} {one.command:28} {one.way} {one.file}: {one.words}")


def _made(clean: Path, names: list[str]) -> list[Source]:
    if clean.exists():
        return [one for one in SOURCES if (clean / one.name).exists() and (not names or one.name in names)]
    return make_sources(clean, names)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # a mutation is a few small files: no disk is needed


if __name__ == "__main__":
    sys.exit(main())
