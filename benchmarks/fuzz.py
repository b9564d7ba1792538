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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_damage import damaged
from trueline.dtypes import DTYPES
from trueline.errors import TruelineError
from trueline.exchange import import_run
from trueline.formats import (
    apex,
    checker_json,
    msprobe,
    msprobe_writer,
    npy,
    paddle_files,
    ptdbg,
    tensor_files,
    torch_files,
)
from trueline.formats.foreign import ForeignCall, ForeignDump, ForeignTensor, Summary
from trueline.records import Frame, Phase, Role

ROOT = Path(__file__).resolve().parent.parent
ROUND_SECONDS = 10
MEMORY_BYTES = 2 << 30
_FORBIDDEN = (
    "exec", "os.system", "os.posix_spawn", "os.exec", "os.fork", "subprocess.Popen", "socket.connect", "import",
    "ctypes.dlopen", "pickle.find_class", "os.remove", "os.rename", "shutil.rmtree", "os.symlink", "os.chmod",
)  # fmt: skip


def _tensor(seed: int, dtype: str = "float32") -> ForeignTensor:
    values = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else values.astype(dtype)
    summary = Summary(float(values.max()), float(values.min()), float(values.mean()), 1.0)
    return ForeignTensor(dtype, (4, 6), True, summary=summary, fetch=lambda: (bits, DTYPES[dtype], ""))


def _calls(api: str) -> Iterator[ForeignCall]:
    """A few calls with everything that a dump can hold."""
    stack = (Frame("train.py", 12, "step"), Frame("train.py", 30, "<module>"))
    for number, dtype in enumerate(("float32", "bfloat16", "int64")):
        arguments = {
            "args": [{"$t": 0}, [{"$t": 1}, 2.5, None], {"$slice": [0, None, 2]}],
            "kwargs": {"dim": -1, "dtype": {"$dtype": "float32"}, "name": "x", "size": {"$size": [2, 3]}},
        }
        tensors = [(Role.INPUT, _tensor(number, dtype)), (Role.INPUT, _tensor(9)), (Role.OUTPUT, _tensor(number + 3))]
        yield ForeignCall(
            api, number, Phase.FORWARD, arguments=arguments, result={"out": {"$t": 2}}, tensors=tensors, stack=stack
        )
        back = [(Role.INPUT, _tensor(number + 20)), (Role.OUTPUT, _tensor(number + 21))]
        yield ForeignCall(
            api, number, Phase.BACKWARD, arguments={"out": {"$t": 0}}, result={"args.0": {"$t": 1}}, tensors=back
        )


def _widen(array: Any, dtype: Any) -> Any:
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype.name == "bfloat16" else array


def _fill(writer: Any, api: str = "torch.nn.functional.linear") -> None:
    for call in _calls(api):
        writer.add(call)
    writer.close()


def _make_tensor_files(folder: Path) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        found, known, _ = _tensor(1, dtype).fetch()  # type: ignore[misc]
        torch_files.write_tensor(folder / f"torch_{dtype}.pt", found, known)
        paddle_files.write_tensor(folder / f"paddle_{dtype}.pt", "x", found, known)
        npy.write_npy(folder / f"{dtype}.npy", found)


@dataclass(frozen=True)
class Reader:
    """One reader: how its dump is made, and how it is read to the end."""

    make: Callable[[Path], None]
    read: Callable[[Path], object]


def _consume(dump: ForeignDump) -> None:
    for part in dump.ranks:
        for call in part.calls:
            for _, tensor in call.tensors:
                if tensor.fetch is not None:
                    np.ascontiguousarray(tensor.fetch()[0])


def _read_files(folder: Path, pattern: str) -> None:
    """Reads every file, whatever the others do; the last error of ours counts."""
    last: TruelineError | None = None
    for path in sorted(folder.glob(pattern)):
        try:
            np.ascontiguousarray(tensor_files.read_tensor(path)[0])
        except TruelineError as error:
            last = error
    if last is not None:
        raise last


def _make_apex(folder: Path) -> None:
    _fill(apex.Writer(folder, 0, 0, real=True), "paddle.nn.functional.linear")


READERS: dict[str, Reader] = {
    "npy": Reader(_make_tensor_files, lambda folder: _read_files(folder, "*.npy")),
    "torch": Reader(_make_tensor_files, lambda folder: _read_files(folder, "torch_*.pt")),
    "paddle": Reader(_make_tensor_files, lambda folder: _read_files(folder, "paddle_*.pt")),
    "msprobe": Reader(
        lambda folder: _fill(msprobe_writer.Writer(folder, 0, 0, widen=_widen)),
        lambda folder: _consume(msprobe.read(folder)),
    ),
    "ptdbg": Reader(
        lambda folder: _fill(ptdbg.Writer(folder / "rank0", "dump", widen=_widen, data="dump")),
        lambda folder: _consume(ptdbg.read(folder)),
    ),
    "checker": Reader(
        lambda folder: _fill(checker_json.Writer(folder, 0, real=True)),
        lambda folder: _consume(checker_json.read(folder)),
    ),
    "apex": Reader(_make_apex, lambda folder: _consume(apex.read(folder))),
}
_PATTERNS = {"npy": "*.npy", "torch": "torch_*.pt", "paddle": "paddle_*.pt"}


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
        self._files = sorted(
            p.relative_to(self._clean) for p in self._clean.rglob(_PATTERNS.get(reader, "*")) if p.is_file()
        )
        self._watching = False
        self._seen: list[str] = []
        self._reader.read(self._clean)  # whatever is imported late is imported now
        shutil.copytree(self._clean, self._work)
        if reader not in _PATTERNS:
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
        whole = self.tally.reader not in _PATTERNS and self._random.random() < 0.02
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
    number = 0
    while time.monotonic() < end and (not most or number < most):
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
        print(json.dumps(asdict(fuzzer.run(_until(time.monotonic() + seconds, rounds)))))


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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--reader", choices=sorted(READERS), help="one reader; all, one after another, without it")
    parser.add_argument("--rounds", type=int, default=0, help="stop after so many; without it the time counts alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--results", type=Path, help="a JSON file for the tallies")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.reader, options.seconds, options.seed, options.keep, options.rounds)
        return 0
    tallies = []
    for reader in [options.reader] if options.reader else sorted(READERS):
        tally = fuzz(reader, options.seconds, options.seed, options.keep, options.rounds)
        tallies.append(tally)
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
