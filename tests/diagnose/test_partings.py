"""Which of the places at which two programs part is told, where some of them agree again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trueline.compare.graph import Behind, ValueGraph
from trueline.diagnose.finding import Divergence
from trueline.diagnose.joints import Region
from trueline.diagnose.partings import Partings


class Graph:
    """Call n gives the value n, and 100 + n as its second output; it takes the value n - 1."""

    def maker(self, value: int) -> int:
        return value % 100

    def given(self, position: int) -> list[int]:
        return [position - 1] if position else []

    def parts_of(self, value: int) -> list[int]:
        return []

    all_behind = ValueGraph.all_behind


def through(*calls: int, end: int | None = None, begins: dict[int, float] | None = None) -> Region:
    """A region that goes through the same calls on both sides, from a value that the last of them gave, or ``end``."""
    ends = [calls[-1] if end is None else end]
    behind, apart = Behind(list(calls), list(begins or {})), begins or {}
    return Region(-1, 0, behind, behind, (apart, apart), (ends, ends))


def partings(equal: dict[int, list[int]] | None = None, joined: frozenset[int] = frozenset()) -> Partings:
    """Of programs whose calls are all laid side by side, the first with the first. ``equal``: what calls gave that is
    the same on both sides; ``joined``: values that were found to agree."""
    alignment = SimpleNamespace(reference=np.arange(100), candidate=np.arange(100))
    joints: Any = SimpleNamespace(
        table=SimpleNamespace(alignment=alignment),
        graphs=(Graph(), Graph()),
        backward_rows=lambda row: [],
        given_equal=lambda side, row: (equal or {}).get(row, []),
        joined=lambda side, value: value in joined,
    )
    return Partings(joints)


def at(row: int, **more: Any) -> Divergence:
    return Divergence("call", row, "", **more)


def test_the_first_behind_which_they_do_not_agree_again_is_told() -> None:
    known = partings()
    first, second = at(3), at(7)
    known.meet(first, None)
    known.agree(through(2, 3, 4))
    known.meet(second, None)
    assert known.first is second


def test_where_all_agree_again_it_is_the_first_of_all() -> None:
    known = partings()
    first = at(3)
    known.meet(first, None)
    known.agree(through(3))
    assert known.first is first and known.leaning is None


def test_agreeing_elsewhere_closes_nothing() -> None:
    known = partings()
    first = at(3)
    known.meet(first, None)
    known.agree(through(11, 12))
    known.meet(at(20), None)
    assert known.first is first


def test_what_parts_behind_a_place_belongs_to_it() -> None:
    known = partings()
    first = at(3)
    known.meet(first, None)
    known.agree(through(3))
    assert known.meet(at(9, leans=True), through(3, 4)) is first
    assert known.first is first and known.leaning is first


def test_places_count_in_a_row_until_the_two_agree_again() -> None:
    known = partings()
    known.meet(at(3), None)
    known.in_a_row += 1
    known.agree(through(3))
    assert known.in_a_row == 0


def test_what_was_right_all_along_agrees_with_nothing_again() -> None:
    """A call gave two values of which one alone is wrong; that the other is the same proves nothing."""
    known = partings(equal={3: [103]})
    first = at(3)
    known.meet(first, None)
    known.agree(through(3, end=103))
    known.meet(at(20), None)
    assert known.first is first
    known.agree(through(3))
    assert known.first is not first


def test_a_replay_of_what_arrives_apart_shows_no_agreement() -> None:
    """Two regions that compute the same of values that differ for the sake of the parting itself."""
    known = partings()
    first = at(3)
    known.meet(first, None)
    known.meet(at(5), through(3, 4, 5))
    known.agree(through(5, begins={4: 0.1}), replayed=1e-6)
    known.meet(at(20), None)
    assert known.first is first


@pytest.mark.parametrize("joined", [frozenset({4}), frozenset()])
def test_a_replay_shows_agreement_where_what_arrives_agrees(joined: frozenset[int]) -> None:
    known = partings(joined=joined)
    first = at(3)
    known.meet(first, None)
    known.meet(at(5), through(3, 4, 5))
    known.agree(through(5, begins={4: 0.1 if joined else 1e-7}), replayed=1e-6)
    known.meet(at(20), None)
    assert known.first is not first
