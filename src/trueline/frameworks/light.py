"""What a light watch of a framework and the rest of trueline say to each other.

A light watcher sees every call of a program for as long as it runs, holds on to what the calls of the running step were
given and gave, and reads little of it: in each step the **sinks**, through which nothing bad passes unseen (the loss,
gradients of parameters, what the loss scaler found), and of everything else a part in rotation. Whoever sees a bad sink
asks for the ``Examination`` of that step: everything that is held, in the order in which it happened, each tensor
read exactly, and the first call that made something bad of clean inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from trueline.numerics.light import LOOK
from trueline.records import Frame, Phase, Role
from trueline.tree import Tree


class Sink(IntEnum):
    """Why a tensor is looked at in every step; NONE stands for those that are in rotation."""

    NONE = 0
    LOSS = 1
    GRADIENT = 2
    """Of a parameter, after the backward."""
    PARAMETER = 3
    """After the optimizer has changed it; in rotation, since what is bad there stays bad."""
    SCALER = 4
    """What a loss scaler notes its findings in: not zero where it found something."""
    RESULT = 5
    """Of the outermost module, in a step without a backward."""


LOOKS = np.dtype([("call", "<i8"), ("name", "<i4"), ("sink", "<i4"), *LOOK.descr])
"""Looks of one step. ``call`` is the number of the call (as ``HeldCall.number``), -1 where there is none; ``name`` the
position of a ``LookName``; ``sink`` a Sink."""

LooksArray = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True, slots=True)
class LookName:
    """Which tensor of which call: the same in every step, so that the looks at it make a series. Of parameters and
    their gradients ``api`` is the parameter's own name (``layers.0.weight``)."""

    api: str
    nth: int
    phase: Phase
    role: Role
    path: str
    dtype: str
    module: str = ""
    module_class: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True)
class StepLooks:
    """Looks at a step. ``names`` is the watcher's own list, which grows. ``partial`` says that the step is still
    running and more will come; a later one repeats nothing of it. ``found_inf`` is what the loss scaler said,
    None where there is none; ``stepped`` whether an optimizer stepped."""

    step: int
    looks: LooksArray
    names: Sequence[LookName]
    partial: bool = False
    found_inf: bool | None = None
    stepped: bool = False

    @property
    def sinks(self) -> LooksArray:
        """The looks at sinks."""
        return self.looks[self.looks["sink"] != Sink.NONE]

    @property
    def bad(self) -> bool:
        """Whether a sink holds NaN or infinity. What a loss scaler found is among the gradients as well."""
        return bool(is_bad(self.sinks).any())


def is_bad(looks: LooksArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which looks (rows of ``LOOK`` or ``LOOKS``) saw NaN or infinity."""
    bad: np.ndarray[Any, np.dtype[np.bool_]] = (
        looks["nan"] + looks["positive_infinity"] + looks["negative_infinity"] > 0
    )
    return bad


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor of a held call. ``leaf`` is its position among the tensors of the call, as in a capture; equal
    ``number`` means the same memory with the same content. ``look`` is a ``LOOK`` row; ``missing`` says why the content
    is not there any more (then a look may still be, from when it was). ``content`` gives the bits in C order, and may
    copy them from a device; it must be called before the watcher forgets the step, and before the program goes on to
    change it."""

    role: Role
    path: str
    leaf: int
    number: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool
    look: Any
    missing: str
    content: Callable[[], memoryview] | None

    @property
    def bad(self) -> bool:
        return self.look is not None and bool(is_bad(self.look))


@dataclass(frozen=True, slots=True)
class HeldCall:
    """A call whose tensors are still there. ``number`` counts all calls, forward and backward, as they happened;
    ``forward`` is the number of the forward call of a backward one. ``raised`` says how a call ended that did not
    return."""

    number: int
    api: str
    nth: int
    step: int
    phase: Phase
    module: str
    module_class: str
    context: str
    thread: int
    forward: int | None
    arguments: Tree
    result: Tree
    stack: tuple[Frame, ...]
    tensors: tuple[HeldTensor, ...]
    raised: str = ""

    @property
    def inputs(self) -> tuple[HeldTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role is not Role.OUTPUT)

    @property
    def outputs(self) -> tuple[HeldTensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role is Role.OUTPUT)


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was held of a step, in the order in which it happened. ``origin`` is the first call that made
    something bad of clean inputs and whose bad output went on to a sink; None where there is none. ``missed`` counts
    the calls of the step that were no longer held; ``note`` says how what was not held was had."""

    step: int
    origin: HeldCall | None
    calls: tuple[HeldCall, ...]
    missed: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class LightOptions:
    """``rotation``: each call is looked at in every so many steps, at large tensors a part at a time. ``hold``: the
    memory that may be held back from the program, as a share of what is free (below 1) or in bytes. ``backward``:
    whether gradients are watched. ``whole``: everything is looked at, all of it, in every step. ``budget``: the share
    of a step's time that recording steps may take where that is not needed in every one, ``tape_rotation`` the
    rotation there (None: the same)."""

    rotation: int = 4
    hold: float = 0.25
    backward: bool = True
    whole: bool = False
    budget: float = 0.03
    tape_rotation: int | None = None


class LightWatcher(Protocol):
    """Watches a running program through one framework. ``trouble`` counts faults of ours by their text."""

    trouble: dict[str, int]

    @property
    def names(self) -> Sequence[LookName]:
        """What was looked at, in the order of its first look."""

    def start(self) -> None:
        """Begins to watch; the step that runs now has number 0."""

    def stop(self) -> None:
        """Ends it for good, and leaves nothing behind. What is held stays until it is forgotten; ``poll`` gives what
        was still on its way."""

    def abandon(self) -> None:
        """Stops and forgets everything; called in a child that was forked from the watched process."""

    def end_step(self, step: int) -> None:
        """The step of this number has ended; another one begins."""

    def poll(self) -> Sequence[StepLooks]:
        """The looks that have arrived since the last time, without waiting for any: on the CPU all there are."""

    def examine(self, step: int) -> Examination:
        """Everything that is held of a step, which may be the running one."""

    def forget(self, step: int) -> None:
        """Lets go of a step and of all before it."""

    def optimizer_begins(self, optimizer: Any) -> None:
        """An optimizer is about to step. Its gradients are looked at before this returns; on the CPU ``poll`` gives
        them at once, while the parameters are still what the forward calls were given."""

    def optimizer_ends(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
