"""What two calls of two frameworks were asked for, in one form: under the names of torch's parameters, with values that
mean the same written alike.

Where a parameter means something else by definition, a row of the table says how one follows from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trueline.compare.parameters import common_name, default_of, in_torch
from trueline.ops.names import canonical
from trueline.tree import Tree, render, tensor_paths

_NOTHING = frozenset({"name", "inplace", "_stacklevel", "out", "padding_algorithm", "use_cudnn"})
"""Parameters that say nothing of the numbers."""
_CHANNELS_FIRST = frozenset({"NCL", "NCHW", "NCDHW", "NC"})

_CONVENTIONS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("batch_norm", "momentum"): lambda share: 1.0 - share,
    ("instance_norm", "momentum"): lambda share: 1.0 - share,
    ("gelu", "approximate"): lambda on: {True: "tanh", False: "none"}.get(on, on),
}
"""Paddle's values as torch's: its momentum is the share of the old, torch's that of the new."""


def asked(api: str, arguments: Tree) -> dict[str, Tree]:
    """The plain arguments of a call by their common names, in normal form; what says nothing is left out."""
    known, given = in_torch(api, arguments)
    found = {
        name: value
        for path, value in _top(given)
        if not any(True for _ in tensor_paths(value)) and (name := common_name(known, path)) not in _NOTHING
    }
    if known == api and api.startswith("paddle."):
        for name, value in found.items():
            rule = _CONVENTIONS.get((canonical(api), name))
            found[name] = value if rule is None or value is None else rule(value)
    if "VALID" in [value for _, value in _top(arguments)]:
        found["padding"] = 0
    return {name: normal(value) for name, value in found.items() if not _silent(name, value)}


def differences(apis: tuple[str, str], arguments: tuple[Tree, Tree]) -> Iterator[tuple[str, str, str]]:
    """What two calls were asked for differently: (parameter, the reference's value, the candidate's). What only one
    was given counts where it is not the default."""
    left, right = (asked(api, given) for api, given in zip(apis, arguments, strict=True))
    for name in sorted(left.keys() | right.keys()):
        if name in left and name in right:
            if not same(left[name], right[name]):
                yield name, render(left[name]), render(right[name])
            continue
        given = left.get(name, right.get(name))
        default = default_of(apis[0] if name in right else apis[1], name)
        # Of a default that is not known, only what was switched on says something.
        if (given is True) if default is None else not same(given, normal(default)):
            yield name, render(left[name]) if name in left else "not given", (
                render(right[name]) if name in right else "not given"
            )


def normal(value: Tree) -> Tree:
    """A sequence as a list, or as its one number where all are the same."""
    if isinstance(value, dict):
        value = value.get("$tuple", value.get("$size", value))
    if isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
        return value[0] if all(one == value[0] for one in value) else value
    return value


def same(left: Tree, right: Tree) -> bool:
    """Whether two values say the same: numbers by value, texts whatever their case."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return abs(left - right) <= 1e-12 + 1e-9 * abs(left)
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    if isinstance(left, str) != isinstance(right, str):
        return True  # a word for a number is the other framework's spelling
    return render(left) == render(right)


def _silent(name: str, value: Tree) -> bool:
    return value is None or (name == "data_format" and value in _CHANNELS_FIRST)


def _top(arguments: Tree) -> Iterator[tuple[str, Tree]]:
    if not isinstance(arguments, dict):
        return
    for place, value in enumerate(arguments.get("args", [])):
        yield f"args.{place}", value
    for name, value in (arguments.get("kwargs") or {}).items():
        if not (isinstance(value, dict) and ("$device" in value or "$object" in value)):
            yield f"kwargs.{name}", value
