"""Gives each kernel of the wild set to ``trueline check`` as a user would, and counts.

    python -m benchmarks.power.wild [--half work|counted] [--kind wrong|honest] [--dtypes float32,...] [NAME ...]
    python -m benchmarks.power.wild --sample 1/4 --rows rows.jsonl --write

``trueline check --ops API --target torch:cpu/DTYPE --override API=MODULE:NAME``, with the options that are there by
default. Kernels of different operators share a command (``--together 1``: each has its own), except those that touch
what outlives a call. A wrong kernel is found if a case fails that torch's own operator passes; an honest one is accused
by such a case. Of the half that is worked with, what was
missed and what was accused is named; of the counted half there are sums alone, and its rows are kept without names.
``--rows`` goes on where that file was stopped; ``--write`` writes ``results/wild.json`` and ``results/wild.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.odd_programs.halves import HALVES
from benchmarks.power.wild import kernels
from benchmarks.power.wild.declare import Kernel

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LIMIT = 600
"""Seconds that one command may take."""
FAILING = ("FAIL", "ERROR")
ALONE = ("state", "random", "grad mode", "writes", "hack")
"""Kinds of mistakes that could reach another kernel of the same process."""


@dataclass(frozen=True)
class Row:
    """What one command said of one kernel in one dtype."""

    key: str
    half: str
    kind: str
    dtype: str
    failed: int
    checked: int
    told: str
    seconds: float


def row_key(kernel: Kernel, dtype: str) -> str:
    """A kernel of the counted half has no name here: nobody reads it by accident."""
    name = f"{kernel.name}/{dtype}"
    return name if kernel.half == "work" else hashlib.sha256(name.encode()).hexdigest()[:16]


def checked(dtype: str, overrides: Mapping[str, str]) -> dict[str, Any]:
    """The JSON that ``trueline check`` writes, of the operators named, each with its override or with none (an empty
    text); ``problem`` where it wrote no JSON."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "check.json"
        words = [sys.executable, "-m", "trueline", "check", "--target", f"torch:cpu/{dtype}", "--json", str(answer)]
        for api, override in overrides.items():
            words += ["--ops", api] + (["--override", f"{api}={override}"] if override else [])
        try:
            limit = LIMIT + 30 * len(overrides)
            ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"problem": f"took longer than {limit} s"}
        if not answer.exists():
            return {"problem": (ended.stderr.strip().splitlines() or ["no answer"])[-1]}
        return json.loads(answer.read_text(encoding="utf-8"))


def cases_of(answer: Mapping[str, Any], api: str) -> list[dict[str, Any]]:
    """The cases of one operator that were compared."""
    return [case for case in answer.get("cases", []) if case["api"] == api and case["verdict"] != "NOT_COMPARED"]


def failing(answer: Mapping[str, Any], api: str) -> set[str]:
    return {case["call"] for case in cases_of(answer, api) if case["verdict"] in FAILING}


class Usual:
    """What fails in torch itself, by dtype and operator; all operators of the set in one command for each dtype."""

    def __init__(self, apis: Iterable[str]) -> None:
        self._apis = sorted(set(apis))
        self._known: dict[str, dict[str, set[str]]] = {}

    def failing(self, api: str, dtype: str) -> set[str]:
        if dtype not in self._known:
            answer = checked(dtype, dict.fromkeys(self._apis, ""))
            if "problem" in answer:
                raise SystemExit(f"torch itself could not be checked in {dtype}: {answer['problem']}")
            self._known[dtype] = {one: failing(answer, one) for one in self._apis}
        return self._known[dtype][api]


Batch = tuple[str, list[Kernel]]
"""A dtype, and kernels of different operators."""


def batches(wanted: Iterable[tuple[Kernel, str]], most: int) -> list[Batch]:
    """Kernels that touch what outlives a call are alone."""
    made: list[Batch] = []
    for kernel, dtype in wanted:
        if kernel.kind in ALONE or most == 1:
            made.append((dtype, [kernel]))
            continue
        for kind, held in made:
            fits = kind == dtype and len(held) < most and held[0].kind not in ALONE
            if fits and all(one.api != kernel.api for one in held):
                held.append(kernel)
                break
        else:
            made.append((dtype, [kernel]))
    return made


def tried(batch: Batch, usual: Usual) -> Iterator[Row]:
    """A row for each kernel; where a command of several gave no answer, each is asked for alone."""
    dtype, held = batch
    began = time.monotonic()
    answer = checked(dtype, {kernel.api: kernel.override for kernel in held})
    if "problem" in answer and len(held) > 1:
        for kernel in held:
            yield from tried((dtype, [kernel]), usual)
        return
    seconds = round((time.monotonic() - began) / len(held), 1)
    for kernel in held:
        calls = len(cases_of(answer, kernel.api))
        failed = failing(answer, kernel.api) - usual.failing(kernel.api, dtype)
        said = answer.get("problem", "") or ("" if calls else "nothing was checked")
        kind = "wrong" if kernel.is_wrong else "honest"
        yield Row(row_key(kernel, dtype), kernel.half, kind, dtype, len(failed), calls, said, seconds)


