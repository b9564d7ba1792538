"""What the doors of ptdbg_ascend and api_accuracy_checker cost, beside our own commands for the same work.

    python -m benchmarks.doors [--rounds N] [--width N]

dump      set_dump_switch ON, one training step, OFF            capture(data="tensors") of the same step
compare   compare() of two dumps, with its CSV                   compare() of two Runs, with its CSV
run_ut    run_ut -forward -backward                              check of the same Run

Every figure is the median of rounds in which the two take turns, each in a process of its own, after the imports. The
bytes of a dump are those of all its names, as ptdbg counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2.0

STEP = """
import contextlib, io, json, sys, time, warnings
from pathlib import Path
import torch
import trueline, trueline.exchange, trueline.diagnose
from trueline.compat import ptdbg_ascend as ptdbg
from trueline.report.csv import write_csv

torch.manual_seed(0)
width = int(sys.argv[1])
model = torch.nn.Sequential(*[
    torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.LayerNorm(width)) for _ in range(6)
])
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = torch.randn(width // 2, width)

def step():
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

step()
began = time.perf_counter()
step()
plain = time.perf_counter() - began
def say(seconds, size):
    print(json.dumps({"seconds": seconds, "bytes": size}))
"""
DUMP = {
    "door": STEP + """
ptdbg.set_dump_path("./warm.pkl", dump_tag="warm"); ptdbg.register_hook(model, ptdbg.acc_cmp_dump)
ptdbg.set_dump_switch("ON"); torch.ones(2).abs(); ptdbg.set_dump_switch("OFF")
ptdbg.set_dump_path("./a.pkl", dump_tag="a"); ptdbg.register_hook(model, ptdbg.acc_cmp_dump)
began = time.perf_counter()
ptdbg.set_dump_switch("ON"); step(); ptdbg.set_dump_switch("OFF")
spent = time.perf_counter() - began - plain
say(spent, sum(one.stat().st_size for one in Path("a_v1.0").rglob("*.npy")))
""",
    "own": STEP + """
with trueline.capture("warm", data="tensors"):
    torch.ones(2).abs()
began = time.perf_counter()
with trueline.capture("run", data="tensors"):
    step()
spent = time.perf_counter() - began - plain
say(spent, sum(one.stat().st_size for one in Path("run").rglob("*") if one.is_file()))
""",
}
PAIR = STEP + """
for side, eps in (("npu", 2e-5), ("gpu", 1e-5)):  # the last normalisation differs, and all that follows backward
    model[-1][2].eps = eps
    ptdbg.set_dump_path(f"./{side}.pkl", dump_tag=side); ptdbg.register_hook(model, ptdbg.acc_cmp_dump)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    ptdbg.set_dump_switch("ON"); step(); ptdbg.set_dump_switch("OFF")
    model.load_state_dict(state)
    with trueline.capture(f"run_{side}", data="tensors"):
        step()
    model.load_state_dict(state)
Path("output").mkdir()
"""
COMPARE = {
    "door": """
given = {}
for name, side in (("npu", "npu"), ("bench", "gpu")):
    given |= {f"{name}_pkl_path": f"{side}_v1.0/rank0/{side}.pkl", f"{name}_dump_data_dir": f"{side}_v1.0/rank0/{side}"}
def work():
    with contextlib.redirect_stdout(io.StringIO()):
        ptdbg.compare({**given, "is_print_compare_log": False}, "./output")
size = sum(one.stat().st_size for side in ("npu", "gpu") for one in Path(f"{side}_v1.0").rglob("*.npy"))
""",
    "own": """
def work():
    with trueline.compare("run_gpu", "run_npu") as report, open("output/own.csv", "w", newline="") as stream:
        report.verdict, write_csv(report, stream)
size = sum(one.stat().st_size for side in ("npu", "gpu") for one in Path(f"run_{side}").rglob("*") if one.is_file())
""",
}
TIMED = """
work()
began = time.perf_counter()
work()
say(time.perf_counter() - began, size)
"""
CHECKED = """
import torch, trueline
from trueline.exchange import write_checker_json
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(16), torch.nn.Conv2d(16, 16, 3), torch.nn.GELU(),
    torch.nn.Flatten(), torch.nn.Linear(16 * 12 * 12, 10), torch.nn.Softmax(-1),
)
with trueline.capture("run", data="stats"):
    model(torch.randn(8, 3, 16, 16)).square().sum().backward()
write_checker_json("run", "json", process=0)
"""
RUN_UT = {
    "door": [sys.executable, "-m", "trueline.compat", "run_ut", "-forward", "json/forward_info_0.json", "-backward",
             "json/backward_info_0.json"],
    "own": [sys.executable, "-m", "trueline", "check", "run", "--target", "torch:cpu"],
}  # fmt: skip


def ran(words: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def told(program: str, width: int, folder: Path) -> tuple[float, int]:
    found = json.loads(ran([sys.executable, "-c", program, str(width)], folder).splitlines()[-1])
    return float(found["seconds"]), int(found["bytes"])


def rounds_of(what: str, rounds: int, width: int) -> dict[str, list[tuple[float, int]]]:
    """Seconds and bytes of both, in turns."""
    found: dict[str, list[tuple[float, int]]] = {"door": [], "own": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if what == "run_ut":
                ran([sys.executable, "-c", CHECKED], folder)
            for side in ("door", "own"):
                if what == "dump":
                    found[side].append(told(DUMP[side], width, folder))
                elif what == "compare":
                    place = folder / side
                    place.mkdir()
                    found[side].append(told(PAIR + COMPARE[side] + TIMED, width, place))
                else:
                    found[side].append(command(RUN_UT[side], folder))
    return found


def command(words: list[str], folder: Path) -> tuple[float, int]:
    import time

    began = time.perf_counter()
    ran(words, folder)
    return time.perf_counter() - began, 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--width", type=int, default=1024, help="of the layers: 1024 makes dumps of about 300 MB")
    asked = options.parse_args()
    worst = 0.0
    for what in ("dump", "compare", "run_ut"):
        found = rounds_of(what, asked.rounds, asked.width)
        middle = {side: statistics.median(seconds for seconds, _ in times) for side, times in found.items()}
        ratio = middle["door"] / middle["own"]
        worst = max(worst, ratio)
        speed = "".join(
            f", {side} {found[side][0][1] / 1e9 / middle[side]:.2f} GB/s" for side in middle if found[side][0][1]
        )
        print(f"{what:8} door {middle['door']:.2f} s, own {middle['own']:.2f} s: {ratio:.2f} times{speed}", flush=True)
    print(f"the dearest door costs {worst:.2f} times our own command; at most {LIMIT:g} is the aim")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
