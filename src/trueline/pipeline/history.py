"""The history of a training, one line a step: loss, loss scale, norms of gradients and updates.

Written by the hook while the training runs, read by the checks of its precision.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trueline.dtypes import dtype_named
from trueline.frameworks.probing import Counting, Operators, Probing, Weights
from trueline.numerics import digest
from trueline.pipeline.recording import HISTORY_FILE, TRAINING_FILE, append_line, doubles, now, read_lines, write_json

_COUNTED_AFTER = 1
"""The step after which operators are counted: the first one of a training also sets things up."""
_SAMPLED, _SAMPLES = 64, 8
"""Weights of which the start of a training is sampled, and how many numbers of each."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a training. None is what was not told or not there any more."""

    step: int
    loss: float | None = None
    scale: float | None = None
    gradient_norm: float | None = None
    update_norm: float | None = None
    distance: float | None = None
    stuck: float | None = None
    bad_gradients: int = 0

    @property
    def skipped(self) -> bool:
        """Whether nothing was updated because gradients were not finite, as a loss scaler has it."""
        return self.update_norm == 0.0 and (self.bad_gradients > 0 or self.gradient_norm is None)


class Training:
    """Writes the history of one training."""

    def __init__(self, folder: Path, tools: Probing) -> None:
        self.folder = folder
        self._tools = tools
        self._start: Weights | None = None
        self._before: Weights | None = None
        self._steps = 0
        self._counting: Counting | None = None
        self._counted = False
        self._facts: dict[str, Any] = {"created": now(), "framework": tools.name}

    def start(self, model: Any, optimizer: Any) -> None:
        if self._steps == 0:
            self._start = self._before = start = self._tools.weights(model, optimizer)
            self._facts["digests"] = digests(self._tools, self._tools.parameters(model)) if model is not None else []
            self._facts["start"] = _samples(self._tools, start)
            write_json(self.folder / TRAINING_FILE, self._facts)

    def step(self, loss: Any, model: Any, optimizer: Any, scaler: Any) -> None:
        self.stop_counting()
        row = Step(
            self._steps,
            None if loss is None else self._tools.number(loss),
            None if scaler is None else self._tools.scale(scaler),
        )
        line = {**asdict(row), "created": now()}
        if model is not None or optimizer is not None:
            line |= self._moved(model, optimizer)
        append_line(self.folder / HISTORY_FILE, line)
        self._steps += 1
        if self._steps == _COUNTED_AFTER and not self._counted:
            self._count(model)

    def stop_counting(self) -> None:
        if self._counting is None:
            return
        counting, self._counting = self._counting, None
        self._write(counting.stop())

    def _moved(self, model: Any, optimizer: Any) -> dict[str, Any]:
        now_at = self._tools.weights(model, optimizer)
        self._facts |= {"weights": dict(now_at.dtypes), "masters": now_at.masters}
        # Nothing may be known of the time before; or the optimizer made its own copies only in its first step.
        known = self._start is not None and self._before is not None and self._before.names == now_at.names
        if not known:
            self._start = self._before = now_at
        assert self._start is not None and self._before is not None
        found = asdict(self._tools.moved(model, optimizer, self._before, self._start))
        self._before = now_at
        return found if known else {**found, "update_norm": None, "distance": None, "stuck": None}

    def _count(self, model: Any) -> None:
        self._counted = True
        self._facts["parameters"] = _dtypes(self._tools, model)
        self._facts["unsupported"] = self._tools.why_not_lowered()
        self._counting = self._tools.counting(model)
        self._counting.start()

    def _write(self, found: Operators) -> None:
        self._facts |= {"low": found.low, "other": found.other, "autocast": asdict(found.autocast)}
        write_json(self.folder / TRAINING_FILE, self._facts)


def _dtypes(tools: Probing, model: Any) -> dict[str, int]:
    """How many parameters of a model there are of each dtype."""
    found: dict[str, int] = {}
    if model is not None:
        for _, value in tools.parameters(model):
            name = tools.leaf(value).dtype
            found[name] = found.get(name, 0) + 1
    return found


def _samples(tools: Probing, weights: Weights) -> list[float]:
    """Some numbers of some weights, by which two trainings that begin alike, but for rounding, know each other."""
    found: list[float] = []
    for value in weights.values[:_SAMPLED]:
        numbers = doubles(tools.leaf(value)).reshape(-1)
        found += numbers[:: max(numbers.size // _SAMPLES, 1)][:_SAMPLES].tolist()
    return found


def digests(tools: Probing, named: Iterable[tuple[Any, Any]]) -> list[str]:
    """The digests of tensors, in order of their names."""
    found = {}
    for name, value in named:
        leaf = tools.leaf(value)
        found[name] = f"{digest(leaf.bits, dtype_named(leaf.dtype)):016x}"
    return [found[name] for name in sorted(found)]


def training_facts(folder: Path) -> dict[str, Any]:
    """What a training told besides its steps; empty where it told nothing that can be read."""
    try:
        content = json.loads((folder / TRAINING_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_history(folder: Path) -> list[Step]:
    """The steps that a training noted."""
    names = Step.__dataclass_fields__
    steps = []
    for line in read_lines(folder / HISTORY_FILE):
        if isinstance(line.get("step"), int):
            steps.append(Step(**{name: line[name] for name in names if name in line}))
    return steps


def finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
