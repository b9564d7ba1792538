"""Finds the functions that stand in for APIs: ``mykernels:gelu``, from the working folder, the path, or a file; and the
operators of modules that somebody named for this very command.

A file never names what is imported: whoever gives the command does, by ``--override`` or ``--operators``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from trueline.errors import UsageError

_ALL_OF = ".*"
"""Ends an override that is a whole module: with ``{"mykernels.*": "mykernels:*"}`` files may name its operators."""


def load_overrides(overrides: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """The function for each API; ``UsageError`` where one cannot be had."""
    return {api: load(place, api) for api, place in overrides.items() if not api.endswith(_ALL_OF)}


class OwnOperators:
    """The operators of modules that the user named: the functions and autograd functions that they define, and those
    that they register with the framework."""

    def __init__(self, overrides: Mapping[str, str], function_class: type[Any]) -> None:
        names = [api.removesuffix(_ALL_OF) for api in overrides if api.endswith(_ALL_OF)]
        self._modules = {name: _module(name, name) for name in names}
        self._function_class = function_class

    def __bool__(self) -> bool:
        return bool(self._modules)

    def named(self, api: str) -> Callable[..., Any] | None:
        """The function of ``mykernels.gelu`` or ``mykernels.Gelu.apply``; None where no named module defines one."""
        for name, module in self._modules.items():
            if api.startswith(f"{name}."):
                return self._defined(module, api.removeprefix(f"{name}."))
        return None

    def _defined(self, module: ModuleType, rest: str) -> Callable[..., Any] | None:
        first, _, method = rest.partition(".")
        found = vars(module).get(first)
        if isinstance(found, FunctionType) and not method:
            return found
        if isinstance(found, type) and issubclass(found, self._function_class) and method == "apply":
            return found.apply  # type: ignore[attr-defined, no-any-return]
        return None


def load(place: str, api: str) -> Callable[..., Any]:
    """The function behind ``module:function`` or ``file.py:function``."""
    module_name, colon, function_name = place.rpartition(":")
    if not colon or not module_name or not function_name:
        raise UsageError(f"the override of {api} is {place!r}; write module:function, for example mykernels:gelu")
    module = _module(module_name, api)
    found: Any = module
    for part in function_name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = ", ".join(sorted(name for name in vars(module) if not name.startswith("_"))) or "nothing"
        raise UsageError(f"the override of {api}: {module_name} has no function {function_name!r}; it has {known}")
    return found  # type: ignore[no-any-return]


def _module(name: str, api: str) -> ModuleType:
    try:
        if name.endswith(".py"):
            return _from_file(Path(name))
        folder = os.getcwd()
        if folder not in sys.path:  # as ``python -m`` does, so that kernels lie beside the work
            sys.path.insert(0, folder)
        return importlib.import_module(name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"the override of {api}: importing {name} from {os.getcwd()} failed: {reason}") from error


def _from_file(path: Path) -> ModuleType:
    name = f"trueline_override_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None or not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
