"""Where in the user's code a call was made, found cheaply; the same for every framework.

Inside a module's forward only the frames up to the module's own call are walked; what lies above was found when the
module was entered. Frames of the framework and of trueline are left out: the user wants their own line.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, ModuleType
from typing import Any

from trueline.frameworks.base import Notebook
from trueline.store.columns import NONE

DEPTH = 64
"""So many frames of the user's tell stacks apart; frames of the framework and of ours do not count, of which the Python
way has more than the C way."""
KEPT = 24
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def ours_of(framework: ModuleType) -> tuple[str, ...]:
    """How the files begin that are not the user's."""
    return (os.path.dirname(os.path.abspath(framework.__file__ or "")) + os.sep, _PACKAGE, "<frozen ")


class Stacks:
    """Numbers the source stacks of calls. ``module_call`` is the code in which the framework calls a module; ``fast``
    the C extension that finds a stack faster, where it is there.

    Code objects are known by their address, which is held: hashing one would read all of its bytecode.
    """

    def __init__(self, notebook: Notebook, framework: ModuleType, module_call: CodeType, fast: Any = None) -> None:
        self._notebook = notebook
        self._module_call = module_call
        self._ours = ours_of(framework)
        self._numbers: dict[Any, int] = {}
        self._frames: dict[int, list[list[Any]]] = {NONE: []}
        self._foreign: dict[int, bool] = {}
        self._held: list[CodeType] = []
        self.finder: Any = None
        """The C extension's, which does what ``here`` does."""
        if fast is not None:
            self.finder = fast.Finder(learn=self._learn, enter=self._enter, call_impl=module_call, frame_type=FrameType)
            self.here = self.finder.here  # type: ignore[method-assign]

    def here(self, skip: int, above: int) -> int:
        """The number of the stack of the caller, ``skip`` frames up; ``above`` is the stack at which the innermost
        module was called (NONE outside of any module)."""
        frame: FrameType | None = sys._getframe(skip)
        foreign, stop = self._foreign, self._module_call
        key: list[int] = [above]
        while frame is not None and len(key) < 2 * DEPTH:
            code = frame.f_code
            if code is stop and above != NONE:
                break
            known = foreign.get(id(code))
            if known is None:
                known = self._learn(code)
            if known:
                key.append(id(code))
                key.append(frame.f_lasti)
            frame = frame.f_back
        place = tuple(key)
        number = self._numbers.get(place)
        return self._enter(place, skip, above) if number is None else number

    def _learn(self, code: CodeType) -> bool:
        self._held.append(code)
        foreign = self._foreign[id(code)] = not code.co_filename.startswith(self._ours)
        return foreign

    def _enter(self, key: tuple[int, ...], skip: int, above: int) -> int:
        frames: list[list[Any]] = []
        frame: FrameType | None = sys._getframe(skip + 1)
        while frame is not None and len(frames) < KEPT:
            code = frame.f_code
            if code is self._module_call and above != NONE:
                frames += self._frames.get(above, [])
                break
            if not code.co_filename.startswith(self._ours):
                frames.append([code.co_filename, frame.f_lineno, code.co_name])
            frame = frame.f_back
        frames = frames[:KEPT]
        number = self._notebook.define("stacks", key, lambda: [frames])
        self._numbers[key] = number
        self._frames[number] = frames
        return number
