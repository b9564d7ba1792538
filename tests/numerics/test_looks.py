"""What the C extension measures in one go is what numpy measures step by step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from trueline.cases import Evidence
from trueline.dtypes import dtype_named
from trueline.numerics import cpu
from trueline.numerics.alike import alike
from trueline.numerics.clear import is_clear
from trueline.numerics.envelope import corners_of
from trueline.numerics.evidence import measure
from trueline.numerics.floats import FloatNumbers
from trueline.numerics.looks import direct_corners, first_look, flat
from trueline.numerics.narrow import narrow
from trueline.numerics.predecessor_sums import numbers_of_sides
from trueline.numerics.predecessors import predecessor_numbers

pytestmark = pytest.mark.skipif(cpu.kernel("look") is None, reason="the C extension was not built")

KINDS = ["float32", "bfloat16", "float16", "float64", "complex64", "complex128"]
UNSURE = ("bias", "honest_bias", "bias_consistency", "bias_values")
"""Of large tensors a bias is sought in some elements there, in all of them here; how sure it is only there."""


def sides(name: str, shape: tuple[int, ...], *, same: bool = False, seed: int = 1) -> tuple[Any, Any, Any]:
    """Candidate, honest implementation and gold: rounded, a unit off here and there, some zeros."""
    kind = dtype_named(name)
    generator = np.random.default_rng(seed)
    gold = generator.normal(size=shape) * np.exp2(generator.integers(-9, 9, shape))
    if kind.is_complex:
        gold = gold + 1j * generator.normal(size=shape)
    gold = np.where(generator.random(shape) < 0.05, 0.0, gold)
    honest = narrow(gold * (1 + kind.epsilon * generator.integers(-1, 2, shape)), kind)
    candidate = honest if same else narrow(gold * (1 + 2 * kind.epsilon * generator.integers(-1, 2, shape)), kind)
    return candidate, honest, gold


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (7, 11), (40, 50)])
@pytest.mark.parametrize("same", [True, False])
def test_a_first_look_is_what_numpy_sees_without_moved_inputs(name: str, shape: tuple[int, ...], same: bool) -> None:
    candidate, honest, gold = (np.asarray(one) for one in sides(name, shape, same=same))
    kind = dtype_named(name)
    flattened = flat(candidate, honest, gold, kind)
    assert flattened is not None and flattened.same == (same or np.array_equal(candidate, honest))
    seen = first_look(flattened, 3.0, 2.0)
    with np.errstate(all="ignore"):
        expected = FloatNumbers(candidate, honest, gold, (), kind, None, 3.0, 2.0).numbers()
    assert seen is not None and seen.keys() == expected.keys()
    for number, value in expected.items():
        if number not in ("bias_consistency", "bias_values"):
            assert seen[number] == pytest.approx(value, rel=1e-9, abs=1e-9), number


def test_of_large_tensors_the_size_of_a_bias_is_about_the_same() -> None:
    kind = dtype_named("bfloat16")
    _, honest, gold = sides("bfloat16", (300, 400))
    candidate = narrow(gold * 1.002, kind)
    flattened = flat(candidate, honest, gold, kind)
    assert flattened is not None
    seen = first_look(flattened, 3.0, 1.0)
    with np.errstate(all="ignore"):
        expected = FloatNumbers(candidate, honest, gold, (), kind, None, 3.0, 1.0).numbers()
    assert seen is not None
    assert seen["bias"] == pytest.approx(expected["bias"], rel=0.1)
    assert not is_clear(seen, kind)
    for number in expected.keys() - set(UNSURE):
        assert seen[number] == pytest.approx(expected[number], rel=1e-9), number


def test_digits_beyond_float64_count() -> None:
    kind = dtype_named("float64")
    gold, low = np.array([1.0, 2.0]), np.array([2.0**-53, -(2.0**-54)])
    candidate = np.array([1.0, 2.0])
    flattened = flat(candidate, candidate, (gold, low), kind)
    assert flattened is not None
    seen = first_look(flattened, 1.0, 1.0)
    expected = FloatNumbers(candidate, candidate, (gold, low), (), kind, None, 1.0).numbers()
    assert seen is not None and seen["peak_ulp"] == expected["peak_ulp"] == -0.5


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_what_is_not_finite_is_left_to_numpy(bad: float, where: int) -> None:
    arrays = [np.ones(5, np.float32), np.ones(5, np.float32), np.ones(5)]
    arrays[where][3] = bad
    flattened = flat(arrays[0], arrays[1], arrays[2], dtype_named("float32"))
    assert flattened is not None
    assert first_look(flattened, 1.0, 1.0) is None
    assert numbers_of_sides(flattened) is None


def test_a_gold_beyond_the_range_of_the_dtype_is_left_to_numpy() -> None:
    ones = np.ones(2, np.float16)
    flattened = flat(ones, ones, np.array([1.0, 70000.0]), dtype_named("float16"))
    assert flattened is not None and first_look(flattened, 1.0, 1.0) is None


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (5,), (40, 100), (300, 400)])
@pytest.mark.parametrize("same", [True, False])
def test_the_numbers_of_other_tools_are_those_of_numpy(name: str, shape: tuple[int, ...], same: bool) -> None:
    candidate, honest, gold = (np.asarray(one) for one in sides(name, shape, same=same))
    kind = dtype_named(name)
    flattened = flat(candidate, honest, gold, kind)
    assert flattened is not None
    seen = numbers_of_sides(flattened)
    expected = predecessor_numbers(cpu.widen(candidate, kind), cpu.widen(honest, kind), gold, kind)
    assert seen is not None and seen.keys() == expected.keys()
    for number, value in expected.items():
        assert seen[number] == pytest.approx(value, rel=1e-9, abs=1e-30), number
    alone = flat(candidate, None, gold, kind)
    assert alone is not None
    seen = numbers_of_sides(alone)
    expected = predecessor_numbers(cpu.widen(candidate, kind), None, gold, kind)
    assert seen is not None and seen == pytest.approx(expected, rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("name", ["float32", "float16", "float64"])
def test_corners_are_those_of_all_elements_at_once(name: str) -> None:
    kind = dtype_named(name)
    candidate, honest, gold = sides(name, (70, 1000))
    flattened = flat(candidate, honest, gold, kind)
    assert flattened is not None
    ours, theirs = cpu.widen(candidate, kind).reshape(-1), cpu.widen(honest, kind).reshape(-1)
    expected = corners_of(np.abs(theirs), np.abs(ours - theirs))
    assert np.array(direct_corners(flattened)) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("known", [True, False])
def test_one_element_speaks_for_all_where_all_are_equal(
    name: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = dtype_named(name)
    generator = np.random.default_rng(3)
    honest = narrow(generator.normal(size=(150, 200)) * (generator.random((150, 200)) > 0.1), kind)
    gold = honest if known else cpu.widen(honest, kind)

    def found() -> Evidence:
        return measure(
            "output", "out", honest.copy(), honest, gold, lambda: [], dtype=name, scale=4.0, predecessors=True
        )

    seen = found()
    monkeypatch.setattr("trueline.numerics.evidence.alike", lambda *sides: None)
    expected = found()
    assert seen.numbers.keys() == expected.numbers.keys()
    for number, value in expected.numbers.items():
        assert seen.numbers[number] == pytest.approx(value, rel=1e-12), number
    for part in ("gold", "honest", "direct"):
        for field in dataclasses.fields(getattr(expected, part)):
            one, other = getattr(getattr(seen, part), field.name), getattr(getattr(expected, part), field.name)
            assert one == pytest.approx(other, rel=1e-6, nan_ok=True), (part, field.name)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda bits: bits.__setitem__(7, np.nan),
        lambda bits: bits.__setitem__(7, np.inf),
        lambda bits: bits.__setitem__(7, 1e-42),  # measured by the smallest unit, not its own
        lambda bits: bits.__setitem__(7, 1e-15),  # may be noise of the gold
        lambda bits: bits.fill(0.0),
    ],
)
def test_it_does_not_where_an_element_is_another_matter(spoil: Any) -> None:
    bits = np.random.default_rng(3).normal(size=40_000).astype(np.float32)
    kind = dtype_named("float32")
    before = flat(bits, bits, bits, kind)
    assert before is not None and alike(before, 4.0) is not None
    spoil(bits)
    after = flat(bits, bits, bits, kind)
    assert after is not None and alike(after, 4.0) is None


def test_it_does_not_where_one_element_differs() -> None:
    kind = dtype_named("float32")
    honest = np.random.default_rng(3).normal(size=40_000).astype(np.float32)
    candidate = honest.copy()
    candidate[39_999] *= 1.5
    found = measure("output", "out", candidate, honest, honest, lambda: [], dtype=kind)
    assert found.numbers["peak_at"] == 39_999 and found.gold is not None and found.gold.equal == 39_999


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "complex64"])
def test_what_is_the_same_is_not_compared_again(name: str) -> None:
    kind = dtype_named(name)
    _, honest, gold = sides(name, (7, 11))
    found = measure("output", "out", honest.copy(), honest, gold, dtype=name, predecessors=True)
    assert found.direct is not None
    expected = cpu.compare(honest, kind, honest, kind)
    for field in dataclasses.fields(expected):
        one, other = getattr(found.direct, field.name), getattr(expected, field.name)
        assert one == pytest.approx(other, rel=1e-6, nan_ok=True), field.name
    assert found.honest == found.gold


def test_golds_of_moved_inputs_are_asked_for_only_in_doubt() -> None:
    asked = []

    def moved() -> list[Any]:
        asked.append(True)
        return [gold * (1 + 1e-7), gold * (1 - 1e-7), gold * (1 + 1e-9)]

    candidate, honest, gold = sides("float32", (7, 11))
    right = measure("output", "out", candidate, honest, gold, moved, dtype="float32")
    assert not asked and right.numbers["unmoved"] == 1.0
    wrong = measure("output", "out", candidate * np.float32(1.01), honest, gold, moved, dtype="float32")
    assert asked == [True] and "unmoved" not in wrong.numbers
    whole = np.arange(5)
    assert measure("output", "out", whole, whole, whole, moved, dtype="int64").numbers["unmoved"] == 1.0
    assert asked == [True]
    measure("output", "out", whole + 1, whole, whole, lambda: asked.append(True) or [], dtype="int64")
    assert asked == [True, True]
