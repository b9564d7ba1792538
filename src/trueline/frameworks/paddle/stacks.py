"""Where in the user's code a call was made, found cheaply.

Inside a Layer's forward only the frames up to the call of the Layer are walked; what lies above was found when it was
entered. Frames of Paddle and of trueline are left out: the user wants their own line.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

import paddle

from trueline.frameworks.base import Notebook
from trueline.store.columns import NONE

DEPTH = 64
KEPT = 24
OURS = (
    os.path.dirname(os.path.abspath(paddle.__file__)) + os.sep,
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,
)


class Stacks:
    """Numbers the source stacks of calls.

    Code objects are known by their address, which is held: hashing one would read all of its bytecode.
    """

    def __init__(self, notebook: Notebook, layer_call: CodeType) -> None:
        self._notebook = notebook
        self._layer_call = layer_call
        self._numbers: dict[Any, int] = {}
        self._frames: dict[int, list[list[Any]]] = {NONE: []}
        self._foreign: dict[int, bool] = {}
        self._held: list[CodeType] = []

    def here(self, above: int) -> int:
        """The number of the stack of the caller; ``above`` is the stack at which the innermost Layer was called (NONE
        outside of any Layer)."""
        frame: FrameType | None = sys._getframe(2)
        foreign, stop = self._foreign, self._layer_call
        key: list[int] = [above]
        depth = 0
        while frame is not None and depth < DEPTH:
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
            depth += 1
        place = tuple(key)
        number = self._numbers.get(place)
        return self._enter(place, above) if number is None else number

    def _learn(self, code: CodeType) -> bool:
        self._held.append(code)
        foreign = self._foreign[id(code)] = not code.co_filename.startswith((*OURS, "<frozen "))
        return foreign

    def _enter(self, key: tuple[int, ...], above: int) -> int:
        frames: list[list[Any]] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and len(frames) < KEPT:
            code = frame.f_code
            if code is self._layer_call and above != NONE:
                frames += self._frames.get(above, [])
                break
            if not code.co_filename.startswith((*OURS, "<frozen ")):
                frames.append([code.co_filename, frame.f_lineno, code.co_name])
            frame = frame.f_back
        frames = frames[:KEPT]
        number = self._notebook.define("stacks", key, lambda: [frames])
        self._numbers[key] = number
        self._frames[number] = frames
        return number
