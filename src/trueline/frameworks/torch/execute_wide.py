"""Golds for what is float64 itself: the same execution with tensors that compute in longdouble inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from trueline.frameworks.base import ArrayIn
from trueline.frameworks.torch.arrays import enter
from trueline.frameworks.torch.rebuild import CPU


def widen_leaf(array: ArrayIn, strides: tuple[int, ...] | None) -> torch.Tensor:
    """A tensor that holds more digits than float64; exact types stay what they are."""
    from trueline.frameworks.torch.wide import Wide, widen

    if array.bits.dtype in (np.longdouble, np.clongdouble):
        return Wide(np.array(array.bits, order="C"))
    made = enter(array, strides, CPU, wide=True)
    return widen(made) if made.is_floating_point() or made.is_complex() else made


@contextmanager
def wide_arithmetic(*, apart: bool = False) -> Iterator[None]:
    """Inside, float64 tensors that are made from nothing compute with more digits too; ``apart`` where another
    implementation is all that is asked for, and digits beyond those of float64 are not."""
    from trueline.frameworks.torch.wide import WideMode, vouching
    from trueline.frameworks.torch.wide.whole import WholeFunctions

    with vouching() if apart else nullcontext(), WideMode(), WholeFunctions():
        yield


def no_wide_gold() -> type[Exception]:
    """What is raised where an operator has no wide form."""
    from trueline.frameworks.torch.wide import NoWideGold

    return NoWideGold
