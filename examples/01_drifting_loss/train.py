"""Trains the model for a few steps and prints the loss. Nothing in here knows of trueline.

python train.py [--new-kernels] [--steps N]
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from model import LanguageModel

from kernels import install


def batch_of(step: int, size: int = 8, length: int = 64) -> torch.Tensor:
    """Text with a rule in it: each token is the last one plus a step that depends on the row."""
    generator = torch.Generator().manual_seed(step)
    first = torch.randint(256, (size, 1), generator=generator)
    stride = torch.randint(1, 8, (size, 1), generator=generator)
    return (first + stride * torch.arange(length + 1)) % 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--new-kernels", action="store_true")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if options.new_kernels:
        install()
    for step in range(options.steps):
        tokens = batch_of(step)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.7f}")


if __name__ == "__main__":
    main()
