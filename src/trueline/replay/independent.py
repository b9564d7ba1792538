"""Golds that share no kernel with the candidate.

Where the candidate runs on the CPU by the very library that computes the gold, a kernel that is wrong in every dtype is
held against itself. torch has another way for most operators: numpy's longdouble below autograd (``mode="wide"``). It
knows no fast products, so what would take it long is left to float64, which most kernels of products compute by other
code than float32.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from trueline.cases import INDEPENDENT, Case, Status, Target
from trueline.frameworks.base import Executed, Executor, Inputs
from trueline.ops.facts import Kind, facts_of

_MOST_WORK = 1 << 24
"""Of products, or of elements: about a second of longdouble."""
_PRODUCTS = (Kind.CONTRACTION, Kind.ATTENTION)


def is_asked(target: Target, reference: Target | None) -> bool:
    """Whether golds are to share nothing with the candidate."""
    return reference is not None and reference.how == INDEPENDENT and target.framework == reference.framework == "torch"


def is_affordable(case: Case, sizes: Iterable[int]) -> bool:
    """Whether longdouble is quick enough, by the sizes of all tensors, inputs and outputs. The product of two matrices
    has as many multiplications as the root of the product of the three sizes says."""
    largest = sorted(sizes, reverse=True)[:3]
    if facts_of(case.api).kind in _PRODUCTS and len(largest) == 3:
        return math.sqrt(math.prod(largest)) <= _MOST_WORK
    return sum(largest) <= _MOST_WORK


def independent_gold(
    case: Case, inputs: Inputs, judge: Executor, honest: Executed, watch: Collection[str] = ()
) -> Executed | None:
    """The gold by numpy; None where there is none, or not in time."""
    sizes = [array.bits.size for array in inputs.tensors.values()]
    sizes += [array.bits.size for array in honest.outputs.values() if array.bits is not None]
    if not is_affordable(case, sizes):
        return None
    gold = judge.run(case, inputs, mode="wide", watch=watch)
    ended = [gold.outcome, *([gold.backward] if gold.backward is not None else [])]
    return None if any(one.status is Status.UNSUPPORTED for one in ended) else gold
