"""Parameters and buffers of a module by the names that they have in the bare model; the same for every framework.

The frameworks' own ``named_parameters`` may be laid over by a module's class, gives a tied one once, and takes several
times as long; here each has all its names, and what only wraps a model adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Tensors = Mapping[str, Any]

MOST_MODULES = 1 << 16
"""Further ones are not named: modules that hold each other many times would be walked through without end."""


class Held(NamedTuple):
    """What a module holds that can be read."""

    parameters: dict[str, Any]
    buffers: dict[str, Any]
    hollow: int
    """How many there are besides that have no content: those on meta, and fake ones."""
    unmade: int
    """How many will be made later, as when the module has seen its first input."""

    @property
    def is_empty(self) -> bool:
        return not (self.parameters or self.buffers or self.hollow or self.unmade)

    @property
    def is_hollow(self) -> bool:
        """Whether none of its parameters has content."""
        return bool(self.hollow) and not self.parameters


class Naming(NamedTuple):
    """How a framework's modules are walked through."""

    own: Callable[[Any], tuple[Tensors, Tensors]]
    """The parameters and buffers that a module itself has, by name."""
    children: str
    """The attribute in which a module has its inner ones, by name."""
    is_readable: Callable[[Any], bool]
    """Whether a tensor has content."""
    is_unmade: Callable[[Any], bool]
    """Whether a parameter or buffer that is not readable will be made later."""
    wrapped: Callable[[Any], str]
    """The name of the inner module for which this one stands; empty where it stands for itself."""

    def bare(self, module: Any) -> Any:
        """The model inside of what only wraps it."""
        while name := self.wrapped(module):
            inner = getattr(module, self.children)[name]
            if inner is None:
                break
            module = inner
        return module

    def held_by(self, module: Any) -> Held:
        """All parameters and buffers in a module."""
        walk = _Walk(self)
        walk.through(module, "")
        return Held(walk.parameters, walk.buffers, walk.hollow, walk.unmade)


class _Walk:
    def __init__(self, naming: Naming) -> None:
        self.parameters: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}
        self.hollow = self.unmade = 0
        self._naming = naming
        self._above: set[int] = set()
        self._left = MOST_MODULES

    def through(self, module: Any, prefix: str) -> None:
        if id(module) in self._above or self._left <= 0:
            return
        self._left -= 1
        naming = self._naming
        for own, found in zip(naming.own(module), (self.parameters, self.buffers), strict=True):
            for name, value in own.items():
                if value is None:
                    continue
                if naming.is_readable(value):
                    found[prefix + name] = value
                elif naming.is_unmade(value):
                    self.unmade += 1
                else:
                    self.hollow += 1
        children = getattr(module, naming.children)
        if not children:
            return
        wrapped = naming.wrapped(module)
        self._above.add(id(module))
        for name, child in children.items():
            if child is not None:
                self.through(child, prefix if name == wrapped else f"{prefix}{name}.")
        self._above.discard(id(module))
