"""The default standard of a check, on kernels that are honest but different and on kernels that are wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.judge.kernels import (
    DTYPES,
    NARROW,
    Trial,
    gelu,
    normal,
    product,
    rounded,
    standardized,
    summed_in,
    through,
    truncated,
)
from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.judge.calibrated import Calibrated
from trueline.numerics.evidence import measure
from trueline.numerics.sensitivity import perturb
from trueline.records import Verdict

ANY = Case("torch.anything", None)


def matrices(dtype: str, inner: int = 512) -> Trial:
    return Trial(product, [normal(32, inner), normal(inner, 48, seed=1)], dtype)


# Honest, but different


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_nearest_numbers_pass(dtype: str) -> None:
    trial = matrices(dtype)
    assert trial.judge(rounded(trial.gold, dtype)).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_order_of_summation_passes(dtype: str) -> None:
    trial = matrices(dtype)
    assert trial.judge(rounded(summed_in("float32", *trial.inputs, block=1), dtype)).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", NARROW)
def test_an_intermediate_that_was_rounded_passes(dtype: str) -> None:
    trial = Trial(lambda a, b, c: a @ b + c, [normal(32, 64), normal(64, 48), normal(48)], dtype)
    left, right, added = trial.inputs
    assert trial.judge(rounded(through(left @ right, dtype) + added, dtype)).verdict is Verdict.PASS


def test_a_function_that_is_off_by_up_to_three_units_passes_in_float32() -> None:
    trial = Trial(np.exp, [normal(4096)])
    near = rounded(trial.gold, "float32")
    off = np.random.default_rng(0).integers(-3, 4, near.shape)
    assert trial.judge(near + (off * np.spacing(near)).astype(np.float32)).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", DTYPES)
def test_cancellation_is_no_fault(dtype: str) -> None:
    """Large terms, small differences: an honest kernel may lose every digit, and this one happens to lose none."""
    near = normal(2048)
    trial = Trial(lambda a, b, c: a * b - c, [near, near, near * near], dtype)
    a, b, c = trial.inputs
    assert trial.judge(rounded(through(a * b, dtype) - c, dtype)).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_flushing_subnormal_numbers_to_zero_passes(dtype: str) -> None:
    trial = Trial(lambda x: x * np.asarray(2.0**-130, x.dtype), [normal(512)], dtype)
    assert trial.judge(rounded(np.zeros(512), dtype)).verdict is Verdict.PASS


def test_a_subnormal_number_of_float16_counts() -> None:
    trial = Trial(lambda x: x * np.asarray(2.0**-17, x.dtype), [normal(512)], "float16")
    assert trial.judge(rounded(np.zeros(512), "float16")).verdict is Verdict.FAIL


@pytest.mark.parametrize("dtype", NARROW)
def test_a_scale_that_was_rounded_once_for_each_row_passes(dtype: str) -> None:
    trial = Trial(standardized, [normal(32, 256)], dtype)
    centered = trial.inputs[0] - trial.inputs[0].mean(axis=-1, keepdims=True)
    scale = through(1 / np.sqrt((centered * centered).mean(axis=-1, keepdims=True)), dtype)
    assert trial.judge(rounded(centered * scale, dtype)).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_numbers_that_are_rounded_alike_pass(dtype: str) -> None:
    """The gradient of a mean: every element is the same number, and so is its rounding error."""
    trial = Trial(lambda g: np.broadcast_to(g / np.asarray(1000, g.dtype), (1000, 8)), [normal(8)], dtype)
    value = through(through(np.asarray([1 / 1000]), "float32") * trial.inputs[0], dtype)
    assert trial.judge(rounded(np.broadcast_to(value, (1000, 8)).copy(), dtype)).verdict is Verdict.PASS


def test_overflow_is_infinity_where_the_gold_rounds_to_it() -> None:
    trial = Trial(lambda x: x * np.asarray(30000, x.dtype), [normal(64)], "float16")
    found = trial.judge(rounded(trial.gold, "float16"))
    assert np.isinf(rounded(trial.gold, "float16")).any()
    assert found.verdict is Verdict.PASS


def test_near_the_largest_number_rounding_may_decide_about_infinity() -> None:
    trial = Trial(lambda x: x, [np.linspace(65000, 65504, 32)], "float16")
    candidate = rounded(trial.gold, "float16")
    candidate[-1] = np.inf
    assert trial.judge(candidate).verdict is Verdict.PASS


# Wrong


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1.002, 0.998])
def test_a_factor_near_one_fails(dtype: str, factor: float) -> None:
    trial = matrices(dtype)
    found = trial.judge(rounded(trial.gold * factor, dtype))
    assert found.verdict is Verdict.FAIL
    if dtype == "bfloat16":
        assert ("too large" if factor > 1 else "too small") in found.reason


def test_one_wrong_element_of_a_million_fails_and_is_named() -> None:
    trial = Trial(np.tanh, [normal(1000, 1000)], "bfloat16")
    candidate = rounded(trial.gold, "bfloat16")
    candidate[421, 7] = rounded(trial.gold[421:422, 7] * 1.2, "bfloat16")[0]
    found = trial.judge(candidate)
    assert found.verdict is Verdict.FAIL
    assert "[421, 7]" in found.reason


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dropped_tail_fails(dtype: str) -> None:
    trial = Trial(np.tanh, [normal(4099)], dtype)
    candidate = rounded(trial.gold, dtype)
    candidate[-3:] = 0
    assert trial.judge(candidate).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("dtype", "inside"), [("float32", "bfloat16"), ("bfloat16", "bfloat16"), ("float16", "float16")]
)
def test_sums_in_low_precision_fail(dtype: str, inside: str) -> None:
    trial = matrices(dtype, inner=2048)
    assert trial.judge(rounded(summed_in(inside, *trial.inputs), dtype)).verdict is Verdict.FAIL


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_term_that_matters_only_to_small_results_is_missed_by_nobody(dtype: str) -> None:
    """gelu of -3.5 is -7e-4: half of that is nothing beside the largest results."""
    trial = Trial(gelu, [normal(64, 256)], dtype)
    wrong = np.where(trial.inputs[0] < -3, trial.gold * 1.5, trial.gold)
    assert trial.judge(rounded(wrong, dtype)).verdict is Verdict.FAIL


@pytest.mark.parametrize("dtype", NARROW)
def test_rounding_towards_zero_fails(dtype: str) -> None:
    trial = matrices(dtype)
    found = trial.judge(truncated(trial.gold, dtype))
    assert found.verdict is Verdict.FAIL
    assert "too small throughout" in found.reason


@pytest.mark.parametrize(
    ("wrong", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")], ids=["nan", "inf", "-inf"]
)
def test_what_is_not_finite_and_should_be_fails(wrong: float, what: str) -> None:
    trial = matrices("float32")
    candidate = rounded(trial.gold, "float32")
    candidate[3, 5] = wrong
    found = trial.judge(candidate)
    assert found.verdict is Verdict.FAIL
    assert what in found.reason
    assert "[3, 5]" in found.reason


@pytest.mark.parametrize("instead", [np.nan, 1.0, np.inf])
def test_a_negative_infinity_must_be_one(instead: float) -> None:
    trial = Trial(np.log, [np.asarray([0.0, 1.0, 2.0, 3.0])])
    candidate = rounded(trial.gold, "float32")
    assert trial.judge(candidate).verdict is Verdict.PASS
    candidate[0] = instead
    assert trial.judge(candidate).verdict is Verdict.FAIL


def test_a_missing_nan_fails() -> None:
    trial = Trial(np.sqrt, [np.asarray([-1.0, 1.0, 2.0])])
    candidate = rounded(trial.gold, "float32")
    assert trial.judge(candidate).verdict is Verdict.PASS
    candidate[0] = 0.0
    assert trial.judge(candidate).verdict is Verdict.FAIL


# Integers, bools, and what jumps


def exact(candidate: np.ndarray, honest: np.ndarray, gold: np.ndarray, *moved: np.ndarray) -> Verdict:
    name = str(gold.dtype)
    return Calibrated().judge_tensor(measure("output", "out", candidate, honest, gold, moved, dtype=name), ANY).verdict


def test_integers_must_be_equal() -> None:
    gold = np.arange(10)
    off = gold.copy()
    off[4] += 1
    assert exact(gold.copy(), gold, gold) is Verdict.PASS
    assert exact(off, gold, gold) is Verdict.FAIL


def test_an_integer_that_hangs_on_a_rounding_may_be_either() -> None:
    gold = np.arange(100)
    moved = gold.copy()
    moved[[4, 50]] += 1
    off = gold.copy()
    off[4] += 1
    assert exact(off, gold, gold, moved) is Verdict.PASS
    off[5] += 1
    assert exact(off, gold, gold, moved) is Verdict.FAIL


def test_a_comparison_that_always_says_no_fails_though_every_yes_hangs_on_a_rounding() -> None:
    gold = np.arange(64) % 4 == 0
    moved = np.zeros(64, bool)
    assert exact(gold.copy(), gold, gold, moved) is Verdict.PASS
    assert exact(moved.copy(), gold, gold, moved) is Verdict.FAIL


def test_where_everything_hangs_on_a_rounding_nothing_was_compared() -> None:
    gold = np.zeros(4, bool)
    assert exact(np.asarray([True, False, False, False]), gold, gold, ~gold) is Verdict.NOT_COMPARED


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_rounded_away_from_zero_fail(dtype: str) -> None:
    trial = Trial(np.rint, [np.round(normal(1024, std=4.0) * 2) / 2], dtype)
    given = trial.inputs[0]
    away = np.sign(given) * np.floor(np.abs(given) + 0.5)
    assert trial.judge(rounded(trial.gold, dtype)).verdict is Verdict.PASS
    found = trial.judge(rounded(away, dtype))
    assert found.verdict is Verdict.FAIL
    assert "hang on a rounding" in found.reason


def test_a_step_that_is_wrong_beside_the_jumps_fails() -> None:
    trial = Trial(np.floor, [np.round(normal(1024, std=4.0) * 2) / 2])
    candidate = rounded(trial.gold, "float32")
    candidate[np.flatnonzero(trial.inputs[0] % 1)[0]] += 1
    assert trial.judge(candidate).verdict is Verdict.FAIL


# What holds of every verdict


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-3, 4])
def test_powers_of_two_change_nothing(dtype: str, power: int) -> None:
    plain = matrices(dtype)
    scaled = Trial(product, [plain.inputs[0] * 2.0**power, plain.inputs[1]], dtype)
    for wrong in (plain.gold, plain.gold * 1.002, summed_in("bfloat16", *plain.inputs)):
        first, second = plain.judge(rounded(wrong, dtype)), scaled.judge(rounded(wrong * 2.0**power, dtype))
        assert second.verdict is first.verdict
        assert second.score == pytest.approx(first.score)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_larger_error_never_has_a_better_score(dtype: str) -> None:
    trial = matrices(dtype)
    scores = [trial.judge(rounded(trial.gold * (1 + error), dtype)).score for error in (0, 1e-4, 1e-3, 1e-2, 1e-1)]
    assert scores == sorted(scores)


def test_the_sign_of_everything_changes_nothing() -> None:
    trial = matrices("bfloat16")
    mirrored = Trial(product, [-trial.inputs[0], trial.inputs[1]], "bfloat16")
    found = [one.judge(rounded(one.gold * 1.002, "bfloat16")).score for one in (trial, mirrored)]
    assert found[0] == pytest.approx(found[1])


def test_between_pass_and_fail_is_a_warning() -> None:
    trial = Trial(np.exp, [normal(64)])
    near = rounded(trial.gold, "float32")
    verdicts = []
    for units in range(60):
        candidate = near.copy()
        candidate[0] += units * np.spacing(near[0])
        verdicts.append(trial.judge(candidate).verdict)
    assert verdicts == sorted(verdicts)
    assert set(verdicts) == {Verdict.PASS, Verdict.WARN, Verdict.FAIL}


def test_a_reason_has_the_numbers() -> None:
    trial = matrices("float32")
    candidate = rounded(trial.gold, "float32")
    candidate[3, 5] *= 1.5
    found = trial.judge(candidate)
    assert found.reason.startswith("off by ")
    assert "ulp at [3, 5]" in found.reason
    assert "honest float32 arithmetic explains" in found.reason
    assert found.score is not None and found.score > 1


def test_an_empty_tensor_of_the_right_shape_passes() -> None:
    empty = np.zeros((0, 3), np.float32)
    evidence = measure("output", "out", empty, empty, empty.astype(np.float64), dtype="float32")
    assert Calibrated().judge_tensor(evidence, ANY).verdict is Verdict.PASS


def test_what_was_not_measured_does_not_pass() -> None:
    evidence = measure("output", "out", np.ones(3, np.float32), None, np.ones(3), dtype="float32")
    bare = replace(evidence, numbers={})
    assert Calibrated().judge_tensor(bare, ANY).verdict is Verdict.NOT_COMPARED


# Other dtypes


def test_float64_is_judged_by_a_pair() -> None:
    given = normal(4096).astype(np.longdouble)
    wide = np.exp(given)
    gold = (wide.astype(np.float64), (wide - wide.astype(np.float64)).astype(np.float64))
    honest = np.exp(given.astype(np.float64))
    moved = np.exp(given * (1 + np.longdouble(2.0**-53)))
    others = [(moved.astype(np.float64), (moved - moved.astype(np.float64)).astype(np.float64))]

    def judge(candidate: np.ndarray) -> Verdict:
        evidence = measure("output", "out", candidate, honest, gold, others, dtype="float64")
        return Calibrated().judge_tensor(evidence, ANY).verdict

    assert judge(honest.copy()) is Verdict.PASS
    assert judge(honest + np.random.default_rng(0).integers(-2, 3, 4096) * np.spacing(honest)) is Verdict.PASS
    assert judge(honest + 40 * np.spacing(honest)) is Verdict.FAIL


def test_complex_numbers_are_judged_by_their_modulus() -> None:
    left, right = normal(2048) + 1j * normal(2048, seed=2), normal(2048, seed=3) + 1j * normal(2048, seed=4)
    left, right = left.astype(np.complex64), right.astype(np.complex64)
    gold = left.astype(np.complex128) * right
    honest = left * right
    kind = dtype_named("complex64")
    moved = [
        perturb(left.astype(np.complex128), kind, seed=0, path="", round_number=number) * right for number in (0, 1)
    ]

    def judge(candidate: np.ndarray) -> Verdict:
        evidence = measure("output", "out", candidate, honest, gold, moved, dtype="complex64")
        return Calibrated().judge_tensor(evidence, ANY).verdict

    assert judge(gold.astype(np.complex64)) is Verdict.PASS
    assert judge((gold * (1 + 2e-7j)).astype(np.complex64)) is Verdict.PASS
    assert judge((gold * (1 + 1e-5j)).astype(np.complex64)) is Verdict.FAIL


def test_a_gold_that_is_noise_of_its_own_accuses_nobody() -> None:
    """x - x, computed by a detour: nothing is left but the rounding of the detour, in any precision."""
    detour = Trial(lambda x, y: (x * y) / y - x, [normal(32), normal(32, seed=1)], scale=4.0)
    assert np.abs(detour.gold).max() < 1e-14
    x, y = (one.astype(np.float32) for one in detour.inputs)
    other = rounded(((x / y) * y - x).astype(np.float64), "float32")
    detour.honest = rounded(np.zeros(32), "float32")
    assert detour.judge(other).verdict is Verdict.PASS
    assert detour.judge(rounded(np.full(32, 1e-3), "float32")).verdict is Verdict.FAIL


def categories(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Numbers that stand for classes: any other number than 1 or -1 means nothing."""
    return np.where(y == 1, x, np.where(y == -1, -x, np.zeros_like(x)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_every_element_jumps_a_third_value_is_still_wrong(dtype: str) -> None:
    trial = Trial(categories, [1 + np.abs(normal(512)), np.sign(normal(512, seed=1))], dtype)
    assert trial.judge(rounded(trial.gold, dtype)).verdict is Verdict.PASS
    assert trial.judge(rounded(trial.gold * 1.5, dtype)).verdict is Verdict.FAIL


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_steep_function_does_not_jump(dtype: str) -> None:
    """The sine of large numbers: one rounding of the input is most of a period, and any result is as good."""
    trial = Trial(lambda x: np.sin(x * np.asarray(500, x.dtype)), [1 + normal(512, std=0.1)], dtype)
    numbers = trial.evidence(rounded(trial.gold, dtype)).numbers
    assert numbers["jumps"] < 0.3 * 512
    assert trial.judge(rounded(np.sin(trial.inputs[0] * 500 * (1 + 2.0**-25)), dtype)).verdict is Verdict.PASS


def test_the_largest_number_of_the_dtype_is_not_that_of_the_gold() -> None:
    given = np.asarray([1.0, np.inf, -np.inf, 2.0])
    trial = Trial(np.nan_to_num, [given], "float32")
    assert trial.gold[1] > 1e300
    assert trial.judge(np.nan_to_num(given.astype(np.float32))).verdict is Verdict.PASS
    wrong = np.asarray([1.0, 0.0, 0.0, 2.0], np.float32)
    assert trial.judge(wrong).verdict is Verdict.FAIL
    trial.gold = np.nan_to_num(given.astype(np.float32)).astype(np.float64)  # and those of moved inputs as before
    assert trial.judge(wrong).verdict is Verdict.FAIL


# Words


@pytest.mark.parametrize(("digits", "named"), [(11, True), (4, False)])
def test_tf32_is_named_where_it_explains_the_error(digits: int, named: bool) -> None:
    trial = matrices("float32")
    left, right = (np.round(one * 2.0**digits) / 2.0**digits for one in trial.inputs)
    evidence = trial.judge(rounded(left @ right, "float32")).evidence
    said = {}
    for switch in ("", "tf32_matmul", "tf32_cudnn"):
        numbers = {**evidence.numbers, **({switch: 1.0} if switch else {})}
        said[switch] = Calibrated().judge_tensor(replace(evidence, numbers=numbers), ANY)
    assert {one.verdict for one in said.values()} == {Verdict.FAIL}
    assert "TF32" not in said[""].reason
    assert ("torch.backends.cuda.matmul.allow_tf32 is on" in said["tf32_matmul"].reason) is named
    assert ("torch.backends.cudnn.allow_tf32 is on" in said["tf32_cudnn"].reason) is named


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, Verdict.PASS), (1.02, Verdict.FAIL), (1.0 + 2.0**-7, Verdict.FAIL)]
)
def test_what_is_only_moved_must_be_equal(factor: float, verdict: Verdict) -> None:
    """In bfloat16, where arithmetic would explain a few units."""
    moved = normal(64)
    gold = through(moved, "bfloat16")
    evidence = measure("output", "out", rounded(gold * factor, "bfloat16"), rounded(gold, "bfloat16"), gold,
                       dtype="bfloat16", numbers={"decided": 1.0})  # fmt: skip
    assert Calibrated().judge_tensor(evidence, ANY).verdict is verdict