def chosen(options: argparse.Namespace) -> Iterator[tuple[Kernel, str]]:
    number, _, of = options.sample.partition("/")
    for kernel in kernels(options.half):
        if options.names and kernel.name not in options.names:
            continue
        if options.kind and kernel.is_wrong != (options.kind == "wrong"):
            continue
        if of and hashlib.sha256(f"sample {kernel.name}".encode()).digest()[0] % int(of) != int(number) % int(of):
            continue
        for dtype in options.dtypes.split(","):
            if DTYPES[dtype] in kernel.dtypes:
                yield kernel, dtype


class Kept:
    """Rows in a file, or in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self.rows: dict[str, Row] = {}
        self._path, self._lock = path, threading.Lock()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = Row(**json.loads(line))
                self.rows[row.key] = row

    def add(self, row: Row) -> None:
        with self._lock:
            self.rows[row.key] = row
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")


def sums(rows: list[Row]) -> list[dict[str, Any]]:
    """For each half and dtype: wrong ones found, honest ones and honest calls accused."""
    table = []
    for half in HALVES:
        for dtype in (*DTYPES, "all"):
            of = [row for row in rows if row.half == half and dtype in (row.dtype, "all")]
            wrong, honest = ([row for row in of if row.kind == kind] for kind in ("wrong", "honest"))
            if not of:
                continue
            table.append(
                {
                    "half": half,
                    "dtype": dtype,
                    "wrong": len(wrong),
                    "found": sum(row.failed > 0 for row in wrong),
                    "not checked": sum(not row.checked for row in wrong),
                    "honest": len(honest),
                    "accused": sum(row.failed > 0 for row in honest),
                    "honest not checked": sum(not row.checked for row in honest),
                    "honest calls": sum(row.checked for row in honest),
                    "calls accused": sum(row.failed for row in honest),
                }
            )
    return table


def share(part: int, whole: int, digits: int = 1) -> str:
    return f"{part} of {whole} ({100 * part / whole:.{digits}f} %)" if whole else "-"


def as_text(table: list[dict[str, Any]]) -> str:
    lines = [
        "| half | dtype | wrong found | of which never called | honest accused | honest calls accused |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in table:
        lines.append(
            f"| {one['half']} | {one['dtype']} | {share(one['found'], one['wrong'])} | {one['not checked']} "
            f"| {share(one['accused'], one['honest'])} | {share(one['calls accused'], one['honest calls'], 3)} |"
        )
    return "\n".join(lines)


def told(rows: list[Row]) -> Iterator[str]:
    """The names of what was missed and accused in the half that is worked with."""
    tests: list[tuple[str, Callable[[Row], bool]]] = [
        ("missed", lambda row: row.kind == "wrong" and not row.failed),
        ("accused", lambda row: row.kind == "honest" and row.failed > 0),
        ("honest and never called", lambda row: row.kind == "honest" and not row.checked),
    ]
    for word, test in tests:
        for row in sorted((row for row in rows if row.half == "work" and test(row)), key=lambda row: row.key):
            yield f"{word}: {row.key}" + (f" ({row.told})" if row.told else "")


def arguments_of(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Counts what trueline check finds among the wild kernels.")
    parser.add_argument("--half", choices=HALVES, default="")
    parser.add_argument("--kind", choices=("wrong", "honest"), default="")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--sample", default="", metavar="N/OF", help="one part of the kernels, chosen by their names")
    parser.add_argument("--together", type=int, default=16, help="kernels that share a command")
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time")
    parser.add_argument("--rows", type=Path, help="keep rows here, and go on where it was stopped")
    parser.add_argument("--write", action="store_true", help="write results/wild.json and results/wild.md")
    parser.add_argument("--note", default="", help="a sentence for results/wild.md, such as which state was measured")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(argv)
    unknown = [one for one in options.dtypes.split(",") if one not in DTYPES]
    if unknown:
        parser.error(f"no such dtype: {', '.join(unknown)}; there are {', '.join(DTYPES)}")
    known = {kernel.name for kernel in kernels(options.half)}
    strange = [name for name in options.names if name not in known]
    if strange:
        parser.error(f"no such kernel: {', '.join(strange)}")
    return options


def main(argv: list[str] | None = None) -> int:
    options = arguments_of(argv)
    wanted = list(chosen(options))
    kept, usual = Kept(options.rows), Usual(kernel.api for kernel, _ in wanted)
    left = [(kernel, dtype) for kernel, dtype in wanted if row_key(kernel, dtype) not in kept.rows]

    for dtype in sorted({dtype for _, dtype in left}):
        usual.failing(wanted[0][0].api, dtype)

    def done(batch: Batch) -> None:
        for row in tried(batch, usual):
            kept.add(row)
        print(f"\r{len(kept.rows)} rows of {len(wanted)}", end="", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(done, batches(left, options.together)))
    keys = {row_key(kernel, dtype) for kernel, dtype in wanted}
    rows = [row for key, row in kept.rows.items() if key in keys]
    print(file=sys.stderr)
    for line in told(rows):
        print(line)
    table = sums(rows)
    print(as_text(table))
    if options.write:
        RESULTS.joinpath("wild.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        text = "\n\n".join(part for part in ("# Wild kernels", options.note, as_text(table)) if part)
        RESULTS.joinpath("wild.md").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
