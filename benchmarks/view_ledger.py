"""A campaign of any size in seconds, for measuring how it opens: a ledger as a check leaves it, with nothing executed.

Every row is what a check writes: a case that can be read, evidence measured from real tensors, and what the standard
says of it. A few dozen such records, one for each ending and dtype, stand for all; API, seed and time differ.

    python -m benchmarks.view_ledger FOLDER [CASES]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from trueline._version import __version__
from trueline.campaign.ledger import SCHEMA, Ledger, judgement
from trueline.campaign.shelf import judge_name
from trueline.cases import Case, CaseMeasured, CheckInfo, Evidence, Outcome, Status, TensorSpec
from trueline.dtypes import DTYPES
from trueline.judge.checks import check_standard_named, judge_case
from trueline.numerics.evidence import measure
from trueline.replay.serial import case_to_json, measured_to_json

STANDARD = "calibrated"
DTYPE_NAMES = ("float32", "float16", "float64", "int64")
ROOMS = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.Tensor")
APIS = 1_500
SOUND, FAULTY = "sound", ("wrong", "raises", "unsupported", "reference", "tool", "slow", "crash", "memory", "skipped")
FAULTY_ONE_IN = 40
"""One case in so many is not sound, nearly all of them of one API in ten: so failures look in practice."""
PORTION = 20_000
_INSERT = (
    "INSERT INTO cases (number, key, position, api, dtype, line, count, cost, bytes, case_json, ending, verdict, "
    "reason, score, seconds, simulated, measured_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PLACE = "0123456789"
_SEED = 987_654_321

Row = tuple[Any, ...]


def make_ledger(
    folder: Path, cases: int = 1_000_000, *, apis: int = APIS, ended: int | None = None, faulty: int = FAULTY_ONE_IN
) -> Path:
    """Writes a check of so many cases into a new folder; ``ended`` of them have been executed (default: all), and one
    in ``faulty`` is not sound."""
    done = cases if ended is None else ended
    with Ledger(folder, {"made by": "benchmarks.view_ledger", "cases": cases}) as ledger:
        connection = ledger.connection
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
        for (name,) in names:
            connection.execute(f"DROP INDEX {name}")  # one by one they would be built in an order of their own
        rows = _rows(cases, done, apis, faulty)
        while portion := list(islice(rows, PORTION)):
            connection.executemany(_INSERT, portion)
            ledger.commit()
        ledger.put("judge", judge_name(check_standard_named(STANDARD)))
        ledger.commit()
        connection.executescript(SCHEMA)
        ledger.write_info(_info(cases))
    return folder


def _rows(cases: int, done: int, apis: int, faulty: int) -> Iterator[Row]:
    random = np.random.default_rng(_SEED)
    names = [f"{ROOMS[n % len(ROOMS)]}.operator_{n}" for n in range(apis)]
    api_of = random.integers(0, apis, cases)
    dtype_of = random.integers(0, len(DTYPE_NAMES), cases)
    bad = (random.random(cases) < 10 / faulty) & (api_of % 10 == 3)
    kind_of = np.where(bad, random.choice(len(FAULTY), cases, p=(0.5, 0.2, *[0.3 / 7] * 7)), -1)
    seconds_of = np.exp(random.normal(-6.5, 1.2, cases))
    records = {(kind, dtype): _record(kind, dtype) for kind in (SOUND, *FAULTY) for dtype in DTYPE_NAMES}
    for n in range(cases):
        dtype, api, seconds = DTYPE_NAMES[dtype_of[n]], names[api_of[n]], round(float(seconds_of[n]), 6)
        case, text, judged, measured = records[FAULTY[kind_of[n]] if kind_of[n] >= 0 else SOUND, dtype]
        text = text.replace(_PLACE, api).replace(str(_SEED), str(n))
        told = (*judged[:4], seconds, None, measured) if n < done else (None,) * 7
        key = replace(case, api=api, seed=n).key
        yield (n + 1, key, n, api, dtype, f"configs.txt:{n + 1}", 1 + n % 3, seconds, 4096, text, *told)


def _record(kind: str, dtype: str) -> tuple[Case, str, Row, str]:
    """A case, its JSON, the columns of its judgement, and the JSON of what was measured."""
    tensors = tuple(TensorSpec(f"args.{n}", dtype, (16, 32), requires_grad="float" in dtype) for n in range(2))
    arguments = {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {"dim": -1}}
    case = Case(_PLACE, arguments, tensors, backward="float" in dtype, seed=_SEED, calls=("configs.txt:1",))
    measured = measured_of(kind, dtype)
    result = judge_case(case, measured, check_standard_named(STANDARD))
    return case, json.dumps(case_to_json(case)), judgement(result), json.dumps(measured_to_json(measured))


_RETURNED = Outcome(Status.RETURNED, "", 0.001, 1 << 16)
_OUTCOMES = {
    "raises": Outcome(Status.RAISED, "RuntimeError: expected a tensor of 2 dimensions, got 3"),
    "unsupported": Outcome(Status.UNSUPPORTED, '"operator_cpu" not implemented for this dtype'),
    "slow": Outcome(Status.TIMED_OUT, "did not return within 120 s", 120.0),
    "crash": Outcome(Status.CRASHED, "killed by SIGSEGV"),
    "memory": Outcome(Status.OUT_OF_MEMORY, "used more than 4 GB"),
    "tool": Outcome(Status.RAISED, "KeyError: 'shape'"),
}


def measured_of(kind: str, dtype: str) -> CaseMeasured:
    """What a worker sends back of a case that is ``SOUND`` or one of ``FAULTY``."""
    key = _PLACE
    if kind in ("tool", "skipped"):
        reason = "the tool raised: KeyError: 'shape'" if kind == "tool" else "its inputs cannot be drawn: 3 GB"
        outcome = _OUTCOMES["tool"] if kind == "tool" else Outcome(Status.UNSUPPORTED)
        return CaseMeasured(key, outcome, skipped=reason)
    if kind in _OUTCOMES:
        return CaseMeasured(key, _OUTCOMES[kind], None if kind in ("crash", "slow", "memory") else _RETURNED)
    if kind == "reference":
        return CaseMeasured(key, _RETURNED, Outcome(Status.RAISED, "ValueError: dim must be -1 or 0"))
    parts = [("output", "out")] + ([("gradient", "args.0"), ("gradient", "args.1")] if "float" in dtype else [])
    evidence = tuple(_evidence(part, path, dtype, wrong=kind == "wrong") for part, path in parts)
    return CaseMeasured(key, _RETURNED, _RETURNED, evidence)


def _evidence(part: str, path: str, dtype: str, *, wrong: bool) -> Evidence:
    kind = DTYPES[dtype]
    wide = kind if kind.is_exact else DTYPES["float64"]
    random = np.random.default_rng(len(path))
    gold = (random.normal(size=(16, 32)) * 100).astype(wide.storage)
    honest = gold.astype(kind.storage)
    mine = honest.copy()
    if wrong:
        mine[3] += np.asarray(7, kind.storage)
    return measure(part, path, mine, honest, gold, dtype=dtype, predecessors=True)


def _info(cases: int) -> CheckInfo:
    return CheckInfo(
        sources=("configs.txt",), target="torch:cuda:0", reference="torch:cpu/float64", standard=STANDARD, overrides={},
        seed=0, created="2026-01-01T10:00:00+00:00", tool_version=__version__, framework_version="2.13.0",
        calls=sum(1 + n % 3 for n in range(cases)), skipped={},
    )  # fmt: skip


if __name__ == "__main__":
    made = make_ledger(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    print(made)
