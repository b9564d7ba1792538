"""Evidence of single tensors: structure, positions, and the numbers that standards rely on."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.numerics.evidence import measure
from trueline.numerics.fallback import CHUNK
from trueline.numerics.sensitivity import perturb
from trueline.numerics.yardstick import sample_grid, smallest_unit, units


def gold_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count)


def floats(candidate: np.ndarray, gold: np.ndarray, *moved: np.ndarray, **fields: object) -> dict[str, float]:
    honest = gold.astype(np.float32)
    evidence = measure("output", "out", candidate, honest, gold, moved, dtype="float32", **fields)  # type: ignore[arg-type]
    return dict(evidence.numbers)


def test_another_shape_is_a_matter_of_structure() -> None:
    evidence = measure("output", "out", np.zeros((2, 3), np.float32), None, np.zeros((3, 2)), dtype="float32")
    assert evidence.structure == "shape [2, 3] instead of [3, 2]"
    assert evidence.gold is None


def test_another_dtype_is_a_matter_of_structure() -> None:
    evidence = measure(
        "output", "out", np.zeros(3, np.float32), None, np.zeros(3), dtype="float32", expected_dtype="torch.float16"
    )
    assert evidence.structure == "dtype float32 instead of float16"


def test_what_the_caller_found_is_kept() -> None:
    evidence = measure(
        "output", "out", np.zeros(3, np.float32), None, np.zeros(3), dtype="float32", structure="device cpu",
        numbers={"mine": 1.0},
    )  # fmt: skip
    assert evidence.structure == "device cpu"
    assert evidence.numbers["mine"] == 1.0


def test_a_gold_of_bits_is_refused() -> None:
    with pytest.raises(UsageError, match="float64"):
        measure("output", "out", np.zeros(3, np.float32), None, np.zeros(3, np.uint16), dtype="float32")


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_number_is_an_array_without_dimensions(dtype: str) -> None:
    number = np.asarray([3]).astype(dtype)[0]
    gold = number if dtype == "int64" else (number, number * 0)
    evidence = measure("output", "out", number, number, gold, [gold], dtype=dtype)
    assert evidence.shape == ()
    assert evidence.gold is not None and evidence.gold.equal == 1


def test_all_three_pairs_are_measured() -> None:
    gold = gold_of(8)
    honest, candidate = gold.astype(np.float32), (gold * 1.5).astype(np.float32)
    evidence = measure("gradient", "args.0", candidate, honest, gold, dtype="float32")
    assert evidence.gold is not None and evidence.gold.max_rel == pytest.approx(0.5, rel=1e-5)
    assert evidence.honest is not None and evidence.honest.max_rel < 1e-6
    assert evidence.direct is not None and evidence.direct.max_rel == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 5])
def test_the_worst_element_is_found_in_any_chunk(place: int) -> None:
    gold = gold_of(2 * CHUNK + 6)
    candidate = gold.astype(np.float32)
    candidate[place] *= 2
    numbers = floats(candidate, gold)
    assert numbers["peak_at"] == place
    assert numbers["peak_gold"] == gold[place]
    assert numbers["peak_candidate"] == candidate[place]


def test_what_is_not_kept_between_passes_is_measured_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    gold = gold_of(3 * CHUNK)
    candidate = (gold * (1 + 1e-6 * gold_of(gold.size, 1))).astype(np.float32)
    kept = floats(candidate, gold, gold * (1 + 6e-8))
    monkeypatch.setattr("trueline.numerics.floats._KEPT", 0)
    assert floats(candidate, gold, gold * (1 + 6e-8)) == kept


def test_the_error_is_in_units_of_the_gold() -> None:
    gold = np.asarray([1.0, 3.0, 100.0])
    candidate = gold.astype(np.float32)
    candidate[1] += 5 * 2.0**-22
    assert floats(candidate, gold)["peak_ulp"] == 5.0


def test_an_element_is_excused_by_its_own_response() -> None:
    gold = gold_of(64)
    moved = gold.copy()
    moved[7] *= 1.01
    candidate = gold.astype(np.float32)
    candidate[7] *= 1.01
    assert floats(candidate, gold, moved)["peak"] < 1
    candidate[8] *= 1.01
    numbers = floats(candidate, gold, moved)
    assert numbers["peak"] > 1
    assert numbers["peak_at"] == 8


def test_an_element_is_excused_by_what_honest_arithmetic_does_to_its_likes() -> None:
    gold = 1 + np.arange(64) / 64
    candidate = gold.astype(np.float32)
    honest = candidate + np.float32(2.0**-15)
    honest[5] = candidate[5]
    wrong = candidate.copy()
    wrong[5] += np.float32(2.0**-15)
    strict = measure("output", "out", wrong, candidate, gold, dtype="float32").numbers["peak"]
    lenient = measure("output", "out", wrong, honest, gold, dtype="float32").numbers["peak"]
    assert strict > 100
    assert lenient < 1.5


def test_the_largest_of_few_elements_is_excused_by_the_smaller_ones() -> None:
    """It did not move, by luck; the others did, as all sums of these terms do."""
    gold = np.array([5.0, *np.linspace(1.1, 1.9, 9)])
    candidate = gold.astype(np.float32)
    candidate[0] += np.float32(1e-3)
    moves = np.where(np.arange(10) == 0, 1e-7, 1e-3), np.full(10, 1e-7)
    numbers = [floats(candidate, gold, gold + move, gold - move, gold + move / 64) for move in moves]
    assert numbers[0]["peak"] < 3
    assert numbers[1]["peak"] > 100


def test_excused_elements_do_not_count() -> None:
    gold = gold_of(16)
    candidate = gold.astype(np.float32)
    candidate[3] = 17.0
    candidate[4] = np.nan
    excused = np.zeros(16, bool)
    excused[3:5] = True
    numbers = floats(candidate, gold, excused=excused)
    assert numbers["peak"] < 1
    assert numbers["nan_wrong"] == 0
    assert (numbers["compared"], numbers["excused"]) == (14, 2)


def test_excused_elements_that_are_finite_do_not_count_either() -> None:
    gold = gold_of(16)
    candidate = gold.astype(np.float32)
    candidate[3] = 17.0
    numbers = floats(candidate, gold, excused=np.arange(16) == 3)
    assert numbers["peak"] < 1 and numbers["spread"] < 1


def test_infinities_of_the_widest_type_are_measured() -> None:
    gold = np.array([1.0, np.inf, 1e308])
    evidence = measure("output", "out", np.array([1.0, np.inf, np.inf]), gold, (gold, np.zeros(3)), dtype="float64")
    assert (evidence.numbers["infinity_wrong"], evidence.numbers["nan_wrong"]) == (1, 0)


def test_roundings_that_follow_each_other_are_allowed_for() -> None:
    gold = np.random.default_rng(0).uniform(1.0, 2.0, 4000)
    candidate = (gold * (1 + 60 * 2.0**-24 * np.random.default_rng(1).standard_normal(4000))).astype(np.float32)
    assert floats(candidate, gold)["spread"] > 20
    assert floats(candidate, gold, roundings=3600.0)["spread"] < 3


@pytest.mark.parametrize("noisy", [True, False])
def test_an_honest_implementation_that_is_wrong_is_not_trusted(noisy: bool) -> None:
    """Wrong is what stays as wrong for neighbouring inputs; what is noise is another error for each."""
    gold = gold_of(256)
    honest = (gold + 0.3 * gold_of(256, seed=1)).astype(np.float32)
    again = (gold + 0.3 * gold_of(256, seed=2)).astype(np.float32) if noisy else honest * np.float32(1 + 1e-7)
    evidence = measure(
        "output", "out", honest, honest, gold, [gold] * 3, dtype="float32", nudged=lambda: [again, again]
    )
    assert ("honest_excess" in evidence.numbers) is not noisy
    assert (evidence.numbers["peak"] > 100) is not noisy
    assert evidence.honest is not None and evidence.honest.rmse > 0.1  # it is what it is for other standards


def test_neighbouring_inputs_are_asked_for_in_doubt_alone() -> None:
    def never() -> list[np.ndarray]:
        raise AssertionError

    gold = gold_of(256)
    measure("output", "out", *[gold.astype(np.float32)] * 2, gold, [gold] * 3, dtype="float32", nudged=never)


def test_if_all_is_excused_nothing_is_measured() -> None:
    evidence = measure("output", "out", np.zeros(2, np.float32), None, np.ones(2), dtype="float32",
                       excused=np.ones(2, bool))  # fmt: skip
    assert evidence.note
    assert evidence.gold is None


def test_infinity_where_honest_arithmetic_overflows_too_is_not_wrong() -> None:
    gold = np.asarray([1.0, 2.0, 3.0])
    candidate = np.asarray([1.0, 2.0, np.inf], np.float32)
    assert measure("output", "out", candidate, candidate, gold, dtype="float32").numbers["infinity_wrong"] == 0
    assert measure("output", "out", candidate, gold.astype(np.float32), gold, dtype="float32").numbers[
        "infinity_wrong"
    ] == 1  # fmt: skip


def test_exact_numbers_say_where() -> None:
    gold = np.arange(6).reshape(2, 3)
    candidate = gold.copy()
    candidate[1, 0] = 9
    numbers = measure("output", "out", candidate, gold, gold, dtype="int64").numbers
    assert (numbers["wrong"], numbers["wrong_at"], numbers["compared"]) == (1, 3, 6)


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "float32", "bfloat16"])
def test_units_are_those_of_the_dtype(dtype: str) -> None:
    kind = dtype_named(dtype)
    found = units(np.asarray([1.0, 1.999, 2.0, 0.0]), kind)
    assert found.tolist() == [kind.epsilon, kind.epsilon, 2 * kind.epsilon, smallest_unit(kind)]


def test_moves_are_one_rounding_and_repeat_themselves() -> None:
    values, kind = gold_of(1000), dtype_named("bfloat16")
    first = perturb(values, kind, seed=3, path="args.0", round_number=0)
    ratio = first / values
    assert set(np.round(ratio * 256)) == {255.0, 257.0}
    assert (first == perturb(values, kind, seed=3, path="args.0", round_number=0)).all()
    assert (first != perturb(values, kind, seed=3, path="args.1", round_number=0)).any()
    assert (first != perturb(values, kind, seed=4, path="args.0", round_number=0)).any()
    assert (first != perturb(values, kind, seed=3, path="args.0", round_number=3)).any()


def test_every_number_is_moved_to_both_sides() -> None:
    values, kind = gold_of(1000), dtype_named("float16")
    up, down = (perturb(values, kind, seed=0, path="", round_number=number) for number in (0, 1))
    assert (up + down == 2 * values).all()
    assert (up != values).all()


def test_moves_leave_alone_what_cannot_move() -> None:
    values = np.asarray([0.0, np.inf, -np.inf, np.nan])
    assert np.array_equal(
        perturb(values, dtype_named("float32"), seed=0, path="", round_number=0), values, equal_nan=True
    )


def test_the_parts_of_complex_numbers_move_by_themselves() -> None:
    values = gold_of(100) + 1j * gold_of(100, 1)
    moved = perturb(values, dtype_named("complex64"), seed=0, path="", round_number=0)
    assert set(np.round((moved.real / values.real - 1) * 2**24)) == {-1.0, 1.0}
    assert (np.sign(moved.real / values.real - 1) != np.sign(moved.imag / values.imag - 1)).any()


def test_a_long_tensor_is_thinned_out_evenly() -> None:
    grid = sample_grid((1000, 3, 70), most=4096)
    kept = np.zeros((1000, 3, 70))[grid].shape
    assert np.prod(kept) <= 4096
    assert kept[1] == 3


def test_the_third_move_is_a_small_share_of_the_first() -> None:
    values, kind = gold_of(1000), dtype_named("float32")
    first, third = (perturb(values, kind, seed=0, path="", round_number=number) for number in (0, 2))
    assert np.allclose((first - values) / (third - values), 64, rtol=1e-4)


def test_what_is_still_does_not_move() -> None:
    values, kind = np.asarray([0.25, 0.5, 1.0]), dtype_named("bfloat16")
    for number in range(3):
        moved = perturb(values, kind, seed=0, path="", round_number=number, still=values == 1.0)
        assert (moved != values).tolist() == [True, True, False]


def jumps(
    gold: np.ndarray, candidate: np.ndarray, moves: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> dict[str, float]:
    return floats(candidate.astype(np.float32), gold, *(gold + move for move in moves))


def test_a_jump_is_told_from_a_steep_slope() -> None:
    gold, steep = np.full(4, 10.0), np.full(4, 1.0)
    assert jumps(gold, gold, (steep, -steep, steep / 64))["jumps"] == 0
    assert jumps(gold, gold, (steep, 0 * steep, steep))["jumps"] == 4
    assert jumps(gold, gold, (0 * steep, steep, 0 * steep))["jumps"] == 4


def test_a_candidate_on_the_other_side_of_a_jump_is_a_flip() -> None:
    gold, step = np.full(4, 10.0), np.asarray([1.0, 0.0, 0.0, 0.0])
    numbers = jumps(gold, gold + step, (step, 0 * step, step))
    assert (numbers["jumps"], numbers["flips"], numbers["flip_at"]) == (1, 1, 0)
    assert numbers["peak"] < 1
