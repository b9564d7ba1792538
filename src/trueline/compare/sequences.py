"""Aligns two sequences of integers that are nearly equal, fast: O(n) where they are equal.

``align`` trims what is common at both ends, anchors on what occurs once on both sides (in the longest order that both
share), and goes on inside the gaps. Gaps without such anchors are tried with windows of several items, then with the
shortest edit script, as long as that stays cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import Any

import numpy as np

Keys = np.ndarray[Any, np.dtype[np.int64]]
Pairs = list[tuple[int, int]]

_WINDOWS = (1, 2, 4, 8, 16)
_EDITS = 400
"""Edit scripts longer than this are not looked for: the cost grows with the square."""


def align(reference: Keys, candidate: Keys) -> Keys:
    """Rows (position in reference, position in candidate) of equal items, both columns rising."""
    found: list[Keys] = []
    gaps = [(0, len(reference), 0, len(candidate))]
    while gaps:
        a_start, a_end, b_start, b_end = gaps.pop()
        head = _common_head(reference[a_start:a_end], candidate[b_start:b_end])
        found.append(_run(a_start, b_start, head))
        a_start, b_start = a_start + head, b_start + head
        tail = _common_head(reference[a_start:a_end][::-1], candidate[b_start:b_end][::-1])
        a_end, b_end = a_end - tail, b_end - tail
        found.append(_run(a_end, b_end, tail))
        if a_start == a_end or b_start == b_end:
            continue
        a, b = reference[a_start:a_end], candidate[b_start:b_end]
        anchors = _anchors(a, b) or _shortest_edit(a.tolist(), b.tolist())
        if not anchors:
            continue
        found.append(np.array(anchors, dtype=np.int64) + np.array([a_start, b_start]))
        edges = [(-1, -1), *anchors, (len(a), len(b))]
        gaps += [
            (a_start + i + 1, a_start + k, b_start + j + 1, b_start + m)
            for (i, j), (k, m) in pairwise(edges)
            if k > i + 1 and m > j + 1
        ]
    rows = np.concatenate(found) if found else np.empty((0, 2), dtype=np.int64)
    return rows[np.argsort(rows[:, 0], kind="stable")]


def distinct_rows(columns: Keys) -> tuple[Keys, Keys]:
    """The distinct rows of a table of integers, and for each row which of them it is. Packs each row into one number
    as far as that goes, which is much faster than comparing rows."""
    if not len(columns):
        return columns, np.empty(0, dtype=np.int64)
    packed = np.zeros(len(columns), dtype=np.int64)
    room = 1
    for column in columns.T:
        lowest, extent = int(column.min()), int(column.max()) - int(column.min()) + 1
        if room * extent >= 1 << 62:
            packed = np.unique(packed, return_inverse=True)[1].reshape(-1)
            room = int(packed.max()) + 1
        packed = packed * extent + (column - lowest)
        room *= extent
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    return columns[first], inverse.reshape(-1)


def occurrence(keys: Keys) -> Keys:
    """How often the same key came before, for each place."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(keys) else order
    counts = np.diff(np.append(starts, len(keys)))
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    return found


def _run(a_start: int, b_start: int, length: int) -> Keys:
    steps = np.arange(length, dtype=np.int64)
    return np.stack([a_start + steps, b_start + steps], axis=1)


def longest_rising(values: list[int]) -> list[int]:
    """Positions of a longest strictly rising subsequence."""
    tails: list[int] = []
    positions: list[int] = []
    previous = [-1] * len(values)
    for position, value in enumerate(values):
        place = bisect_left(tails, value)
        if place == len(tails):
            tails.append(value)
            positions.append(position)
        else:
            tails[place] = value
            positions[place] = position
        previous[position] = positions[place - 1] if place else -1
    chain = []
    position = positions[-1] if positions else -1
    while position >= 0:
        chain.append(position)
        position = previous[position]
    return chain[::-1]


def _common_head(a: Keys, b: Keys) -> int:
    length = min(len(a), len(b))
    unequal = np.flatnonzero(a[:length] != b[:length])
    return int(unequal[0]) if len(unequal) else length


def _anchors(a: Keys, b: Keys) -> Pairs:
    """Items (or windows of items) that occur once on both sides, in the longest common order."""
    for width in _WINDOWS:
        if min(len(a), len(b)) < width:
            return []
        windows_a, windows_b = _windows(a, width), _windows(b, width)
        common, at_a, at_b = np.intersect1d(_once(windows_a), _once(windows_b), return_indices=True)
        if not len(common):
            continue
        order_a, order_b = np.argsort(windows_a, kind="stable"), np.argsort(windows_b, kind="stable")
        at_a = order_a[np.searchsorted(windows_a[order_a], common)]
        at_b = order_b[np.searchsorted(windows_b[order_b], common)]
        by_a = np.argsort(at_a)
        at_a, at_b = at_a[by_a], at_b[by_a]
        return [(int(at_a[k]), int(at_b[k])) for k in longest_rising(at_b.tolist())]
    return []


def _windows(keys: Keys, width: int) -> Keys:
    """One number for every run of ``width`` items."""
    count = len(keys) - width + 1
    mixed = np.zeros(count, dtype=np.uint64)
    for offset in range(width):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + keys[offset : offset + count].astype(np.uint64) + np.uint64(1)
    numbers: Keys = mixed.view(np.int64)
    return numbers


def _once(keys: Keys) -> Keys:
    values, counts = np.unique(keys, return_counts=True)
    single: Keys = values[counts == 1]
    return single


def _shortest_edit(a: list[int], b: list[int]) -> Pairs:
    """Myers' greedy algorithm; gives nothing where the edit script would be too long."""
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), _EDITS) + 1):
        history.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest.get(diagonal + 1, 0) if down else furthest.get(diagonal - 1, -1) + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _walk_back(history, len(a), len(b))
    return []


def _walk_back(history: list[dict[int, int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for edits in range(len(history) - 1, -1, -1):
        furthest = history[edits]
        diagonal = x - y
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        start_x = furthest.get(before, 0)
        start_y = start_x - before
        while x > start_x and y > start_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if edits:
            x, y = start_x, start_y
    return pairs[::-1]
