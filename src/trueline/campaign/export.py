"""A Run as a corpus: the calls that a program made, as config lines that any campaign can execute."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from trueline.campaign.sources import Source
from trueline.cases import Case
from trueline.errors import UsageError
from trueline.formats.configs import ConfigError, config_line
from trueline.replay.cases import cases_from_run


@dataclass(frozen=True, slots=True)
class Exported:
    """The lines of Runs, each with the number of calls that it stands for, in the order in which they were made first.

    Every one of the ``calls`` is in one line, or counted in ``left_out`` by reason. ``simplified`` counts calls whose
    line says less than they did, by what it leaves unsaid.
    """

    lines: Mapping[str, int]
    calls: int
    left_out: Mapping[str, int]
    simplified: Mapping[str, int]


def export_configs(source: Source | Sequence[Source]) -> Exported:
    """The distinct calls of Runs, of Paddle or of torch, as config lines.

    exported = trueline.export_configs("runs/a")
    exported.lines    # 'torch.nn.functional.gelu(Tensor([2, 3],"float32"), )' -> 12 calls
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise UsageError("no Run to export: give its folder")
    lines: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    simplified: Counter[str] = Counter()
    calls = 0
    for path in sources:
        planned = cases_from_run(path)
        calls += planned.calls
        left_out.update(planned.skipped)
        for case in planned.cases:
            try:
                lines[config_line(case)] += case.count
            except ConfigError as error:
                left_out[str(error)] += case.count
                continue
            for what in _unsaid(case):
                simplified[what] += case.count
    return Exported(dict(lines), calls, dict(left_out), dict(simplified))


def write_configs(exported: Exported, stream: TextIO, *, counts: bool = False) -> None:
    """Writes the lines; with ``counts`` a comment above each says how many calls it stands for."""
    for line, count in exported.lines.items():
        if counts:
            stream.write(f"# {count}\n")
        stream.write(f"{line}\n")


def _unsaid(case: Case) -> Iterator[str]:
    """What a line cannot say of a case."""
    if any(spec.strides is not None for spec in case.tensors):
        yield "the layout of an input that is not contiguous"
    if case.autocast:
        yield "that it ran under autocast"
