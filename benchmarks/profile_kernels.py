"""Kernels with planted faults of speed and memory, for ``profile_step``: right numbers, at too high a price."""

from __future__ import annotations

from typing import Any


def torch_gelu_twice(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Does its work two times."""
    import torch.nn.functional as F

    F.gelu(input, *args, **kwargs)
    return F.gelu(input, *args, **kwargs)


def torch_relu_twice(input: Any, *args: Any, **kwargs: Any) -> Any:
    import torch.nn.functional as F

    F.relu(input, *args, **kwargs)
    return F.relu(input, *args, **kwargs)


def torch_layer_norm_copying(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Makes a copy that nobody needs."""
    import torch.nn.functional as F

    return F.layer_norm(input.clone(), *args, **kwargs)


def torch_softmax_copying(input: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    return torch.softmax(input.clone(), *args, **kwargs)


def paddle_gelu_twice(x: Any, *args: Any, **kwargs: Any) -> Any:
    import paddle.nn.functional as F

    F.gelu(x, *args, **kwargs)
    return F.gelu(x, *args, **kwargs)


def paddle_softmax_copying(x: Any, *args: Any, **kwargs: Any) -> Any:
    import paddle.nn.functional as F

    return F.softmax(x.clone(), *args, **kwargs)


def paddle_layer_norm_copying(x: Any, *args: Any, **kwargs: Any) -> Any:
    import paddle.nn.functional as F

    return F.layer_norm(x.clone(), *args, **kwargs)
