"""Regions in which the candidate alone goes through a type of less precision, and comes back from it."""

from __future__ import annotations

from collections.abc import Iterable

from trueline.diagnose.joints import Joints, Region
from trueline.dtypes import DType, dtype_named
from trueline.records import Role
from trueline.store.columns import ROLES

_OUTPUT = ROLES.index(Role.OUTPUT)


def narrowed(joints: Joints, region: Region) -> tuple[DType, DType] | None:
    """The coarsest type of numbers of the reference, and that of the candidate where it is coarser; else None. What
    either side begins with, and the two values themselves, may be of any type: that is no doing of the region."""
    ends = [joints.layout_of(side, value) for side, value in enumerate(joints.values(region.leaf))]
    begins = [
        {joints.layout_of(side, value) for value in behind.begins} | {end}
        for side, (behind, end) in enumerate(zip(region.sides, ends, strict=True))
    ]
    given = [kind for side in (0, 1) for kind in _kinds(joints, side, begins[side])]
    reference = max([*given, *_kinds(joints, 0, _layouts(joints, 0, region))], key=_coarseness, default=None)
    candidate = max(_kinds(joints, 1, _layouts(joints, 1, region)), key=_coarseness, default=None)
    if reference is None or candidate is None or candidate.epsilon <= reference.epsilon:
        return None
    return reference, candidate


def _layouts(joints: Joints, side: int, region: Region) -> set[int]:
    """The layouts of what the calls of one side return."""
    trace = joints.table.traces[side]
    visits = (visit for position in region.sides[side].calls for visit in trace.visits_of(position).tolist())
    return {int(visit[4]) for visit in visits if visit[2] == _OUTPUT}


def _kinds(joints: Joints, side: int, layouts: Iterable[int]) -> list[DType]:
    """The types of numbers among some layouts."""
    kinds = [dtype_named(joints.table.traces[side].layouts[number].dtype) for number in layouts]
    return [kind for kind in kinds if not kind.is_exact]


def _coarseness(kind: DType) -> float:
    return kind.epsilon
