"""The backward of an executed Case: gradients arrive at its outputs, gradients of its inputs leave."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from trueline.cases import Case
from trueline.frameworks.base import ArrayIn, ArrayOut, Inputs
from trueline.frameworks.torch.arrays import bits_of, cast, enter, leave
from trueline.frameworks.torch.rebuild import Unreplayable, dtype_name

NOT_CONNECTED = "no gradient: autograd finds no way back from the result to this input"


@dataclass(slots=True)
class Backward:
    """What a backward gave: gradients by the path of the input, and the gradients that were fed."""

    gradients: dict[str, ArrayOut] = field(default_factory=dict)
    arrived: dict[str, ArrayIn] = field(default_factory=dict)


def ends_of(case: Case, results: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The outputs at which gradients arrive: those that the Case names, or all that can have one; each tensor once."""
    named = [spec.path for spec in case.gradients] or list(results)
    ends: dict[str, torch.Tensor] = {}
    for path in named:
        value = results.get(path)
        if isinstance(value, torch.Tensor) and all(value is not other for other in ends.values()):
            ends[path] = value
    return ends


def arriving(case: Case, inputs: Inputs, results: Mapping[str, Any]) -> dict[str, tuple[torch.Tensor, ArrayIn]]:
    """The outputs at which gradients arrive, with what arrives there."""
    found = {}
    for path, value in ends_of(case, results).items():
        array = _arriving(inputs, path, value) if value.requires_grad else None
        if array is not None:
            found[path] = (value, array)
    return found


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
        done.arrived[path] = array if wide else ArrayIn(bits_of(gradient), dtype_name(gradient.dtype))
    wanted = {path: leaf for path, leaf in leaves.items() if leaf.requires_grad}
    if not wanted:
        return done
    found: tuple[torch.Tensor | None, ...] = (None,) * len(wanted)
    if ends:
        outputs = [value for value, _ in ends.values()]
        with digits:
            found = torch.autograd.grad(outputs, list(wanted.values()), fed, allow_unused=True)
    for (path, leaf), gradient in zip(wanted.items(), found, strict=True):
        done.gradients[path] = _missing(leaf) if gradient is None else leave(gradient)
    return done


def _arriving(inputs: Inputs, path: str, value: torch.Tensor) -> ArrayIn | None:
    """What arrives at an output: the gradient that is given for it, where it fits, else one that is drawn."""
    given, shape = inputs.gradients.get(path), tuple(value.shape)
    if given is not None and given.bits.shape == shape:
        return given
    if inputs.draw is not None:
        return inputs.draw(path, shape, dtype_name(value.dtype))
    if given is not None:
        raise Unreplayable(f"the gradient of {path} has shape {given.bits.shape}, the output has {shape}")
    return None


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
