"""What ``benchmarks.versions`` runs inside each environment; one line of JSON each.

python -m benchmarks.versions_programs about torch
python -m benchmarks.versions_programs cost FOLDER
python -m benchmarks.versions_programs faults FOLDER
python -m benchmarks.versions_programs paddle FOLDER
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

FAULTS, EVERY = 30, 4
"""So many of the planted faults, one of every four: all models and kinds are among them."""
ROUNDS, STEPS = 7, 4


def about(framework: str) -> dict[str, Any]:
    """What was installed, and the way that captures take with it."""
    import numpy

    from trueline.frameworks.machine import adapter

    known = adapter(framework)
    return {
        "version": known.version(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "way": known.way(),
    }


def cost(folder: str) -> dict[str, Any]:
    """Milliseconds of processor time, of all threads, that a training step of a small transformer takes: bare, captured
    on the fast way, on the portable way."""
    import torch

    from trueline.frameworks.torch import calls, gate

    torch.set_num_threads(1)
    ways = [("bare", False), ("portable", False)]
    if gate.way().fast and calls.fast_calls() is not None:
        ways.append(("fast", True))
    times: dict[str, list[float]] = {name: [] for name, _ in ways}
    for turn in range(ROUNDS):
        for name, fast in ways:
            gate.force(fast)
            times[name].append(_step_time(None if name == "bare" else Path(folder, f"{name}{turn}")))
    best = {name: min(found) for name, found in times.items()}
    result = {f"{name}_ms": round(value * 1e3, 2) for name, value in best.items()}
    spread = {f"{name}_median_ms": round(statistics.median(found) * 1e3, 2) for name, found in times.items()}
    ratios = {f"{name}_ratio": round(best[name] / best["bare"], 2) for name in best if name != "bare"}
    return result | spread | ratios


def _step_time(path: Path | None) -> float:
    """Seconds of processor time of the cheapest of a few steps, the first one left out."""
    import torch

    import trueline

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.nn.Linear(128, 50)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, 64, 128), torch.randint(50, (16 * 64,))
    found = []

    def step() -> None:
        begun = time.process_time()
        torch.nn.functional.cross_entropy(model(x).reshape(-1, 50), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(time.process_time() - begun)

    if path is None:
        for _ in range(STEPS):
            step()
    else:
        with trueline.capture(path, framework="torch"):
            for _ in range(STEPS):
                step()
    return min(found[1:])


def faults(folder: str) -> dict[str, Any]:
    """What the comparison says of planted faults: name -> [right, what it named]."""
    from benchmarks.faults import run
    from benchmarks.faults.catalogue import Fault
    from benchmarks.faults.pairs import pairs

    names = [pair.name for pair in pairs() if isinstance(pair, Fault)][::EVERY][:FAULTS]
    file = Path(folder, "faults.json")
    run.main(["--data", "stats", "--json", str(file), *names])
    answers = {
        pair["name"]: pair["answers"]["ours, stats"]
        for pair in json.loads(file.read_text())["pairs"]
        if "ours, stats" in pair["answers"]
    }
    return {name: [answers[name]["right"], answers[name]["named"]] for name in names if name in answers}


def paddle(folder: str) -> dict[str, Any]:
    """A small model trained twice, the second time with a wrong ``gelu``: is that call named, and are the numbers of
    the captured training those of the bare one."""
    import trueline

    bare = _train_paddle(None, wrong=False)
    good = _train_paddle(Path(folder, "good"), wrong=False)
    _train_paddle(Path(folder, "bad"), wrong=True)
    report = trueline.compare(Path(folder, "good"), Path(folder, "bad"))
    first = report.first_divergence
    named = "" if first is None else f"{first.api} {first.phase.value}"
    return {"named": named, "right": named == "paddle.nn.functional.gelu forward", "same bits": bare == good}


def _train_paddle(path: Path | None, *, wrong: bool) -> list[str]:
    """Trains, and gives all parameters after each step as hexadecimal bytes."""
    import contextlib

    import paddle as framework

    import trueline

    framework.seed(3)
    layers = framework.nn.LayerNorm(8), framework.nn.Linear(8, 16), framework.nn.Linear(16, 4)
    parameters = [one for layer in layers for one in layer.parameters()]
    optimizer = framework.optimizer.AdamW(learning_rate=0.01, parameters=parameters)
    x = framework.randn([6, 8])
    found = []
    capture: Any = contextlib.nullcontext() if path is None else trueline.capture(path, framework="paddle")
    with capture:
        for _ in range(2):
            hidden = layers[1](layers[0](x))
            out = layers[2](framework.nn.functional.gelu(hidden, approximate=wrong))
            out.square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
            found += [one.numpy().tobytes().hex() for one in parameters]
    return found


COMMANDS = {"about": about, "cost": cost, "faults": faults, "paddle": paddle}

if __name__ == "__main__":
    print("\nresult " + json.dumps(COMMANDS[sys.argv[1]](sys.argv[2])))
