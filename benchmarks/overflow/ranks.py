"""Four ranks of gloo that train together; in each case one of them, or the sum of all, goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from benchmarks.overflow.models import Mlp
from benchmarks.overflow.recording import recording
from trueline.overflows import Nature, OverflowKind

WORLD = 4
STEPS = 2


@dataclass(frozen=True)
class OnRanks:
    """``rank`` None means that no rank is to blame alone."""

    name: str
    api: str
    kinds: tuple[OverflowKind, ...]
    nature: Nature
    rank: int | None
    phase: str = "forward"
    step: int = 0
    dtype: torch.dtype = torch.float32
    clean: bool = False


CASES: tuple[OnRanks, ...] = (
    OnRanks("rank 2 takes a log of zero", "log", (OverflowKind.DIVISION_BY_ZERO,), Nature.EXPECTED, 2),
    OnRanks("rank 1 divides zero by zero", "div", (OverflowKind.ZERO_BY_ZERO,), Nature.EXPECTED, 1, step=1),
    OnRanks("rank 3 is fed NaN", "linear", (OverflowKind.INPUT,), Nature.INHERITED, 3),
    OnRanks("the sum of all ranks overflows", "all_reduce", (OverflowKind.ACCUMULATION,), Nature.EXPECTED, None,
            dtype=torch.float16),
    OnRanks("all is well", "", (), Nature.EXPECTED, None, clean=True),
)  # fmt: skip


def _site(name: str, rank: int, step: list[int]) -> Callable[[Tensor], Tensor]:
    def hidden(value: Tensor) -> Tensor:
        if name.startswith("rank 2") and rank == 2:
            return torch.relu(value).log() + value
        if name.startswith("rank 1") and rank == 1 and step[0] == 1:
            return (value * 0) / (value * 0) + value
        return value

    return hidden


def _worker(rank: int, name: str, folder: str, port: int, through: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), OMP_NUM_THREADS="1")  # fmt: skip
    torch.set_num_threads(1)
    case = next(one for one in CASES if one.name == name)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    step = [0]
    model = Mlp({"hidden": _site(name, rank, step)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    batches = [Mlp.batch(100 * rank + number) for number in range(STEPS)]
    if name.startswith("rank 3") and rank == 3:
        spoiled = batches[0].clone()
        spoiled[0, 0] = float("nan")
        batches[0] = torch.frombuffer(bytearray(spoiled.numpy().tobytes()), dtype=torch.float32).reshape(8, 16)
    with recording(Path(folder), through) as recorded:
        for number, batch in enumerate(batches):
            step[0] = number
            optimizer.zero_grad()
            loss = model(batch)
            if case.dtype is torch.float16:
                loss = loss * 1e4 + 3e4
            loss.backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                gradient = parameter.grad.to(case.dtype) if case.dtype is torch.float16 else parameter.grad
                if case.dtype is torch.float16:
                    gradient = gradient.clamp(-3e4, 3e4) + 2e4
                dist.all_reduce(gradient)
                parameter.grad.copy_(gradient / WORLD)
            optimizer.step()
            recorded.step()
    dist.destroy_process_group()


def train_on_ranks(case: OnRanks, run: Path, port: int, through: str = "capture") -> None:
    """Runs one case in four real processes; leaves one Run."""
    mp.spawn(_worker, (case.name, str(run), port, through), nprocs=WORLD, join=True)  # type: ignore[no-untyped-call]
