"""What the doors of the predecessors cost, beside our own commands for the same work.

    python -m benchmarks.doors [--rounds N] [--width N] [--only JOB,...]

dump             ptdbg: set_dump_switch ON, a training step, OFF    capture(data="tensors") of the same step
compare          ptdbg: compare() of two dumps, with its CSV        compare() of two Runs, with its CSV
run_ut           run_ut -forward -backward                          check of the same Run
tracer           PaddleAPEX: Tracer().start() to stop()             capture(data="tensors") of the same step
run_paddle       run_paddle -dtype FP32 -mode acc                   exec of the same Run
acc_direct_cmp   acc_direct_cmp of two replays                      compare of the two by both rules, the same CSV files
engineV2         engineV2 --accuracy=True --test_cpu=True           check of the same config lines

Every figure is the median of rounds in which the two take turns, each in a process of its own: of functions after the
imports, of commands the whole of them. The bytes of a dump are those of all its names, as ptdbg counts them. On a
machine that does other work besides, look at the processor's seconds, which are said as well.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
began, busy = time.perf_counter(), time.process_time()
step()
plain, busy_plain = time.perf_counter() - began, time.process_time() - busy
def say(seconds, processor, size):
    print(json.dumps({"seconds": seconds, "processor": processor, "bytes": size}))
"""
DUMP = {
    "door": STEP + """
ptdbg.set_dump_path("./warm.pkl", dump_tag="warm"); ptdbg.register_hook(model, ptdbg.acc_cmp_dump)
ptdbg.set_dump_switch("ON"); torch.ones(2).abs(); ptdbg.set_dump_switch("OFF")
ptdbg.set_dump_path("./a.pkl", dump_tag="a"); ptdbg.register_hook(model, ptdbg.acc_cmp_dump)
began, busy = time.perf_counter(), time.process_time()
ptdbg.set_dump_switch("ON"); step(); ptdbg.set_dump_switch("OFF")
spent = time.perf_counter() - began - plain, time.process_time() - busy - busy_plain
say(*spent, sum(one.stat().st_size for one in Path("a_v1.0").rglob("*.npy")))
""",
    "own": STEP + """
with trueline.capture("warm", data="tensors"):
    torch.ones(2).abs()
began, busy = time.perf_counter(), time.process_time()
with trueline.capture("run", data="tensors"):
    step()
spent = time.perf_counter() - began - plain, time.process_time() - busy - busy_plain
say(*spent, sum(one.stat().st_size for one in Path("run").rglob("*") if one.is_file()))
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
began, busy = time.perf_counter(), time.process_time()
work()
say(time.perf_counter() - began, time.process_time() - busy, size)
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
    "door": ["-m", "trueline.compat", "run_ut", "-forward", "json/forward_info_0.json", "-backward",
             "json/backward_info_0.json"],
    "own": ["-m", "trueline", "check", "run", "--target", "torch:cpu"],
}  # fmt: skip


STEP_OF_PADDLE = """
import json, sys, time, warnings
from pathlib import Path
import paddle, trueline, trueline.exchange
paddle.seed(0)
width = int(sys.argv[1])
model = paddle.nn.Sequential(*[paddle.nn.Sequential(
    paddle.nn.Linear(width, width), paddle.nn.ReLU(), paddle.nn.LayerNorm(width)) for _ in range(6)])
data = paddle.randn([width // 2, width])
def step():
    model(data).square().mean().backward()
    model.clear_gradients()
step()
began, busy = time.perf_counter(), time.process_time()
step()
plain, busy_plain = time.perf_counter() - began, time.process_time() - busy
def say(seconds, processor, size):
    print(json.dumps({"seconds": seconds, "processor": processor, "bytes": size}))
"""
TRACER = {
    "door": STEP_OF_PADDLE + """
from trueline.compat.paddleapex import Tracer
from trueline.compat.paddleapex.config import ToolConfig
apex = Tracer(ToolConfig(dump_root_path="dump", target_step=[0, 1], dump_mode="real_data"))
apex.start(); paddle.ones([2]).abs(); apex.stop()
began, busy = time.perf_counter(), time.process_time()
apex.start(); step(); apex.stop()
spent = time.perf_counter() - began - plain, time.process_time() - busy - busy_plain
say(*spent, sum(one.stat().st_size for one in Path("dump/rank0_step1").rglob("*.pt")))
""",
    "own": STEP_OF_PADDLE + """
with trueline.capture("warm", data="tensors", framework="paddle"):
    paddle.ones([2]).abs()
began, busy = time.perf_counter(), time.process_time()
with trueline.capture("run", data="tensors", framework="paddle"):
    step()
spent = time.perf_counter() - began - plain, time.process_time() - busy - busy_plain
say(*spent, sum(one.stat().st_size for one in Path("run").rglob("*") if one.is_file()))
""",
}
TRACED = STEP_OF_PADDLE + """
from trueline.compat.paddleapex import Tracer
from trueline.compat.paddleapex.config import ToolConfig
apex = Tracer(ToolConfig(dump_root_path="dump", target_step=[0], dump_mode="real_data"))
apex.start(); step(); apex.stop()
trueline.exchange.import_apex("dump/rank0_step0/forward_rank0_all.json", "calls", tensors="dump/rank0_step0")
"""
JSON = "dump/rank0_step0/forward_rank0_all.json"
RUN_PADDLE = {
    "door": ["-m", "trueline.compat", "run_paddle", "-json", JSON, "-real", "dump/rank0_step0", "-backend", "cpu",
             "-out", "door", "-dtype", "FP32", "-mode", "acc"],
    "own": ["-m", "trueline", "exec", "calls", "--target", "paddle:cpu/float32", "--out", "own"],
}  # fmt: skip
REPLAYED = [[*RUN_PADDLE["door"][:-5], word, "-dtype", dtype, "-mode", "acc"]
            for word, dtype in (("fp32", "FP32"), ("fp64", "FP64"))]  # fmt: skip
DIRECT = {
    "door": ["-m", "trueline.compat", "acc_direct_cmp", "-gpu", "fp32", "-gpu", "fp64", "-o", "door"],
    "own": ["-c", """
import trueline
from trueline.report.apex_csv import write_apex_csv
from pathlib import Path
with trueline.compare("fp32/run", "fp64/run") as report:
    report.verdict
with trueline.compare("fp32/run", "fp64/run", standard="apex") as report:
    Path("own").mkdir()
    write_apex_csv(report, Path("own"), "now")
"""],
}  # fmt: skip
CONFIGS = [
    f"paddle.{name}(Tensor([{rows}, {width}],\"float32\"){rest})"
    for rows, width in ((13, 64), (128, 257), (512, 512))
    for name, rest in (
        ("abs", ""), ("exp", ""), ("nn.functional.gelu", ""), ("nn.functional.softmax", ""), ("cumsum", ", axis=0"),
        ("sum", ", axis=1"), ("tanh", ""), ("transpose", ", perm=[1, 0]"), ("max", ", axis=0"), ("mean", ""),
    )
]  # fmt: skip
ENGINE = {
    "door": ["-m", "trueline.compat", "engineV2", "--api_config_file=configs.txt", "--accuracy=True", "--test_cpu=True",
             "--num_gpus=1", "--num_workers_per_gpu=1", "--log_dir=door"],
    "own": ["-m", "trueline", "check", "configs.txt", "--target", "paddle:cpu", "--reference", "torch:cpu",
            "--standard", "allclose(rtol=0.01, atol=0.01, equal_nan=true)", "--workers", "1", "--out", "own"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """The same work on both sides: programs that say their figures, or commands that are timed. ``given`` prepares the
    folder of a round."""

    sides: Mapping[str, str | list[str]]
    given: Callable[[Path, int], None] = lambda folder, width: None


@dataclass(frozen=True, slots=True)
class Figure:
    seconds: float
    processor: float
    bytes: int = 0


def _module(program: str) -> Callable[[Path, int], None]:
    return lambda folder, width: _ignored(_ran([sys.executable, "-c", program, str(width)], folder))


def _replays(folder: Path, width: int) -> None:
    _module(TRACED)(folder, width)
    for words in REPLAYED:
        _ran([sys.executable, *words], folder)


def _configs(folder: Path, _: int) -> None:
    (folder / "configs.txt").write_text("".join(f"{line}\n" for line in CONFIGS))


def _ignored(_: object) -> None:
    """Nothing is made of it."""


JOBS = {
    "dump": Job(DUMP),
    "compare": Job({side: PAIR + COMPARE[side] + TIMED for side in COMPARE}),
    "run_ut": Job(RUN_UT, _module(CHECKED)),
    "tracer": Job(TRACER),
    "run_paddle": Job(RUN_PADDLE, _module(TRACED)),
    "acc_direct_cmp": Job(DIRECT, _replays),
    "engineV2": Job(ENGINE, _configs),
}


def _ran(words: list[str], folder: Path) -> tuple[str, Figure]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}")
    return done.stdout, Figure(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _figure(work: str | list[str], folder: Path, width: int) -> Figure:
    if isinstance(work, list):
        return _ran([sys.executable, *work], folder)[1]
    told, _ = _ran([sys.executable, "-c", work, str(width)], folder)
    return Figure(**json.loads(told.splitlines()[-1]))


def _rounds(job: Job, rounds: int, width: int) -> dict[str, list[Figure]]:
    """What both cost, in turns: which is first changes from round to round."""
    found: dict[str, list[Figure]] = {"door": [], "own": []}
    for number in range(rounds):
        for side in ("door", "own") if number % 2 == 0 else ("own", "door"):
            with tempfile.TemporaryDirectory() as scratch:
                job.given(Path(scratch), width)
                found[side].append(_figure(job.sides[side], Path(scratch), width))
    return found


def _told(name: str, found: Mapping[str, list[Figure]]) -> float:
    """Prints one line; gives by how much the door costs more."""
    middle = {side: statistics.median(one.seconds for one in figures) for side, figures in found.items()}
    busy = {side: statistics.median(one.processor for one in figures) for side, figures in found.items()}
    ratio = middle["door"] / middle["own"]
    speed = "".join(
        f", {side} {figures[0].bytes / 1e9 / middle[side]:.2f} GB/s" for side, figures in found.items()
        if figures[0].bytes
    )  # fmt: skip
    print(f"{name:14} door {middle['door']:.2f} s, own {middle['own']:.2f} s: {ratio:.2f} times; of the processor "
          f"{busy['door']:.2f} and {busy['own']:.2f} s: {busy['door'] / busy['own']:.2f} times{speed}",
          flush=True)  # fmt: skip
    return ratio


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--width", type=int, default=1024, help="of the layers: 1024 makes dumps of about 300 MB")
    options.add_argument("--only", default=",".join(JOBS), help="some of them, with commas")
    asked = options.parse_args()
    worst = max(_told(name, _rounds(JOBS[name], asked.rounds, asked.width)) for name in asked.only.split(","))
    print(f"the dearest door costs {worst:.2f} times our own command; at most {LIMIT:g} is the aim")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
