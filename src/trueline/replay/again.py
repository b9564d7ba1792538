"""What a kernel keeps from one call to the next, and must not.

A candidate is called with one set of values, then with others at the same addresses, then with the first ones
elsewhere. Its first results must not change meanwhile; what it makes of the others must be what an honest
implementation makes of them, and what it makes of the first ones what it made of them before. Rounding does not explain
a large part of a result, which is what a stale one is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from trueline.cases import Case, Evidence, Target, covers
from trueline.dtypes import dtype_named
from trueline.frameworks.base import Again, ArrayIn, ArrayOut, CannotExecute, Executed, Executor, Inputs, Repeating
from trueline.ops.equivalence import rule_for
from trueline.ops.facts import Kind, facts_of
from trueline.replay.forms import numbers
from trueline.replay.inputs import inputs_for

Arrays = Mapping[str, ArrayOut]

STALE = 0.05
"""Of the size of a result. Narrow types round by a hundredth of it at most; what belongs to other values is off by
about as much as it is large."""
LUCK = 16.0
"""Times the error of the first call that the others may have: their values are of the same kind."""
_ONE_IN = 32
"""Of a framework's own kernels one case in so many is called again; of somebody's own all."""
_MOST_ELEMENTS = 1 << 20
_OTHER_SEED = 0x5EED


def state_evidence(
    case: Case, target: Target, machine: Executor, inputs: Inputs, honest: Executed
) -> Iterator[Evidence]:
    """Evidence of what a candidate kept; nothing where nothing was."""
    if not isinstance(machine, Repeating) or not is_asked(case, target) or (other := _others(case, machine)) is None:
        return
    again = machine.again(replace(case, backward=False), inputs, other)
    if again is None:
        return
    if again.raised:
        yield _fault(f"called again with other values at the same place it raises {again.raised}")
        return
    problem = _changed(again)
    if not problem and _has_values(case):
        problem = _stale(case, machine, other, again, honest)
    elif not problem and honest.conduct is not None and honest.conduct.draws:
        problem = _drew_the_same(again, machine, case, inputs)
    if problem:
        yield _fault(problem)


def is_asked(case: Case, target: Target) -> bool:
    """Whether a case is called again."""
    if sum(int(np.prod(spec.shape)) for spec in case.tensors) > _MOST_ELEMENTS or target.how or case.autocast:
        return False
    return covers(target.overrides, case.api) or int(case.key, 16) % _ONE_IN == 0


def _others(case: Case, machine: Executor) -> Inputs | None:
    """Other values for the same tensors: another draw, or half of what was recorded."""
    if not case.tensors or facts_of(case.api).kind is Kind.UNDEFINED:
        return None
    made = replace(case, seed=case.seed ^ _OTHER_SEED)
    try:
        found = machine.rounded(made, inputs_for(made))
    except CannotExecute:
        return None
    return replace(found, gradients={}, draw=None)


def _has_values(case: Case) -> bool:
    """Whether two executions can be held against each other as they are."""
    return rule_for(case.api) is None and facts_of(case.api).kind is not Kind.RANDOM


def _changed(again: Again) -> str:
    for path, kept in again.kept.items():
        before = again.first[path]
        if kept.bits is not None and before.bits is not None and kept.bits.tobytes() != before.bits.tobytes():
            return f"the result of a call ({path}) is changed by the next call: they share memory"
    return ""


def _stale(case: Case, machine: Executor, other: Inputs, again: Again, honest: Executed) -> str:
    expected = machine.run(replace(case, backward=False), other, mode="honest")
    if not expected.returned:
        return ""
    for path, first in again.first.items():
        usual, wanted = honest.outputs.get(path), expected.outputs.get(path)
        if usual is None or wanted is None or first.bits is None:
            continue
        allowed = STALE + LUCK * _distance(first, usual)
        if _distance(again.second.get(path), wanted) > allowed:
            return f"called again with other values at the same place, it gives a wrong result ({path})"
        if _distance(again.third.get(path), usual) > allowed:
            return f"called again with the same values after others, it gives another result ({path})"
    return ""


def _drew_the_same(again: Again, machine: Executor, case: Case, inputs: Inputs) -> str:
    """Whether random numbers come again that an honest implementation would not draw again."""
    same = all(_equal(first, again.third.get(path)) for path, first in again.first.items())
    if not same or not again.first or not any(first.bits is not None for first in again.first.values()):
        return ""
    plain = machine.run(replace(case, backward=False), inputs, mode="honest")
    moved = machine.run(replace(case, backward=False, seed=case.seed ^ _OTHER_SEED), inputs, mode="honest")
    if not plain.returned or all(_equal(one, moved.outputs.get(path)) for path, one in plain.outputs.items()):
        return ""
    return "two calls one after the other draw the same random numbers"


def _equal(one: ArrayOut, other: ArrayOut | None) -> bool:
    if other is None or one.bits is None or other.bits is None:
        return False
    return one.bits.tobytes() == other.bits.tobytes()


def _distance(found: ArrayOut | None, wanted: ArrayOut) -> float:
    """How far a result is from another, in sizes of the latter: norms of numbers, shares of what has no size. Infinite
    where they cannot be compared."""
    if found is None or found.bits is None or wanted.bits is None or found.shape != wanted.shape:
        return np.inf
    if not wanted.bits.size or found.dtype != wanted.dtype:
        return 0.0
    if dtype_named(wanted.dtype).is_exact:
        return float(np.mean(found.bits != wanted.bits))
    ours, theirs = numbers(ArrayIn(found.bits, found.dtype)), numbers(ArrayIn(wanted.bits, wanted.dtype))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    odd = ~finite & ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    if not finite.any():
        return float(np.mean(odd))
    with np.errstate(all="ignore"):
        scale = float(np.abs(theirs[finite]).max()) or float(np.abs(ours[finite]).max()) or 1.0
        off = np.linalg.norm((ours[finite] / scale - theirs[finite] / scale).reshape(-1))
        size = np.linalg.norm((theirs[finite] / scale).reshape(-1))
    return float(np.mean(odd)) + float(off / size if size else off)


def _fault(problem: str) -> Evidence:
    return Evidence("output", "call", "bool", (), structure=problem)
