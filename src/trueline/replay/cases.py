"""Which calls of a Run are which Cases.

Every API call of the forward direction becomes a Case, is merged into one that is the same, or is skipped with a
reason; its backward call belongs to its Case. Two calls are the same Case where they have the same API, arguments,
shapes, dtypes, layouts and gradients that arrive: their numbers may differ, and the liveliest of the first few is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trueline.cases import Case, Stored, TensorSpec
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.ops.domains import domain_for
from trueline.records import Call, Level, Phase, TensorRecord
from trueline.replay.precision import autocast_of
from trueline.replay.refusals import has_no_memory, refusal
from trueline.replay.selection import Selection
from trueline.store import open_run
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES
from trueline.store.trace import Trace

_FIRST_FEW = 8
"""How many of the calls that are one Case are looked at for the one with the most to see."""

_NOTHING = "constant(0)"
"""What stands in for the content of a tensor that had no memory: what it holds cannot matter."""

_TOLD_APART = ("api", "arguments", "result", "raised")

Group = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """The Cases of a Run. ``calls`` counts its forward API calls and the backward ones whose forward call is not in
    the Run: each is counted in one Case or in ``skipped``, by reason. ``backward_calls`` counts the backward calls
    that belong to forward ones."""

    cases: tuple[Case, ...]
    calls: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    backward_calls: int = 0


def cases_from_run(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    all_data: bool = False,
    overridden: Collection[str] = (),
    only: Selection | None = None,
) -> Planned:
    """The Cases of a Run, or of the calls that ``only`` names. With ``all_data`` calls that were given different stored
    tensors are different Cases; ``overridden`` APIs are taken even if only an override can execute them."""
    place = str(Path(path).resolve())
    found: dict[str, Case] = {}
    skipped: dict[str, int] = {}
    calls = backward_calls = 0
    with open_run(path) as run:
        for rank in run.ranks if only is None else only.ranks(run.ranks):
            trace = run.rank(rank).trace()
            chosen = None if only is None else only.forwards(trace)
            rank_plan = _RankPlan(trace, place, seed, all_data, frozenset(overridden), chosen)
            for key, case in rank_plan.cases():
                known = found.get(key)
                found[key] = case if known is None else replace(known, count=known.count + case.count)
            calls += rank_plan.calls
            backward_calls += rank_plan.backward_calls
            for reason, count in rank_plan.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + count
    if only is not None and not calls:
        raise UsageError(f"{path} has no forward call {only}; `trueline show {path}` lists what it has")
    return Planned(tuple(found.values()), calls, skipped, backward_calls)


class _RankPlan:
    """The Cases of one rank, or of the forward calls at the positions ``chosen``."""

    def __init__(
        self,
        trace: Trace,
        place: str,
        seed: int,
        all_data: bool,
        overridden: frozenset[str],
        chosen: frozenset[int] | None = None,
    ) -> None:
        self._trace = trace
        self._place = place
        self._seed = seed
        self._all_data = all_data
        self._overridden = overridden
        self._chosen = chosen
        self.skipped: dict[str, int] = {}
        self.calls = 0
        self.backward_calls = 0

    def cases(self) -> Iterator[tuple[str, Case]]:
        """Each Case with what makes it the same as another."""
        backwards = self._backwards()
        groups: dict[Group, list[int]] = {}
        for position in self._positions(Phase.FORWARD):
            if not self._is_chosen(position):
                continue
            self.calls += 1
            groups.setdefault(self._group(position, backwards.get(position)), []).append(position)
        for positions in groups.values():
            shown = self._liveliest(positions, backwards)
            call = self._trace.call(shown)
            reason = refusal(call, self._overridden)
            if reason:
                self._skip(reason, len(positions))
                continue
            back = backwards.get(shown)
            case = self._case(call, None if back is None else self._trace.call(back))
            identity = _identity(case, self._all_data)
            first = self._trace.call(positions[0], statistics=False)
            yield (
                identity,
                replace(case, seed=_seed_of(identity, self._seed), count=len(positions), calls=(first.name,)),
            )

    def _is_chosen(self, position: int) -> bool:
        return self._chosen is None or position in self._chosen

    def _positions(self, phase: Phase) -> list[int]:
        trace = self._trace
        wanted = (trace.column("level") == LEVELS.index(Level.API)) & (trace.column("phase") == PHASES.index(phase))
        return [int(position) for position in np.flatnonzero(wanted)]

    def _backwards(self) -> dict[int, int]:
        """Position of a forward call -> position of its first backward call."""
        trace = self._trace
        found: dict[int, int] = {}
        ids = trace.column("id")
        for position in self._positions(Phase.BACKWARD):
            forward = int(trace.column("forward")[position])
            place = int(np.searchsorted(ids, forward)) if forward != NONE else len(ids)
            if place >= len(ids) or int(ids[place]) != forward:
                if self._chosen is None:
                    self.calls += 1
                    self._skip("a backward call whose forward call was not recorded")
                continue
            if not self._is_chosen(place):
                continue
            self.backward_calls += 1
            found.setdefault(place, position)
        return found

    def _group(self, position: int, back: int | None) -> Group:
        """What tells calls apart, in the numbers of the Run: cheap, and never too coarse."""
        trace = self._trace
        row = trace.columns[position]
        visits = trace.visits_of(position)
        api, arguments, result, raised = (int(row[CALL_COLUMNS.index(name)]) for name in _TOLD_APART)
        key: list[Any] = [api, arguments, result, raised != NONE, tuple(visits[:, 4].tolist())]
        if self._all_data:
            key.append(tuple(visits[:, 3].tolist()))
        if back is not None:
            seen = trace.visits_of(back)
            key += [int(trace.column("arguments")[back]), tuple(seen[:, 4].tolist())]
            if self._all_data:
                key.append(tuple(seen[:, 3].tolist()))
        return tuple(key)

    def _liveliest(self, positions: list[int], backwards: Mapping[int, int]) -> int:
        """The first of the calls whose tensors have the most to see: the state of an optimizer is all zeros in the
        first step."""
        few = positions[:_FIRST_FEW]
        if len(few) == 1:
            return few[0]
        tensors = {
            position: np.concatenate(
                [self._trace.visits_of(place)[:, 3] for place in {position, backwards.get(position, position)}]
            )
            for position in few
        }
        rows = self._trace.statistics_rows(np.unique(np.concatenate(list(tensors.values()))))
        return max(few, key=lambda position: sum(_varies(rows.get(int(one))) for one in tensors[position]))

    def _case(self, call: Call, back: Call | None) -> Case:
        differentiable = back is not None and any(record.requires_grad for record in call.inputs)
        tensors = tuple(self._spec(record, differentiable, call.rank) for record in call.inputs)
        gradients: tuple[TensorSpec, ...] = ()
        if back is not None and differentiable:
            known = {record.path for record in call.outputs}
            # Dumps that keep no outputs (PaddleAPEX's) say by the gradients alone which there are.
            arrived = (one for one in back.inputs if one.path in known or not known)
            gradients = tuple(self._spec(one, False, call.rank) for one in arrived)
        return Case(
            call.api,
            call.arguments,
            tuple(_with_domain(spec, call, tensors) for spec in tensors),
            gradients,
            backward=differentiable,
            autocast=autocast_of(call),
            module=call.module,
            source=call.source,
        )

    def _spec(self, record: TensorRecord, differentiable: bool, rank: int) -> TensorSpec:
        kind = dtype_named(record.dtype)
        statistics = record.statistics
        return TensorSpec(
            record.path,
            kind.name,
            record.shape,
            None if record.strides == _contiguous(record.shape) else record.strides,
            requires_grad=differentiable and record.requires_grad and not kind.is_exact,
            statistics=None if statistics is None or record.stored else replace(statistics, sketch=None),
            domain=_NOTHING if has_no_memory(record) else "",
            stored=Stored(self._place, rank, record.tensor_id) if record.stored else None,
        )

    def _skip(self, reason: str, count: int = 1) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + count


def _with_domain(spec: TensorSpec, call: Call, tensors: Sequence[TensorSpec]) -> TensorSpec:
    if spec.stored is not None or spec.domain:
        return spec
    return replace(spec, domain=domain_for(call.api, spec.path, call.arguments, tensors))


def _varies(row: Any) -> bool:
    return row is not None and bool(row["minimum"] < row["maximum"])


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _identity(case: Case, all_data: bool) -> str:
    """What makes two calls the same Case."""

    def look(spec: TensorSpec) -> list[Any]:
        data = [spec.stored.rank, spec.stored.tensor_id] if all_data and spec.stored is not None else []
        return [spec.path, spec.dtype, spec.shape, spec.strides, spec.requires_grad, spec.domain, *data]

    content = [case.api, case.arguments, case.backward, case.autocast]
    content += [[look(spec) for spec in case.tensors], [look(spec) for spec in case.gradients]]
    return json.dumps(content, sort_keys=True)


def _seed_of(identity: str, seed: int) -> int:
    """A seed of its own for every Case, whatever else is in the Run."""
    digest = hashlib.sha256(f"{seed} {identity}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
