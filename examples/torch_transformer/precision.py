"""The three ways to train: float32 (O0), autocast around float32 weights (O1), and a network in low precision whose
optimizer keeps float32 copies of the weights (O2)."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import nn

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Training:
    """Takes steps with one network; ``device`` is where it is."""

    def __init__(self, network: nn.Module, level: str, dtype: str, rate: float, steps: int):
        self.network, self.level, self.dtype = network, level, DTYPES[dtype]
        self.device = next(network.parameters()).device.type
        self.masters: list[tuple[nn.Parameter, nn.Parameter]] = []
        if level == "O2":
            self.masters = [(one, nn.Parameter(one.detach().clone())) for one in network.parameters()]
            network.to(self.dtype)
        updated = [master for _, master in self.masters] or list(network.parameters())
        self.optimizer = torch.optim.SGD(updated, rate, momentum=0.9)
        self.scaler = torch.amp.GradScaler(self.device, enabled=level != "O0", init_scale=1024.0)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, max(steps, 1))

    def autocast(self) -> AbstractContextManager[None]:
        return torch.autocast(self.device, dtype=self.dtype, enabled=self.level == "O1")

    def step(self, recordings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """One step; gives the loss."""
        with self.autocast():
            scores = self.network(recordings.to(self.dtype) if self.level == "O2" else recordings)
        loss = nn.functional.cross_entropy(scores.float(), labels)
        self.network.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        for own, master in self.masters:
            master.grad = None if own.grad is None else own.grad.float()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with torch.no_grad():
            for own, master in self.masters:
                own.copy_(master)
        self.schedule.step()
        return loss.detach()

    def finish(self) -> nn.Module:
        """The network in float32 again, with all digits of its weights."""
        self.network.float()
        with torch.no_grad():
            for own, master in self.masters:
                own.copy_(master)
        return self.network
