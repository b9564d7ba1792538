"""Golds that share no kernel with the candidate.

Where the candidate runs on the CPU by the very library that computes the gold, a kernel that is wrong is held against
itself. torch has another way for most operators: numpy below autograd (``mode="apart"``). It knows no fast products,
so what would take it long is left to float64, which most kernels of products compute by other code than float32.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from trueline.cases import INDEPENDENT, Case, Status, Target, covers
from trueline.frameworks.base import Executed, Executor, Inputs
from trueline.ops.binding import bind
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical

_MOST_WORK = 1 << 24
"""Of products, or of elements: about a second of longdouble."""
_PRODUCTS = (Kind.CONTRACTION, Kind.ATTENTION)


def shares_kernels(case: Case, target: Target, reference: Target | None) -> bool:
    """Whether the candidate may be executed by the very kernels that execute it honestly and for the gold. A graph, or
    a function of somebody's own, is not."""
    judge = reference or Target(target.framework, "cpu")
    same = (target.framework, target.device) == (judge.framework, judge.device)
    return same and not target.how and not covers(target.overrides, case.api)


def is_asked(case: Case, target: Target, reference: Target | None) -> bool:
    """Whether the golds of a Case are to share nothing with the candidate."""
    asked = reference is not None and reference.how == INDEPENDENT and target.framework == "torch"
    return asked and shares_kernels(case, target, reference)


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
    if _leaves_order_open(case):
        return None
    sizes = [array.bits.size for array in inputs.tensors.values()]
    sizes += [array.bits.size for array in honest.outputs.values() if array.bits is not None]
    if not is_affordable(case, sizes):
        return None
    gold = judge.run(case, inputs, mode="apart", watch=watch)
    ended = [gold.outcome, *([gold.backward] if gold.backward is not None else [])]
    return gold if all(one.status is Status.RETURNED for one in ended) else None


def _leaves_order_open(case: Case) -> bool:
    """Whether a call leaves it to its kernel in which order results come. The gradients of one order cannot be laid
    beside those of another, so the gold has to be of the same kernel."""
    return canonical(case.api) == "topk" and bind(case.api, case.arguments).get("sorted") is False
