"""How much of a Paddle step a capture sees, by Paddle's own account, and what it costs.

    python -m benchmarks.paddle_recall [--out benchmarks/results]

Seen: the operators of a whole training step (forward, backward, optimizer) as Paddle's operator statistics count them,
and the nodes of the graph that its backward runs through. An operator is accounted for if it ran inside a recorded
call, a node if it belongs to one whose backward is watched. (``mixed`` recomputes a part of itself, in a graph of its
own, and shares tensors between a concat and others: there the capture counts a few more.)

Cost: processor time of a step, the least of several, with the capture recording and with it waiting for another step,
against the same step without a capture. A step of these models is a few milliseconds: the worst case.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle
from tests.helpers.paddle_models import PROGRAMS, Program

import trueline
from trueline.frameworks.paddle.graph import nodes_from
from trueline.frameworks.paddle.witness import counts

APEX = {"net": 26 / 38}
"""What PaddleAPEX finds of a net with the same ingredients; it was measured once, with its own code."""
ROUNDS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    out: Path = parser.parse_args().out
    results = {name: measure(name) for name in PROGRAMS}
    text = table(results)
    print(text)
    content = {"paddle": paddle.__version__, "models": results}
    (out / "paddle_recall.json").write_text(json.dumps(content, indent=1) + "\n")
    head = f"# {__doc__.strip()}\n\npaddle {paddle.__version__} on the CPU, one thread"
    (out / "paddle_recall.md").write_text(f"{head}\n\n{text}\n")


def measure(name: str) -> dict[str, Any]:
    """All numbers of one model."""
    truth, nodes = said_by_paddle(name)
    seen = captured(name)
    bare, idle, stats, tensors = costs(name)
    return {
        "operators": truth,
        "nodes": nodes,
        "accounted for": seen["inside"],
        "outside": seen["outside"],
        "calls": seen["calls"],
        "not recorded": seen["not recorded"],
        "bare ms": bare,
        "idle": idle / bare,
        "recording statistics": stats / bare,
        "recording tensors": tensors / bare,
        "apex recall": APEX.get(name),
    }


def said_by_paddle(name: str) -> tuple[int, int]:
    """Operators and nodes of one step, with no capture anywhere near."""
    step = steps_of(PROGRAMS[name])
    found: list[int] = []
    step(lambda loss: found.append(len(nodes_from([loss]))))
    paddle.set_flags({"FLAGS_low_precision_op_list": 1})
    paddle.base.core.clear_low_precision_op_list()
    step(None)
    total = sum(counts().values())
    paddle.set_flags({"FLAGS_low_precision_op_list": 0})
    return total, found[0]


def captured(name: str) -> dict[str, Any]:
    """What a capture with a witness says of the same step."""
    step = steps_of(PROGRAMS[name])
    step(None)
    with tempfile.TemporaryDirectory() as folder:
        with trueline.capture(Path(folder) / "run", framework="paddle", witness=True) as capture:
            step(None)
        certificate = capture.certificate
    assert certificate is not None and certificate.kernels_outside is not None
    return {
        "inside": certificate.kernels_inside,
        "outside": dict(certificate.kernels_outside),
        "calls": dict(certificate.calls),
        "not recorded": dict(certificate.not_recorded),
    }


def costs(name: str) -> tuple[float, float, float, float]:
    """Milliseconds of processor time a step: bare, waiting for another step, recording statistics, keeping tensors."""
    step = steps_of(PROGRAMS[name])
    for _ in range(3):
        step(None)
    found = [least(step)]
    for options in ({"steps": [10**6]}, {"data": "stats"}, {"data": "tensors"}):
        with tempfile.TemporaryDirectory() as folder, trueline.capture(
            Path(folder) / "run", framework="paddle", **options
        ):
            step(None)
            found.append(least(step))
    return found[0], found[1], found[2], found[3]


def least(step: Callable[[Any], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        step(None)
        times.append(time.process_time() - start)
    return min(times) * 1e3


def steps_of(program: Program) -> Callable[[Any], None]:
    """A function that trains one step, and shows its loss before the backward to whoever asks."""
    paddle.seed(7)
    model = program.model()
    optimizer = program.optimizer(model.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=64.0) if program.scaler else None
    x, target = program.batch()

    def step(show: Callable[[Any], None] | None) -> None:
        loss = program.loss(model, x, target)
        if scaler is not None:
            loss = scaler.scale(loss)
        if show is not None:
            show(loss)
        loss.backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.clear_grad()

    return step


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| model | operators and nodes | accounted for | recall | PaddleAPEX | step | idle | statistics | tensors |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in results.items():
        outside = sum(row["outside"].values())
        recall = row["accounted for"] / (row["accounted for"] + outside)
        apex = "" if row["apex recall"] is None else f"{row['apex recall']:.0%}"
        lines.append(
            f"| {name} | {row['operators'] + row['nodes']} | {row['accounted for']} | {recall:.1%} | {apex} "
            f"| {row['bare ms']:.1f} ms | {row['idle']:.2f}x | {row['recording statistics']:.2f}x "
            f"| {row['recording tensors']:.2f}x |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
