"""Which of the places at which two programs part is told, where some of them agree again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from trueline.compare.graph import Behind
from trueline.diagnose.finding import Divergence
from trueline.diagnose.joints import Region
from trueline.diagnose.partings import Partings


def through(*calls: int) -> Region:
    """A region that goes through the same calls on both sides."""
    return Region(-1, 0, Behind(list(calls), []), Behind(list(calls), []))


def partings(regions: dict[int, Region] | None = None) -> Partings:
    """Of programs whose calls are all laid side by side, the first with the first."""
    alignment = SimpleNamespace(reference=np.arange(100), candidate=np.arange(100))
    joints: Any = SimpleNamespace(
        table=SimpleNamespace(alignment=alignment),
        backward_rows=lambda row: [],
        region=lambda leaf: (regions or {})[leaf],
    )
    return Partings(joints)


def at(row: int, **more: Any) -> Divergence:
    return Divergence("call", row, "", **more)


def test_the_first_behind_which_they_do_not_agree_again_is_told() -> None:
    known = partings()
    first, second = at(3), at(7)
    known.meet(first)
    known.agree(through(2, 3, 4))
    known.meet(second)
    assert known.first is second


def test_where_all_agree_again_it_is_the_first_of_all() -> None:
    known = partings()
    first = at(3)
    known.meet(first)
    known.agree(through(3))
    assert known.first is first and known.leaning is None


def test_agreeing_elsewhere_closes_nothing() -> None:
    known = partings()
    first = at(3)
    known.meet(first)
    known.agree(through(11, 12))
    known.meet(at(20))
    assert known.first is first


def test_what_parts_behind_a_place_belongs_to_it() -> None:
    known = partings({5: through(3, 8)})
    first = at(3)
    known.meet(first)
    known.agree(through(3))
    assert known.meet(at(9, leaf=5, leans=True)) is first
    assert known.first is first and known.leaning is first


def test_places_count_in_a_row_until_the_two_agree_again() -> None:
    known = partings()
    known.meet(at(3))
    known.in_a_row += 1
    known.agree(through(3))
    assert known.in_a_row == 0
