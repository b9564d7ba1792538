"""What a case is: a program that a user could have written, how it is compiled, and what breaks the compiler.

A *program* is a function of one argument, :class:`How`. It builds a small model with seeded weights, runs a few steps
and returns what it gives away, by name. It knows nothing of faults. A :class:`Fault` runs it in eager and, below a
plant, compiled; a :class:`Clean` pair runs it in two honest ways. Every side runs in a process of its own
(``benchmarks.compiled.side``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

from benchmarks.odd_programs.halves import half_of


@dataclass(frozen=True)
class How:
    """How a program is to run. An empty ``backend`` means eager; ``arguments`` are further ones of ``torch.compile``,
    ``inductor`` and ``dynamo`` settings of those packages, ``knobs`` whatever a program lets one choose."""

    backend: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inductor: Mapping[str, Any] = field(default_factory=dict)
    dynamo: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    autocast: bool = False
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def compile(self, thing: Any, **more: Any) -> Any:
        """What a user writes as ``torch.compile(thing, …)``, or does not write."""
        import torch

        if not self.backend:
            return thing
        return torch.compile(thing, backend=self.backend, **{**self.arguments, **more})

    def casting(self) -> AbstractContextManager[Any]:
        """bfloat16 autocast, where this way of running asks for it."""
        import torch

        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast)

    @property
    def type(self) -> Any:
        import torch

        return getattr(torch, self.dtype)


EAGER = How()
INDUCTOR = How("inductor")

Program = Callable[[How], Mapping[str, Any]]


@dataclass(frozen=True)
class Where:
    """Where a right answer points.

    ``region``: what is compiled and goes wrong, as the program's author would name it: the path of a module (``model``
    where the whole model is compiled) or the name of a function. ``operators``: the operators at fault, any of which is
    a right smallest piece, as their names in aten without overload (``aten.rsqrt``). ``source``: file and function of
    the model's line that they come from. ``phase``: forward or backward. ``step``: the first call of the region, from
    0, that is wrong.
    """

    region: str
    operators: tuple[str, ...]
    source: str
    phase: str = "forward"
    step: int = 0


@dataclass(frozen=True)
class Fault:
    """``plant`` gives a context in which compilation is wrong. A bug of the installed torch needs none. ``report``: the
    issue or paper after which it was made."""

    name: str
    program: Program
    how: How
    description: str
    report: str
    where: Where
    plant: Callable[[], AbstractContextManager[Any]] = nullcontext
    reference_how: How = EAGER
    genuine: bool = False

    def reference(self) -> Mapping[str, Any]:
        return execute(self.program, self.reference_how)

    def candidate(self) -> Mapping[str, Any]:
        with self.plant():
            return execute(self.program, self.how)

    def unplanted(self) -> Mapping[str, Any]:
        """The candidate without its fault, to see what rounding alone does."""
        return execute(self.program, self.how)


@dataclass(frozen=True)
class Clean:
    """Two honest ways to run one program."""

    name: str
    program: Program
    description: str
    reference_how: How
    how: How

    def reference(self) -> Mapping[str, Any]:
        return execute(self.program, self.reference_how)

    def candidate(self) -> Mapping[str, Any]:
        return execute(self.program, self.how)


Case = Fault | Clean
CASES: dict[str, Case] = {}


def execute(program: Program, how: How) -> Mapping[str, Any]:
    """One run, seeded, with random numbers drawn as eager draws them."""
    import random

    import torch
    import torch._dynamo
    import torch._inductor.config

    random.seed(0)
    torch.manual_seed(0)
    with ExitStack() as stack:
        stack.enter_context(torch._inductor.config.patch({"fallback_random": True, **how.inductor}))
        stack.enter_context(torch._dynamo.config.patch(dict(how.dynamo)))
        return program(how)


def _enter(case: Case) -> None:
    if case.name in CASES:
        raise ValueError(f"two cases are named {case.name}")
    CASES[case.name] = case


def fault(
    program: Program,
    where: Where,
    *,
    report: str,
    how: How = INDUCTOR,
    reference: How = EAGER,
) -> Callable[[Callable[[], AbstractContextManager[Any]]], Callable[[], AbstractContextManager[Any]]]:
    """Declares the decorated function, which gives the plant, as a fault of its own name and description. A file of
    one half may not hold a fault of the other."""

    def declare(plant: Callable[[], AbstractContextManager[Any]]) -> Callable[[], AbstractContextManager[Any]]:
        _check_half(plant)
        _enter(Fault(plant.__name__, program, how, _text(plant), report, where, plant, reference))
        return plant

    return declare


def genuine(where: Where, *, report: str, how: How = INDUCTOR) -> Callable[[Program], Program]:
    """Declares the decorated program as one that the installed torch itself compiles wrongly."""

    def declare(program: Program) -> Program:
        _check_half(program)
        _enter(Fault(program.__name__, program, how, _text(program), report, where, genuine=True))
        return program

    return declare


def clean(name: str, program: Program, description: str, how: How = INDUCTOR, reference: How = EAGER) -> None:
    _enter(Clean(name, program, description, reference, how))


def _check_half(function: Any) -> None:
    name, file = function.__name__, function.__module__
    if f".{half_of(name)}." not in f"{file}.":
        raise ValueError(f"{name} belongs to the half {half_of(name)}, not into {file}")


def _text(function: Any) -> str:
    return " ".join((function.__doc__ or "").split())
