"""What a rule sees, and what it says.

A rule is applied to the candidate, to the honest implementation and to the gold alike, each alone; what it makes of
each is then compared in place of the raw outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trueline.ops.binding import Bound, bind
from trueline.tree import Tree

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """One execution of a call. Arrays hold values (float64 or wider, complex128, int64, bool), never storage bits.

    ``inputs`` are by argument path (``args.0``), ``outputs`` by output path (``out``, ``out.1``; an argument that was
    changed in place under its own path), ``arriving`` the gradients handed to outputs, ``gradients`` those of inputs.
    """

    api: str
    arguments: Tree
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    arriving: Mapping[str, Array] = field(default_factory=dict)
    gradients: Mapping[str, Array] = field(default_factory=dict)

    @property
    def bound(self) -> Bound:
        return bind(self.api, self.arguments)

    def given(self, name: str) -> Array | None:
        """The values of the tensor that a parameter is; None where it is none."""
        path = self.bound.tensor(name)
        return self.inputs.get(path) if path is not None else None

    def path(self, name: str) -> str:
        return self.bound.tensor(name) or ""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold of an execution by itself: ``text`` says what, with the numbers."""

    path: str
    holds: bool
    text: str


@dataclass(frozen=True, slots=True)
class Comparable:
    """An execution in the form in which it may be compared.

    ``outputs`` and ``gradients`` are what to measure, by path. A path ``out.0:columns`` is a facet: something made from
    outputs that takes the place of what was dropped; it is judged in the dtype of ``out.0``. ``exact`` are paths where
    equal means equal to the last bit, whatever the type. ``dropped`` are paths whose values are not compared, each with
    the reason; their dtype, shape and device still are. ``checks`` must all hold; they count as measurements.
    ``gauge`` are the free choices the execution made: gradients of two executions with different gauges are those of
    different functions and are not comparable (``gauge_reason``).
    """

    outputs: Mapping[str, Array]
    gradients: Mapping[str, Array] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()
    dropped: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    gauge: Array | None = None
    gauge_reason: str = ""

    def without(self, path: str, reason: str) -> Comparable:
        """The same with the values of an output or gradient left out."""
        return replace(
            self,
            outputs={name: array for name, array in self.outputs.items() if name != path},
            gradients={name: array for name, array in self.gradients.items() if name != path},
            dropped={**self.dropped, path: reason},
        )

    def with_output(self, path: str, array: Array, *, exact: bool = False) -> Comparable:
        more = frozenset({path}) if exact else frozenset()
        return replace(self, outputs={**self.outputs, path: array}, exact=self.exact | more)

    def with_gradient(self, path: str, array: Array) -> Comparable:
        return replace(self, gradients={**self.gradients, path: array})

    def with_check(self, path: str, holds: object, text: str) -> Comparable:
        return replace(self, checks=(*self.checks, Check(path, bool(holds), text)))


def untouched(trial: Trial) -> Comparable:
    """Everything as it is."""
    return Comparable(dict(trial.outputs), dict(trial.gradients))


def plane_rank(api: str) -> int:
    """How many trailing axes a pooling works on: the digit in its name (``max_pool2d``)."""
    return int(next(character for character in reversed(api) if character.isdigit()))


def same_gauge(one: Comparable, other: Comparable) -> bool:
    """Whether two executions made the same free choices, so that their gradients can be compared."""
    if one.gauge is None or other.gauge is None:
        return one.gauge is other.gauge
    return one.gauge.shape == other.gauge.shape and bool(np.array_equal(one.gauge, other.gauge))
