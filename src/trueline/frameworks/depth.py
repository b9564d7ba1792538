"""Has frames of ours not count towards the recursion limit of the program.

Between a program and what it calls there are frames that are there for us: gates, handlers, functions that ask a mode.
Python counts them, so a deep program would reach ``RecursionError`` sooner than without us. Python keeps the count in
the state of each thread; while a call of the program's own runs below us, what is ours is given back there, and our own
work is given some room of its own, so that it can be done where the program has hardly any left. The limit itself
(``sys.setrecursionlimit``) stays the program's.

Where in the state of a thread the count lies is found by looking for the number that moves by one with each frame, and
tried out: Python itself says how deep it is when it is asked for a limit that is too low. Where nothing is found,
nothing is given, and the frames count. Until Python 3.11 calls of C functions are on the same count; 3.12 and 3.13 have
another one for what takes of C's stack, which the C extension treats likewise.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

ROOM = 200
"""Frames that our own work may need."""
C_CALL = 1 if sys.version_info < (3, 12) else 0
"""What the call of a C function counts for."""
_WORDS = 32
"""So many words of a thread's state are looked at; it has more in every version."""


@cache
def place() -> tuple[int, int]:
    """Where in the state of a thread frames are counted, in bytes, and 1 where the number is of those that are left, -1
    where it is of those that were entered; (0, 1) where that is not known."""
    try:
        found = [(word, sign) for word in range(_WORDS) for sign in (1, -1) if _moves_with_frames(word, sign)]
        if len(found) == 1 and _tells(found[0]):
            return 4 * found[0][0], found[0][1]
    except (AttributeError, OSError, TypeError, ValueError):
        pass
    return 0, 1


def _moves_with_frames(word: int, sign: int) -> bool:
    steps = (0, 1, 2, 5, 17)
    values = [_value_in(step, word) for step in steps]
    return [values[0] - value for value in values] == [sign * step for step in steps]


def _value_in(frames: int, word: int) -> int:
    return _value_in(frames - 1, word) if frames else int(_count(4 * word).value)


def _tells(found: tuple[int, int]) -> bool:
    """Whether Python says that it is less deep where frames were given back."""
    word, sign = found
    before = _depth_said()
    count = _count(4 * word)
    count.value += sign
    after = _depth_said()
    count.value -= sign
    return before - after == 1 and _depth_said() == before


def _depth_said() -> int:
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(1)
    except RecursionError as error:
        said = re.search(r"depth (\d+)", str(error))
        return int(said[1]) if said else -1
    sys.setrecursionlimit(limit)
    return -1


def _count(offset: int) -> ctypes.c_int:
    """The count of the running thread."""
    return ctypes.c_int.from_address(_state() + offset)


def _state() -> int:
    return int(_thread_state()())


@cache
def _thread_state() -> Any:
    python = ctypes.pythonapi
    function = ctypes.PyDLL(python._name, handle=python._handle).PyThreadState_Get  # one that nobody else has set up
    function.restype = ctypes.c_void_p
    return function


@cache
def _extension() -> Any:
    """The C extension, which does the same from no frame; None where there is none, or no lock that it relies on."""
    if os.environ.get("TRUELINE_NO_KERNELS", "0") not in ("", "0") or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    try:
        extension = import_module("trueline.frameworks._depth")
    except ImportError:
        return None
    extension.prepare(*place(), C_CALL, 0, 0, types.FunctionType)
    c_offset = _place_of_c()
    if c_offset:
        extension.prepare(*place(), C_CALL, c_offset, _into_python(extension, c_offset), types.FunctionType)
    return extension


def where() -> tuple[Any, ...]:
    """What the C extensions need to know; only where there are any."""
    c_offset = _place_of_c()
    into_python = _into_python(_extension(), c_offset) if c_offset else 0
    return *place(), C_CALL, c_offset, into_python, types.FunctionType


