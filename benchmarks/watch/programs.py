"""Programs that break: run as they are under ``trueline capture --watch``, or by themselves.

python -m benchmarks.watch.programs drift --steps 260        numbers that grow a little with each step, in fp16
python -m benchmarks.watch.programs sudden --at 230 [--kill] a batch that breaks at one step; then kill -9 of itself
"""

from __future__ import annotations

import argparse
import os
import signal

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    """Two layers in fp16, with a scale that somebody forgot to hold back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)
        self.scale = 1.0

    def forward(self, batch: Tensor) -> Tensor:
        hidden = F.relu(self.first(batch)).half() * self.scale
        scores = torch.matmul(hidden, hidden.transpose(0, 1)) * (1.0 / self.scale**2)
        return self.second(F.relu(self.first(batch))).float() + scores.float().mean()


def batch_of(step: int) -> Tensor:
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(step))


def train(model: Model, optimizer: torch.optim.Optimizer, batch: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = (model(batch) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def drift(steps: int) -> None:
    """The largest product doubles every 15 steps or so, and no longer fits fp16 somewhat after step 200."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        model.scale = 0.25 * 2.0 ** (step / 30)
        loss = train(model, optimizer, batch_of(step))
        if not bool(torch.isfinite(loss)):
            print(f"broke at {step}", flush=True)
            return
    print("never broke", flush=True)


def sudden(at: int, kill: bool) -> None:
    """All is well until one step, in which a logarithm is given a negative number."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(at + 3):
        optimizer.zero_grad()
        value = model(batch_of(step))
        value = value.log() if step == at else value
        value.pow(2).mean().backward()
        optimizer.step()
        if kill and step == at:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=("drift", "sudden"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--at", type=int, default=230)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.program == "drift":
        drift(options.steps)
    else:
        sudden(options.at, options.kill)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
