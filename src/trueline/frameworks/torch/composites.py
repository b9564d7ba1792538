"""Functions of Paddle that torch has not, written with torch.

A composite has Paddle's own parameter names and gives what Paddle's function gives. Rows of ``ops.mapping`` name it
``composite.NAME``; ``composite_named`` finds it. Gradients come from torch's own autograd. ``composite.NAME_``, where
nobody wrote it, writes the result of ``composite.NAME`` into its first argument.

The functions themselves are in the modules beside this one whose names begin with ``composites_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import torch

from trueline.frameworks.composites import Composites


def _beside_its_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with whatever tensors it makes on the device of those that it is given."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = next(_tensors_in((*args, *kwargs.values())), None)
        if given is None or given.device.type == "cpu":
            return function(*args, **kwargs)
        with given.device:
            return function(*args, **kwargs)

    return call


def _tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_in(value)


COMPOSITES = Composites("trueline.frameworks.torch", _beside_its_tensors)
"""Complete after ``composite_named`` was called once."""
composite = COMPOSITES.register


def composite_named(name: str) -> Callable[..., Any] | None:
    """The composite of a name without ``composite.``; None where there is none."""
    found = COMPOSITES.named(name)
    if found is None and name.endswith("_") and name[:-1] in COMPOSITES:
        return _in_place(COMPOSITES[name[:-1]])
    return found


_VIEWS = frozenset(("reshape", "flatten", "squeeze", "unsqueeze", "transpose"))
"""Composites that look at the same elements in another shape."""


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives its first argument what the function gives of it: the elements, or the shape."""
    view = function.__name__ in _VIEWS

    def write(*args: Any, **kwargs: Any) -> torch.Tensor:
        if not args:
            (name, first), *others = kwargs.items()
            kwargs = {name: first if view else first.clone(), **dict(others)}
        else:
            first = args[0]
            args = (first if view else first.clone(), *args[1:])
        result = function(*args, **kwargs)
        if view:
            return first.as_strided_(result.shape, result.stride(), result.storage_offset())
        return first.copy_(result)

    # Whoever asks the function whether it writes to its argument goes by its name.
    write.__name__ = write.__qualname__ = f"{function.__name__}_"
    return write
