"""Lets properties of tensors that only tell something about one be read without asking our function mode.

torch asks the mode about every reading of ``shape``, ``grad`` or ``device``; each question takes longer than many a
kernel, and an optimizer reads hundreds in a step. None of them is a call worth recording. So while a capture runs, a
property of the C extension lies over each of torch's own in ``torch.Tensor``, and turns the modes off for the time of
the reading. It does so only where our mode is the one mode that is on and the tensor is a plain one: every other mode
and every subclass is asked as ever. Taking it away leaves torch's own properties, which were not touched.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from trueline.frameworks.torch.names import VALUES


@cache
def _properties() -> dict[str, Any]:
    """torch's own properties of tensors, but those that compute one and those that somebody else has laid over."""
    own = vars(torch._C.TensorBase).items()
    found = {name: value for name, value in own if type(value) is types.GetSetDescriptorType}
    return {name: value for name, value in found.items() if name not in VALUES and name not in vars(torch.Tensor)}


def quiet_properties(calls: Any, mode: Any) -> Callable[[], None]:
    """Lays ours over torch's; gives what takes them away. Does nothing where the extension cannot ask for the mode."""
    if calls is None or calls.ask_doors() is None:
        return lambda: None
    names = [name for name in _properties() if name not in vars(torch.Tensor)]
    ours = {name: calls.Quiet(_properties()[name], mode) for name in names}
    for name, value in ours.items():
        setattr(torch.Tensor, name, value)

    def take_away() -> None:
        for name, value in ours.items():
            if vars(torch.Tensor).get(name) is value:  # else the program has laid its own over it
                delattr(torch.Tensor, name)

    return take_away
