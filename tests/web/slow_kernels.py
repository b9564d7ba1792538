"""Kernels that take their time, so that a campaign can be watched; one of them is wrong."""

from __future__ import annotations

import time

import torch
from torch.nn import functional as F

SECONDS = 0.12


def relu_slow(value: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    time.sleep(SECONDS)
    return F.relu(value, inplace=inplace)


def gelu_slow_and_wrong(value: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    time.sleep(SECONDS)
    return F.gelu(value, approximate=approximate) * 1.002
