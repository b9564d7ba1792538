"""The peer's answers. Runs in the peer's environment as two processes: one captures, one compares.

    python -m benchmarks.faults.peer_side capture|compare '{"task": "tensor", "folder": ..., "names": [...]}'

Its answer to a fault is the first row that is not "pass"; ``own`` is whether a row of the planted call's own results
is not "pass". On a clean pair any row with "error" is an alarm.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import peer
from benchmarks.faults.catalogue import Fault
from benchmarks.faults.pairs import Pair, Side, candidate, pairs, reference, reference_key
from benchmarks.faults.scoring import Named, expected, is_origin


def _record(debugger: Any, side: Side) -> None:
    with side.conditions():
        debugger.start()
        side.step()
        debugger.stop()
        debugger.step()


def capture(request: dict[str, Any]) -> None:
    """Captures all references and candidates, each as one step of one capture; writes which step is which."""
    folder, chosen = Path(request["folder"]), _chosen(request["names"])
    debugger = peer.debugger(folder, request["task"])
    steps: dict[str, int] = {}
    seconds: dict[str, float] = {}

    def add(name: str, side: Side) -> None:
        start = time.perf_counter()
        number = len(steps)
        _record(debugger, side)
        seconds[name] = time.perf_counter() - start
        steps[name] = number

    for pair in chosen:
        if reference_key(pair) not in steps:
            add(reference_key(pair), reference(pair))
        add(pair.name, candidate(pair))
    (folder / "steps.json").write_text(json.dumps({"steps": steps, "seconds": seconds}))


def _chosen(names: list[str]) -> list[Pair]:
    wanted = set(names)
    return [pair for pair in pairs() if pair.name in wanted]


def _named(row: peer.Row) -> Named | None:
    parts = row.call.split(".")
    if len(parts) < 4 or not parts[-2].isdigit():
        return None
    return Named(parts[-3], int(parts[-2]), parts[-1])


def judge(pair: Pair, rows: Sequence[peer.Row]) -> dict[str, Any]:
    """The peer's answer from its rows."""
    bad = [row for row in rows if not row.passed]
    errors = sum(row.result.strip().lower() == "error" for row in rows)
    verdict = f"{errors} errors, {len(bad) - errors} others, {len(rows)} rows"
    named = _named(bad[0]) if bad else None
    answer = {"verdict": verdict, "named": str(named) if named else (bad[0].name if bad else "")}
    if not isinstance(pair, Fault):
        return {**answer, "right": errors == 0, "named": ""}
    wanted = expected(pair)
    if pair.peer_index is not None:
        wanted = replace(wanted, index=pair.peer_index)
    own = [row for row in rows if _named(row) == wanted and "output" in row.role]
    flagged = any(not row.passed for row in own)
    return {
        **answer,
        "right": is_origin(wanted, named),
        "own": flagged,
        "detail": "" if own else "the peer has no row for this call",
    }


def compare(request: dict[str, Any]) -> None:
    """Compares every candidate with its reference; prints one JSON line for each pair."""
    folder = Path(request["folder"])
    known = json.loads((folder / "steps.json").read_text())
    for pair in _chosen(request["names"]):
        start = time.perf_counter()
        left = peer.dump_file(folder, known["steps"][reference_key(pair)])
        right = peer.dump_file(folder, known["steps"][pair.name])
        try:
            rows = peer.compare_here(left, right, folder / "results" / pair.name)
            answer = judge(pair, rows)
        except Exception as error:  # the peer's own failure is its answer
            answer = {"right": False, "verdict": "raised", "detail": f"{type(error).__name__}: {error}"}
        shutil.rmtree(right.parent.parent, ignore_errors=True)
        answer["seconds"] = time.perf_counter() - start + known["seconds"][pair.name]
        print(json.dumps({"pair": pair.name, **answer}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"capture": capture, "compare": compare}[sys.argv[1]](json.loads(sys.argv[2]))
