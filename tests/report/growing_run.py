"""A small float16 program whose second block grows step by step until a product overflows, for pages to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HOSTILE = "<img src=x onerror=document.title='taken'>"
STEPS = 10


def record(path: Path, *, data: str = "tensors", steps: int = STEPS) -> list[dict[str, float]]:
    """Captures it; gives for each step the norm of all gradients as torch says it, by the name of the module."""
    import torch

    import trueline

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(8, 8)
            self.gain = 1.0

        def forward(self, x: Any) -> Any:
            grown = self.up(x) * self.gain
            return x + grown * grown

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(), Block()])
            self.head = torch.nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    torch.manual_seed(0)
    net = Net().half()
    norms = []
    with trueline.capture(path, data=data) as capture:
        for step in range(steps):
            net.blocks[1].gain = 3.0**step / 20
            net.zero_grad()
            net(torch.randn(4, 8).half()).float().sum().backward()
            norms.append(
                {
                    name: float(torch.stack([p.grad.float().norm() for p in module.parameters(recurse=False)]).norm())
                    for name, module in net.named_modules()
                    if any(True for _ in module.parameters(recurse=False))
                }
            )
            capture.step()
    return norms
