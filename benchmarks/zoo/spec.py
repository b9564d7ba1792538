"""What a case of the zoo is: a program of other people's parts, an edit of it, and where a right answer points.

A *program* builds a model of a library with random weights, its data, and one step of training or inference. A
*case* is two such programs, mostly the same one, of which one or both were edited: a :class:`Fault` changes what the
program computes, a :class:`Clean` pair computes the same in another way. Each side runs in a process of its own, so
an edit may change classes and modules for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Setting:
    """How a side is to be built. ``dtype`` is that of the model's parameters: float32, bfloat16 or float64."""

    dtype: str = "float32"
    device: str = "cpu"


@dataclass
class Built:
    """A program that is ready to run: what edits may take hold of.

    ``step(built, index)`` runs step ``index`` and gives what the program gives away in it: a dict of losses and
    outputs by name, as tensors. ``options`` are knobs that ``step`` reads.
    """

    model: Any
    step: Callable[[Built, int], Mapping[str, Any]]
    batches: list[Any] = field(default_factory=list)
    optimizer: Any = None
    scheduler: Any = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """``dtypes``: in which the program runs at all. ``steps``: how many steps a case runs, few."""

    name: str
    library: str
    framework: str
    build: Callable[[Setting], Built]
    steps: int = 2
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


@dataclass(frozen=True)
class Where:
    """Where a right answer points. All patterns are those of :mod:`fnmatch`.

    ``kind``: *call* (the same call computes something else), *argument* (the same call is asked otherwise), *region*
    (other calls compute it), *missing* and *extra* (a call or a few that only the reference or only the candidate
    makes), *precision* (the same mathematics in a lower precision), *data*, *state* (parameters, buffers or states of
    an optimizer that differ for no call's sake), *randomness*, *update* (the optimizer's step).
    ``apis``: last parts of the names of the calls that the edit changes, on either side (``silu``, ``mul``, ``to``);
    the answer must name one of them, unless this is empty. ``modules``: the paths of the modules in which they are
    called, empty text for outside of all modules. ``names``: parameters, buffers, states or inputs that the answer
    must name (only for *data*, *state* and *update*). ``calls``: how many calls the smallest region has on its larger
    side. ``phase``: in which the first wrong value appears. ``step``: the first step in which it does.
    """

    kind: str
    apis: tuple[str, ...] = ()
    modules: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ()
    phase: str = "forward"
    step: int = 0
    calls: int = 1


KINDS = (
    "call", "argument", "region", "missing", "extra", "precision", "data", "state", "randomness", "update",
)  # fmt: skip
PHASES = ("forward", "backward")

BeforeEdit = Callable[[Setting], None]
AfterEdit = Callable[[Built], None]


@dataclass(frozen=True)
class Change:
    """What is done to one side. ``before`` runs before the program is built (classes, configs, source), ``after``
    when it is built and before its first step."""

    before: BeforeEdit | None = None
    after: AfterEdit | None = None


UNCHANGED = Change()


@dataclass(frozen=True)
class Fault:
    """``source``: the issue, pull request or paper that reports such a mistake. ``both`` is done to both sides.
    ``where``: any of these is right."""

    name: str
    reference: str
    candidate: str
    description: str
    source: str
    change: Change
    where: tuple[Where, ...]
    both: Change = UNCHANGED
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


@dataclass(frozen=True)
class Clean:
    """Two ways to compute the same. ``threads`` are those of the candidate; the reference runs with one."""

    name: str
    reference: str
    candidate: str
    description: str
    change: Change = UNCHANGED
    reference_change: Change = UNCHANGED
    both: Change = UNCHANGED
    threads: int = 1
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


Case = Fault | Clean

PROGRAMS: dict[str, Program] = {}
CASES: dict[str, Case] = {}


def half(name: str) -> str:
    """``work`` or ``counted``: in which half a case of that name belongs. Nothing but the name decides."""
    return ("work", "counted")[hashlib.sha256(name.encode()).digest()[0] % 2]


def program(name: str, *, library: str, framework: str = "torch", **more: Any) -> Callable[..., Any]:
    """Declares the decorated ``build(setting) -> Built`` as a program."""

    def declare(build: Callable[[Setting], Built]) -> Callable[[Setting], Built]:
        if name in PROGRAMS:
            raise ValueError(f"two programs are named {name}")
        PROGRAMS[name] = Program(name, library, framework, build, **more)
        return build

    return declare


def _enter(case: Case) -> None:
    if case.name in CASES:
        raise ValueError(f"two cases are named {case.name}")
    CASES[case.name] = case


def fault(
    on: str | tuple[str, str],
    name: str,
    *where: Where,
    source: str,
    before: BeforeEdit | None = None,
    both: Change = UNCHANGED,
    **more: Any,
) -> Callable[[AfterEdit], AfterEdit]:
    """Declares the decorated ``edit(built)`` of the candidate as a fault; its docstring is the description.

    ``on``: the program, or those of reference and candidate. An edit that has to come before the program is built is
    handed over as ``before``; the decorated function may then do nothing.
    """

    def declare(edit: AfterEdit) -> AfterEdit:
        reference, candidate = (on, on) if isinstance(on, str) else on
        text = " ".join((edit.__doc__ or "").split())
        _enter(Fault(name, reference, candidate, text, source, Change(before, edit), where, both, **more))
        return edit

    return declare


def clean(
    on: str | tuple[str, str],
    name: str,
    *,
    before: BeforeEdit | None = None,
    reference_change: Change = UNCHANGED,
    both: Change = UNCHANGED,
    **more: Any,
) -> Callable[[AfterEdit], AfterEdit]:
    """Declares the decorated ``edit(built)`` of the candidate as an honest change; its docstring says which."""

    def declare(edit: AfterEdit) -> AfterEdit:
        reference, candidate = (on, on) if isinstance(on, str) else on
        text = " ".join((edit.__doc__ or "").split())
        change = Change(before, edit)
        _enter(Clean(name, reference, candidate, text, change, reference_change, both, **more))
        return edit

    return declare
