"""Feeds damaged and hostile files to the readers of other tools' dumps, for as long as asked.

    python -m benchmarks.fuzz --seconds 600 --reader msprobe
    python -m benchmarks.fuzz --seconds 30                      every reader, half a minute each

A reader starts from a small dump that our own writers made. Each round damages one of its files (bits, cuts, copied
pieces, lengths; in JSON also values, names and nesting) and reads the whole dump, tensors included. Allowed are a
result and an error of ours. A finding is anything else: another exception, a crash, a round of more than ten seconds,
more than two gigabytes, something executed, started, newly imported or loaded, or a file opened for writing. The input
of a finding is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzz_damage import damaged
from benchmarks.fuzz_readers import READERS
from trueline.errors import TruelineError
from trueline.exchange import import_run

ROOT = Path(__file__).resolve().parent.parent
ROUND_SECONDS = 10
MEMORY_BYTES = 2 << 30
_FORBIDDEN = (
    "exec", "os.system", "os.posix_spawn", "os.exec", "os.fork", "subprocess.Popen", "socket.connect", "import",
    "ctypes.dlopen", "pickle.find_class", "os.remove", "os.rename", "shutil.rmtree", "os.symlink", "os.chmod",
)  # fmt: skip


@dataclass
class Tally:
    """What the rounds of one reader gave."""

    reader: str
    rounds: int = 0
    read: int = 0
    refused: int = 0
    imports: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_megabytes: float = 0.0
    findings: list[str] = field(default_factory=list)


class Fuzzer:
    """The rounds of one reader, in this process."""

    def __init__(self, reader: str, folder: Path, seed: int, keep: Path) -> None:
        self.tally = Tally(reader)
        self._reader = READERS[reader]
        self._folder = folder
        self._random = random.Random(seed)
        self._keep = keep
        self._clean = folder / "clean"
        self._work = folder / "work"
        self._clean.mkdir(parents=True)
        self._reader.make(self._clean)
        self._files = sorted(p.relative_to(self._clean) for p in self._clean.rglob(self._reader.pattern) if p.is_file())
        self._watching = False
        self._seen: list[str] = []
        self._reader.read(self._clean)  # whatever is imported late is imported now
        shutil.copytree(self._clean, self._work)
        if self._reader.imports:
            import_run(self._clean, folder / "first", format=reader)
        sys.addaudithook(self._heard)

    def run(self, rounds: Iterable[int]) -> Tally:
        began, used = time.monotonic(), time.process_time()
        for _ in rounds:
            self._round()
            if len(self.tally.findings) >= 20:
                break
        self.tally.seconds = time.monotonic() - began
        self.tally.cpu_seconds = time.process_time() - used
        self.tally.peak_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return self.tally

    def _round(self) -> None:
        chosen = self._random.choice(self._files)
        original = (self._clean / chosen).read_bytes()
        content = damaged(original, self._random)
        target = self._work / chosen
        target.write_bytes(content)
        (self._folder / "current").write_bytes(content)
        self._seen.clear()
        whole = self._reader.imports and self._random.random() < 0.02
        try:
            signal.alarm(ROUND_SECONDS)
            self._watching = not whole
            self._import() if whole else self._reader.read(self._work)
            self.tally.read += 1
        except TruelineError:
            self.tally.refused += 1
        except _Slow:
            self._found(f"took more than {ROUND_SECONDS} s", content)
        except BaseException as error:
            self._found(f"{type(error).__name__}: {str(error)[:160]}", content)
        finally:
            signal.alarm(0)
            self._watching = False
        for what in self._seen[:1]:
            self._found(what, content)
        self.tally.rounds += 1
        target.write_bytes(original)

    def _import(self) -> None:
        self.tally.imports += 1
        out = self._folder / "out"
        try:
            import_run(self._work, out, format=self.tally.reader)
        finally:
            shutil.rmtree(out, ignore_errors=True)
            left = [one.name for one in self._folder.iterdir() if ".part" in one.name]
            if left:
                self._seen.append(f"left {left[0]} behind")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        if event in _FORBIDDEN:
            self._seen.append(f"did {event} {str(arguments)[:120]}")
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            self._seen.append(f"opened {arguments[0]} for writing")

    def _found(self, what: str, content: bytes) -> None:
        self._watching = False
        self._keep.mkdir(parents=True, exist_ok=True)
        place = self._keep / f"{self.tally.reader}_{len(self.tally.findings)}.bin"
        place.write_bytes(content)
        self.tally.findings.append(f"{what} ({place})")


class _Slow(BaseException):
    pass


def _too_slow(*_: object) -> None:
    raise _Slow


def _until(end: float, most: int) -> Iterator[int]:
    """Numbers of rounds, up to a moment of this process's own time: a busy machine does not make the test shorter."""
    number = 0
    while time.process_time() < end and (not most or number < most):
        yield number
        number += 1


