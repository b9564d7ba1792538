"""The programs by name, and how one is written.

A program is a function without arguments that returns a nested structure of tensors, numbers and texts. The generators
of torch, numpy and Python are seeded before it starts. Written as a generator function it has stages: what comes before
its first ``yield`` runs before the observer starts, what comes after its second one when the observer has stopped.
``Skip`` says that this torch lacks what the program is about.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Skip(Exception):
    """This version of torch cannot run the program."""


@dataclass(frozen=True)
class Program:
    name: str
    function: Callable[[], Any]
    fork: bool = True
    """Whether it may run in a child that was forked after torch was imported; else in a process of its own."""

    @property
    def theme(self) -> str:
        return self.function.__module__.rsplit("programs_", 1)[1]


PROGRAMS: dict[str, Program] = {}


def program(function: Callable[[], Any] | None = None, *, fork: bool = True) -> Any:
    """Registers a program under the name of its function."""
    if function is None:
        return lambda decorated: program(decorated, fork=fork)
    if function.__name__ in PROGRAMS:
        raise ValueError(f"two programs are called {function.__name__}")
    PROGRAMS[function.__name__] = Program(function.__name__, function, fork)
    return function


def load() -> dict[str, Program]:
    """Imports every ``programs_*.py``."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("programs_"):
            importlib.import_module(f"{__package__}.{module.name}")
    return PROGRAMS


def seed() -> None:
    import numpy
    import torch

    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def run(program: Program, observer: Any) -> Any:
    """What the program returns; its second stage, or all of it, runs inside of ``observer``, a context manager."""
    seed()
    if not inspect.isgeneratorfunction(program.function):
        with observer:
            return program.function()
    stages = program.function()
    next(stages)
    try:
        with observer:
            next(stages)
        next(stages)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError(f"{program.name} has more than two yields")
