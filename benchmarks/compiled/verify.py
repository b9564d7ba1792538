"""Tests the cases themselves, without any tool: what each fault changes, and that the clean pairs agree.

    python -m benchmarks.compiled.verify [--half work|counted] [--at-once 2] [--rows FILE] [NAME…]
    python -m benchmarks.compiled.verify --interpreted [--half work|counted] [NAME…]

A distance is the largest over all that a program gives away: the norm of the difference over the norm of the
reference, of tensors that are nearly nothing over a ten-thousandth of the largest norm. A fault *shows* where its
distance is more than ten times that of the same program compiled without it, and more than rounding: 1e-5, in float16
2e-3, in bfloat16 5e-2. A pair is *clean* where its distance is not more than rounding. ``--rows`` goes on where it was.
``--interpreted`` tests the faults that are planted into graphs, and those alone, without generating code.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.compiled.cases import Clean, Fault, chosen, half_of, load
from benchmarks.compiled.interpreted import interpreted

ROUNDING = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 5e-2}


def distance(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[float, str]:
    """How far apart two results are, and in what."""
    import torch

    if reference.keys() != candidate.keys():
        return math.inf, "names"
    norms = [value.double().norm().item() for value in reference.values() if bool(value.isfinite().all())]
    floor = max([1e-4 * max(norms, default=0.0), 1e-30])
    worst, where = 0.0, ""
    for name, value in reference.items():
        one, other = value.double(), candidate[name].double()
        same = (torch.isnan, torch.isposinf, torch.isneginf)
        if one.shape != other.shape or not all(torch.equal(kind(one), kind(other)) for kind in same):
            return math.inf, name
        apart = torch.where(one.isfinite(), one - other, 0.0).norm().item()
        apart /= max(torch.where(one.isfinite(), one, 0.0).norm().item(), floor)
        if apart > worst:
            worst, where = apart, name
    return worst, where


def measure(name: str) -> dict[str, Any]:
    """All sides of a case, in this process."""
    import torch

    from benchmarks.compiled import plants

    case = load()[name]
    start = time.perf_counter()
    reference = case.reference()
    precision = "bfloat16" if case.how.autocast else case.how.dtype
    row: dict[str, Any] = {"name": name, "kind": "clean", "limit": ROUNDING[precision]}
    if isinstance(case, Fault) and not case.genuine:
        row["honest"], _ = distance(reference, case.unplanted())
        torch._dynamo.reset()
    row["distance"], row["in"] = distance(reference, case.candidate())
    if isinstance(case, Fault):
        row["kind"] = "genuine" if case.genuine else "fault"
        row["fired"] = dict(plants.FIRED)
        row["right"] = row["distance"] > max(row["limit"], 10 * row.get("honest", 0.0))
        row["right"] = row["right"] and row.get("honest", 0.0) <= row["limit"]
    else:
        row["right"] = row["distance"] <= row["limit"]
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def measure_apart(name: str, timeout: float) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.compiled.verify", "--one", name]
    surroundings = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", **os.environ}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, env=surroundings
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"name": name, "right": False, "error": f"not done after {timeout:.0f} s"}
    if answer.returncode:
        return {"name": name, "right": False, "error": answer.stderr.strip()[-600:]}
    row: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
    return row


def measure_interpreted(names: list[str]) -> int:
    """The faults among ``names`` in this process, without code generation; those that no graph meets are told."""
    import torch

    from benchmarks.compiled import plants

    cases, elsewhere, rows = load(), [], []
    for name in names:
        case = cases[name]
        if isinstance(case, Fault) and not case.genuine:
            torch._dynamo.reset()
            plants.FIRED.clear()
            with interpreted():
                row = measure(name)
            if row["fired"]:
                rows.append(row)
                print(line(row), flush=True)
            else:
                elsewhere.append(name)
    print(f"planted elsewhere than in graphs: {', '.join(elsewhere) or 'none'}")
    return summary(rows)


def line(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:44} ERROR {row['error'].splitlines()[-1][:160]}"
    honest = f", {row['honest']:.1e} without it" if "honest" in row else ""
    word = {("clean", True): "clean", ("clean", False): "DIFFERS"}.get((row["kind"], row["right"]))
    word = word or ("shows" if row["right"] else "DOES NOT SHOW")
    return f"{row['name']:44} {word:8} {row['distance']:.1e} in {row['in'] or 'nothing'}{honest} ({row['seconds']} s)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=("work", "counted"))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--interpreted", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one)))
        return 0
    if asked.interpreted:
        return measure_interpreted([case.name for case in chosen(asked.half, asked.names)])
    rows = []
    if asked.rows and asked.rows.exists():
        rows = [json.loads(text) for text in asked.rows.read_text(encoding="utf-8").splitlines()]
    done = {row["name"] for row in rows}
    names = [case.name for case in chosen(asked.half, asked.names) if case.name not in done]
    with ThreadPoolExecutor(asked.at_once) as pool:
        for row in pool.map(lambda name: measure_apart(name, asked.timeout), names):
            rows.append(row)
            print(line(row), flush=True)
            if asked.rows:
                with asked.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    return summary(rows)


def summary(rows: list[dict[str, Any]]) -> int:
    cases = load()
    for half in ("work", "counted"):
        for kind, word in ((Fault, "faults show"), (Clean, "pairs are clean")):
            mine = [row for row in rows if half_of(row["name"]) == half and isinstance(cases[row["name"]], kind)]
            print(f"{half}: {sum(row['right'] for row in mine)} of {len(mine)} {word}")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
