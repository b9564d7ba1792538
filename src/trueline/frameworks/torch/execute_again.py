"""A call made again: in the same memory with other values, and with its own values in other memory.

A kernel that keeps something from one call to the next (an output buffer, a result by the address of its argument, a
mask by its shape) is right each time it is asked alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.base import Again, ArrayIn, ArrayOut
from trueline.frameworks.torch import arrays
from trueline.frameworks.torch.rebuild import tensor_of
from trueline.frameworks.values import packed

if TYPE_CHECKING:
    from trueline.frameworks.torch.execute import TorchExecution

Arrays = Mapping[str, ArrayOut]


def called_again(execution: TorchExecution, other: Mapping[str, ArrayIn]) -> Again | None:
    """The call of an execution, made three times; None where other values cannot be written where the first lie."""
    with warnings.catch_warnings(), execution.arithmetic():
        warnings.simplefilter("ignore")
        args, kwargs = execution.arguments()
        if any(_overlaps(value) for value in execution.given.values()):
            return None
        found = dict(execution.results_of(packed(execution.function(*args, **kwargs))))
        own = {path for path, value in found.items() if not execution.shared(value)}
        first = _read(found)
        _write(execution.given, other)
        try:
            second = _read(dict(execution.results_of(packed(execution.function(*args, **kwargs)))))
            kept = _read({path: value for path, value in found.items() if path in own})
            args, kwargs = execution.arguments()
            third = _read(dict(execution.results_of(packed(execution.function(*args, **kwargs)))))
        except Exception as error:  # whatever a kernel raises the second time
            return Again(first, raised=f"{type(error).__name__}: {error}".partition("\n")[0])
    return Again(first, kept, second, third)


def _overlaps(value: torch.Tensor) -> bool:
    return value.layout is not torch.strided or torch._debug_has_internal_overlap(value) == 1


def _write(given: Mapping[str, torch.Tensor], other: Mapping[str, ArrayIn]) -> None:
    """In place, as an optimizer or a loader of batches would: versions are counted."""
    with torch.no_grad():
        for path, value in given.items():
            value.copy_(tensor_of(other[path].bits, other[path].dtype))


def _read(results: Mapping[str, Any]) -> dict[str, ArrayOut]:
    """Bits of their own: what is written to later does not show in them."""
    found = {path: arrays.leave(value) for path, value in results.items()}
    return {path: replace(one, bits=None if one.bits is None else one.bits.copy()) for path, one in found.items()}
