"""Each standard of another tool says what that tool says, right or wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.checks import case_of, evidence_of
from trueline.errors import UsageError
from trueline.judge.checks import CHECK_STANDARDS, check_standard_named
from trueline.judge.predecessors_msprobe import level_of
from trueline.records import Verdict

PASS, WARN, FAIL, NONE = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.NOT_COMPARED
RANDOM = np.random.default_rng(3)
VALUES = RANDOM.normal(size=4000)
GELU = "torch.nn.functional.gelu"


def verdict(
    standard: str, candidate: object, reference: object, dtype: str = "float32", *, api: str = GELU,
    honest: object = None, inputs: tuple[str, ...] = ("float32",),
) -> Verdict:  # fmt: skip
    """What a standard says where honest implementation and gold are ``reference`` (``honest`` if that is given)."""
    evidence = evidence_of(candidate, reference if honest is None else honest, reference, dtype)
    finding = check_standard_named(standard).judge_tensor(evidence, case_of(api, dtypes=inputs))
    assert finding.reason
    if finding.score is not None:
        assert (finding.score > 1.0) <= (finding.verdict >= FAIL), "a score above 1 fails"
    return finding.verdict


@pytest.mark.parametrize("name", sorted(CHECK_STANDARDS))
def test_every_standard_goes_by_its_name(name: str) -> None:
    assert check_standard_named(name).name == name


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown standard 'allclos'; known: .*allclose.*precheck"):
        check_standard_named("allclos")


# PaddleAPEX, direct: a table of what it says, seen by running it

APEX_TABLE = [
    ("twice values of about 1e-4", 2e-4 * VALUES / 4, 1e-4 * VALUES / 4, PASS),
    ("+30 % on values of about 3e-4", 1.3 * 3e-4 * VALUES / 4, 3e-4 * VALUES / 4, PASS),
    ("the same NaN on both sides", np.append(VALUES, np.nan), np.append(VALUES, np.nan), FAIL),
    ("the same Inf on both sides", np.append(VALUES, np.inf), np.append(VALUES, np.inf), FAIL),
    ("NaN on the device only", np.append(VALUES, np.nan), np.append(VALUES, 1.0), FAIL),
    ("zeros against 1e-9", np.zeros(100), np.full(100, 1e-9), FAIL),
    ("zeros on both sides", np.zeros(100), np.zeros(100), PASS),
    ("a scalar off by 1 %", np.array([1.01]), np.array([1.0]), FAIL),
    ("a loss of 5e-4 for 1e-3", np.array([5e-4]), np.array([1e-3]), PASS),
    ("noise of 4e-4, as of TF32", VALUES * (1 + 4e-4 * np.sign(VALUES)), VALUES, WARN),
    ("one ULP", VALUES * (1 + 2.0**-23), VALUES, PASS),
    ("the sign turned", -VALUES, VALUES, FAIL),
]


@pytest.mark.parametrize(("candidate", "reference", "told"), [row[1:] for row in APEX_TABLE],
                         ids=[row[0] for row in APEX_TABLE])  # fmt: skip
def test_apex_says_what_it_was_seen_to_say(candidate: np.ndarray, reference: np.ndarray, told: Verdict) -> None:
    assert verdict("apex", candidate, reference) is told


@pytest.mark.parametrize("change", [0.0, -5.0])
def test_apex_does_not_see_90_of_a_million(change: float) -> None:
    reference = RANDOM.normal(size=1_000_000)
    candidate = reference.copy()
    candidate[:90] *= change
    assert verdict("apex", candidate, reference) is PASS


def test_apex_on_types_and_sizes() -> None:
    whole = np.arange(10)
    assert verdict("apex", whole, whole, "int64") is PASS
    assert verdict("apex", whole + 1, whole, "int32") is FAIL
    assert verdict("apex", whole, whole, "int8") is FAIL, "int8 is in no family"
    assert verdict("apex", whole + 0j, whole + 0j, "complex64") is FAIL
    assert verdict("apex", np.zeros((0, 3)), np.zeros((0, 3))) is NONE, "it has no row for empty tensors"


def test_apex_looks_at_the_zeros_of_dropout_only() -> None:
    dropped = VALUES * (RANDOM.uniform(size=VALUES.size) > 0.5)
    api = "torch.nn.functional.dropout"
    assert verdict("apex", 100 * dropped, dropped, api=api) is PASS
    assert verdict("apex", VALUES, dropped, api=api) is FAIL
    assert verdict("apex", VALUES[:99], 0 * VALUES[:99], api=api) is PASS, "fewer than 100 elements"


def test_apex_divides_by_the_epsilon_of_the_reference() -> None:
    """In float16 the epsilon is 2**-10: values near zero hardly have a relative error."""
    reference = np.concatenate([np.full(50, 4.0), np.full(950, 1e-4)])
    candidate = np.concatenate([np.full(50, 4.004), np.full(950, 1.005e-4)])
    assert verdict("apex", candidate, reference, "float16") is PASS
    assert verdict("apex", candidate, reference, "float32") is FAIL


@pytest.mark.parametrize(("factor", "told"), [(0.9, PASS), (1.5, WARN), (3.0, FAIL)])
def test_apex_multi_takes_the_ratio_of_two_errors(factor: float, told: Verdict) -> None:
    gold = RANDOM.uniform(1, 2, size=1000)
    error = RANDOM.uniform(0.5, 1, size=1000) * 2.0**-6
    evidence = evidence_of(gold + factor * error, gold + error, gold, "float32")
    assert check_standard_named("apex-multi").judge_tensor(evidence, case_of()).verdict is told


def test_apex_multi_knows_no_error_and_skips_float64() -> None:
    gold = RANDOM.uniform(1, 2, size=100).astype(np.float32).astype(float)
    assert verdict("apex-multi", gold, gold) is PASS, "0/0 is 1 there"
    assert verdict("apex-multi", gold * (1 + 2.0**-20), gold, honest=gold) is FAIL, "x/0 is 10000 there"
    assert verdict("apex-multi", gold, gold, "float64") is NONE
    assert verdict("apex-multi", np.arange(5), np.arange(5), "int64") is PASS


# the precheck of the manual and its successor


@pytest.mark.parametrize(
    ("dtype", "relative", "told"),
    [
        ("float32", 2e-4, FAIL), ("float32", 0.5e-4, PASS), ("float16", 2e-3, FAIL), ("float16", 0.3e-3, PASS),
        ("bfloat16", 2e-2, FAIL),
    ],
)  # fmt: skip
def test_precheck_needs_the_double_share(dtype: str, relative: float, told: Verdict) -> None:
    values = RANDOM.uniform(1, 2, size=5000)
    assert verdict("precheck", values * (1 + relative), values, dtype) is told


def test_precheck_counts_elements() -> None:
    """Double thousandth: more than 99.9 % must be within 0.001."""
    values = np.full(10_000, 1.5)
    for wrong, told in ((9, PASS), (10, FAIL)):
        candidate = values.copy()
        candidate[:wrong] = 3.0
        assert verdict("precheck", candidate, values, "float16") is told
    one_of_a_million = np.full(1_000_000, 1.5)
    one_of_a_million[5] = 1.7
    assert verdict("precheck", one_of_a_million, np.full(1_000_000, 1.5)) is PASS


def test_precheck_looks_at_small_gradients_but_2023_does_not() -> None:
    """Gradients of twice the size pass the absolute shortcut."""
    gradient = 1e-4 * VALUES / 4
    assert verdict("precheck", 2 * gradient, gradient) is FAIL
    assert verdict("precheck-2023", 2 * gradient, gradient) is PASS
    assert verdict("msprobe-acc-check", 2 * gradient, gradient) is PASS
    assert verdict("precheck-2023", 2 * VALUES, VALUES) is FAIL
    assert verdict("precheck-2023", -VALUES, VALUES) is FAIL


@pytest.mark.parametrize(
    ("dtype", "relative", "told"),
    [
        ("float32", 0.5e-4, PASS), ("float32", 5e-4, WARN), ("float32", 5e-3, FAIL),
        ("float16", 0.3e-3, PASS), ("float16", 5e-3, WARN), ("float16", 2e-2, FAIL),
    ],
)  # fmt: skip
def test_the_chain_warns_before_it_fails(dtype: str, relative: float, told: Verdict) -> None:
    values = RANDOM.uniform(10, 20, size=5000)
    for standard in ("precheck-2023", "msprobe-acc-check"):
        assert verdict(standard, values * (1 + relative), values, dtype) is told


def test_the_chain_accepts_a_half_percent_on_every_bfloat16_output() -> None:
    values = RANDOM.uniform(10, 20, size=5000)
    assert verdict("precheck-2023", values * 1.005, values, "bfloat16") is WARN


def test_one_nan_on_both_sides() -> None:
    """Equal data with one NaN: failed in a small tensor, passed in a large one, by the share alone."""
    small, large = np.append(VALUES[:500], np.nan), np.append(np.tile(VALUES, 4), np.nan)
    assert verdict("precheck-2023", small, small) is FAIL
    assert verdict("precheck-2023", large, large) is PASS
    assert verdict("precheck", large, large) is FAIL, "a cosine that is NaN is not above 0.99"


def test_precheck_on_integers_dropout_and_strange_types() -> None:
    whole = np.arange(200)
    assert verdict("precheck", whole, whole, "int64") is PASS
    assert verdict("precheck", np.where(whole == 3, 4, whole), whole, "int64") is FAIL
    assert verdict("precheck", 7.0 * whole, 1.0 * whole, api="torch.nn.functional.dropout") is PASS
    assert verdict("precheck", whole + 0j, whole + 0j, "complex64") is NONE
    assert verdict("msprobe-acc-check", whole + 0j, whole + 0j, "complex64") is FAIL
    assert verdict("msprobe-acc-check", whole, whole, "int16") is FAIL, "int16 is not comparable there"


def test_ptdbg_needs_both_and_its_code_more() -> None:
    scaled = 1.9 * VALUES
    assert verdict("ptdbg", scaled, VALUES) is PASS, "the cosine of a scaled tensor is 1"
    assert verdict("ptdbg-2023", scaled, VALUES) is FAIL, "off by more than 1"
    assert verdict("ptdbg", -VALUES, VALUES) is FAIL
    assert verdict("ptdbg", -1e-4 * VALUES, 1e-4 * VALUES) is PASS, "all errors below 0.001"
    assert verdict("ptdbg-2023", -1e-4 * VALUES, 1e-4 * VALUES) is FAIL, "a cosine below 0.9"
    assert verdict("ptdbg", 0 * VALUES, VALUES) is PASS, "the cosine is NaN, and NaN is not below 0.99"
    assert verdict("ptdbg-2023", 0 * VALUES, VALUES) is FAIL, "but off by more than 1"
    assert verdict("ptdbg-2023", 0 * VALUES, VALUES / 10) is PASS
    same = np.append(VALUES, [np.nan, np.inf])
    assert verdict("ptdbg", same, same) is PASS
    assert verdict("ptdbg", same, np.append(VALUES, [1.0, np.inf])) is FAIL
    assert verdict("ptdbg", np.zeros(0), np.zeros(0)) is NONE


# msprobe


@pytest.mark.parametrize(
    ("dtype", "relative", "told"),
    [("float32", 2.0**-21, PASS), ("float32", 2.0**-19, FAIL), ("float16", 2.0**-11, PASS), ("float16", 2.0**-9, FAIL),
     ("bfloat16", 2.0**-8, PASS), ("bfloat16", 2.0**-6, FAIL)],
)  # fmt: skip
def test_msprobe_absolute(dtype: str, relative: float, told: Verdict) -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0])
    assert verdict("msprobe-absolute", values * (1 + relative), values, dtype) is told


def test_msprobe_absolute_on_nan_and_small_values() -> None:
    same = np.array([1.0, np.nan])
    assert verdict("msprobe-absolute", same, same) is PASS
    assert verdict("msprobe-absolute", np.array([1.0, 1.0]), same) is FAIL
    assert verdict("msprobe-absolute", np.array([1.0, 2e-8]), np.array([1.0, 1e-8])) is FAIL
    assert verdict("msprobe-absolute", np.array([1.0, 1.05e-8]), np.array([1.0, 1e-8])) is PASS
    assert verdict("msprobe-absolute", np.array([1, 2]), np.array([1, 2]), "int32") is NONE


def test_msprobe_benchmark_has_a_floor_that_hides_errors() -> None:
    """The honest error counts as at least 2**-14: up to twice that is well however exact others are."""
    values = RANDOM.uniform(1, 2, size=1000).astype(np.float32).astype(float)
    for relative, told in ((0.9 * 2.0**-14, PASS), (2.2 * 2.0**-14, FAIL)):
        assert verdict("msprobe-benchmark", values * (1 + relative), values, honest=values) is told


def test_msprobe_benchmark_cares_more_for_some() -> None:
    values = np.linspace(1, 2, 1000)
    candidate = values + 1.3 * 2.0**-14
    assert (level_of("torch.matmul"), level_of("torch.nn.functional.embedding")) == ("L2", "L1")
    assert level_of("torch.nn.functional.gelu") == "L0", "its list says GELU"
    assert verdict("msprobe-benchmark", candidate, values, api="torch.relu") is PASS
    assert verdict("msprobe-benchmark", candidate, values, api="torch.matmul") is FAIL


def test_msprobe_benchmark_compares_small_values_by_number() -> None:
    values = np.full(100, 2.0**-24)
    assert verdict("msprobe-benchmark", values + 2.0**-28, values) is FAIL
    assert verdict("msprobe-benchmark", values + 2.0**-32, values) is PASS


def test_msprobe_ulp_has_three_ways_to_pass() -> None:
    ones = np.ones(1000)
    far = ones + 100 * 2.0**-23
    assert verdict("msprobe-ulp", ones + 60 * 2.0**-23, ones) is PASS, "mean below 64"
    assert verdict("msprobe-ulp", far, ones) is FAIL
    few = np.where(np.arange(1000) < 40, ones + 2.0**-6, ones)
    assert verdict("msprobe-ulp", few, ones) is PASS, "4 % are off by any amount"
    many = np.where(np.arange(1000) < 60, ones + 2.0**-6, ones)
    assert verdict("msprobe-ulp", many, ones) is FAIL
    assert verdict("msprobe-ulp", many, ones, honest=far) is PASS, "fewer than in the honest one"
    half = np.where(np.arange(10_000) < 9, 1.0 + 4 * 2.0**-10, 1.0)
    assert verdict("msprobe-ulp", half, np.ones(10_000), "float16") is PASS
    half[:20] = 1.0 + 4 * 2.0**-10
    assert verdict("msprobe-ulp", half, np.ones(10_000), "float16") is FAIL


def test_msprobe_ulp_with_nan() -> None:
    same = np.append(np.ones(1000), np.nan)
    assert verdict("msprobe-ulp", same, same) is PASS
    assert verdict("msprobe-ulp", same, np.ones(1001)) is FAIL


def test_msprobe_binary_and_thousandth() -> None:
    assert verdict("msprobe-binary", np.arange(5), np.arange(5), "int64") is PASS
    assert verdict("msprobe-binary", VALUES, VALUES) is FAIL, "the benchmark has more digits than float32"
    exact = VALUES.astype(np.float32).astype(float)
    assert verdict("msprobe-binary", exact, exact) is PASS
    wrong = np.where(np.arange(2000) < 2, 2.0, 1.0)
    assert verdict("msprobe-thousandth", wrong, np.ones(2000)) is PASS, "0.999 itself is enough in its code"
    wrong[2] = 2.0
    assert verdict("msprobe-thousandth", wrong, np.ones(2000)) is FAIL


def test_msprobe_routes_every_float_to_the_benchmark_rule() -> None:
    values = np.linspace(1, 2, 1000)
    off = values + 0.9 * 2.0**-14  # absolute would fail it
    assert verdict("msprobe", off, values, api="torch.add") is PASS
    assert verdict("msprobe-absolute", off, values, api="torch.add") is FAIL
    assert verdict("msprobe", off, values, api="torch.add", inputs=("float8_e4m3fn",)) is FAIL, "fp8 in: absolute"
    assert verdict("msprobe", np.arange(5), np.arange(5), "int64") is PASS
    assert verdict("msprobe", values, values, "float64") is NONE
    assert verdict("msprobe", 9 * values, values, api="torch.nn.functional.dropout") is NONE


# tolerances


@pytest.mark.parametrize(("off", "told"), [(0.9e-5, PASS), (1.2e-5, FAIL)])
def test_allclose_defaults(off: float, told: Verdict) -> None:
    values = np.linspace(1, 2, 100)
    assert verdict("allclose", values * (1 + off), values) is told


def test_allclose_takes_settings() -> None:
    values = np.linspace(1, 2, 100)
    assert verdict("allclose(rtol=1e-3, atol=0)", values * 1.0009, values) is PASS
    assert verdict("allclose(rtol=1e-3,atol=0)", values * 1.0011, values) is FAIL
    assert verdict("allclose(atol=0.5)", values + 0.4, values) is PASS
    whole = np.array([100, 7])
    assert verdict("allclose(rtol=0.1)", np.array([109, 7]), whole, "int64") is PASS
    assert verdict("allclose(rtol=0.1)", np.array([109, 8]), whole, "int64") is FAIL
    nan = np.array([np.nan, 1.0])
    assert verdict("allclose", nan, nan) is FAIL
    assert verdict("allclose(equal_nan=true)", nan, nan) is PASS
    assert verdict("allclose", np.array([np.inf]), np.array([np.inf])) is PASS
    assert verdict("allclose", np.array([np.inf]), np.array([-np.inf])) is FAIL
    assert check_standard_named("allclose(rtol=0.001, atol=0)").name == "allclose(rtol=0.001, atol=0)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allclose(rtol=x)", "rtol must be a number, got 'x'"),
        ("allclose(rtoll=1)", "'rtoll=1' is not a setting of allclose; it takes rtol, atol, equal_nan"),
        ("allclose(rtol=-1)", "rtol must be a number that is not negative"),
        ("allclose(equal_nan=maybe)", "equal_nan must be true or false"),
        ("precheck(k=1)", "only allclose and assert-close take settings"),
    ],
)
def test_wrong_settings_are_told(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_standard_named(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32"])
def test_assert_close_says_what_torch_says(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)
    verdicts = set()
    for exponent in range(-9, 1):
        reference = (10 * torch.randn(200, generator=generator, dtype=torch.float64)).to(kind)
        noise = torch.randn(200, generator=generator, dtype=torch.float64) * 10.0**exponent
        candidate = reference.to(torch.complex128 if dtype == "complex64" else torch.float64) * (1 + noise)
        candidate = (candidate.round() if dtype == "int32" else candidate).to(kind)
        try:
            torch.testing.assert_close(candidate, reference)
            told = PASS
        except AssertionError:
            told = FAIL
        wide = torch.complex128 if dtype == "complex64" else torch.int64 if dtype == "int32" else torch.float64
        mine = verdict("assert-close", candidate.to(wide).numpy(), reference.to(wide).numpy(), dtype)
        assert mine is told, f"noise 1e{exponent}"
        verdicts.add(told)
    assert verdicts == {PASS, FAIL}


def test_assert_close_fails_on_nan_and_passes_what_is_empty() -> None:
    nan = np.array([np.nan, 1.0])
    assert verdict("assert-close", nan, nan) is FAIL
    assert verdict("assert-close(equal_nan=true)", nan, nan) is PASS
    assert verdict("assert-close", np.zeros(0), np.zeros(0)) is PASS


def test_bitwise() -> None:
    assert verdict("bitwise", VALUES, VALUES) is PASS
    assert verdict("bitwise", VALUES * (1 + 2.0**-23), VALUES) is FAIL
    assert verdict("bitwise", np.array([0.0]), np.array([-0.0])) is FAIL
    nan = np.array([np.nan, -np.inf])
    assert verdict("bitwise", nan, nan) is PASS


@pytest.mark.parametrize("name", sorted(set(CHECK_STANDARDS) - {"calibrated"}))
def test_nothing_passes_on_numbers_that_were_not_taken(name: str) -> None:
    evidence = evidence_of(VALUES, None, None)
    found = check_standard_named(name).judge_tensor(evidence, case_of())
    assert found.verdict is NONE and found.reason
