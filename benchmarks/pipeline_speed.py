"""How long 24 inference variants take: as 24 commands, and as copies of one warm process.

    python -m benchmarks.pipeline_speed [--project paddle_mobilenet] [--rounds 3]

The variants are those of the example's own config in TIPC's long form (MKL-DNN, threads, batch sizes). Both ways run
the same command lines one after another, with the probe hook on; whatever they leave behind must be the same to the
last bit, else the time counts for nothing. Times are those of a clock, and of the processors besides: on a machine that
has other things to do only the latter mean something. What Python compiles is kept, as on any ordinary machine, and one
command goes before the first that counts: else the commands would look worse than they are.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutants.catalogue import PADDLE, TORCH
from benchmarks.mutants.projects import copied, environment
from benchmarks.tables import table
from trueline.pipeline.recording import points_in
from trueline.pipeline.variants import WarmWorker

CHECKPOINTS = {PADDLE: "latest.pdparams", TORCH: "latest.pt"}
AS_INFERENCE = {"TRUELINE_STAGE_KIND": "infer"}
"""What a pipeline tells such a command."""
VARIANTS = [
    {"--enable_mkldnn": mkldnn, "--cpu_threads": threads, "--batch_size": batch}
    for mkldnn in (True, False)
    for threads in (1, 2, 4)
    for batch in (1, 3, 8, 16)
]


def trained(project: Path, variables: dict[str, str]) -> None:
    checkpoint = f"output/{CHECKPOINTS[project.name]}"
    for words in (["train.py", "--epochs=1"], ["export.py", f"--pretrained={checkpoint}"]):
        subprocess.run([sys.executable, *words], cwd=project, env=variables, check=True, capture_output=True)


def words_of(variant: dict[str, Any]) -> list[str]:
    return ["infer.py", "--model_dir=output", *(f"{key}={value}" for key, value in variant.items())]


class Clock:
    """Seconds by the clock and of the processors, for all that was started since and has ended."""

    def __init__(self) -> None:
        self._begin = self._now()

    def _now(self) -> tuple[float, float]:
        used = os.times()
        return time.perf_counter(), used.children_user + used.children_system

    def read(self) -> tuple[float, float]:
        now = self._now()
        return now[0] - self._begin[0], now[1] - self._begin[1]


def as_commands(project: Path, out: Path, variables: dict[str, str]) -> tuple[float, float]:
    clock = Clock()
    for number, variant in enumerate(VARIANTS):
        probe = {**AS_INFERENCE, "TRUELINE_PROBE_DIR": str(out / str(number))}
        line = shlex.join([sys.executable, *words_of(variant)])
        with open(out / f"{number}.log", "wb") as log:
            subprocess.run(
                line, shell=True, cwd=project, env={**variables, **probe}, stdout=log, stderr=log, check=True
            )
    return clock.read()


def as_copies(project: Path, out: Path, variables: dict[str, str]) -> tuple[float, float]:
    clock = Clock()
    with WarmWorker(sys.executable, cwd=project, environment=variables) as worker:
        for number, variant in enumerate(VARIANTS):
            probe = {**AS_INFERENCE, "TRUELINE_PROBE_DIR": str(out / str(number))}
            started = worker.start(words_of(variant), log=out / f"{number}.log", environment=probe)
            if started.wait(120) != 0:
                raise RuntimeError(f"{variant} failed: {(out / f'{number}.log').read_text(encoding='utf-8')[-500:]}")
    return clock.read()


def left(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of the probe that a variant left."""
    (point,) = points_in(folder)
    return {
        f"{name} {number} {path}": leaf.bits
        for name, sections in point.sections.items()
        for number, section in enumerate(sections)
        for path, leaf in section.outputs.items()
    }


def same(first: Path, second: Path) -> bool:
    for number in range(len(VARIANTS)):
        one, other = left(first / str(number)), left(second / str(number))
        if not one or one.keys() != other.keys() or not all(np.array_equal(one[key], other[key]) for key in one):
            return False
    return True


def measured(name: str, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="trueline-speed-") as folder:
        project = copied(name, Path(folder))
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        variables = {**os.environ, **environment(), **kept}
        trained(project, variables)
        subprocess.run([sys.executable, *words_of(VARIANTS[0])], cwd=project, env=variables, check=True)
        cold, warm, equal = [], [], True
        for number in range(rounds):
            outs = [Path(folder) / f"{kind}{number}" for kind in ("cold", "warm")]
            for out in outs:
                out.mkdir()
            cold.append(as_commands(project, outs[0], variables))
            warm.append(as_copies(project, outs[1], variables))
            equal = equal and same(*outs)
    return {"project": name, "commands": cold, "copies": warm, "same": equal}


def _middle(row: dict[str, Any], kind: str, which: int) -> float:
    return statistics.median(times[which] for times in row[kind])


def _cells(row: dict[str, Any]) -> list[str]:
    cells = [row["project"]]
    for which in (0, 1):
        cold, warm = _middle(row, "commands", which), _middle(row, "copies", which)
        cells += [f"{cold:.1f} s", f"{warm:.1f} s", f"{cold / warm:.1f}x"]
    return [*cells, "yes" if row["same"] else "NO"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--project", choices=[PADDLE, TORCH], action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [measured(name, options.rounds) for name in options.project or (PADDLE, TORCH)]
    cells = [_cells(row) for row in rows]
    names = (f"{len(VARIANTS)} commands", "one warm worker", "faster")
    print(table(("project", *names, "CPU: commands", "CPU: worker", "less", "same bits"), cells))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    slow = any(_middle(row, "commands", 0) < 5 * _middle(row, "copies", 0) for row in rows)
    return 1 if slow or not all(row["same"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
