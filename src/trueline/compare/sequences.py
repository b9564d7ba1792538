"""Aligns two sequences of integers that are nearly equal, fast: O(n) where they are equal.

``align`` trims what is common at both ends, anchors on what occurs once on both sides (in the longest order that both
share), and goes on inside the gaps. Gaps without such anchors are tried with windows of several items, then with the
shortest edit script, as long as that stays cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

Keys = np.ndarray[Any, np.dtype[np.int64]]
Pairs = list[tuple[int, int]]

_WINDOWS = (1, 2, 4, 8, 16)
_EDITS = 400
"""Edit scripts longer than this are not looked for: the cost grows with the square."""


def align(reference: Keys, candidate: Keys) -> Pairs:
    """Pairs (position in reference, position in candidate) of equal items, both rising."""
    found: Pairs = []
    gaps = [(0, len(reference), 0, len(candidate))]
    while gaps:
        a_start, a_end, b_start, b_end = gaps.pop()
        head = _common_head(reference[a_start:a_end], candidate[b_start:b_end])
        found.extend(zip(range(a_start, a_start + head), range(b_start, b_start + head), strict=True))
        a_start, b_start = a_start + head, b_start + head
        tail = _common_head(reference[a_start:a_end][::-1], candidate[b_start:b_end][::-1])
        a_end, b_end = a_end - tail, b_end - tail
        found.extend(zip(range(a_end, a_end + tail), range(b_end, b_end + tail), strict=True))
        if a_start == a_end or b_start == b_end:
            continue
        a, b = reference[a_start:a_end], candidate[b_start:b_end]
        anchors = _anchors(a, b)
        if not anchors:
            found.extend((a_start + i, b_start + j) for i, j in _shortest_edit(a.tolist(), b.tolist()))
            continue
        previous_a, previous_b = a_start, b_start
        for i, j in anchors:
            found.append((a_start + i, b_start + j))
            gaps.append((previous_a, a_start + i, previous_b, b_start + j))
            previous_a, previous_b = a_start + i + 1, b_start + j + 1
        gaps.append((previous_a, a_end, previous_b, b_end))
    found.sort()
    return found


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
    return mixed.view(np.int64)


def _once(keys: Keys) -> Keys:
    values, counts = np.unique(keys, return_counts=True)
    return values[counts == 1]


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
