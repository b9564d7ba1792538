"""What a standard is shown of a pair of calls, and what it answers. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trueline.dtypes import DType
from trueline.ops.facts import Facts
from trueline.records import Measurement, Phase, Verdict
from trueline.tree import Tree

Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(slots=True)
class TensorEvidence:
    """One pair of tensors, measured. ``distance`` is NaN where nothing was measured, and ``note`` says why.

    ``peak`` is the largest absolute error in units of the reference's largest magnitude. ``rms``, ``mean``,
    ``smallest`` and ``largest`` describe the reference, ``candidate_rms`` the candidate. ``only`` names the side that
    has the tensor where one lacks it.
    """

    path: str
    reference_dtype: DType
    candidate_dtype: DType
    shape: tuple[int, ...]
    count: int
    distance: float
    peak: float
    cosine: float
    equal: bool
    estimated: bool
    note: str = ""
    rms: float = 0.0
    mean: float = 0.0
    smallest: float = 0.0
    largest: float = 0.0
    zeros_differ: int = 0
    bad_reference: int = 0
    bad_candidate: int = 0
    bad_mismatch: int = 0
    candidate_rms: float = 0.0
    same_shape: bool = True
    only: str = ""
    measurement: Measurement | None = None

    @property
    def measured(self) -> bool:
        return self.distance == self.distance and not self.only

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the coarser of the two dtypes; 0.0 for exact types."""
        return max(_unit(self.reference_dtype), _unit(self.candidate_dtype))


@dataclass(slots=True)
class CallEvidence:
    """A pair of calls. ``saved`` are, for a backward call, the inputs and outputs of its forward call: what the
    gradient was computed from besides the gradients that arrived. ``rewired`` is True for calls that are not the same
    API with the same arguments (fused, renamed), of which only the outputs can be laid side by side.
    ``reduced_precision`` is True where a device may multiply float32 with fewer digits by default (TF32)."""

    facts: Facts
    phase: Phase
    inputs: list[TensorEvidence]
    outputs: list[TensorEvidence]
    saved: list[TensorEvidence] = field(default_factory=list)
    result: tuple[Tree, Tree] = (None, None)
    rewired: bool = False
    reduced_precision: bool = False
    autocast: float = 0.0
    """The unit roundoff of the type to which autocast rounds on one side only; 0.0 where there is none."""
    background: float = 0.0
    """For rewired calls: how far the two runs had drifted apart before."""


@dataclass(slots=True)
class Judgement:
    """What a standard says of a pair of calls. ``limits`` has one entry for each output, None where there is none.
    ``idle`` is True where there was nothing to compare on either side, so that nothing was left out."""

    verdict: Verdict
    reason: str
    limit: float | None = None
    inherited: bool = False
    limits: Sequence[float | None] = ()
    idle: bool = False


@dataclass(slots=True)
class OutputColumns:
    """Many measured outputs at once, for a first look: one entry of each column for each output."""

    distance: Floats
    peak: Floats
    roundoff: Floats
    estimated: Flags


class Standard(Protocol):
    """A named rule. ``judge`` is pure: the same evidence gives the same judgement."""

    @property
    def name(self) -> str: ...

    def judge(self, evidence: CallEvidence) -> Judgement: ...


@runtime_checkable
class Screening(Protocol):
    """What a standard may offer besides, so that Runs of hundreds of thousands of calls are judged quickly."""

    def within_rounding(self, columns: OutputColumns) -> Floats:
        """For each output the distance that passes whatever the inputs were, negative where only ``judge`` can tell.
        Asked for operators that do arithmetic, about outputs whose NaN and Inf are alike."""


def _unit(dtype: DType) -> float:
    return dtype.epsilon / 2