@cache
def _place_of_c() -> int:
    """Where calls that take of C's stack are counted, in bytes; 0 where they are not, or are on the one count. It lies
    two words behind the other; but what lies there must move with calls from C, and with no others."""
    offset = place()[0] + 8
    if C_CALL or not place()[0]:
        return 0
    steps = (0, 1, 2, 5)
    for _ in range(2):  # what is called for the first time may take more
        values = [_value_through_c(step, offset) for step in steps]
    units = values[0] - values[1]
    moves = units > 0 and [values[0] - value for value in values] == [units * step for step in steps]
    stays = _value_in(0, offset // 4) == _value_in(7, offset // 4)
    return offset if moves and stays else 0


def _value_through_c(calls: int, offset: int) -> int:
    """What is counted when so many calls have gone through C."""
    if not calls:
        return int(_count(offset).value)
    return next(map(_value_through_c, (calls - 1,), (offset,)))


@cache
def _into_python(extension: Any, offset: int) -> int:
    """What the call of a Python function from C takes."""
    before = _count(offset).value
    return int(before - extension.Called(lambda: _count(offset).value, extension.left())())


class _Called:
    """A function that is called as from where so many frames were left."""

    __slots__ = ("_function", "_left")

    def __init__(self, function: Callable[..., Any], left: int) -> None:
        self._function, self._left = function, left

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        offset, sign = place()
        if not offset:
            return self._function(*args, **kwargs)
        count = _count(offset)
        given = self._left - sign * count.value
        if abs(given) > 2 * ROOM:  # another stack than the one on which it was asked
            given = 0
        count.value += sign * given
        try:
            return self._function(*args, **kwargs)
        finally:
            count.value -= sign * given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def _left() -> int:
    offset, sign = place()
    return sign * _count(offset).value + 1 if offset else 0  # without the frame of this function


def _door(handler: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        offset, sign = place()
        if not offset:
            return handler(original, args, kwargs)
        count = _count(offset)
        called = _Called(original, sign * count.value + 2)  # without this frame and the gate's
        count.value += sign * ROOM
        try:
            return handler(called, args, kwargs)
        finally:
            count.value -= sign * ROOM

    return enter


def _asked(handler: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*args: Any, **kwargs: Any) -> Any:
        offset, sign = place()
        if not offset:
            return handler(0, *args, **kwargs)
        count = _count(offset)
        before = sign * count.value + 1  # without this frame
        count.value += sign * ROOM
        try:
            return handler(before, *args, **kwargs)
        finally:
            count.value -= sign * ROOM

    ask.__self__ = getattr(handler, "__self__", None)  # type: ignore[attr-defined]  # whose method it is
    return ask


class Roomy:
    """Gives our own work room."""

    __slots__ = ("_count",)

    def __enter__(self) -> None:
        offset, sign = place()
        self._count = _count(offset) if offset else ctypes.c_int(0)
        self._count.value += sign * ROOM

    def __exit__(self, *exception: object) -> None:
        self._count.value -= place()[1] * ROOM


def own_codes() -> list[types.CodeType]:
    """The code of ours that runs between a gate and its handler."""
    nested = (code for code in _door.__code__.co_consts if isinstance(code, types.CodeType))
    return [*nested, _Called.__call__.__code__]


_fast = _extension()

Called: Callable[[Callable[..., Any], int], Any] = _fast.Called if _fast else _Called
"""A function that is called as from where so many frames were left."""

left: Callable[[], int] = _fast.left if _fast else _left
"""How many frames the caller may still enter, counted from somewhere."""

door: Callable[[Callable[..., Any], Callable[..., Any]], Callable[..., Any]] = _fast.Door if _fast else _door
"""What the gate of a splice calls: gives a handler room, and the function that was there, as :data:`Called`."""

asked: Callable[[Callable[..., Any]], Callable[..., Any]] = _fast.Asked if _fast else _asked
"""Stands in for a method that is called from C: gives its handler room, and how many frames were left as its first
argument."""

FRAMES_TO_A_GATE = 0 if _fast else 1
"""Frames of ours between a gate and its handler."""
