"""What is to be checked: the cases of Runs and of the operator catalogue, merged, with nothing lost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueline.cases import Case, Target
from trueline.errors import UsageError

Source = str | os.PathLike[str]

_STRIDE = 0x9E3779B97F4A7C15
"""Odd and large: other seeds give other numbers everywhere."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of all sources. ``calls`` of the sources are each part of a case or counted in ``skipped`` by reason;
    ``identity`` tells these sources from others of the same name."""

    cases: tuple[Case, ...]
    calls: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()


def plan_of(sources: Sequence[Source], ops: Sequence[str], seed: int, target: Target) -> Plan:
    """Gathers the cases of all sources. Cases that are the same are one, with the sum of their counts."""
    if not sources and not ops:
        raise UsageError("no source: give the folder of a Run, or operators (--ops 'torch.nn.functional.*')")
    parts = [_cases_of_run(Path(source), seed, target) for source in sources]
    parts += [_cases_of_operators(pattern, seed, target.dtype or "float32") for pattern in ops]
    merged: dict[str, Case] = {}
    skipped: dict[str, int] = {}
    for part in parts:
        for case in part.cases:
            known = merged.get(case.key)
            merged[case.key] = case if known is None else replace(known, count=known.count + case.count)
        for reason, count in part.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    return Plan(
        tuple(merged.values()),
        sum(part.calls for part in parts),
        skipped,
        tuple(name for part in parts for name in part.names),
        tuple(name for part in parts for name in part.identity),
    )


def _cases_of_run(path: Path, seed: int, target: Target) -> Plan:
    from trueline.replay.cases import cases_from_run
    from trueline.store import open_run

    with open_run(path) as run:
        created = f"{path.resolve()} of {run.info.created}"
    planned = cases_from_run(path, seed=seed, overridden=tuple(target.overrides))
    return Plan(tuple(planned.cases), planned.calls, dict(planned.skipped), (str(path),), (created,))


def _cases_of_operators(pattern: str, seed: int, dtype: str) -> Plan:
    from trueline.ops.catalogue import catalogue_cases

    cases = [replace(case, seed=(case.seed + seed * _STRIDE) % 2**63) for case in catalogue_cases(pattern, dtype)]
    return Plan(tuple(cases), len(cases), {}, (f"ops {pattern}",), (f"ops {pattern}",))
