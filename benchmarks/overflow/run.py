"""Runs every seeded case and every clean one, captures it, asks for the overflow, and scores the answers.

    python -m benchmarks.overflow.run [--only WORD] [--out FOLDER]

Right means: the first alarm is at the call of that API, phase and step in which the case was seeded (origin), and of
the kind and nature that it has (class). A clean run must raise none.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import trueline
from benchmarks.faults.planting import Plant
from benchmarks.overflow.cases import CLEAN, SEEDED, Clean, Seeded
from benchmarks.overflow.models import MODELS
from benchmarks.overflow.ranks import CASES as RANKS
from benchmarks.overflow.ranks import OnRanks, train_on_ranks
from trueline.diagnose.overflow import overflow
from trueline.overflows import OverflowReport

STEPS = 3
RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass
class Row:
    name: str
    expected: str
    found: str
    origin: bool
    kind: bool
    why: str = ""


def optimizer_of(name: str, model: torch.nn.Module, options: dict[str, Any]) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(model.parameters(), **{"foreach": False, "lr": 1e-3, **options})
    return torch.optim.SGD(model.parameters(), **{"foreach": False, "lr": 1e-3, **options})


@contextlib.contextmanager
def surroundings(case: Seeded | Clean) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if getattr(case, "deterministic", False):
            torch.use_deterministic_algorithms(True)
            stack.callback(torch.use_deterministic_algorithms, False)
        if getattr(case, "plant", None):
            stack.enter_context(Plant(case.plant))  # type: ignore[union-attr, arg-type]
        yield


def cast(batch: Any, dtype: torch.dtype) -> Any:
    if isinstance(batch, tuple):
        return tuple(cast(one, dtype) for one in batch)
    return batch.to(dtype) if batch.is_floating_point() else batch


def train(case: Seeded | Clean, run: Path, data: str) -> None:
    """Three steps of training, captured."""
    torch.manual_seed(getattr(case, "seed", 0))
    model = MODELS[case.model](case.sites).to(case.dtype)
    if isinstance(case, Seeded) and case.before:
        case.before(model)
    optimizer = optimizer_of(case.optimizer, model, dict(getattr(case, "options", {})))
    scaler = torch.amp.GradScaler("cpu", init_scale=case.scaler) if getattr(case, "scaler", None) else None
    batches = [
        cast(MODELS[case.model].batch(10 * getattr(case, "seed", 0) + step), case.dtype) for step in range(STEPS)
    ]
    if isinstance(case, Seeded) and case.feed:
        batches[case.step] = case.feed(batches[case.step])
    with surroundings(case), trueline.capture(run, data=data) as capture:
        for batch in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", case.autocast or torch.bfloat16, enabled=case.autocast is not None):
                loss = model(batch)
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                (loss * case.scale if getattr(case, "scale", 1.0) != 1.0 else loss).backward()
                optimizer.step()
            capture.step()


def diagnose(case: Seeded | Clean, folder: Path, data: str) -> OverflowReport:
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    train(case, run, data)
    return overflow(run)


def score(case: Seeded | OnRanks | Any, report: OverflowReport) -> Row:
    origin = report.origin
    step, rank = getattr(case, "step", 0), getattr(case, "rank", None)
    where = "" if rank is None else f" of rank {rank}"
    expected = f"{case.api or 'any'} {case.phase} step {step}{where}: {case.kinds[0].value}, {case.nature.value}"
    if origin is None:
        return Row(case.name, expected, "nothing", False, False)
    call = origin.call
    found = f"{call.name} step {call.step} of rank {call.rank}: {origin.kind.value}, {origin.nature.value}"
    right = call.api.endswith(case.api) and call.phase.value == case.phase and call.step == step
    right = right and rank in (None, call.rank)
    return Row(
        case.name, expected, found, right, origin.kind in case.kinds and origin.nature is case.nature, origin.why
    )


@dataclass
class Scores:
    """All answers, seeded and clean."""

    seeded: list[Row] = field(default_factory=list)
    alarms: list[Row] = field(default_factory=list)
    clean: int = 0

    def add(self, case: Any, report: OverflowReport, *, clean: bool) -> None:
        if not clean:
            self.seeded.append(score(case, report))
            tell(self.seeded[-1])
            return
        self.clean += 1
        if report.origin is not None:
            words = f"{report.origin.call.name}: {report.origin.why}"
            self.alarms.append(Row(case.name, "nothing", words, False, False))
            tell(self.alarms[-1])

    def sentence(self) -> str:
        origins, kinds = sum(row.origin for row in self.seeded), sum(row.kind for row in self.seeded)
        count = len(self.seeded)
        alarms = f"alarms on {len(self.alarms)} of {self.clean} clean runs"
        return f"origin {origins}/{count}, class {kinds}/{count}, {alarms}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    parser.add_argument("--data", default="tensors", choices=("tensors", "stats"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    scores = Scores()
    with tempfile.TemporaryDirectory() as folder:
        for case in (*SEEDED, *CLEAN):
            if options.only in case.name:
                scores.add(case, diagnose(case, Path(folder), options.data), clean=isinstance(case, Clean))
        for number, together in enumerate(RANKS):
            if options.only in together.name:
                run = Path(folder) / f"ranks{number}"
                train_on_ranks(together, run, free_port())
                scores.add(together, overflow(run), clean=together.clean)
        paddle_scores(scores, options.only, Path(folder))
    print(scores.sentence())
    if not options.only:
        write(options.out, options.data, scores)
    return 0


def paddle_scores(scores: Scores, only: str, folder: Path) -> None:
    """Paddle's cases, last: its import changes what torch finds in this process."""
    if importlib.util.find_spec("paddle") is None:
        print("paddle is not installed: its cases are left out")
        return
    from benchmarks.overflow.paddle_cases import CASES as ON_PADDLE
    from benchmarks.overflow.paddle_cases import train as train_paddle

    for number, case in enumerate(ON_PADDLE):
        if only in case.name:
            run = folder / f"paddle{number}"
            train_paddle(case, run)
            scores.add(case, overflow(run), clean=case.clean)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def tell(row: Row) -> None:
    mark = "right" if row.origin and row.kind else "WRONG"
    print(f"{mark}  {row.name}: {row.expected} | {row.found}" + ("" if mark == "right" else f" | {row.why}"))
    sys.stdout.flush()


def write(folder: Path, data: str, scores: Scores) -> None:
    name = "overflow" if data == "tensors" else f"overflow_{data}"
    content = {
        "torch": torch.__version__,
        "data": data,
        "summary": scores.sentence(),
        "seeded": [asdict(row) for row in scores.seeded],
        "false_alarms": [asdict(row) for row in scores.alarms],
        "clean": scores.clean,
    }
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    lines = [f"# Overflow: {scores.sentence()}", "", f"Captured with data={data}, torch {torch.__version__}.", ""]
    lines += ["| case | expected | found | origin | class |", "|---|---|---|---|---|"]
    for row in [*scores.seeded, *scores.alarms]:
        marks = " | ".join("yes" if one else "no" for one in (row.origin, row.kind))
        lines.append(f"| {row.name} | {row.expected} | {row.found} | {marks} |")
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
