"""Tells when a module has been imported: a program brings in parts of a framework long after the framework itself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection
from typing import Any


def on_import(names: Collection[str], imported: Callable[[str], None]) -> Callable[[], None]:
    """Calls ``imported`` with the name of each of these modules that is imported from now on, when it is. Gives a
    function that ends this."""
    finder = _Finder(set(names), imported)
    sys.meta_path.insert(0, finder)

    def end() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return end


class _Finder:
    """Finds nothing itself: lets the others find, and stands around the execution of what they found."""

    def __init__(self, names: set[str], imported: Callable[[str], None]) -> None:
        self._names = names
        self._imported = imported

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names:
            return None
        self._names.discard(name)  # before the others are asked, which asks us again
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if not hasattr(loader, "__dict__") or isinstance(loader, type):  # one that serves all modules of its kind
            return None
        execute = loader.exec_module

        def execute_and_tell(module: Any) -> None:
            # The loader's own is its class's. Who else waits for this module stands around it as we do.
            vars(loader).pop("exec_module", None)
            execute(module)
            self._imported(name)

        loader.exec_module = execute_and_tell
        return spec
