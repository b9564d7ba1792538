"""How many config lines a second are checked, Paddle against torch on the CPU: ours, and engineV2's where it is given.

    python -m benchmarks.campaign [--corpus FILE] [--lines N] [--engine FOLDER]

Without ``--corpus`` the lines are the project's own (``benchmarks.corpus``). Two things are measured: the whole corpus
from start to end, with two workers; and the lines up to 200,000 elements, with one worker and with two, gradients
included: from start to end, and in steady state (``benchmarks.steady`` says what that is, and how lines are told of
which Paddle's own kernel takes seconds). engineV2 runs a sample of those small lines as it is and all of them without
its garbage collections, with one worker and with two, and on request (``--engine-whole``) the whole corpus; its rate is
that of its busy seconds, without cases of more than ten. Measurements of both take turns, each a process of its own.
Writes ``results/campaign.json`` and ``.md``, with what fresh memory costs here: on a virtual machine that may be more
than what is done with it, and the slowest lines need gigabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpus
from benchmarks.engine import Engine, EngineUnavailable
from benchmarks.steady import SLOW, Span, rates
from benchmarks.tables import table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure_here(file: Path, workers: int) -> dict[str, Any]:
    """Checks a file, in this process; gives what it took and how its cases ended."""
    import trueline
    from trueline.events import CaseEnded

    spans: list[Span] = []
    endings: Counter[str] = Counter()
    lines = file.read_text(encoding="utf-8").splitlines()

    def on_case(event: CaseEnded) -> None:
        number = int(event.line.rpartition(":")[2])
        spans.append(Span(time.perf_counter(), event.worked, event.seconds, lines[number - 1]))
        endings[event.ending] += 1

    begun = time.perf_counter()
    report = trueline.check(file, target="paddle:cpu", reference="torch:cpu", workers=workers, on_case=on_case)
    seconds = time.perf_counter() - begun
    gradients = sum(result.backward is not None for result in report.results)
    return {
        "lines": report.info.calls,
        "workers": workers,
        "seconds": seconds,
        "first after": spans[0].ended - begun,
        **rates(spans, workers),
        "cases with gradients": gradients,
        "left out": dict(report.info.skipped),
        "statuses": dict(endings.most_common()),
    }


def ours(lines: list[str], workers: int) -> dict[str, Any]:
    """The same in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = [sys.executable, "-m", "benchmarks.campaign", "--measure", str(file), str(workers)]
        environment = {**os.environ, **THREADS, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the check failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def theirs(engine: Engine, lines: list[str], workers: int) -> dict[str, Any]:
    try:
        return engine.run(lines, workers=workers).summary()
    except EngineUnavailable as error:
        return {"error": str(error)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    lines = corpus.read(options.corpus)[: options.lines]
    light = corpus.small(lines)
    print(f"{len(lines)} lines, {len(light)} of them small", file=sys.stderr, flush=True)
    parts: list[tuple[str, Any]] = [
        ("whole, 2 workers", lambda: ours(lines, 2)),
        ("small, 1 worker", lambda: ours(light, 1)),
        ("small, 2 workers", lambda: ours(light, 2)),
    ]
    if options.engine is not None:
        engine = Engine(options.engine, options.engine_python)
        as_is = light[: options.engine_lines]
        parts[1:1] = [("engineV2 as it is, small, 1 worker", lambda: theirs(engine, as_is, 1))]
        parts.append(("engineV2 as it is, small, 2 workers", lambda: theirs(engine, as_is, 2)))
    if options.engine_without_gc is not None:
        quick = Engine(options.engine_without_gc, options.engine_python)
        parts.append(("engineV2 without gc, small, 1 worker", lambda: theirs(quick, light, 1)))
        parts.append(("engineV2 without gc, small, 2 workers", lambda: theirs(quick, light, 2)))
        if options.engine_whole:
            parts.append(("engineV2 without gc, whole, 2 workers", lambda: theirs(quick, lines, 2)))
    found: dict[str, Any] = {
        "corpus": options.corpus.name if options.corpus else "own",
        "machine": machine(),
        "parts": {},
    }
    for name, part in parts:
        begun = time.perf_counter()
        found["parts"][name] = part()
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def machine() -> str:
    fresh = f"a fresh gigabyte of memory {seconds_of_memory():.2g} s"
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {fresh}"


def seconds_of_memory() -> float:
    """How long it takes to write to a gigabyte that no process has had for a while: two are taken, and the dearer one
    counts."""
    taken, held = [], []
    for _ in range(2):
        begun = time.perf_counter()
        held.append(np.ones(1 << 27))
        taken.append(time.perf_counter() - begun)
    return max(taken)


def rendered(found: dict[str, Any]) -> str:
    """The document as a table."""
    rows, named = [], {}
    for name, part in found["parts"].items():
        if "error" in part:
            rows.append([name, part["error"], *[""] * 7])
            continue
        statuses = ", ".join(f"{status} {count}" for status, count in part["statuses"].items())
        told = [f"{part[kind]:.1f}" if kind in part else "" for kind in ("middle", "all", "busy", "ordinary")]
        told = told if any(told) else ["", "", f"{part['per second and worker']:.1f}", ""]
        busy = f"{part['busy seconds']:.1f}" if "busy seconds" in part else ""
        rows.append([name, f"{part['lines']:,}", f"{part['seconds']:.1f}", busy, *told, statuses])
        named[name] = part.get("slow", [])
    header = ["what", "lines", "s in all", "worker s", "lines/s a core, middle", "all", "a busy second",
              "ordinary lines", "how they ended"]  # fmt: skip
    title = f"# Campaigns: config lines checked a second\n\nCorpus: {found['corpus']}; {found['machine']}. "
    return (f"{title}Paddle on the CPU against torch on the CPU, forward and backward.\n\n{table(header, rows)}\n\n"
            f"{_EXPLAINED}\n{_slow_lines(named)}")  # fmt: skip


_EXPLAINED = f"""\
- middle: while the middle four fifths of the lines end, the state in which a long campaign is nearly always: the
  longest lines come first, and at the end workers wait for each other. Each worker has a core of its own.
- all: while all workers work and lines still wait; all lines count.
- a busy second: of all seconds that workers were busy with cases, from the first to the last. Of engineV2 without cases
  of more than ten seconds.
- ordinary lines: the same without those of which Paddle's own kernels take more than {SLOW:g} s, forward and backward,
  whoever calls them. These are:
"""


def _slow_lines(named: dict[str, list[dict[str, Any]]]) -> str:
    rows = [
        [name, f"`{slow['line'][:110]}`", f"{slow['target seconds']:.1f}", f"{slow['worker seconds']:.1f}"]
        for name, lines in named.items()
        for slow in lines
    ]
    return f"{table(['what', 'line', 's of the kernels', 's in all'], rows)}\n" if rows else "none.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a file of config lines (default: the project's own)")
    parser.add_argument("--lines", type=int, help="only so many lines, drawn from all")
    parser.add_argument("--engine", type=Path, help="a folder with PaddleAPITest's engineV2.py that runs on a CPU")
    parser.add_argument("--engine-without-gc", type=Path, help="the same without its two garbage collections a case")
    parser.add_argument("--engine-python", default=sys.executable, help="the Python to run it with")
    parser.add_argument("--engine-lines", type=int, default=100, help="small lines for it as it is; without gc all")
    parser.add_argument("--engine-whole", action="store_true", help="let it run the whole corpus as well (minutes)")
    parser.add_argument("--out", type=Path, default=RESULTS / "campaign", help="where to write, without its ending")
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "WORKERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_here(Path(options.measure[0]), int(options.measure[1]))))
        return
    found = measure(options)
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(rendered(found), encoding="utf-8")
    print(rendered(found))


if __name__ == "__main__":
    main()
