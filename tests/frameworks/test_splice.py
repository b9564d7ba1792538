"""Exchanging the code of a function, and giving it back whole."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref
from typing import Any

from trueline.frameworks.splice import Splice, is_gate


def scaled(value: int, factor: int = 3, *, shift: int = 1) -> int:
    return value * factor + shift


def through(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return ("seen", original(*args, **kwargs))


def test_calls_go_to_the_handler_while_it_is_on() -> None:
    splice = Splice(scaled, through)
    splice.on()
    assert scaled(2) == ("seen", 7) and scaled(2, shift=5) == ("seen", 11)
    splice.off()
    assert scaled(2) == 7
    assert scaled.__defaults__ == (3,) and scaled.__kwdefaults__ == {"shift": 1}


class Noted:
    """A function as a splice sees it: writes down what is given to it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.__dict__.update(order=[], __code__=function.__code__)

    def __setattr__(self, name: str, value: Any) -> None:
        self.order.append(name)


def test_defaults_are_back_before_the_code_is() -> None:
    """Whoever calls in between runs either the gate or the whole function, never its code without defaults."""
    splice = Splice(scaled, through)
    noted: Any = Noted(scaled)
    splice._function = noted
    splice.off()
    assert noted.order[-1] == "__code__" and set(noted.order) == {"__defaults__", "__kwdefaults__", "__code__"}


def named(name: str) -> Any:
    return lambda original, args, kwargs: (name, original(*args, **kwargs))


def test_two_splices_may_be_taken_off_in_any_order() -> None:
    code, first, second = scaled.__code__, Splice(scaled, named("first")), None
    first.on()
    second = Splice(scaled, named("second"))
    second.on()
    assert scaled(2) == ("second", ("first", 7))
    first.off()
    assert scaled(2) == ("second", 7)
    first.on()
    assert scaled(2) == ("first", ("second", 7))
    second.off()
    first.off()
    assert scaled(2) == 7 and scaled.__code__ is code and scaled.__defaults__ == (3,)


def test_code_that_the_program_exchanged_meanwhile_is_the_programs() -> None:
    def doubled(value: int) -> int:
        return value * 2

    def tripled(value: int) -> int:
        return value * 3

    splice, code = Splice(doubled, through), doubled.__code__
    splice.on()
    doubled.__code__ = tripled.__code__
    splice.off()
    assert doubled(2) == 6
    splice.on()
    assert doubled(2) == ("seen", 6)
    splice.off()
    doubled.__code__ = code
    assert doubled(2) == 4


def test_a_gate_that_the_program_puts_back_leads_to_the_function() -> None:
    def doubled(value: int = 4) -> int:
        return value * 2

    splice = Splice(doubled, through)
    splice.on()
    kept = doubled.__code__
    splice.off()
    doubled.__code__ = kept
    assert doubled() == 8 and doubled(3) == 6


def test_a_thread_that_calls_all_the_while_never_fails() -> None:
    splice, over, failures = Splice(scaled, through), threading.Event(), []

    def call() -> None:
        while not over.is_set():
            try:
                scaled(2)
            except TypeError as error:
                failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(2000):
            splice.on()
            splice.off()
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)
    assert failures == []


def test_whoever_keeps_the_gate_holds_nothing_of_the_handler() -> None:
    """A compiler keeps the code that it has met."""

    class Owner:
        def handle(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return through(original, args, kwargs)

    owner = Owner()
    known, splice = weakref.ref(owner), Splice(scaled, owner.handle)
    splice.on()
    kept = types.FunctionType(scaled.__code__, {})
    assert kept(2) == ("seen", 7)
    splice.off()
    del owner, splice
    gc.collect()
    assert known() is None and kept(2) == 7


def test_a_gate_is_known() -> None:
    splice = Splice(scaled, through)
    assert not is_gate(scaled.__code__)
    splice.on()
    assert is_gate(scaled.__code__)
    splice.off()
    assert not is_gate(scaled.__code__)
