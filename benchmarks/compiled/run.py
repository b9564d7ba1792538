"""Captures both sides of every case, compares, and counts what was named.

    python -m benchmarks.compiled.run [--half work|counted] [--data tensors|stats] [--rows FILE] [NAME…]

Of a fault two things are asked. *Region*: the comparison ends in 1, and its origin is the call of a compiled region
in the right phase. *Piece*: ``trueline check CANDIDATE --inside --json`` names a piece with an operator at fault; it
runs in an installation with the same broken compiler (``broken/sitecustomize.py``), for only there can compiling
again show the fault. Of its answer the first region's ``piece`` counts, and in it the ``operator`` of each node,
whatever overload and whichever of the names that torch has for it. Of a clean pair it is asked that no verdict is
FAIL. Of the counted half only sums are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.compiled.cases import Clean, Fault, chosen, half_of, load

HERE = Path(__file__).resolve().parent


def command(arguments: list[str], timeout: float, broken: str = "") -> subprocess.CompletedProcess[str]:
    surroundings = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", **os.environ}
    if broken:
        surroundings["BROKEN_COMPILER"] = broken
        path = [str(HERE / "broken"), str(HERE.parents[1]), surroundings.get("PYTHONPATH", "")]
        surroundings["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    try:
        return subprocess.run(
            [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=timeout, check=False,
            env=surroundings,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 124, "", f"not done after {timeout:.0f} s")


def capture(name: str, side: str, run: Path, data: str, timeout: float) -> str:
    """Records one side; what went wrong, or nothing."""
    program = [sys.executable, "-m", "benchmarks.compiled.side", name, side]
    answer = command(["trueline", "capture", "--out", str(run), "--data", data, "--", *program], timeout)
    return "" if answer.returncode == 0 else f"capture of the {side}: {answer.stderr.strip()[-300:]}"


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document, in its order."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(one)


ALIASES = {
    "truediv": "div", "itruediv": "div", "iadd": "add", "isub": "sub", "rsub": "sub", "imul": "mul",
    "invert": "bitwise_not", "to": "to_copy", "float": "to_copy", "type_as": "to_copy", "matmul": "bmm",
    "chunk": "split", "concat": "cat",
}  # fmt: skip


def operator_name(name: str) -> str:
    """``torch.ops.aten.add_.Tensor``, ``aten.add`` and ``torch.Tensor.__iadd__`` are all ``add``."""
    parts = name.removeprefix("torch.ops.").split(".")
    bare = (parts[1] if parts[0] in ("aten", "prims") and len(parts) > 1 else parts[-1]).strip("_")
    return ALIASES.get(bare, bare)


def named_piece(document: Any) -> list[str]:
    """The operators of the first piece of a document."""
    for one in walk(document):
        piece = one.get("piece")
        if isinstance(piece, list) and piece:
            return [operator_name(node["operator"]) for node in piece]
    return []


def looked_inside(case: Fault, run: Path, folder: Path, timeout: float) -> dict[str, Any]:
    """What the tool says is wrong inside of the recorded region."""
    written, start = folder / "inside.json", time.perf_counter()
    broken = "" if case.genuine else case.name
    answer = command(["trueline", "check", str(run), "--inside", "--json", str(written)], timeout, broken)
    seconds = round(time.perf_counter() - start, 1)
    if not written.exists():
        return {"piece": [], "piece_right": False, "inside": answer.stderr.strip()[-200:], "inside_seconds": seconds}
    piece = named_piece(json.loads(written.read_text(encoding="utf-8")))
    right = bool({operator_name(name) for name in case.where.operators} & set(piece))
    return {"piece": piece, "piece_right": right, "inside_seconds": seconds}


def is_region(call: str) -> bool:
    return call.startswith("torch.compile.") or "CompiledFunction" in call


def judged(case: Fault | Clean, document: dict[str, Any], code: int) -> dict[str, Any]:
    """Whether a comparison says what it should."""
    origin = document.get("origin") or {}
    named = origin.get("call") or {}
    call = str(named.get("name", "") if isinstance(named, dict) else named)
    row: dict[str, Any] = {"verdict": document["verdict"], "origin": call, "summary": document["summary"][:300]}
    if isinstance(case, Clean):
        return {**row, "right": document["verdict"] not in ("FAIL", "ERROR")}
    in_phase = call.endswith(case.where.phase)
    return {**row, "right": code == 1 and is_region(call) and in_phase, "region": is_region(call), "phase": in_phase}


def answer(case: Fault | Clean, data: str, timeout: float) -> dict[str, Any]:
    row: dict[str, Any] = {"name": case.name, "data": data, "right": False}
    with tempfile.TemporaryDirectory(prefix="compiled-") as made:
        folder, start = Path(made), time.perf_counter()
        runs = {side: folder / side for side in ("reference", "candidate")}
        for side, run in runs.items():
            if wrong := capture(case.name, side, run, data, timeout):
                return {**row, "error": wrong}
        written = folder / "comparison.json"
        compared = command(["trueline", "compare", *map(str, runs.values()), "--json", str(written)], timeout)
        if not written.exists():
            return {**row, "error": f"compare: {compared.stderr.strip()[-300:]}"}
        row |= judged(case, json.loads(written.read_text(encoding="utf-8")), compared.returncode)
        if isinstance(case, Fault) and data == "tensors":
            row |= looked_inside(case, runs["candidate"], folder, timeout)
        return {**row, "seconds": round(time.perf_counter() - start, 1)}


def line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:44} ERROR {row['error']}"
    piece = f"; inside: {', '.join(row['piece']) or row.get('inside', 'nothing')}" if "piece" in row else ""
    right = ("right" if row["right"] else "WRONG") + ("+" if row.get("piece_right") else "")
    return f"{row['name']:44} {right:6} {row['verdict']} {row['origin'] or row['summary'][:120]}{piece}"


def sums(rows: list[dict[str, Any]]) -> str:
    cases, told = load(), []
    for half in ("work", "counted"):
        mine = [row for row in rows if half_of(row["name"]) == half]
        faults = [row for row in mine if isinstance(cases[row["name"]], Fault)]
        pairs = [row for row in mine if isinstance(cases[row["name"]], Clean)]
        if mine:
            told.append(
                f"{half}: region named in {sum(row['right'] for row in faults)} of {len(faults)} faults, piece in "
                f"{sum(row.get('piece_right', False) for row in faults)}; no FAIL in "
                f"{sum(row['right'] for row in pairs)} of {len(pairs)} clean pairs; "
                f"{sum('error' in row for row in mine)} did not run"
            )
    return "\n".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=("work", "counted"))
    parser.add_argument("--data", choices=("tensors", "stats"), default="tensors")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--rows", type=Path, help="rows of the working half; goes on where it was")
    asked = parser.parse_args()
    rows = []
    if asked.rows and asked.rows.exists():
        rows = [json.loads(text) for text in asked.rows.read_text(encoding="utf-8").splitlines()]
    done = {row["name"] for row in rows if row["data"] == asked.data}
    cases = [case for case in chosen(asked.half, asked.names) if case.name not in done]
    with ThreadPoolExecutor(asked.at_once) as pool:
        for row in pool.map(lambda case: answer(case, asked.data, asked.timeout), cases):
            rows.append(row)
            if half_of(row["name"]) == "counted":
                continue
            print(line(row), flush=True)
            if asked.rows:
                with asked.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(sums(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
