"""Finds the adapter of a framework by name. Adapters are imported when asked for, never before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from trueline.cases import INDEPENDENT, Target
from trueline.errors import MissingFrameworkError, UsageError
from trueline.frameworks.base import Executor, Notebook, Scope, Watcher
from trueline.frameworks.several import Several

if TYPE_CHECKING:
    from trueline.frameworks.light import LightOptions, LightWatcher

_ADAPTERS = {"torch": "trueline.frameworks.torch.adapter", "paddle": "trueline.frameworks.paddle.adapter"}
_WAYS = {"static": "static", "cinn": "static", "compile": "compiled", "amp": "autocast"}
"""How a Target executes calls other than eagerly -> the module of its framework that does it."""
_executors: dict[tuple[Any, ...], Executor] = {}


class Adapter(Protocol):
    """What every framework can be asked."""

    name: str

    def version(self) -> str: ...
    def way(self) -> str: ...
    def devices(self) -> Iterable[str]: ...
    def rank(self) -> tuple[int, int]: ...
    def seed(self) -> int | None: ...
    def seed_all(self, seed: int, deterministic: bool) -> None: ...
    def watcher(self, notebook: Notebook, scope: Scope) -> Watcher: ...
    def light_watcher(self, options: LightOptions) -> LightWatcher: ...
    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None: ...
    def off_optimizer(self) -> None: ...
    def executor(self, target: Target, reference: Target | None) -> Executor: ...


def adapter(name: str) -> Adapter:
    """The adapter of a framework; a clear error where there is none or the framework is not installed."""
    if name not in _ADAPTERS:
        raise UsageError(f"unknown framework {name!r}; known: {', '.join(_ADAPTERS)}")
    if importlib.util.find_spec(name) is None:
        raise MissingFrameworkError(f"{name} is not installed in this Python ({sys.executable}); install it first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a framework says of compilers on import concerns nobody here
        module: Any = importlib.import_module(_ADAPTERS[name])
    made: Adapter = module.make()
    return made


def executor(target: Target, reference: Target | None = None) -> Executor:
    """What executes Cases on a Target; one for all Cases. Golds come from the device of ``reference``."""
    key = (str(target), tuple(sorted(target.overrides.items())), str(reference))
    if key not in _executors:
        _executors[key] = _simulating(target, reference) if target.simulated else _real(target, reference)
    return _executors[key]


def _real(target: Target, reference: Target | None) -> Executor:
    known = adapter(target.framework)
    how = target.how or ("" if reference is None else reference.how)
    if how in ("", INDEPENDENT):  # the latter is for those who ask for golds
        return known.executor(target, reference)
    module: Any = importlib.import_module(f"trueline.frameworks.{target.framework}.{_WAYS[how.partition('-')[0]]}")
    made: Executor = module.make(target, reference)
    return made


def _simulating(target: Target, reference: Target | None) -> Executor:
    from trueline.frameworks.simulated import SimulatingExecutor

    real = replace(target, simulated=False)
    single = replace(real, dtype="float32")
    return SimulatingExecutor(executor(real, reference), executor(single, reference), target.dtype)


def loaded() -> list[str]:
    """The known frameworks that the program has imported already."""
    return [name for name in _ADAPTERS if name in sys.modules]


def installed() -> list[str]:
    """The known frameworks that could be imported."""
    return [name for name in _ADAPTERS if importlib.util.find_spec(name) is not None]


def chosen(name: str) -> Several:
    """The framework of this name; for ``auto`` all that the program has imported, else the first that it could."""
    if name != "auto":
        return Several([adapter(name)])
    return Several([adapter(one) for one in loaded() or installed()[:1] or list(_ADAPTERS)[:1]])
