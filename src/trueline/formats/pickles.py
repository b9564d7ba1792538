"""Reads data in Python's serialised form without executing anything.

Python's own reader imports and calls whatever the bytes name. This one is a small machine of its own: it knows the
opcodes that build plain values, imports nothing, and calls only functions that its caller listed under the name they
have in the file. Any other opcode or name ends the reading. Every opcode makes at most as much as its own bytes say,
so the result is bounded by the size of the file.

    load(data, names, persistent, path) -> (value, number of bytes read)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from trueline.formats.limits import ForeignFileError, refuse

MOST_OPCODES = 20_000_000


class Builder:
    """Something in ``names`` that the file may call; nothing else is ever called."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


class Stateful:
    """What a Builder makes, where the file says its content afterwards."""

    def set_state(self, state: Any) -> None:
        raise NotImplementedError


class _Mark:
    pass


_MARK = _Mark()
_STOP = b"."[0]


def load(
    data: bytes | memoryview,
    names: Mapping[str, Any],
    persistent: Callable[[Any], Any] | None = None,
    path: object = "the data",
) -> tuple[Any, int]:
    """The first value in ``data``. ``names`` says what ``module.name`` stands for; ``persistent`` is given what the
    file keeps elsewhere (the storages of tensors)."""
    machine = _Machine(memoryview(data), names, persistent, path)
    try:
        return machine.run(), machine.at
    except ForeignFileError:
        raise
    except (IndexError, struct.error):
        refuse(path, "it ends in the middle of a value")
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        refuse(path, f"its values do not fit together ({type(error).__name__}: {str(error)[:80]})")


