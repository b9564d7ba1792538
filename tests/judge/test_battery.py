"""Twenty-three pairs of results, each with the answer that is right and the one that PaddleAPEX gives.

They are what a comparator of operators must get right: small values, few wrong elements, NaN and Inf, empty and scalar
tensors, dtypes and shapes, honest rounding. Every pair is two Runs of one call, as a user would compare them.
PaddleAPEX has no row for some of them; ``apex`` says NOT_COMPARED there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, write_run
from trueline.diagnose import compare_runs
from trueline.records import Verdict

Array = np.ndarray[Any, Any]
PASS, WARN, ABSENT, FAIL = Verdict.PASS, Verdict.WARN, Verdict.NOT_COMPARED, Verdict.FAIL

DRAW = np.random.default_rng(20240913)


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (DRAW.standard_normal(shape) * scale).astype(np.float32)


@dataclass(frozen=True)
class Pair:
    """One call and what the bench and the device made of it."""

    name: str
    right: Verdict
    apex: Verdict
    api: str
    inputs: Sequence[Any]
    bench: Sequence[Any]
    device: Sequence[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)


def changed(values: Array, places: slice, change: Callable[[Array], Any]) -> Array:
    made = values.copy()
    made.reshape(-1)[places] = change(made.reshape(-1)[places])
    return made


def battery() -> list[Pair]:
    add, gelu, mean = "paddle.add", "paddle.nn.functional.gelu", "paddle.mean"
    tiny, small = normal(64, 64, scale=1e-4), normal(64, 64, scale=3e-4)
    zero = np.zeros((64, 64), np.float32)
    many, none = normal(1000, 1000), np.zeros((1000, 1000), np.float32)
    few = slice(0, 990_000, 11_000)  # 90 places
    x, y = normal(64, 64), normal(64, 64)
    total = (x + y).astype(np.float32)
    nan, infinite = (changed(total, slice(5, 6), lambda _, bad=bad: bad) for bad in (np.nan, np.inf))
    loss, losses = np.array(2.5, np.float32), normal(256)
    left, right = normal(96, 512), normal(512, 96)
    product = (left @ right).astype(np.float32)
    parts = [left[:, k : k + 32] @ right[k : k + 32] for k in range(0, 512, 32)]
    reordered = sum(parts, np.zeros((96, 96), np.float32))
    kept = np.where(DRAW.random((64, 64)) > 0.1, x / np.float32(0.9), 0).astype(np.float32)
    split = [x[:32].copy(), x[32:].copy()]
    wrong = [split[0] * np.float32(3.0) + np.float32(1.0), split[1] * np.float32(1.0 + 5e-4)]
    bytes_, complex_ = DRAW.integers(-128, 128, (64, 64)).astype(np.int8), (x + 1j * y).astype(np.complex64)
    noise = (product * (1 + 4e-4 * DRAW.uniform(-1, 1, product.shape))).astype(np.float32)
    empty = np.zeros((0, 64), np.float32)
    return [
        Pair("twice on values of 1e-4", FAIL, PASS, add, [tiny, zero], [tiny], [tiny * np.float32(2)]),
        Pair("30 % on values of 3e-4", FAIL, PASS, add, [small, zero], [small], [small * np.float32(1.3)]),
        Pair("90 of a million zeroed", FAIL, PASS, add, [many, none], [many], [changed(many, few, lambda v: 0 * v)]),
        Pair("90 of a million times -5", FAIL, PASS, add, [many, none], [many], [changed(many, few, lambda v: -5 * v)]),
        Pair("the same NaN on both", PASS, FAIL, add, [x, y], [nan], [nan.copy()]),
        Pair("the same Inf on both", PASS, FAIL, add, [x, y], [infinite], [infinite.copy()]),
        Pair("NaN on the device only", FAIL, FAIL, add, [x, y], [total], [nan]),
        Pair("all NaN on the device only", FAIL, FAIL, add, [x, y], [total], [np.full_like(total, np.nan)]),
        Pair("zeros against 1e-9", PASS, FAIL, "paddle.subtract", [x, x], [zero], [np.full_like(zero, 1e-9)]),
        Pair("empty and equal", PASS, ABSENT, add, [empty, empty], [empty], [empty.copy()]),
        Pair("a scalar off by 1 %", FAIL, FAIL, mean, [losses], [loss], [np.array(2.525, np.float32)]),
        Pair("a loss of 5e-4 for 1e-3", FAIL, PASS, mean, [losses], [np.array(1e-3, np.float32)],
             [np.array(5e-4, np.float32)]),
        Pair("another number of outputs", FAIL, ABSENT, "paddle.split", [x, 2], split, split[:1]),
        Pair("an error, then a warning", FAIL, WARN, "paddle.split", [x, 2], split, wrong),
        Pair("int8, equal", PASS, FAIL, "paddle.abs", [bytes_], [bytes_], [bytes_.copy()]),
        Pair("complex64, equal", PASS, FAIL, "paddle.conj", [complex_], [complex_], [complex_.copy()]),
        Pair("dropout times 100", FAIL, PASS, "paddle.nn.functional.dropout", [x, 0.1], [kept],
             [kept * np.float32(100)]),
        Pair("another shape", FAIL, FAIL, add, [x, y], [total], [total.reshape(32, 128)]),
        Pair("float64 for float32", FAIL, PASS, add, [x, y], [total], [total.astype(np.float64)]),
        Pair("float32 with noise of 4e-4", FAIL, WARN, "paddle.matmul", [left, right], [product], [noise]),
        Pair("one unit in the last place", PASS, PASS, gelu, [x], [total], [np.nextafter(total, np.float32(9))]),
        Pair("another order of summation", PASS, PASS, "paddle.matmul", [left, right], [product], [reordered]),
        Pair("no output", FAIL, ABSENT, add, [x, y], [total], []),
    ]  # fmt: skip


BATTERY = battery()


def test_there_are_twenty_three() -> None:
    assert len({pair.name for pair in BATTERY}) == len(BATTERY) == 23


@pytest.mark.parametrize("pair", BATTERY, ids=lambda pair: pair.name)
def test_the_default_is_right_and_apex_is_apex(pair: Pair, tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, [Spec(pair.api, pair.inputs, outputs, kwargs=pair.kwargs)])
        for name, outputs in (("bench", pair.bench), ("device", pair.device))
    ]
    with compare_runs(*runs, replay=False) as report:
        assert report.verdict is pair.right, report.calls[0].reason
    with compare_runs(*runs, standard="apex") as report:
        assert report.calls[0].verdict is pair.apex, report.calls[0].reason
        assert report.calls[0].reason
