"""Runs every seeded case and every clean one, captures it, asks for the overflow, and scores the answers.

    python -m benchmarks.overflow.run [--only WORD] [--through watch] [--held-out] [--out FOLDER]

Right means: the first alarm is at the call of that API, phase and step in which the case was seeded (origin), and of
the kind and nature that it has (class). A clean run must raise none. ``--through watch`` records each with a watch, as
a program would run that nobody expects to break; ``--held-out`` takes the cases of ``held_out`` instead.
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

from benchmarks.faults.planting import Plant
from benchmarks.overflow import held_out
from benchmarks.overflow.cases import CLEAN, SEEDED, Clean, Seeded
from benchmarks.overflow.models import MODELS
from benchmarks.overflow.ranks import CASES as RANKS
from benchmarks.overflow.ranks import OnRanks, train_on_ranks
from benchmarks.overflow.recording import WAYS, recording
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
    if name == "rmsprop":
        return torch.optim.RMSprop(model.parameters(), **{"foreach": False, "lr": 1e-3, **options})
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


def train(case: Seeded | Clean, run: Path, data: str, through: str = "capture") -> None:
    """Three steps of training, recorded."""
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
    with surroundings(case), recording(run, through, data=data) as recorded:
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
            recorded.step()


def diagnose(case: Seeded | Clean, folder: Path, data: str, through: str = "capture") -> OverflowReport:
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    train(case, run, data, through)
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
    parser.add_argument("--through", default="capture", choices=WAYS, help="what records the cases")
    parser.add_argument("--held-out", action="store_true", help="the cases that nothing was tuned on")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    scores = Scores()
    cases = (*held_out.SEEDED, *held_out.CLEAN) if options.held_out else (*SEEDED, *CLEAN)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            if options.only in case.name:
                report = diagnose(case, Path(folder), options.data, options.through)
                scores.add(case, report, clean=isinstance(case, Clean))
        for number, together in enumerate(() if options.held_out else RANKS):
            if options.only in together.name:
                run = Path(folder) / f"ranks{number}"
                train_on_ranks(together, run, free_port(), options.through)
                scores.add(together, overflow(run), clean=together.clean)
        paddle_scores(scores, options, Path(folder))
    print(scores.sentence())
    if not options.only:
        write(options, scores)
    return 0


def paddle_scores(scores: Scores, options: argparse.Namespace, folder: Path) -> None:
    """Paddle's cases, last: its import changes what torch finds in this process."""
    if importlib.util.find_spec("paddle") is None:
        print("paddle is not installed: its cases are left out")
        return
    from benchmarks.overflow import paddle_cases, paddle_held_out

    for number, case in enumerate((paddle_held_out if options.held_out else paddle_cases).CASES):
        if options.only in case.name:
            run = folder / f"paddle{number}"
            paddle_cases.train(case, run, options.through)
            scores.add(case, overflow(run), clean=case.clean)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def tell(row: Row) -> None:
    mark = "right" if row.origin and row.kind else "WRONG"
    print(f"{mark}  {row.name}: {row.expected} | {row.found}" + ("" if mark == "right" else f" | {row.why}"))
    sys.stdout.flush()


def write(options: argparse.Namespace, scores: Scores) -> None:
    words = [
        "overflow",
        "held_out" if options.held_out else "",
        "" if options.through == "capture" else options.through,
    ]
    name = "_".join(word for word in [*words, "" if options.data == "tensors" else options.data] if word)
    content = {
        "torch": torch.__version__,
        "data": options.data,
        "through": options.through,
        "summary": scores.sentence(),
        "seeded": [asdict(row) for row in scores.seeded],
        "false_alarms": [asdict(row) for row in scores.alarms],
        "clean": scores.clean,
    }
    folder = options.out
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    title = "Overflow, held out" if options.held_out else "Overflow"
    how = "a watch" if options.through == "watch" else f"a capture with data={options.data}"
    lines = [f"# {title}: {scores.sentence()}", "", f"Recorded by {how}, torch {torch.__version__}.", ""]
    if options.held_out:
        lines += [" ".join((held_out.__doc__ or "").split()), ""]
    lines += ["| case | expected | found | origin | class |", "|---|---|---|---|---|"]
    for row in [*scores.seeded, *scores.alarms]:
        marks = " | ".join("yes" if one else "no" for one in (row.origin, row.kind))
        lines.append(f"| {row.name} | {row.expected} | {row.found} | {marks} |")
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
