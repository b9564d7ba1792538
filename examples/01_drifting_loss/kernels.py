"""The "new kernels" that somebody delivered. One of them is wrong.

They stand for what a new device or a new library brings: the program calls torch as always and gets their results.
Their gelu uses the tanh formula where the program asked for erf, and only on a path that is taken now and then: here,
in the third call of a step. Nothing fails; the loss is a little off.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

_library = torch.library.Library("aten", "IMPL")
_calls = 0


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """The new gelu: right three times out of four."""
    global _calls
    _calls += 1
    if _calls % 4 == 3:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def install() -> None:
    """Switches the new kernels on for the rest of the program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that we replace a kernel: that is what we came for
        _library.impl("gelu", gelu, "CPU")
