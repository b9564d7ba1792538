"""The borders of compiled graphs: every entry into one is a call, and what the compiler was given is kept as data.

torch's compiler makes a graph of each part of a function that it can follow, hands it to a backend, and puts what
comes back among the globals of the program, from where the compiled function calls it. We listen at both places: the
graph is read when it goes to the backend, and each entry goes through a splice. The compiler never meets us: where
it runs a program, it looks at every Python function that is called, so it is switched off while ours are, and back on
for the graph.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.torch import compiler
from trueline.frameworks.torch.graph_reading import GraphReader
from trueline.frameworks.torch.splice import FRAMES
from trueline.frameworks.torch.unseen import Unseen
from trueline.graphs import PREFIX, TRACED

if TYPE_CHECKING:
    from trueline.frameworks.torch.modes import Traits

UNREAD = "nodes of a graph that was compiled before the recording began (its inputs and outputs are recorded)"


@dataclass(frozen=True)
class Known:
    """A compiled graph: its name, and whether its nodes were read."""

    name: str
    read: bool


class _Thread(threading.local):
    """The graphs that a thread is compiling and what they are, those compiled that are not installed yet, and how many
    the thread has entered."""

    def __init__(self) -> None:
        self.entered = 0
        self.about: list[dict[str, Any]] = []
        self.made: dict[int, Known] = {}


class Borders:
    """Hears of graphs as they are compiled, and of every entry into one."""

    def __init__(self, watch: Any, traits: Traits, splice: Callable[[Any, Any], None]) -> None:
        self._watch = watch
        self._traits = traits
        self._splice = splice
        """Has a function be entered through a handler, until the looking ends."""
        self._reader = GraphReader()
        self._numbers: dict[str, int] = {}
        self._told: set[str] = set()
        self._thread = _Thread()

    def codes(self) -> list[types.CodeType]:
        """The code of ours that is called where the compiler runs a program."""
        return [Borders._entered.__code__]

    def entered(self) -> int:
        """How many graphs this thread has entered."""
        return self._thread.entered

    # Compiling

    def compiles(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stands around the function that hands a graph to the backend."""
        about = self._read(args[0], args[1]) if len(args) > 1 else None
        if about is None:
            return original(*args, **kwargs)
        self._thread.about.append(about)
        try:
            made = original(*args, **kwargs)
        finally:
            self._thread.about.pop()
        self._thread.made[id(args[0])] = Known(about["name"], read=True)
        return made

    def _read(self, owner: Any, graph: Any) -> dict[str, Any] | None:
        """Writes down what the compiler was given; what is known of it besides its nodes."""
        try:
            modes = compiler.modes_now()
            with Unseen():
                function, code = compiler.function_of(owner.root_tx)
                name, number = self._named(function)
                about = {
                    "name": name,
                    "number": number,
                    "function": function,
                    "file": code.co_filename,
                    "line": code.co_firstlineno,
                    "compiled": str(getattr(owner, "dynamo_compile_id", "") or ""),
                    "how": compiler.how_compiled(owner) | modes,
                }
                self._watch.notebook.evidence(self._reader.read(graph, stage=TRACED, **about).event())
                return about
        except Exception as error:
            self._watch.notebook.trouble(error)
            return None

    def _named(self, function: str) -> tuple[str, int]:
        number = self._numbers.get(function, 0)
        self._numbers[function] = number + 1
        return f"{PREFIX}{function}.graph{number}", number

    def stage(self, stages: tuple[str, ...]) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
        """Stands around a function of torch's that logs graphs which the compiler made: its first arguments."""

        def handler(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            about = self._thread.about[-1] if self._thread.about else None
            if about is not None:
                try:
                    with Unseen():
                        for stage, graph in zip(stages, args, strict=False):
                            self._watch.notebook.evidence(self._reader.read(graph, stage=stage, **about).event())
                except Exception as error:
                    self._watch.notebook.trouble(error)
            return original(*args, **kwargs)

        return handler

    def installs(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stands around the function that puts a compiled graph where the program finds it."""
        made = original(*args, **kwargs)
        if len(args) == 3 and str(args[1]).startswith(compiler.COMPILED_GRAPH):
            self.found(args[2], self._thread.made.pop(id(args[0]), None))
        return made

    # Entering

    def found(self, function: Any, known: Known | None = None) -> None:
        """Has every entry into a compiled graph be seen."""
        if not isinstance(function, types.FunctionType):
            return
        if known is None:
            inner = getattr(function, "__qualname__", "graph").replace("<locals>.", "")
            known = Known(self._named(inner)[0], read=False)
        self._splice(function, functools.partial(self._entered, known))

    def _entered(self, known: Known, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Until it is switched off the compiler looks at every function that is called here, but for those of C.
        callback = _set_compiler(None)
        try:
            return self._recorded(known, callback, original, args, kwargs)
        finally:
            _set_compiler(callback)

    def _recorded(
        self, known: Known, callback: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            _set_compiler(callback)
            try:
                return original(*args, **kwargs)
            finally:
                _set_compiler(None)

        watch = self._watch
        self._thread.entered += 1
        if not watch.looking:
            return run(*args, **kwargs)
        if not known.read and known.name not in self._told:
            self._told.add(known.name)
            watch.notebook.tally.miss(UNREAD)
        trait = self._traits.named(known.name, mutates=True)
        return watch.call_outside(trait, run, args, kwargs, frames=4 + FRAMES)


_set_compiler: Any = torch._C._dynamo.eval_frame.set_eval_frame
"""Switches what looks at every Python function that is called; gives what did before."""
