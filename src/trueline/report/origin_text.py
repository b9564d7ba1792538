"""The origin of a divergence for a terminal: its calls and lines on both sides, the numbers, the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePath

from trueline.records import Call, CallComparison, Origin
from trueline.report.blocks import BLANK, Block, Fields, Row, Table, line
from trueline.report.origin_wording import (
    SHOWN,
    advice,
    calls_of,
    confirmation,
    is_of_calls,
    is_region,
    is_taken,
    short_names,
    why,
)
from trueline.report.reading import WIDTH, wrapped
from trueline.report.subject import ComparisonView, same_pair
from trueline.report.wording import module_of, place

_LABELS = {"state": "values", "update": "updates", "data": "data"}
_NO_STACK = "(no stack was kept: capture with --stacks)"


def origin_fields(comparison: ComparisonView, origin: Origin) -> Fields:
    """Call, module, source line of both sides, the numbers, the proof."""
    items = [*_calls(origin), *_names(origin)]
    items += [
        ("where", place(origin.comparison.call)),
        ("why", why(origin)),
        ("proof", confirmation(origin, comparison.mode, baseline=comparison.baseline is not None)),
    ]
    if told := advice(origin):
        items.append(("to do", told))
    return Fields(tuple(items))


def _calls(origin: Origin) -> Iterator[tuple[str, str]]:
    left, right = calls_of(origin)
    one, other = (calls[-1] if calls else None for calls in (left, right))
    call = other or one
    if call is None or not (is_of_calls(origin) or is_taken(origin)):
        return
    if is_of_calls(origin):
        yield "call", _both(_several(right or left), _several(left or right))
    else:
        yield "taken by", call.name
    yield "module", _both(module_of(call), module_of(one or call))
    yield "source", _both(call.source or _NO_STACK, (one or call).source or _NO_STACK)


def _both(candidate: str, reference: str) -> str:
    return candidate if candidate == reference else f"{candidate}\nin the reference: {reference}"


def _several(calls: Sequence[Call]) -> str:
    """The call whose value differs, and how many others lead to it."""
    others = len(calls) - 1
    return calls[-1].name + (f" and {others} before it" if others else "")


def _names(origin: Origin) -> Iterator[tuple[str, str]]:
    if origin.names:
        names = short_names(origin)
        shown = ", ".join(names[:SHOWN]) + "".join(f" {more}" for more in names[SHOWN:])
        yield _LABELS.get(origin.kind, "values"), wrapped(shown, WIDTH - 12)


def region_blocks(origin: Origin) -> list[Block]:
    """What each side computes where the other computes something else: two lists of calls beside each other."""
    sides = calls_of(origin)
    if not is_region(origin):
        return []
    columns: tuple[str, ...] = ("the reference computes", "at", "the candidate computes", "at ")
    rows = [
        Row((*_told(one), *_told(other)))
        for one, other in zip_longest(*(calls[:SHOWN] for calls in sides), fillvalue=None)
    ]
    more = [f"and {len(calls) - SHOWN:,} more" if len(calls) > SHOWN else "" for calls in sides]
    if any(more):
        rows.append(Row((more[0], "", more[1], ""), "dim"))
    if not sides[0] or not sides[1]:
        lonely = 0 if sides[0] else 1
        columns = columns[2 * lonely : 2 * lonely + 2]
        rows = [Row(row.cells[2 * lonely : 2 * lonely + 2], row.style) for row in rows]
        other_side = ("candidate", "reference")[lonely]
        nothing = line(f"the {other_side} computes nothing in its place", "dim", indent=2)
        return [Table(columns, tuple(rows)), nothing, BLANK]
    return [Table(columns, tuple(rows)), BLANK]


def _told(call: Call | None) -> tuple[str, str]:
    if call is None:
        return "", ""
    return call.name, short_source(call)


def short_source(call: Call) -> str:
    """``model.py:41 in forward``: the line of a call without the folders."""
    file, colon, rest = call.source.rpartition(":")
    return f"{PurePath(file).name}{colon}{rest}" if colon else call.source


def is_of_origin(pair: CallComparison, origin: Origin) -> bool:
    """Whether a pair of calls is among those that explain it."""
    if not is_of_calls(origin):
        return False
    if same_pair(pair, origin.comparison):
        return True
    for call, calls in zip((pair.reference, pair.candidate), calls_of(origin), strict=True):
        if call is not None and any((one.rank, one.id) == (call.rank, call.id) for one in calls):
            return True
    return False
