"""Paddle's random numbers, drawn by torch. Names are Paddle's; numbers agree in distribution only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite


def _sizes(shape: Any) -> list[int]:
    """The sizes of a shape, which Paddle takes as numbers, tensors, or one tensor."""
    if isinstance(shape, Tensor):
        return [int(size) for size in shape.reshape(-1).tolist()]
    return [int(size) for size in shape] if isinstance(shape, list | tuple) else [int(shape)]


@composite
def rand(shape: Any, dtype: Any = None) -> Tensor:
    return torch.rand(_sizes(shape), dtype=dtype)


@composite
def randn(shape: Any, dtype: Any = None) -> Tensor:
    return torch.randn(_sizes(shape), dtype=dtype)


@composite
def randint(low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None) -> Tensor:
    low, high = (0, low) if high is None else (low, high)
    return torch.randint(low, high, _sizes(shape), dtype=dtype or torch.int64)


@composite
def randint_like(x: Tensor, low: int = 0, high: int | None = None, dtype: Any = None) -> Tensor:
    low, high = (0, low) if high is None else (low, high)
    return torch.randint(low, high, x.shape).to(dtype or x.dtype)


@composite
def uniform(shape: Any, dtype: Any = None, min: float = 0.0, max: float = 1.0, seed: int = 0) -> Tensor:
    return torch.empty(_sizes(shape), dtype=dtype).uniform_(float(min), float(max))


@composite
def uniform_(x: Tensor, min: float = 0.0, max: float = 1.0, seed: int = 0) -> Tensor:
    return x.uniform_(float(min), float(max))


@composite
def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None) -> Tensor:
    """The shape is that of whichever of the two is a tensor."""
    known = next((one for one in (mean, std) if isinstance(one, Tensor)), None)
    base = torch.randn(_sizes(shape if shape is not None else (1,))) if known is None else torch.randn_like(known)
    return base * std + mean


@composite
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return x.normal_(float(mean), float(std))


@composite
def log_normal(mean: Any = 1.0, std: Any = 2.0, shape: Any = None) -> Tensor:
    return normal(mean, std, shape).exp()


@composite
def log_normal_(x: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    return x.log_normal_(float(mean), float(std))


@composite
def bernoulli(x: Tensor, p: float | None = None) -> Tensor:
    return torch.bernoulli(x if p is None else torch.full_like(x, p))


@composite
def bernoulli_(x: Tensor, p: Any = 0.5) -> Tensor:
    return x.bernoulli_(p)


@composite
def binomial(count: Tensor, prob: Tensor) -> Tensor:
    """The number of successes is an integer in Paddle."""
    return torch.binomial(count.to(prob.dtype), prob).to(torch.int64)


@composite
def standard_gamma(x: Tensor) -> Tensor:
    return torch.distributions.Gamma(x, torch.ones_like(x)).sample()


@composite
def exponential_(x: Tensor, lam: float = 1.0) -> Tensor:
    return x.exponential_(float(lam))


@composite
def cauchy_(x: Tensor, loc: float = 0, scale: float = 1) -> Tensor:
    return x.cauchy_(float(loc), float(scale))


@composite
def geometric_(x: Tensor, probs: Any) -> Tensor:
    return x.geometric_(float(probs))


@composite
def random_(x: Tensor, from_: int = 0, to: int | None = None) -> Tensor:
    """A single number is where the range ends; none is as far as the type can count."""
    if to is None and from_ == 0:
        return x.random_()
    return x.random_(0, from_) if to is None else x.random_(from_, to)


@composite
def class_center_sample(label: Tensor, num_classes: int, num_samples: int) -> tuple[Tensor, Tensor]:
    """The classes that occur, filled up with others at random, and the labels by their new numbers."""
    present = label.unique()
    if len(present) < num_samples:
        others = [one for one in torch.randperm(num_classes).tolist() if one not in set(present.tolist())]
        sample = torch.cat([present, torch.tensor(others[: num_samples - len(present)])]).sort().values
    else:
        sample = present
    return torch.searchsorted(sample, label), sample
