"""Changes what a Python function does, in place, and gives it back.

Some doors have no hook of the framework's own: in torch collectives, ``autograd.Function.apply``, compiled functions,
threads; in Paddle every function. Replacing the *name* would miss everybody who imported the function before; so the
function object keeps its identity and only its code is exchanged, for the time of the capture. Every caller sees the
change, and restoring the code leaves nothing behind.
"""

from __future__ import annotations

import types
import weakref
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

        self._enter = enter
        self._place = _Place()
        self._gate = _gate(self._code, self._place)

    @staticmethod
    def own_codes() -> list[types.CodeType]:
        """The code of ours that runs before a handler does."""
        return [code for code in Splice.__init__.__code__.co_consts if isinstance(code, types.CodeType)]

    def on(self) -> None:
        self._place.enter = self._enter
        self._function.__code__ = self._gate
        self._function.__defaults__ = None
        self._function.__kwdefaults__ = None

    def off(self) -> None:
        # Defaults first: another thread may call the function in between, and its own code is nothing without them.
        self._function.__defaults__, self._function.__kwdefaults__ = self._defaults
        self._function.__code__ = self._code
        self._place.enter = _given_back(self._function)


def _given_back(function: types.FunctionType) -> Callable[..., Any]:
    """What a gate does that is still entered when its function has its own code again, and holds nothing of it: a
    compiler keeps the code that it has met, and with it all that the handler leads to."""
    known = weakref.ref(function)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function: Any = known()
        return function(*args, **kwargs)

    return enter


def _gate(code: types.CodeType, place: _Place) -> types.CodeType:
    """Code that hands all arguments to what lies in ``place``, with as many free variables as the code it stands in
    for (Python insists on that number). The place travels as a constant, since the function's globals are not ours."""
    pattern = _pattern(len(code.co_freevars))
    constants = tuple(place if constant == _PLACE else constant for constant in pattern.co_consts)
    return pattern.replace(
        co_consts=constants,
        co_name=code.co_name,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


def is_gate(code: types.CodeType) -> bool:
    """Whether this is the code of a gate."""
    return any(type(constant) is _Place for constant in code.co_consts)


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
    enter: Callable[[tuple[Any, ...], dict[str, Any]], Any]