def child(reader: str, seconds: float, seed: int, keep: Path, rounds: int) -> None:
    """One reader, in a process of its own; prints its tally as JSON."""
    signal.signal(signal.SIGALRM, _too_slow)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a round is a few small files: no disk is needed
    with tempfile.TemporaryDirectory(prefix="trueline-fuzz-", dir=memory) as folder:
        fuzzer = Fuzzer(reader, Path(folder) / "scratch", seed, keep)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
        print(json.dumps(asdict(fuzzer.run(_until(time.process_time() + seconds, rounds)))))


def fuzz(reader: str, seconds: float, seed: int, keep: Path, rounds: int = 0) -> Tally:
    """Runs one reader in a child process, for some time or some rounds; its death is a finding like any other."""
    words = [sys.executable, "-m", "benchmarks.fuzz", "--child", "--reader", reader, "--seconds", str(seconds)]
    words += ["--rounds", str(rounds)]
    ended = subprocess.run(
        [*words, "--seed", str(seed), "--keep", str(keep)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode == 0:
        return Tally(**json.loads(ended.stdout.splitlines()[-1]))
    last = (ended.stderr.strip().splitlines() or ["no word"])[-1]
    return Tally(reader, findings=[f"the process ended with {ended.returncode}: {last}"])


def added(copies: Sequence[Tally]) -> Tally:
    """Several tallies of one reader as one; the memory is that of the largest."""
    whole = Tally(copies[0].reader)
    for copy in copies:
        for name in ("rounds", "read", "refused", "imports", "seconds", "cpu_seconds", "findings"):
            setattr(whole, name, getattr(whole, name) + getattr(copy, name))
        whole.peak_megabytes = max(whole.peak_megabytes, copy.peak_megabytes)
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of the processor, for each process")
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="again for several; all without it")
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time, each in a process of its own")
    parser.add_argument("--copies", type=int, default=1, help="processes of each reader, with a seed each")
    parser.add_argument("--rounds", type=int, default=0, help="stop after so many; without it the time counts alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--results", type=Path, help="a JSON file for the tallies")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.reader[0], options.seconds, options.seed, options.keep, options.rounds)
        return 0
    tallies = []
    chosen = options.reader or sorted(READERS)
    with ThreadPoolExecutor(options.jobs) as jobs:
        started = {
            reader: [
                jobs.submit(
                    fuzz, reader, options.seconds, options.seed + copy, options.keep / str(copy), options.rounds
                )
                for copy in range(options.copies)
            ]
            for reader in chosen
        }
    for reader, copies in started.items():
        tallies.append(tally := added([copy.result() for copy in copies]))
        print(
            f"{reader:8} {tally.rounds:9,} rounds in {tally.seconds:5.0f} s ({tally.cpu_seconds:.0f} s of CPU): "
            f"{tally.read:,} read, {tally.refused:,} refused, {tally.imports:,} imported; "
            f"peak {tally.peak_megabytes:.0f} MB; {len(tally.findings)} findings",
            flush=True,
        )
        for finding in tally.findings:
            print(f"  {finding}")
    if options.results is not None:
        options.results.write_text(json.dumps([asdict(tally) for tally in tallies], indent=1) + "\n")
    return 1 if any(tally.findings or not tally.rounds for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
