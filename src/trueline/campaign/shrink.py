"""Looks for the smallest case that still fails, by trying.

Dimensions are cut where sizes are equal together (what is multiplied must fit), then each alone; keyword arguments are
dropped; layouts, gradients and contents are made plain. A smaller case counts where the reference still returns and
the standard still says that the candidate fails, in the same way. Bounded in time and attempts.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from trueline.cases import Case, CaseResult
from trueline.dtypes import dtype_named
from trueline.replay.reduce import Cut, Reduction
from trueline.tree import Tree, tensor_paths

Attempt = Callable[[Reduction], "CaseResult | None"]
"""Executes and judges what is left of a case; None where it does not fail in the same way any more."""

MOST_ATTEMPTS = 150
MOST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What is left of a case, and the result of that."""

    reduction: Reduction
    result: CaseResult
    attempts: int


def shrink(
    result: CaseResult,
    attempt: Attempt,
    *,
    attempts: int = MOST_ATTEMPTS,
    seconds: float = MOST_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """The smallest that was found; the case itself where nothing smaller fails."""
    search = _Search(result, attempt, attempts, clock() + seconds, clock)
    search.run()
    return Shrunk(search.best, search.result, search.used)


class _Search:
    def __init__(
        self, result: CaseResult, attempt: Attempt, attempts: int, deadline: float, clock: Callable[[], float]
    ) -> None:
        self._case: Case = result.case
        self.result = result
        self._attempt = attempt
        self._left = attempts
        self._deadline = deadline
        self._clock = clock
        self.used = 0
        self.best = Reduction(result.case.arguments)

    def run(self) -> None:
        self._simplify()
        while self._spend_on(self._cuts()):
            pass
        self._simplify()
        self._spend_on([replace(self.best, plain=True)])

    def _simplify(self) -> None:
        """Steps that are worth a try whatever the size."""
        if not self.best.contiguous and any(spec.strides is not None for spec in self._case.tensors):
            self._spend_on([replace(self.best, contiguous=True)])
        if self._case.backward and not self.best.ones:
            self._spend_on([replace(self.best, ones=True)])
        for name in list(self.best.arguments.get("kwargs", {})):
            self._spend_on([replace(self.best, arguments=_without(self.best.arguments, name))])

    def _spend_on(self, candidates: Iterator[Reduction] | list[Reduction]) -> bool:
        """Tries reductions until one fails as it should; that one is the best from then on."""
        for reduction in candidates:
            if self._left <= 0 or self._clock() > self._deadline:
                return False
            self._left -= 1
            self.used += 1
            found = self._attempt(reduction)
            if found is not None:
                self.best, self.result = reduction, found
                return True
        return False

    def _cuts(self) -> Iterator[Reduction]:
        """Smaller ones, the boldest first."""
        sizes = sorted({size for _, shape in self._shapes() for size in shape if size > 1}, reverse=True)
        for left in (_one, _half):
            for size in sizes:
                for start in _starts(size, left(size)):
                    yield from self._together(size, (start, start + left(size)))
        for path, shape in sorted(self._shapes(), key=lambda item: -prod(item[1])):
            for dimension, size in enumerate(shape):
                if size > 1:
                    for start in _starts(size, size // 2):
                        yield self._cut({(path, dimension): (start, start + size // 2)})

    def _together(self, size: int, cut: Cut) -> Iterator[Reduction]:
        """Cuts all dimensions of one size; numbers in the arguments that are that size with them, or not."""
        places = {
            (path, dimension): cut
            for path, shape in self._shapes()
            for dimension, found in enumerate(shape)
            if found == size
        }
        made = self._cut(places)
        arguments = resized(made.arguments, size, cut[1] - cut[0])
        choices = [made] if arguments == made.arguments else [replace(made, arguments=arguments), made]
        yield from choices
        if not made.within and any(dtype_named(spec.dtype).kind in "iu" for spec in self._case.tensors):
            yield from (replace(choice, within=True) for choice in choices)

    def _cut(self, places: dict[tuple[str, int], Cut]) -> Reduction:
        cuts = dict(self.best.cuts)
        for spec in self._case.tensors:
            now = list(self.best.cuts_of(spec))
            for dimension, (begin, _) in enumerate(now):
                if (spec.path, dimension) in places:
                    start, stop = places[spec.path, dimension]
                    now[dimension] = (begin + start, begin + stop)
            cuts[spec.path] = tuple(now)
        return replace(self.best, cuts=cuts)

    def _shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        left = set(dict(tensor_paths(self.best.arguments)).values())
        return [(spec.path, self.best.shape(spec)) for spec in self._case.tensors if spec.path in left]


def _one(_: int) -> int:
    return 1


def _half(size: int) -> int:
    return size // 2


def _starts(size: int, left: int) -> tuple[int, ...]:
    """Where a part may begin: at the beginning, or such that it ends at the end."""
    return (0, size - left) if left < size else ()


def _without(arguments: Tree, name: str) -> Tree:
    kept = {key: value for key, value in arguments["kwargs"].items() if key != name}
    return {**arguments, "kwargs": kept}


def resized(tree: Tree, size: int, left: int) -> Tree:
    """A tree in which the integer ``size`` is ``left`` wherever it stands."""
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, int):
        return left if tree == size else tree
    if isinstance(tree, list):
        return [resized(item, size, left) for item in tree]
    if isinstance(tree, dict) and "$t" not in tree:
        return {key: resized(value, size, left) for key, value in tree.items()}
    return copy.copy(tree)


def elements(case: Case, reduction: Reduction) -> int:
    """How many elements of tensors are left."""
    left = set(dict[int, Any](tensor_paths(reduction.arguments)).values())
    return sum(prod(reduction.shape(spec)) for spec in case.tensors if spec.path in left)
