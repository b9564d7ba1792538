"""The Runs and checks that are damaged: small, and captured from real programs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_TORCH = """
import os, signal, sys, time, torch, trueline
out, data, level, twin, end = sys.argv[1:6]
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
    def forward(self, x, mask):
        hidden = torch.nn.functional.gelu(self.first(x), approximate="tanh" if twin == "twin" else "none")
        scores = self.second(hidden).masked_fill(mask, float("-inf"))
        return torch.softmax(torch.cat([scores, scores[:, :1]], dim=1), dim=-1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
mask = torch.zeros(4, 3, dtype=torch.bool)
mask[0, 1] = True
with trueline.capture(out, data=data, level=level) as cap:
    for step in range(2):
        x = torch.randn(4, 6)
        loss = (net(x, mask) * torch.arange(4.0)).sum()
        if step == 1:
            torch.exp(x * 100.0).half().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        cap.step()
    if end == "kill":
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
"""

_PADDLE = """
import sys, paddle, trueline
out, data, level, twin, end = sys.argv[1:6]
paddle.seed(0)
paddle.device.set_device("cpu")
net = paddle.nn.Sequential(paddle.nn.Linear(6, 8), paddle.nn.Linear(8, 3))
with trueline.capture(out, data=data, level=level) as cap:
    for step in range(2):
        x = paddle.randn([4, 6]) * (1.01 if twin == "twin" else 1.0)
        loss = paddle.nn.functional.softmax(net(x), axis=-1)[:, 0].sum()
        if step == 1:
            paddle.exp(x * 1000.0).sum()
        loss.backward()
        cap.step()
"""

_LINES = """\
torch.add(Tensor([4, 6],"float32"), Tensor([4, 6],"float32"), )
torch.nn.functional.gelu(Tensor([4, 6],"float32"), )
torch.nn.functional.softmax(Tensor([3, 5],"float32"), dim=-1, )
torch.matmul(Tensor([4, 6],"float32"), Tensor([6, 2],"float32"), )
torch.exp(Tensor([7],"float64"), )
torch.nothing_of_this_name(Tensor([7],"float32"), )
"""

_KERNELS = """
import torch
def gelu(x, *args, **kwargs):
    return torch.nn.functional.gelu(x, *args, **kwargs) * 1.01
def exp(x):
    return torch.exp(x) + 0.5
"""


@dataclass(frozen=True)
class Source:
    """One thing to damage: ``folder`` holds ``run`` and its ``twin``, of which one is damaged and the other not."""

    name: str
    kind: str
    """``run`` or ``check``"""
    framework: str = "torch"
    call: str = ""
    data: str = "stats"


SOURCES = (
    Source("stats", "run", call="torch.nn.functional.gelu"),
    Source("tensors", "run", call="torch.nn.functional.linear.0", data="tensors"),
    Source("digest", "run", call="torch.nn.functional.gelu", data="digest"),
    Source("module", "run", call="Net", data="stats"),
    Source("ranks", "run", call="torch.softmax", data="tensors"),
    Source("killed", "run", call="torch.softmax", data="tensors"),
    Source("paddle", "run", framework="paddle", call="paddle.exp", data="tensors"),
    Source("check", "check"),
)
_MODULE_LEVEL = {"module": "module"}
_ENDS = {"killed": "kill"}


def make_sources(folder: Path, names: list[str]) -> list[Source]:
    """Captures what is asked for, as far as its framework is here."""
    chosen = [source for source in SOURCES if not names or source.name in names]
    made = []
    for source in chosen:
        if source.framework == "paddle" and not _has("paddle"):
            continue
        target = folder / source.name
        target.mkdir(parents=True)
        _make_check(target) if source.kind == "check" else _capture(source, target)
        made.append(source)
    return made


def _has(module: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def _capture(source: Source, folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(_PADDLE if source.framework == "paddle" else _TORCH, encoding="utf-8")
    level = _MODULE_LEVEL.get(source.name, "api")
    for out in ("run", "twin"):
        for rank in range(2 if source.name == "ranks" else 1):
            world = {"RANK": str(rank), "WORLD_SIZE": "2"} if source.name == "ranks" else {}
            words = [program.name, out, source.data, level, out, _ENDS.get(source.name, "")]
            _run([sys.executable, *words], folder, world, may_die=source.name in _ENDS)


def _make_check(folder: Path) -> None:
    (folder / "lines.txt").write_text(_LINES, encoding="utf-8")
    (folder / "kernels.py").write_text(_KERNELS, encoding="utf-8")
    words = [sys.executable, "-m", "trueline", "check", "lines.txt", "--target", "torch:cpu", "--workers", "1", "--out"]
    wrong = ["--override", "torch.nn.functional.gelu=kernels:gelu", "--override", "torch.exp=kernels:exp"]
    _run([*words, "twin"], folder, {}, may_die=True)
    _run([*words, "run", "--save-failures", *wrong], folder, {}, may_die=True)


def _run(words: list[str], folder: Path, world: dict[str, str], *, may_die: bool = False) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **world}
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode and not may_die:
        raise RuntimeError(f"{words} in {folder}: {ended.stderr[-2000:]}")