class _Machine:
    """A stack, a memo, and the opcodes."""

    def __init__(
        self, data: memoryview, names: Mapping[str, Any], persistent: Callable[[Any], Any] | None, path: object
    ) -> None:
        self.data = data
        self.at = 0
        self.names = names
        self.persistent = persistent
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        for _ in range(MOST_OPCODES):
            code = self.data[self.at]
            self.at += 1
            if code == _STOP:
                return self.pop()
            operation = _OPERATIONS.get(code)
            if operation is None:
                refuse(self.path, f"byte {self.at - 1} is opcode {bytes([code])!r}, which plain data does not need")
            operation(self)
        refuse(self.path, f"it has more than {MOST_OPCODES:,} operations")

    def take(self, count: int) -> memoryview:
        if count < 0 or self.at + count > len(self.data):
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str, size: int) -> int:
        return int(struct.unpack(form, self.take(size))[0])

    def line(self) -> str:
        """A text up to the end of the line, as opcode ``c`` has two."""
        window = bytes(self.data[self.at : self.at + 512])
        end = window.index(b"\n")
        self.at += end + 1
        return window[:end].decode("ascii")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a value is missing")
        return value

    def top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise TypeError(f"{kind.__name__} expected")
        return self.stack[-1]

    def items(self) -> list[Any]:
        """What lies above the last mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                found = self.stack[place + 1 :]
                del self.stack[place:]
                return found
        raise ValueError("a mark is missing")

    def remember(self, number: int) -> None:
        if number > len(self.data):
            raise ValueError("a memo number is absurd")
        self.memo[number] = self.stack[-1]

    def name(self, module: Any, name: Any) -> None:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise TypeError("a name is not text")
        full = f"{module}.{name}"
        if full not in self.names:
            refuse(
                self.path,
                f"it asks for {full[:120]!r}, which is not data",
                "nothing was executed; do not load this file with a reader that executes",
            )
        self.push(self.names[full])

    def call(self) -> None:
        arguments = self.pop()
        function = self.pop()
        if not isinstance(function, Builder) or not isinstance(arguments, tuple):
            raise TypeError("something is called that is no function of data")
        self.push(function.make(*arguments))

    def build(self) -> None:
        state = self.pop()
        value = self.stack[-1]
        if isinstance(value, Stateful):
            value.set_state(state)
        elif not (isinstance(value, dict) and isinstance(state, dict)):  # attributes of an ordered dict: not data
            raise TypeError("a state is given to what has none")

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise ValueError("a key has no value")
        for place in range(0, len(items), 2):
            target[_hashable(items[place])] = items[place + 1]

    def persist(self) -> None:
        if self.persistent is None:
            raise TypeError("it keeps values elsewhere")
        self.push(self.persistent(self.pop()))


def _hashable(key: Any) -> Any:
    """A key that takes no time: text, bytes, numbers, tuples of these. Nested tuples could take for ever to hash."""
    if isinstance(key, tuple):
        if len(key) > 16 or any(isinstance(item, tuple) for item in key):
            raise TypeError("a key of a table is a nest of tuples")
        for item in key:
            _hashable(item)
    elif not (key is None or isinstance(key, str | bytes | int | float | bool)):
        raise TypeError("a key of a table is not text or a number")
    return key


def _text(machine: _Machine, form: str, size: int) -> None:
    machine.push(bytes(machine.take(machine.number(form, size))).decode("utf-8", "surrogatepass"))


def _raw(machine: _Machine, form: str, size: int) -> None:
    machine.push(machine.take(machine.number(form, size)))  # a view: large arrays are not copied


def _old_text(machine: _Machine, form: str, size: int) -> None:
    machine.push(bytes(machine.take(machine.number(form, size))).decode("latin-1"))


def _long(machine: _Machine, form: str, size: int) -> None:
    count = machine.number(form, size)
    if count > 64:
        raise ValueError("a number is absurd")
    machine.push(int.from_bytes(bytes(machine.take(count)), "little", signed=True))


def _mark(machine: _Machine) -> None:
    machine.stack.append(_MARK)


def _tuple(count: int) -> Callable[[_Machine], None]:
    def make(machine: _Machine) -> None:
        found = [machine.pop() for _ in range(count)]
        machine.push(tuple(reversed(found)))

    return make


def _append(machine: _Machine) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine) -> None:
    found = machine.items()
    machine.top(list).extend(found)


def _set_item(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    machine.set_items([key, value])


def _make_dict(machine: _Machine) -> None:
    found = machine.items()
    machine.push({})
    machine.set_items(found)


def _stack_global(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.name(module, name)


def _global(machine: _Machine) -> None:
    module = machine.line()
    machine.name(module, machine.line())


def _version(machine: _Machine) -> None:
    version = machine.number("<B", 1)
    if version > 5:
        refuse(machine.path, f"it is written in protocol {version}; protocols up to 5 are known")


_OPERATIONS: dict[int, Callable[[_Machine], None]] = {
    code[0]: operation
    for code, operation in {
        b"\x80": _version,
        b"\x95": lambda m: m.take(8),
        b"(": _mark,
        b"0": lambda m: m.stack.pop(),
        b"1": lambda m: m.items(),
        b"2": lambda m: m.push(m.stack[-1]),
        b"N": lambda m: m.push(None),
        b"\x88": lambda m: m.push(True),
        b"\x89": lambda m: m.push(False),
        b"J": lambda m: m.push(m.number("<i", 4)),
        b"K": lambda m: m.push(m.number("<B", 1)),
        b"M": lambda m: m.push(m.number("<H", 2)),
        b"\x8a": lambda m: _long(m, "<B", 1),
        b"\x8b": lambda m: _long(m, "<I", 4),
        b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        b"X": lambda m: _text(m, "<I", 4),
        b"\x8c": lambda m: _text(m, "<B", 1),
        b"\x8d": lambda m: _text(m, "<Q", 8),
        b"U": lambda m: _old_text(m, "<B", 1),
        b"T": lambda m: _old_text(m, "<I", 4),
        b"C": lambda m: _raw(m, "<B", 1),
        b"B": lambda m: _raw(m, "<I", 4),
        b"\x8e": lambda m: _raw(m, "<Q", 8),
        b"\x96": lambda m: _raw(m, "<Q", 8),
        b"]": lambda m: m.push([]),
        b"}": lambda m: m.push({}),
        b")": lambda m: m.push(()),
        b"t": lambda m: m.push(tuple(m.items())),
        b"l": lambda m: m.push(list(m.items())),
        b"d": _make_dict,
        b"\x85": _tuple(1),
        b"\x86": _tuple(2),
        b"\x87": _tuple(3),
        b"a": _append,
        b"e": _appends,
        b"s": _set_item,
        b"u": lambda m: m.set_items(m.items()),
        b"q": lambda m: m.remember(m.number("<B", 1)),
        b"r": lambda m: m.remember(m.number("<I", 4)),
        b"\x94": lambda m: m.remember(len(m.memo)),
        b"h": lambda m: m.push(m.memo[m.number("<B", 1)]),
        b"j": lambda m: m.push(m.memo[m.number("<I", 4)]),
        b"c": _global,
        b"\x93": _stack_global,
        b"R": _Machine.call,
        b"\x81": _Machine.call,
        b"b": _Machine.build,
        b"Q": _Machine.persist,
    }.items()
}
"""By the byte that stands for it. What is not here is not data."""
