"""What of a Layer can be named: see ``frameworks.named``."""

from __future__ import annotations

from typing import Any

import paddle

from trueline.frameworks.named import Naming, Tensors

_PARALLEL = frozenset({"DataParallel", "MetaParallelBase"})
_SHARDED = frozenset({"GroupShardedStage2", "GroupShardedStage3"})
_RUNNING = ("_mean", "_variance")
_is_dense = paddle.Tensor.is_dense
_is_dist = paddle.Tensor.is_dist
_has_memory = paddle.Tensor._is_initialized


def is_readable(tensor: Any) -> bool:
    """Whether it has content; what is no dense tensor is said to have it, for the desk says why it is not read."""
    if not isinstance(tensor, paddle.Tensor):
        return False
    return not _is_dense(tensor) or _is_dist(tensor) or _has_memory(tensor) or 0 in tensor.shape


def _wrapped(layer: Any) -> str:
    for name, kinds in (("_layers", _PARALLEL), ("_layer", _SHARDED)):
        if name in layer._sub_layers and any(kind.__name__ in kinds for kind in type(layer).__mro__):
            return name
    return ""


def _own(layer: Any) -> tuple[Tensors, Tensors]:
    """Running statistics are parameters to Paddle, and buffers to everybody else."""
    parameters, buffers = layer._parameters, layer._buffers
    running = {name: parameters[name] for name in _RUNNING if name in parameters and parameters[name] is not None}
    if not running or not all(value.stop_gradient for value in running.values()):
        return parameters, buffers
    return {name: value for name, value in parameters.items() if name not in running}, {**running, **buffers}


NAMING = Naming(_own, "_sub_layers", is_readable, lambda value: True, _wrapped)
"""What is not readable was made under LazyGuard, and has no memory yet."""
