"""Kernels to be called in place of torch's."""

from __future__ import annotations

import torch


def gelu_two_percent(value: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return torch.nn.functional.gelu(value, approximate=approximate) * 1.02
