"""What torch's own tools say of the same faults, and how long they take.

    python -m benchmarks.compiled.peers [--half work|counted] [--tool debug_mode|minifier] [--timeout S] [NAME…]

``DebugMode`` hashes the result of every operator of both sides and compares the two logs by its own
``check_hash_mismatches``; what it names is the first call that differs by more than rounding. The minifier is dynamo's
for wrong results (``TORCHDYNAMO_REPRO_AFTER=aot``, level 4): where it finds a graph to be wrong it writes a launcher,
which then makes the graph smaller; what it names are the operators of the smallest graph. Both run in an installation
with the broken compiler. Named right is an answer with an operator at fault, of a minified graph one of at most eight
operators. Of the counted half only sums are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.compiled.cases import Fault, chosen, half_of, load
from benchmarks.compiled.run import HERE, operator_name
from benchmarks.compiled.verify import ROUNDING

SMALL = 8


def debug_mode(name: str) -> dict[str, Any]:
    """In this process: the first call of the logs that differs, or why they cannot be compared."""
    import torch
    from torch.utils._debug_mode import DebugMode

    case = load()[name]
    logs = []
    for side in (case.reference, case.candidate):
        torch._dynamo.reset()
        with DebugMode() as mode, DebugMode.log_tensor_hashes():
            side()
            logs.append(mode.logs)
    try:
        differing = DebugMode.check_hash_mismatches(*logs)
    except ValueError as wrong:
        return {"named": [], "why": str(wrong)[:200]}
    limit = ROUNDING["bfloat16" if case.how.autocast else case.how.dtype]
    for one in differing:
        if not one["rel_diff"] <= limit:
            return {"named": [operator_name(one["call"].replace("::", "."))], "why": one["call"]}
    return {"named": [], "why": f"{len(differing)} calls differ, none by more than rounding"}


def broken_environment(case: Fault, folder: Path) -> dict[str, str]:
    path = [str(HERE / "broken"), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "BROKEN_COMPILER": "" if case.genuine else case.name,
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": "4",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "TORCHDYNAMO_DEBUG_DIR": str(folder),
    }


def minifier(name: str, timeout: float) -> dict[str, Any]:
    """The operators that the minifier leaves."""
    case = load()[name]
    assert isinstance(case, Fault)
    with tempfile.TemporaryDirectory(prefix="minifier-") as made:
        folder, end = Path(made), time.monotonic() + timeout
        surroundings = broken_environment(case, folder)
        side = "reference" if not case.how.backend else "candidate"
        said = _run([sys.executable, "-m", "benchmarks.compiled.side", name, side], folder, surroundings, timeout)
        launchers = sorted(folder.rglob("minifier_launcher.py"))
        if not launchers:
            return {"named": [], "why": f"no launcher: {said[-160:]}"}
        said = _run([sys.executable, str(launchers[0])], folder, surroundings, end - time.monotonic())
        left = sorted(folder.rglob("repro.py"), key=lambda path: path.stat().st_mtime)
        if not left:
            return {"named": [], "why": f"nothing minified: {said[-160:]}"}
        text = left[-1].read_text(encoding="utf-8")
        forward = text[text.index("def forward") :].split("def load_args")[0]
        named = [operator_name(one) for one in re.findall(r"torch\.ops\.((?:aten|prims)\.\w+)", forward)]
        return {"named": named, "why": f"{len(named)} operators left"}


def _run(command: list[str], folder: Path, surroundings: dict[str, str], timeout: float) -> str:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=max(timeout, 1), env=surroundings, cwd=folder
        )
    except subprocess.TimeoutExpired:
        return "the time was over"
    return (answer.stderr or answer.stdout).strip()


def ask(name: str, tool: str, timeout: float) -> dict[str, Any]:
    """A tool's answer about one fault, in a process of its own."""
    start = time.perf_counter()
    if tool == "minifier":
        row = minifier(name, timeout)
    else:
        command = [sys.executable, "-m", "benchmarks.compiled.peers", "--one", name]
        said = _run(command, Path.cwd(), {"OMP_NUM_THREADS": "1", **os.environ}, timeout)
        row = {"named": [], "why": said[-200:]}
        for text in said.splitlines():
            if text.startswith('{"named"'):
                row = json.loads(text)
    case = load()[name]
    assert isinstance(case, Fault)
    right = bool({operator_name(one) for one in case.where.operators} & set(row["named"]))
    right = right and len(row["named"]) <= SMALL
    return {"name": name, "tool": tool, "right": right, **row, "seconds": round(time.perf_counter() - start, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=("work", "counted"))
    parser.add_argument("--tool", choices=("debug_mode", "minifier"), action="append")
    parser.add_argument("--timeout", type=float, default=1200)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(debug_mode(asked.one)), file=sys.stderr)
        return 0
    faults = [case.name for case in chosen(asked.half, asked.names) if isinstance(case, Fault)]
    for tool in asked.tool or ("debug_mode", "minifier"):
        rows = []
        for name in faults:
            rows.append(row := ask(name, tool, asked.timeout))
            if half_of(name) == "work":
                named = ", ".join(row["named"]) or row["why"]
                print(f"{name:44} {tool:10} {'right' if row['right'] else 'WRONG'} {named} ({row['seconds']} s)")
        seconds = sum(row["seconds"] for row in rows)
        print(f"{tool}: right in {sum(row['right'] for row in rows)} of {len(rows)} faults, {seconds:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
