"""The two sides of a comparison between stages, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, dtype_named
from trueline.errors import RunError
from trueline.frameworks.probing import Leaf
from trueline.pipeline.gold import Allowed, Error, allowed_error, coarsest, error_of
from trueline.pipeline.recording import Point, Section, doubles, joined, readable
from trueline.pipelines import Stage, StageRun

_PRECISIONS = {
    "fp32": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "int8": "int8",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
}
_EXACT_KINDS = ("TranslatedLayer", "GraphModule", "ScriptModule", "ScriptFunction", "TracedModule")
"""Exported models that run the same kernels as eager, in the same order."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The dtype in which a stage was asked to compute. ``narrowed``: it is narrower than that of the stage before."""

    dtype: str
    narrowed: bool = False

    @property
    def epsilon(self) -> float:
        return dtype_named(self.dtype).epsilon if self.dtype != "int8" else 2.0**-7

    def permits(self, made: str, right: str) -> bool:
        """Whether an output may have this dtype: the reference's, a wider one, or what was asked for."""
        mine, theirs = dtype_named(made), dtype_named(right)
        if mine.kind != theirs.kind:
            return False
        return not mine.is_float or mine.epsilon <= max(theirs.epsilon, self.epsilon)

    def coarsest(self, leaves: Sequence[Leaf]) -> str:
        return coarsest(dict(enumerate_leaves(leaves)), "" if self.dtype == "int8" else self.dtype)


def enumerate_leaves(leaves: Sequence[Leaf]) -> list[tuple[str, Leaf]]:
    return [(str(number), leaf) for number, leaf in enumerate(leaves)]


class Side:
    """One point of one stage."""

    def __init__(self, run: StageRun, point: Point) -> None:
        self.stage = run.stage.name
        self.point = point
        self.started = run.result.started
        self.name = f"{self.stage} ({point.name})"
        kind = str(run.stage.kind)
        self._label = point.name if point.name.startswith(kind) else f"{kind}: {point.name}"

    def what(self, subject: str) -> str:
        """The name of a finding about this point: ``outputs (export)``, ``finite (train: eval)``."""
        return f"{subject} ({self._label})"

    @cached_property
    def batches(self) -> list[Section]:
        return self.point.sections.get("batch", [])

    @property
    def raised(self) -> str:
        return next((section.raised for section in self.batches if section.raised), "")

    @cached_property
    def inputs(self) -> Mapping[str, Leaf]:
        return joined(self.batches, outputs=False)

    @cached_property
    def outputs(self) -> Mapping[str, Leaf]:
        return joined(self.batches, outputs=True)

    @property
    def samples(self) -> int:
        """How many samples were probed, all batches together."""
        first = next(iter(self.inputs.values()), None)
        return int(first.bits.shape[0]) if first is not None and first.bits.ndim else 0

    def samples_in_common(self, other: Side) -> int:
        return min(self.samples, other.samples)

    @property
    def dtype(self) -> str:
        """The coarsest dtype in which it computed, as far as that shows."""
        return point_dtype(self.point, self.outputs)

    def exact_with(self, other: Side) -> bool:
        """Whether equal bits are expected: the same kernels on the same batches, in the same precision."""
        mine, theirs = self.point.facts, other.point.facts
        kinds = [str(facts.get("model", "")) for facts in (mine, theirs)]
        same = kinds[0] == kinds[1] or any(kind in kinds[0] for kind in _EXACT_KINDS)
        shapes = [
            [[leaf.bits.shape for leaf in section.inputs.values()] for section in side.batches]
            for side in (self, other)
        ]
        devices = [{leaf.device for leaf in side.outputs.values()} for side in (self, other)]
        alike = mine.get("framework") == theirs.get("framework") and mine.get("autocast") == theirs.get("autocast")
        return same and alike and shapes[0] == shapes[1] and devices[0] == devices[1] and self.dtype == other.dtype


def side_of(run: StageRun, point: Point) -> Side:
    return Side(run, point)


def point_dtype(point: Point, outputs: Mapping[str, Leaf]) -> str:
    autocast = point.facts.get("autocast") or {}
    lowered = str(autocast.get("dtype", "")) if autocast.get("enabled") else ""
    parameters = [name for name in point.facts.get("parameters") or {} if name in DTYPES and dtype_named(name).is_float]
    return coarsest(outputs, lowered if lowered in DTYPES else "", *parameters)


def asked_of(stage: Stage, before: Side | None) -> Asked:
    """In which dtype a stage was asked to compute: an inference as its settings say, all else as the stage before."""
    text = stage.settings.get("precision", "").lower()
    inherited = before.dtype if before is not None else "float32"
    if not text or text in ("fp32", "float32"):
        return Asked(inherited)
    dtype = _PRECISIONS.get(text, inherited)
    narrowed = dtype == "int8" or dtype_named(dtype).epsilon > dtype_named(inherited).epsilon
    return Asked(dtype, narrowed)


def asked_alone(side: Side) -> Asked:
    """Of the first stage of a chain: it sets the dtype."""
    return Asked("float32" if readable(side.point) else side.dtype)


class Yardstick:
    """The gold of a chain, and eager's error against it."""

    def __init__(self, point: Point) -> None:
        batches = point.sections.get("batch", [])
        self._gold = joined(point.sections.get("gold", []), outputs=True)
        self._eager = joined(batches, outputs=True)
        self.dtype = point_dtype(point, self._eager)
        self.point = point

    def error(self, path: str) -> Error | None:
        """Eager's own error in an output; None where it has no gold."""
        place = self._place(path)
        if place is None or place not in self._eager:
            return None
        eager, gold = doubles(self._eager[place]), doubles(self._gold[place])
        return error_of(eager, gold) if eager.shape == gold.shape else None

    def _place(self, path: str) -> str | None:
        """Outputs of a predictor may have other paths; one output is always the one."""
        if path in self._gold:
            return path
        paths = list(self._gold)
        if len(paths) == 1:
            return paths[0]
        number = path.rpartition(".")[2]
        return paths[int(number)] if number.isdigit() and int(number) < len(paths) else None

    def gold_for(self, path: str, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """What is right for the first samples; None where that is not known."""
        place = self._place(path)
        if place is None or self.error(path) is None:
            return None
        gold = doubles(self._gold[place])
        if gold.ndim and shape and len(gold) >= shape[0]:
            gold = gold[: shape[0]]
        return gold if gold.shape == shape else None

    def allowed(self, path: str, asked: Asked) -> Allowed:
        error = self.error(path)
        assert error is not None, "asked of a path without a gold"
        dtype = self.dtype if asked.dtype == "int8" else asked.dtype
        return allowed_error(error, self.dtype, dtype)


def yardstick_of(points: Sequence[Point]) -> Yardstick | None:
    """The yardstick of the last point that has a gold."""
    for point in reversed(points):
        try:
            if not readable(point) and point.facts.get("gold") == "" and point.first("gold") is not None:
                return Yardstick(point)
        except (RunError, OSError):
            continue
    return None
