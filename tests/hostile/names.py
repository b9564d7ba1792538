"""Names of calls, and arguments, by which a file could try to run code, to write, to read a secret, to import, to open
a socket or to load a library in whoever opens it.

A ``Hostile`` is one call as a file tells it. Marks in its texts stand for what the victim's machine has at that moment
(``Bait`` fills them in), a different one for each call, so that what happened says which call did it:

    {shell}   a command that makes the file ran-N      {python}  Python that makes the file ran-N
    {ran}     the file that must never exist           {wrote}   a file that must never be written
    {secret}  a file that must never be read           {pickle}  one that makes ran-N when it is unpickled
    {script}  a Python file that makes ran-N           {hub}     a folder with a hubconf.py that makes ran-N
    {library} something to dlopen                      {url}     an address where somebody listens
    {module}  a module that makes ran-0 on import
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trueline.tree import tree_fault

Value = Any
"""A JSON value, a ``Tensor``, or a tree as ``trueline.tree`` describes it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor among the arguments."""

    shape: tuple[int, ...] = (2, 2)
    dtype: str = "float32"


@dataclass(frozen=True)
class Raw:
    """A piece of a config line as it stands, for what no well-behaved writer would write."""

    text: str


@dataclass(frozen=True)
class Hostile:
    """One call. ``declared`` says that its name is that of an operator which the framework declares: it may be refused
    for any reason, and where only its arguments are hostile it may also fail, but it must not pass."""

    kind: str
    name: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    declared: bool = False
    number: int = 0

    @property
    def framework(self) -> str:
        return "paddle" if self.name.lstrip(".").startswith("paddle") else "torch"

    @property
    def alone(self) -> bool:
        """Whether a file that holds it may be refused whole, so that it must not stand beside others."""
        long = any(isinstance(value, Raw) and len(value.text) > 10_000 for value in self.args)
        trees = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, dict)]
        return long or any(map(tree_fault, trees)) or "\ud800" in self.name

    @property
    def raw(self) -> bool:
        """Whether only a config line can hold it."""
        return any(isinstance(value, Raw) for value in self.args)

    @property
    def digest(self) -> str:
        """Of name and arguments, as they are before the bait is filled in."""
        return hashlib.sha256(repr((self.name, self.args, dict(self.kwargs))).encode()).hexdigest()

    @property
    def counted_only(self) -> bool:
        """Half of them, which are counted and never looked at one by one."""
        return int(self.digest[:8], 16) % 2 == 1


def filled(value: Value, fill: Callable[[str], str]) -> Value:
    """A value with its marks filled in."""
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, Raw):
        return Raw(fill(value.text))
    if isinstance(value, list | tuple):
        return [filled(item, fill) for item in value]
    if isinstance(value, Mapping):
        return {fill(key) if isinstance(key, str) else key: filled(item, fill) for key, item in value.items()}
    return value


def config_text(call: Hostile, fill: Callable[[str], str]) -> str:
    """A call as a config line, written as an attacker would: nothing is left out because the language has no word for
    it."""
    parts = [_text(filled(value, fill)) for value in call.args]
    parts += [f"{fill(name)}={_text(filled(value, fill))}" for name, value in call.kwargs.items()]
    return f"{fill(call.name)}({''.join(part + ', ' for part in parts)})"


def _text(value: Value) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Tensor):
        return f'Tensor({list(value.shape)},"{value.dtype}")'
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, list):
        return "list[" + "".join(_text(item) + "," for item in value) + "]"
    if isinstance(value, dict):
        return _tree_text(value)
    return repr(value)


def _tree_text(tree: dict[str, Value]) -> str:
    if "$tuple" in tree:
        return "tuple(" + "".join(_text(item) + "," for item in tree["$tuple"]) + ")"
    if "$dtype" in tree:
        return f"Dtype({tree['$dtype']})"
    if "$device" in tree:
        return f"Place({tree['$device']})"
    if "$object" in tree:  # a line has constants of torch by their names, and no word for the type of anything else
        kind, text = str(tree["$object"]), str(tree["text"])
        return text if kind.startswith("torch.") else f"{kind}({text})"
    return repr(tree)


def _calls(kind: str, *rows: tuple[Any, ...], declared: bool = False) -> Iterator[Hostile]:
    """A row is a name, its arguments and, last, a dict of named ones."""
    for name, *args in rows:
        named = args.pop() if args and isinstance(args[-1], Named) else Named()
        yield Hostile(kind, name, tuple(args), dict(named), declared)


class Named(dict[str, Value]):
    """Named arguments of a row."""


def everything() -> tuple[Hostile, ...]:
    """All of them, numbered from 1."""
    from tests.hostile import names_arguments, names_paddle, names_text, names_torch, names_torch_state

    rows: list[Hostile] = []
    for module in (names_torch, names_torch_state, names_paddle, names_text, names_arguments):
        for kind, (declared, listed) in module.ROWS.items():
            rows += _calls(kind, *listed, declared=declared)
    return tuple(
        Hostile(row.kind, row.name, row.args, row.kwargs, row.declared, number) for number, row in enumerate(rows, 1)
    )
