"""Runs random pairs and says where the comparison is wrong.

    python -m benchmarks.random_programs [--seeds 0-999] [--half work|counted|all] [--data tensors,stats] [--show]
                                         [--out FILE] [--write]

``--show`` prints the programs of what is wrong (of the working half). ``--out`` keeps one line of JSON a pair and goes
on where it ended. ``--write`` makes ``results/random_programs.md`` of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.random_programs.halves import HALVES, half_of
from benchmarks.random_programs.page import page
from benchmarks.random_programs.pairs import asked, draw_pair

RESULTS = ROOT / "benchmarks" / "results" / "random_programs.md"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument("--half", choices=(*HALVES, "all"), default="all")
    parser.add_argument("--data", default="tensors,stats")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = _done(options.out)
    known = {row["seed"] for row in rows}
    for seed in _numbers(options.seeds):
        if seed in known or options.half not in ("all", half_of(seed)):
            continue
        row = one(seed, options.data.split(","), show=options.show)
        rows.append(row)
        if options.out:
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    text = page(rows)
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


def one(seed: int, kinds: list[str], *, show: bool = False) -> dict[str, Any]:
    """Everything about the pair of a seed that is counted."""
    pair = draw_pair(seed)
    row: dict[str, Any] = {
        "seed": seed,
        "half": half_of(seed),
        "edit": pair.edit,
        "dtype": "autocast" if pair.reference.autocast else pair.reference.dtype,
        "truth": pair.truth.kind,
        "effect": pair.truth.effect,
        "where": pair.truth.where,
        "answers": {},
    }
    if pair.truth.kind not in ("keeps", "changes"):
        return row
    for data in kinds:
        answer = asked(pair, data)
        row["answers"][data] = vars(answer)
        if answer.wrong and half_of(seed) == "work":
            print(
                f"seed {seed} {data} {pair.edit}: {'; '.join(answer.wrong)} [{answer.kind} {answer.told}]", flush=True
            )
            if show:
                print(pair.difference(), "\n", flush=True)
    return row


def _numbers(text: str) -> range | list[int]:
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else [int(number) for number in text.split(",")]


def _done(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
