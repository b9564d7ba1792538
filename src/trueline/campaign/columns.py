"""The columns of a ledger in memory, some forty bytes a case: by them a page filters and sorts a million cases in the
time between two keys. Texts that repeat are held once, and a word is looked for in each of them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.campaign.shelf import ALL, Shelf
from trueline.records import Verdict
from trueline.report.check_cells import WAITING

_FAIL, _NONE, _WARN, _PASS = (
    int(one) for one in (Verdict.FAIL, Verdict.NOT_COMPARED, Verdict.WARN, Verdict.PASS)
)  # fmt: skip
_NO_VERDICT = -1
_MOST_WORDS = 8
_GROUP = "ending, verdict, api, dtype"
_NUMBERS = np.dtype([("position", np.int32), ("count", np.int32), ("seconds", np.float64), ("score", np.float64)])
WORST = "verdict"
SORTS = ("api", "calls", "score", "seconds", WORST)
KINDS = ("wrong", "notright", "fail", "error", "warn", "none", "pass")

Positions = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Query:
    """Which cases, in which order. ``kind`` is one of ``KINDS`` and ``sort`` one of ``SORTS``, else the cases are in
    their own order; ``dtypes`` are several where a page shows them as one. A text is looked for in the names of APIs
    and in the reasons of what did not simply pass."""

    text: str = ""
    kind: str = ""
    ending: str = ""
    dtypes: tuple[str, ...] = ()
    api: str = ""
    sort: str = ""
    down: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it lets everything through."""
        return not (self.text or self.kind in KINDS or self.ending or self.dtypes or self.api)


class Texts:
    """A column of texts that repeat: each of them once, and for every case which one it is."""

    def __init__(self, texts: Sequence[str], codes: NDArray[np.int32]) -> None:
        self._texts = texts
        self.codes = codes

    def having(self, word: str) -> Mask:
        """The cases whose text has a word in it, which is written in small letters."""
        return self._where([word in text.lower() for text in self._texts])

    def among(self, texts: Sequence[str]) -> Mask:
        return self._where([text in texts for text in self._texts])

    def places(self) -> NDArray[np.int32]:
        """The place of every case's text in the alphabet."""
        order = sorted(range(len(self._texts)), key=self._texts.__getitem__)
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order))
        return places[self.codes]

    def _where(self, flags: Sequence[bool]) -> Mask:
        return np.array(flags, dtype=bool)[self.codes]


class _Spread:
    """Values of groups, spread over their cases, in the order of the cases: ``place`` says where each case stands among
    the groups, ``repeats`` how many cases a group has."""

    def __init__(self, place: NDArray[np.int64], repeats: Sequence[int]) -> None:
        self.place = place
        self._repeats = repeats

    def codes(self, values: Sequence[int]) -> NDArray[np.int32]:
        return np.repeat(np.array(values, np.int32), self._repeats)[self.place]

    def texts(self, texts: Sequence[str]) -> Texts:
        known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        return Texts(list(known), self.codes([known[text] for text in texts]))


class Columns:
    """What a ledger held at one moment."""

    def __init__(self, shelf: Shelf) -> None:
        with shelf.open() as connection:
            connection.execute("BEGIN")  # all of it as it was at one moment
            # The order is that of an index which has all these columns: the groups lie in it one behind another.
            groups = connection.execute(
                f"SELECT {_GROUP}, COUNT(*) FROM judged WHERE {ALL} GROUP BY {_GROUP} ORDER BY {_GROUP}"
            ).fetchall()
            numbers = connection.execute(
                f"SELECT position, count, COALESCE(seconds, -1), COALESCE(score, -1) FROM judged WHERE {ALL} "
                f"ORDER BY {_GROUP}"
            )
            found = np.fromiter(numbers, _NUMBERS)
            told = connection.execute(
                "SELECT reason, position FROM judged WHERE verdict > 0 AND reason IS NOT NULL ORDER BY reason"
            ).fetchall()
            connection.rollback()
        self.size = len(found)
        spread = _Spread(np.argsort(found["position"]), [group[4] for group in groups])
        ending, verdict, api, dtype = zip(*(group[:4] for group in groups), strict=True) if groups else ((),) * 4
        self._ending = spread.texts([one or WAITING for one in ending])
        self._api = spread.texts(api)
        self._dtype = spread.texts([one or "" for one in dtype])
        self._verdict = spread.codes([_NO_VERDICT if one is None else one for one in verdict])
        self._keys: Mapping[str, NDArray[Any]] = {
            "calls": found["count"][spread.place],
            "seconds": found["seconds"][spread.place],
            "score": found["score"][spread.place],
            "verdict": self._verdict,
            "api": self._api.places(),
        }
        grouped = groupby(told, key=itemgetter(0))
        self._reasons = [(reason.lower(), np.array([row[1] for row in rows], np.int32)) for reason, rows in grouped]

    def order(self, query: Query) -> Positions:
        """The positions of the cases that a query lets through, in its order."""
        mask = self._chosen(query)
        if query.sort != WORST:
            return self._sorted(mask, query)
        told = self._sorted(mask & (self._verdict > _PASS), query)
        passed = np.flatnonzero(mask & (self._verdict == _PASS)).astype(np.int32)
        waiting = np.flatnonzero(mask & (self._verdict == _NO_VERDICT)).astype(np.int32)
        return np.concatenate((told, passed, waiting) if query.down else (waiting, passed, told))

    def _chosen(self, query: Query) -> Mask:
        mask = np.ones(self.size, dtype=bool)
        for word in query.text.lower().split()[:_MOST_WORDS]:
            mask &= self._with(word)
        if query.kind in KINDS:
            mask &= self._kind(query.kind)
        for column, texts in ((self._ending, query.ending), (self._api, query.api), (self._dtype, query.dtypes)):
            if texts:
                mask &= column.among([texts] if isinstance(texts, str) else texts)
        return mask

    def _with(self, word: str) -> Mask:
        """The cases whose API, or whose reason where they did not simply pass, has a word in it."""
        mask = self._api.having(word)
        for reason, positions in self._reasons:
            if word in reason:
                mask[positions] = True
        return mask

    def _kind(self, kind: str) -> Mask:
        verdict = self._verdict
        tests: Mapping[str, Mask] = {
            "wrong": verdict >= _FAIL,
            "notright": verdict != _PASS,
            "fail": verdict == _FAIL,
            "error": verdict > _FAIL,
            "warn": verdict == _WARN,
            "none": (verdict == _NONE) | (verdict == _NO_VERDICT),
            "pass": verdict == _PASS,
        }
        return tests[kind]

    def _sorted(self, mask: Mask, query: Query) -> Positions:
        """By the keys of the order, the first of which weighs most; among equals the cases keep their own order."""
        found = np.flatnonzero(mask).astype(np.int32)
        if query.sort not in SORTS:
            return found[::-1] if query.down else found
        names = ("verdict", "score") if query.sort == WORST else (query.sort,)
        sign = -1 if query.down else 1
        keys = [sign * self._keys[name][found] for name in reversed(names)]
        return np.asarray(found[np.lexsort(keys)])
