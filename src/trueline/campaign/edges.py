"""What the catalogue's operators are given besides: the values at which something changes.

Of each operator one case is drawn again: with edges (zeros of both signs, the smallest and largest magnitudes it bears,
equal elements), with magnitudes over many powers of two, and with NaN and infinity where it says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import prod

from trueline.campaign.variants import another_draw
from trueline.cases import Case, covers
from trueline.dtypes import dtype_named
from trueline.ops.names import canonical
from trueline.ops.values import DRAWS, differs_in_draw

FEWEST, MOST = 24, 4096
"""Elements of the largest tensor of a case that is drawn again: enough for every edge, and quick."""


def with_edges(cases: Iterable[Case], overrides: Collection[str] = ()) -> Iterator[Case]:
    """The cases, each operator's first suitable one followed by its other draws. The names of one operator (a function,
    a method, in place) share them, but for names that are overridden: those may be other kernels."""
    done: set[tuple[str, int]] = set()
    for case in cases:
        yield case
        name = case.api if covers(overrides, case.api) else canonical(case.api)
        for number in range(1, len(DRAWS)):
            if (name, number) not in done and _is_suitable(case, number):
                done.add((name, number))
                yield another_draw(case, number)


def _is_suitable(case: Case, number: int) -> bool:
    largest = max((prod(spec.shape) for spec in case.tensors), default=0)
    return FEWEST <= largest <= MOST and any(_differs(case, place, number) for place in range(len(case.tensors)))


def _differs(case: Case, place: int, number: int) -> bool:
    """Whether a tensor of the case holds other values in a draw than in the plain one."""
    spec = case.tensors[place]
    if dtype_named(spec.dtype).kind == "b" or spec.stored is not None:
        return False
    return differs_in_draw(case.api, spec.domain, spec.dtype, number)
