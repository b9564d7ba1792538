"""Changes what a Python function does, in place, and gives it back.

Some doors have no hook of the framework's own: in torch collectives, ``autograd.Function.apply``, compiled functions,
threads; in Paddle every function. Replacing the *name* would miss everybody who imported the function before; so the
function object keeps its identity and only its code is exchanged, for the time of the capture. Every caller sees the
change, and restoring the code leaves nothing behind.
"""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from trueline.frameworks import depth

FRAMES = 1 + depth.FRAMES_TO_A_GATE
"""Frames between a handler and the caller of the function that it stands in for."""

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called as handler(original, args, kwargs) in place of the function."""


class Splice:
    """One function whose calls go to a handler while the splice is on. Of several that are on, the youngest is asked
    first, whose original leads to the one below it; they may be taken off in any order."""

    def __init__(self, function: types.FunctionType, handler: Handler) -> None:
        self._function = function
        self._layers = layers = _layers_of(function)
        self._original = original = types.FunctionType(
            layers.code, function.__globals__, function.__name__, None, function.__closure__
        )
        original.__qualname__ = function.__qualname__
        self.stands_over(layers.code, layers.defaults)

        self._enter = depth.door(handler, original)
        self._place = _Place()
        self._place.enter = _given_back(function, layers.code)
        self.gate = _gate(layers.code, self._place)

    @staticmethod
    def own_codes() -> list[types.CodeType]:
        """The code of ours that runs before a handler does."""
        return depth.own_codes()

    def on(self) -> None:
        with _lock:
            self._place.enter = self._enter
            self._layers.add(self, self._function)

    def off(self) -> None:
        with _lock:
            self._layers.remove(self, self._function)
            self._place.enter = _given_back(self._function, self._layers.code)

    def stands_over(self, code: types.CodeType, defaults: _Defaults) -> None:
        """Has the original of this splice do what lies below it."""
        self._original.__defaults__, self._original.__kwdefaults__ = defaults
        self._original.__code__ = code


_Defaults = tuple[Any, Any]
_NONE: _Defaults = (None, None)


class _Layers:
    """What a function does by itself, and the splices that are on, the oldest first."""

    def __init__(self, function: types.FunctionType) -> None:
        self._on: list[Splice] = []
        self.read(function)

    def read(self, function: types.FunctionType) -> None:
        """Takes in what the function is now: the program may have exchanged its code itself. A gate that stands there
        although no splice is on is one that the program has kept, and put back."""
        if not self._on and not is_gate(function.__code__):
            self.code: types.CodeType = function.__code__
            self.defaults: _Defaults = (function.__defaults__, function.__kwdefaults__)

    def add(self, splice: Splice, function: types.FunctionType) -> None:
        self.read(function)
        if splice not in self._on:
            self._on.append(splice)
        self._settle(function)

    def remove(self, splice: Splice, function: types.FunctionType) -> None:
        if splice in self._on:
            self._on.remove(splice)
        self._settle(function)

    def _settle(self, function: types.FunctionType) -> None:
        """Gives everybody what lies below, and the function the youngest gate. What the program has put there stays."""
        code, defaults = self.code, self.defaults
        for splice in self._on:
            splice.stands_over(code, defaults)
            code, defaults = splice.gate, _NONE
        now = function.__code__
        if now is not self.code and not is_gate(now):
            return
        if not self._on:
            # Defaults first: another thread may call the function in between, and its own code is nothing without them.
            function.__defaults__, function.__kwdefaults__ = defaults
            function.__code__ = code
        else:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults


_lock = threading.RLock()
_known: weakref.WeakKeyDictionary[types.FunctionType, _Layers] = weakref.WeakKeyDictionary()


def _layers_of(function: types.FunctionType) -> _Layers:
    with _lock:
        layers = _known.get(function)
        if layers is None:
            layers = _known[function] = _Layers(function)
        layers.read(function)
        return layers


def _given_back(function: types.FunctionType, code: types.CodeType) -> Callable[..., Any]:
    """What a gate does that is still entered when its function has its own code again, and holds nothing of it: a
    compiler keeps the code that it has met, and with it all that the handler leads to."""
    known = weakref.ref(function)

    def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function: Any = known()
        if is_gate(function.__code__) and _place_of(function.__code__).enter is enter:  # the program has put it back
            own = types.FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
            own.__defaults__, own.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
            return own(*args, **kwargs)
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


def _place_of(gate: types.CodeType) -> _Place:
    return next(constant for constant in gate.co_consts if type(constant) is _Place)


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
