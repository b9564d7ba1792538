"""Paddle's normalizations where torch's have other parameters. Names are Paddle's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import several, to_back, to_front


@composite
def batch_norm(
    x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.9, epsilon: float = 1e-5, data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Tensor:  # fmt: skip
    """Paddle's momentum is the share that stays, and its running variance is that of the batch as it is, where torch
    takes the unbiased estimate. Whoever uses the statistics of the batch updates the running ones."""
    front = to_front(x, data_format)
    use_batch = training if use_global_stats is None else not use_global_stats
    if not use_batch:
        return to_back(functional.batch_norm(front, running_mean, running_var, weight, bias, False, 0.0, epsilon),
                       data_format)  # fmt: skip
    dims = [0, *range(2, front.ndim)]
    with torch.no_grad():
        running_mean.mul_(momentum).add_(front.mean(dims), alpha=1 - momentum)
        running_var.mul_(momentum).add_(front.var(dims, unbiased=False), alpha=1 - momentum)
    return to_back(functional.batch_norm(front, None, None, weight, bias, True, 0.0, epsilon), data_format)


@composite
def instance_norm(
    x: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.9, eps: float = 1e-5,
    data_format: str = "NCHW",
) -> Tensor:  # fmt: skip
    """Paddle always takes the statistics of the input and knows channels first only."""
    return functional.instance_norm(x, None, None, weight, bias, True, 0.0, eps)


@composite
def group_norm(
    x: Tensor, num_groups: int, epsilon: float = 1e-5, weight: Tensor | None = None, bias: Tensor | None = None,
    data_format: str = "NCHW",
) -> Tensor:  # fmt: skip
    """A weight of ones stands in for none: torch's backward fails with a bias alone."""
    front = to_front(x, data_format)
    scale = torch.ones(front.shape[1], dtype=x.dtype, device=x.device) if weight is None else weight
    return to_back(functional.group_norm(front, num_groups, scale, bias, epsilon), data_format)


@composite
def layer_norm(
    x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Paddle keeps weight and bias flat."""
    shape = several(normalized_shape, 1)
    weight, bias = (None if one is None else one.reshape(shape) for one in (weight, bias))
    return functional.layer_norm(x, shape, weight, bias, epsilon)


@composite
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, data_format: str = "NCHW"
) -> Tensor:
    return to_back(functional.local_response_norm(to_front(x, data_format), size, alpha, beta, k), data_format)
