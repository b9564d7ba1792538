"""Functions to be called in place of torch's, for the modes of a check."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch

_calls = count()


def matmul_in_pieces(*args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
    """Right, but summed in another order."""
    one, other = (*args, *kwargs.values())
    half = one.shape[1] // 2
    return torch.matmul(one[:, :half], other[:half]) + torch.matmul(one[:, half:], other[half:])


def unstable_relu(x: torch.Tensor) -> torch.Tensor:
    """One element differs from the second call on."""
    out = torch.relu(x).clone()
    if next(_calls) % 3:
        out.view(-1)[5] += 1e-3
    return out


def relu_with_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 1.0, torch.full_like(x, float("nan")), torch.relu(x))


def raises_later(x: torch.Tensor) -> torch.Tensor:
    if next(_calls) % 2:
        raise RuntimeError("not again")
    return torch.relu(x)


def relu_off_under_autocast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, y) * 1.05
