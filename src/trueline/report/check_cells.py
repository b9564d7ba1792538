"""A check as a matrix of APIs and dtypes: how the cases of each cell ended, and how bad the worst of them is.

What is known of many cases at once comes from an ``Overview``: that of a kept check asks its ledger, so that the matrix
of a million cases needs none of them in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from trueline.cases import Case, CaseResult, CheckInfo, Target
from trueline.errors import TruelineError
from trueline.records import Verdict
from trueline.report.json import plain

NO_TENSOR = "no tensor"
WAITING = "waiting"
"""In place of an ending, of a case that has not ended."""
_ORDER = (
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "int8",
    "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """Cases of one API and dtype that ended alike. ``verdict`` is None where they have not ended, ``score`` the worst
    where one has any."""

    api: str
    dtype: str
    ending: str
    verdict: Verdict | None
    cases: int
    score: float | None


class Failing(NamedTuple):
    """Cases that are wrong in the same words: how many, and the key of the first."""

    api: str
    dtype: str
    ending: str
    reason: str
    cases: int
    key: str


class Slow(NamedTuple):
    """A case, and the seconds that it took in the candidate."""

    key: str
    api: str
    seconds: float


class Overview(Protocol):
    """What is known of many cases at once."""

    def cells(self) -> list[Cell]: ...

    def failing(self) -> Iterable[Failing]:
        """What is wrong, by what it looks like."""

    def slowest(self, most: int) -> list[Slow]:
        """The cases that took longest."""


@runtime_checkable
class Overseen(Protocol):
    """Results of which somebody has an overview."""

    def overview(self) -> Overview: ...


def overview_of(results: Sequence[CaseResult]) -> Overview:
    return results.overview() if isinstance(results, Overseen) else _Listed(results)


class _Listed:
    """The overview of results that are all at hand."""

    def __init__(self, results: Sequence[CaseResult]) -> None:
        self._results = results

    def cells(self) -> list[Cell]:
        found: dict[tuple[str, str, str, Verdict], list[float | None]] = {}
        for result in self._results:
            key = (result.case.api, dtype_of(result.case), result.ending.value, result.verdict)
            found.setdefault(key, []).append(result.score)
        return [Cell(*key, len(scores), worst_score(scores)) for key, scores in found.items()]

    def failing(self) -> Iterable[Failing]:
        for one in self._results:
            if one.verdict >= Verdict.FAIL:
                yield Failing(one.case.api, dtype_of(one.case), one.ending.value, one.reason, 1, one.case.key)

    def slowest(self, most: int) -> list[Slow]:
        times = sorted(self._results, key=lambda one: -one.measured.candidate.seconds)[:most]
        found = [Slow(one.case.key, one.case.api, one.measured.candidate.seconds) for one in times]
        return [one for one in found if one.seconds > 0]


def dtype_of(case: Case) -> str:
    """The dtype of a case for people who filter: that of its first float tensor, else of its first tensor."""
    dtypes = [spec.dtype for spec in case.tensors]
    return next((dtype for dtype in dtypes if _is_float(dtype)), dtypes[0] if dtypes else "")


class Dtypes:
    """In which dtype cases are executed: their own, or that of the target where it has one."""

    def __init__(self, info: CheckInfo) -> None:
        try:
            self._target = Target.parse(info.target).dtype
        except TruelineError:
            self._target = ""

    def shown(self, dtype: str) -> str:
        return self._target if self._target and "float" in dtype else dtype or NO_TENSOR

    def behind(self, shown: str, known: Iterable[str]) -> tuple[str, ...]:
        """Those dtypes of cases that are shown as this one; where there is none, what no case has."""
        return tuple(sorted({dtype for dtype in known if self.shown(dtype) == shown})) or (shown,)


def matrix_data(cells: Iterable[Cell], dtypes: Dtypes) -> dict[str, Any]:
    """The matrix as the page takes it: names said once, and rows of [API, dtype, ending, verdict, cases, score], the
    first three by number; a verdict of null has not ended."""
    merged: dict[tuple[str, str, str, int | None], tuple[int, float | None]] = {}
    for cell in cells:
        key = (cell.api, dtypes.shown(cell.dtype), cell.ending, None if cell.verdict is None else int(cell.verdict))
        cases, score = merged.get(key, (0, None))
        merged[key] = (cases + cell.cases, worst_score([score, cell.score]))
    apis = {name: number for number, name in enumerate(sorted({key[0] for key in merged}))}
    kinds = {name: number for number, name in enumerate(sorted({key[1] for key in merged}, key=_place))}
    endings = {name: number for number, name in enumerate(sorted({key[2] for key in merged}))}
    return {
        "apis": list(apis),
        "dtypes": list(kinds),
        "endings": list(endings),
        "cells": [
            [apis[api], kinds[dtype], endings[ending], verdict, cases, plain(score)]
            for (api, dtype, ending, verdict), (cases, score) in merged.items()
        ],
    }


def worst_score(scores: Iterable[float | None]) -> float | None:
    return max((score for score in scores if score is not None), default=None)


def _is_float(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


def _place(dtype: str) -> tuple[int, str]:
    """Floating-point types by their width, then the others, then what has no tensor."""
    if dtype == NO_TENSOR:
        return len(_ORDER) + 1, ""
    return (_ORDER.index(dtype), "") if dtype in _ORDER else (len(_ORDER), dtype)
