"""The backward of an executed Case: gradients arrive at its outputs, gradients of its inputs leave."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch

from trueline.cases import Case
from trueline.frameworks.base import ArrayIn, ArrayOut
from trueline.frameworks.execution import NOT_CONNECTED, Backward
from trueline.frameworks.torch.arrays import bits_of, cast, enter, leave
from trueline.frameworks.torch.rebuild import dtype_name


def go_back(
    case: Case,
    leaves: Mapping[str, torch.Tensor],
    ends: Mapping[str, tuple[torch.Tensor, ArrayIn]],
    *,
    wide: bool,
    digits: AbstractContextManager[None],
) -> Backward:
    """Runs the backward of what was executed. ``leaves`` are the inputs of the Case as leaves of autograd, ``ends`` its
    outputs with what arrives at them. ``wide`` is for a gold: what arrives is widened, not rounded. Autograd runs in
    ``digits``."""
    done = Backward()
    strides = {spec.path: spec.strides for spec in case.gradients}
    fed: list[torch.Tensor] = []
    for path, (value, array) in ends.items():
        gradient = _as_gradient(array, strides.get(path), value, wide)
        fed.append(gradient)
        name = dtype_name(gradient.dtype)
        done.arrived[path] = array if wide or name == array.dtype else ArrayIn(bits_of(gradient), name)
    wanted = {path: leaf for path, leaf in leaves.items() if leaf.requires_grad}
    if not wanted:
        return done
    found: tuple[torch.Tensor | None, ...] = (None,) * len(wanted)
    if ends:
        outputs = [value for value, _ in ends.values()]
        with digits:
            found = torch.autograd.grad(outputs, list(wanted.values()), fed, allow_unused=True)
    for (path, leaf), gradient in zip(wanted.items(), found, strict=True):
        done.gradients[path] = _missing(leaf) if gradient is None else leave(gradient, shared=True)
    return done


def _as_gradient(
    array: ArrayIn, strides: tuple[int, ...] | None, value: torch.Tensor, wide: bool
) -> torch.Tensor:
    if hasattr(value, "array"):  # a wide gold
        from trueline.frameworks.torch.execute_wide import widen_leaf

        return widen_leaf(array, strides)
    gradient = enter(array, strides, value.device, wide=wide)
    return gradient if gradient.dtype is value.dtype else cast(gradient, value.dtype)


def _missing(leaf: torch.Tensor) -> ArrayOut:
    return ArrayOut(None, dtype_name(leaf.dtype), tuple(leaf.shape), (), leaf.device.type, NOT_CONNECTED)
