"""Words that all reports share: numbers, counts, calls and their places, commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueline.records import Call, Verdict
from trueline.report.phrases import Phrase

_COUNT_WORDS = (
    ("PASS", "passed"),
    ("WARN", "to look at"),
    ("FAIL", "failed"),
    ("ERROR", "with errors"),
    ("NOT_COMPARED", "not compared"),
)


def number(value: float | None) -> str:
    """A distance or an error, short: ``1.3e-04``, ``0``, ``nan``; a dash where there is none."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.1e}"


def statistic(value: float | None) -> str:
    """A minimum, mean or norm, readable: ``-2.944``, ``1.7e-12``."""
    if value is None:
        return "-"
    return f"{value:.5g}"


def size(count: float) -> str:
    """A number of bytes: ``3.2 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def count_of(counts: Mapping[str, int], verdict: Verdict) -> int:
    return int(counts.get(verdict.name, 0))


def measured(counts: Mapping[str, int]) -> int:
    """How many calls were compared at all."""
    return sum(count_of(counts, verdict) for verdict in Verdict if verdict is not Verdict.NOT_COMPARED)


def name_and_module(call: Call) -> str:
    """``torch.relu.3.forward in encoder.mlp``; a module that has only a number is told by its class too."""
    if not call.module:
        return call.name
    telling = any(letter.isalpha() for letter in call.module)
    return Phrase("{call} in {module}", call=call.name, module=call.module if telling else module_of(call))


def counts_sentence(counts: Mapping[str, int]) -> str:
    """``412 calls: 300 passed, 2 failed``."""
    parts = [f"{counts[name]:,} {word}" for name, word in _COUNT_WORDS if counts.get(name)]
    total = sum(int(counts.get(name, 0)) for name, _ in _COUNT_WORDS)
    return f"{plural(total, 'call')}: {', '.join(parts)}" if parts else "no calls"


def place(call: Call) -> str:
    """``step 2, rank 0``, with what else tells this call from others."""
    return f"step {call.step}, rank {call.rank}" + (f", in {call.context}" if call.context else "")


def module_of(call: Call) -> str:
    if not call.module:
        return "(outside any module)"
    return f"{call.module} ({call.module_class})" if call.module_class else call.module


def show_command(run: Path, call: Call, *, ranks: Sequence[int] = ()) -> str:
    words: list[Any] = ["trueline", "show", run, call.name, "--step", call.step]
    if len(ranks) > 1:
        words += ["--rank", call.rank]
    return command(*words)


def command(*words: object) -> str:
    return shlex.join(str(word) for word in words)
