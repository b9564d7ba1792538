"""Finds the adapter of a framework by name. Adapters are imported when asked for, never before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from trueline.cases import Target
from trueline.errors import MissingFrameworkError, UsageError
from trueline.frameworks.base import Executor, Notebook, Scope, Watcher

_ADAPTERS = {"torch": "trueline.frameworks.torch.adapter"}
_executors: dict[tuple[Any, ...], Executor] = {}


class Adapter(Protocol):
    """What every framework can be asked."""

    name: str

    def version(self) -> str: ...
    def devices(self) -> Iterable[str]: ...
    def rank(self) -> tuple[int, int]: ...
    def seed(self) -> int | None: ...
    def seed_all(self, seed: int, deterministic: bool) -> None: ...
    def watcher(self, notebook: Notebook, scope: Scope) -> Watcher: ...
    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None: ...
    def off_optimizer(self) -> None: ...
    def executor(self, target: Target, reference: Target | None) -> Executor: ...


def adapter(name: str) -> Adapter:
    """The adapter of a framework; a clear error where there is none or the framework is not installed."""
    if name not in _ADAPTERS:
        raise UsageError(f"unknown framework {name!r}; known: {', '.join(_ADAPTERS)}")
    if importlib.util.find_spec(name) is None:
        raise MissingFrameworkError(f"{name} is not installed in this Python ({sys.executable}); install it first")
    module: Any = importlib.import_module(_ADAPTERS[name])
    made: Adapter = module.make()
    return made


def executor(target: Target, reference: Target | None = None) -> Executor:
    """What executes Cases on a Target; one for all Cases. Golds come from the device of ``reference``."""
    key = (str(target), tuple(sorted(target.overrides.items())), str(reference))
    if key not in _executors:
        _executors[key] = adapter(target.framework).executor(target, reference)
    return _executors[key]


def loaded() -> list[str]:
    """The known frameworks that the program has imported already."""
    return [name for name in _ADAPTERS if name in sys.modules]
