"""Aligning sequences of integers."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from trueline.compare.sequences import align, distinct_rows, longest_rising, occurrence


def keys(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def longest_common(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([], [], []),
        ([1, 2, 3], [1, 2, 3], [(0, 0), (1, 1), (2, 2)]),
        ([1, 2, 3], [1, 9, 2, 3], [(0, 0), (1, 2), (2, 3)]),
        ([1, 2, 3], [1, 3], [(0, 0), (2, 1)]),
        ([1, 1, 1], [1, 1, 1, 1], [(0, 0), (1, 1), (2, 2)]),
        ([1, 2], [3, 4], []),
    ],
)
def test_small_cases(a: list[int], b: list[int], expected: list[tuple[int, int]]) -> None:
    assert [tuple(row) for row in align(keys(a), keys(b)).tolist()] == expected


def test_random_sequences_give_rising_pairs_of_equal_items_and_nearly_all_of_them() -> None:
    generator = random.Random(0)
    found = possible = 0
    for _ in range(400):
        a, b = ([generator.randrange(4) for _ in range(generator.randrange(14))] for _ in range(2))
        pairs = [tuple(row) for row in align(keys(a), keys(b)).tolist()]
        assert all(a[i] == b[j] for i, j in pairs)
        assert pairs == sorted(pairs)
        assert len({j for _, j in pairs}) == len(pairs)
        assert [j for _, j in pairs] == sorted(j for _, j in pairs)
        found += len(pairs)
        possible += longest_common(a, b)
    assert found >= 0.95 * possible


def test_long_sequences_with_few_edits_take_little_time() -> None:
    generator = random.Random(1)
    a = [generator.randrange(300) for _ in range(100_000)]
    b = list(a)
    for _ in range(40):
        b.insert(generator.randrange(len(b)), generator.randrange(300))
        del b[generator.randrange(len(b))]
    started = time.process_time()
    pairs = align(keys(a), keys(b))
    assert time.process_time() - started < 5.0
    assert len(pairs) >= 100_000 - 60


def test_longest_rising() -> None:
    values = [3, 1, 2, 5, 4, 6]
    chain = [values[position] for position in longest_rising(values)]
    assert chain == sorted(chain)
    assert len(chain) == 4
    assert longest_rising([]) == []


def test_distinct_rows_agrees_with_numpy_also_where_rows_do_not_fit_one_number() -> None:
    generator = np.random.default_rng(0)
    for scale in (5, 1 << 40):
        rows = generator.integers(-1, 4, (500, 4)) * scale
        distinct, inverse = distinct_rows(rows)
        assert (distinct[inverse] == rows).all()
        assert len(distinct) == len(np.unique(rows, axis=0))


def test_occurrence() -> None:
    assert occurrence(keys([7, 3, 7, 7, 3])).tolist() == [0, 0, 1, 2, 1]
    assert occurrence(keys([])).tolist() == []
