"""What is going on: the state of each thread, and a call between its begin and its end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from trueline.frameworks.threads import thread_number
from trueline.frameworks.torch.names import Trait
from trueline.records import Level
from trueline.store.columns import LEVELS, NONE

API = LEVELS.index(Level.API)


class ThreadState(threading.local):
    """What one thread is in the middle of."""

    def __init__(self) -> None:
        self.modules: list[tuple[int, int, Any]] = []
        """The modules being called: (number, stack at the call, module)."""
        self.optimizer = NONE
        self.in_collective = False
        self.open = 0
        """How many recorded calls are running; counted for the witness."""
        self.functions = 0
        """How many custom autograd.Functions are running."""
        self.region = False
        """Whether a compiled region is running."""
        self.number = thread_number()


def thread_state(calls: Any) -> Any:
    """What the threads are in the middle of; the C extension, where it is there, finds the running one faster."""
    return ThreadState() if calls is None else calls.Threads(thread_number, NONE)


Closing = Callable[[Any, BaseException | None], None]
"""What is to be called with the result of a call when it has been made, or with the error that it raised."""


def made_between(
    closing: Closing | None, function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None
) -> Any:
    """Makes a call that was opened. Where the C extension is there it does this, from no frame of ours: a warning that
    the call gives is then of the line in the program that made it, as without us."""
    if closing is None:
        return function(*args, **kwargs) if kwargs else function(*args)
    try:
        result = function(*args, **kwargs) if kwargs else function(*args)
    except BaseException as error:
        closing(None, error)
        raise
    closing(result, None)
    return result


class OpenCall:
    """A call between its begin and its end."""

    __slots__ = (
        "context",
        "edges",
        "first_sequence",
        "hidden",
        "inputs",
        "level",
        "module",
        "mutates",
        "nth",
        "number",
        "stack",
        "trait",
        "tree",
        "versions",
        "visits",
    )

    number: int
    level: int
    trait: Trait
    nth: int
    module: int
    context: int
    stack: int
    tree: int
    inputs: list[torch.Tensor]
    visits: list[int]
    mutates: bool
    versions: list[int]
    hidden: frozenset[int]
    edges: list[tuple[int, Any, int]] | None
    first_sequence: int


def open_again(number: int, trait: Trait, nth: int, module: int, context: int, stack: int, tree: int) -> OpenCall:
    """What is known of a call that the extension has begun."""
    call = OpenCall()
    call.number, call.level, call.trait, call.nth = number, API, trait, nth
    call.module, call.context, call.stack, call.tree = module, context, stack, tree
    return call


def recomputing() -> bool:
    """Whether activation checkpointing is running the forward again."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith("checkpoint.py") and "torch" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
