"""Has a warning say the line that it would say without us.

``warnings.warn`` finds the line that a warning is about by counting frames (``stacklevel``). While a capture runs there
are more of them: ours, those of a gate, and wherever a function of torch's that is written in Python asked our mode,
``handle_torch_function`` and the same function once more. So ``warn`` is covered, and counts without them.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from trueline.frameworks.splice import is_gate
from trueline.frameworks.switch import Laid

_OURS = str(Path(__file__).parents[2])
_ASKING = (torch.overrides.handle_torch_function.__code__.co_filename, "handle_torch_function")
"""Where a function of torch's asks a mode, also while a gate stands there."""


class WarningsInPlace:
    """Covers ``warnings.warn`` while it is on; once for all observers that are."""

    _observers: list[WarningsInPlace] = []
    _cover: Laid | None = None

    def on(self) -> None:
        if not self._observers:
            WarningsInPlace._cover = Laid(warnings, "warn", _cover_of(warnings.warn))
            self._cover.on()  # type: ignore[union-attr]
        if self not in self._observers:
            self._observers.append(self)

    def off(self) -> None:
        if self in self._observers:
            self._observers.remove(self)
        if not self._observers and self._cover is not None:
            self._cover.off()
            WarningsInPlace._cover = None


def _cover_of(own: Any) -> Any:
    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
        level = stacklevel + 1  # this frame
        if stacklevel > 1:
            level += frames_of_ours(sys._getframe(1), stacklevel)
        own(message, category, level, source, **more)

    warn.__doc__ = own.__doc__
    return warn


def frames_of_ours(frame: FrameType, level: int) -> int:
    """How many frames above this one would not be there without us, before that which is the ``level``-th then."""
    found = 0
    for _ in range(level - 1):
        hidden, above = _skipped(frame)
        found += hidden
        if above is None:
            break
        frame = above
    return found


def _skipped(frame: FrameType) -> tuple[int, FrameType | None]:
    """The frame above this one that would be there without us, and how many lie in between."""
    hidden, above = 0, frame.f_back
    while above is not None:
        if _name(above.f_code) == _ASKING and above.f_back is not None and _is_same(above.f_back, frame):
            hidden, above = hidden + 2, above.f_back.f_back  # the question, and the function that asked it
        elif above.f_code.co_filename.startswith(_OURS) or is_gate(above.f_code):
            hidden, above = hidden + 1, above.f_back
        else:
            break
    return hidden, above


def _name(code: CodeType) -> tuple[str, str]:
    return code.co_filename, code.co_name


def _is_same(one: FrameType, other: FrameType) -> bool:
    """Whether two frames are of one function; what was written in a mode of the program's lies between others."""
    return (*_name(one.f_code), one.f_code.co_firstlineno) == (*_name(other.f_code), other.f_code.co_firstlineno)
