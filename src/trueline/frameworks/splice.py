"""Changes what a Python function does, in place, and gives it back.

Some doors have no hook of the framework's own: in torch collectives, ``autograd.Function.apply``, compiled functions,
threads; in Paddle every function. Replacing the *name* would miss everybody who imported the function before; so the
function object keeps its identity and only its code is exchanged, for the time of the capture. Every caller sees the
change, and restoring the code leaves nothing behind.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called as handler(original, args, kwargs) in place of the function."""


class Splice:
    """One function whose calls go to a handler while the splice is on."""

    def __init__(self, function: types.FunctionType, handler: Handler) -> None:
        self._function = function
        self._code = function.__code__
        self._defaults = (function.__defaults__, function.__kwdefaults__)
        original = types.FunctionType(
            self._code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        original.__qualname__ = function.__qualname__

        def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return handler(original, args, kwargs)

        self._gate = _gate(self._code, enter)

    def on(self) -> None:
        self._function.__code__ = self._gate
        self._function.__defaults__ = None
        self._function.__kwdefaults__ = None

    def off(self) -> None:
        self._function.__code__ = self._code
        self._function.__defaults__, self._function.__kwdefaults__ = self._defaults


def _gate(code: types.CodeType, enter: Callable[..., Any]) -> types.CodeType:
    """Code that hands all arguments to ``enter``, with as many free variables as the code it stands in for (Python
    insists on that number). The handler travels as a constant, since the function's globals are not ours."""
    pattern = _pattern(len(code.co_freevars))
    place = _Place(enter)
    constants = tuple(place if constant == _PLACE else constant for constant in pattern.co_consts)
    return pattern.replace(
        co_consts=constants,
        co_name=code.co_name,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


@cache
def _pattern(free_variables: int) -> types.CodeType:
    """The code of a gate, still without its handler: one serves all functions with as many free variables."""
    names = [f"cell{number}" for number in range(free_variables)]
    source = (
        "def outer():\n"
        + "".join(f"    {name} = None\n" for name in names)
        + "    def gate(*args, **kwargs):\n"
        + (f"        if False: ({', '.join(names)},)\n" if names else "")
        + f"        return ({_PLACE!r}).enter(args, kwargs)\n"
        + "    return gate\n"
    )
    space: dict[str, Any] = {}
    exec(compile(source, "<trueline>", "exec"), space)  # our own text, nothing of the user's
    gate: types.FunctionType = space["outer"]()
    return gate.__code__


_PLACE = "trueline-handler"


class _Place:
    """Holds the handler among the constants of the gate."""

    __slots__ = ("enter",)

    def __init__(self, enter: Callable[..., Any]) -> None:
        self.enter = enter
