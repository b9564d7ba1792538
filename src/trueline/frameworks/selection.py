"""Which calls the user asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from trueline.frameworks.base import Scope


def is_narrow(scope: Scope) -> bool:
    """Whether the user asked for some calls only."""
    return bool(scope.apis or scope.calls or scope.between or scope.modules)


class Selection:
    """Decides call by call. ``narrow`` is False where everything is wanted and nobody needs to ask."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._calls = frozenset(name.removesuffix(".forward").removesuffix(".backward") for name in scope.calls)
        self._module_wanted: dict[int, bool] = {}
        self._inside = scope.between is None
        self._between = tuple(
            name.removesuffix(".forward").removesuffix(".backward") for name in scope.between or ()
        )
        self.narrow = bool(scope.calls or scope.between or scope.modules)

    def api(self, name: str) -> bool:
        """Whether the globs for APIs let this one through; a glob without a dot matches the last part."""
        if not self._scope.apis:
            return True
        short = name.rpartition(".")[2]
        return any(fnmatchcase(name, glob) or fnmatchcase(short, glob) for glob in self._scope.apis)

    def module(self, number: int, path: str) -> None:
        """Tells the path of a module, so that ``takes`` knows whether it is wanted."""
        if self._scope.modules:
            self._module_wanted[number] = any(fnmatchcase(path, glob) for glob in self._scope.modules)

    def new_step(self) -> None:
        self._inside = self._scope.between is None

    def takes(self, name: str, nth: int, module: int) -> bool:
        """Whether the n-th call of an API in this module is wanted."""
        if self._scope.modules and not self._module_wanted.get(module, False):
            return False
        full = f"{name}.{nth}"
        if self._calls and full not in self._calls:
            return False
        if not self._between:
            return True
        if full == self._between[0]:
            self._inside = True
        inside = self._inside
        if full == self._between[1]:
            self._inside = False
        return inside
