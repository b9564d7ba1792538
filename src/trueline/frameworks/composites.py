"""Functions that one framework has and the other has not: the book in which each framework writes those it can make."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Composites(dict[str, Callable[..., Any]]):
    """Composites by name. They stand in the modules of ``package`` whose names begin with ``composites_``, which are
    imported when one is first asked for. ``around`` is put around each."""

    def __init__(self, package: str, around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self._package, self._around = package, around
        self._complete = False

    def register(self, function: Function) -> Function:
        """Registers a function under its own name, less one leading underscore (for names that would hide a
        built-in)."""
        name = function.__name__.removeprefix("_")
        if name in self:
            raise ValueError(f"composite {name} is written twice")
        self[name] = function if self._around is None else self._around(function)
        return function

    def named(self, name: str) -> Callable[..., Any] | None:
        """The composite of a name without ``composite.``; None where there is none."""
        if not self._complete:
            for module in pkgutil.iter_modules(import_module(self._package).__path__):
                if module.name.startswith("composites_"):
                    import_module(f"{self._package}.{module.name}")
            self._complete = True
        return self.get(name)
