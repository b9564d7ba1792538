"""What is going on: the state of each thread, and a call between its begin and its end."""

from __future__ import annotations

import threading
from typing import Any

import torch

from trueline.frameworks.threads import thread_number
from trueline.frameworks.torch.names import Trait
from trueline.store.columns import NONE


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
