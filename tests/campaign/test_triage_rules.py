"""The pure parts of triage: what errors look like, what a text has in common with another, how time grows, and what
second opinions mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trueline.campaign.triage_labels import common, label_of, refined
from trueline.campaign.triage_scaling import expected_seconds, exponent_of, parts, time_parts
from trueline.campaign.triage_signature import look_of, signature_of, stripped
from trueline.cases import Case, CaseMeasured, CaseResult, Evidence, Outcome, Status, TensorSpec
from trueline.groups import Label, Look, Opinion, Signature, Timing
from trueline.judge.checks import check_standard_named, judge_case
from trueline.numerics.evidence import measure
from trueline.replay.reduce import Reduction

RNG = np.random.default_rng(0)
GOLD = RNG.normal(size=(16, 33))


def evidence(made: Any, dtype: str = "float32", part: str = "output") -> Evidence:
    kind = np.dtype(dtype)
    gold = GOLD.astype(kind).astype(np.float64)
    return measure(part, "out", np.asarray(made(gold)).astype(kind), gold.astype(kind), gold, dtype=dtype)


def one_off(values: Any) -> Any:
    made = values.copy()
    made[3, 4] += 0.5
    return made


def few_off(values: Any) -> Any:
    made = values.copy()
    made[0, :9] *= 1.5
    return made


def with_nan(values: Any) -> Any:
    return np.where(values > 1, np.nan, values)


@pytest.mark.parametrize(
    ("made", "dtype", "look", "detail"),
    [
        (lambda v: v * 1.005, "float32", Look.FACTOR, "times 1.0050"),
        (lambda v: -v, "float32", Look.FACTOR, "times -1.00"),
        (lambda v: v * (1 + 1e-4), "float64", Look.FACTOR, "times 1.000100"),
        (lambda v: v + 0.01, "float32", Look.OFFSET, "plus 0.01"),
        (lambda v: v.astype(np.float32), "float64", Look.NARROWER, "float32"),
        (lambda v: v * np.float64(np.float32(0.1)) / 0.1, "float64", Look.NARROWER, "float32"),
        (lambda v: v.astype(np.float16), "float32", Look.NARROWER, "half precision"),
        (one_off, "float32", Look.ONE_ELEMENT, ""),
        (few_off, "float32", Look.FEW_ELEMENTS, ""),
        (with_nan, "float32", Look.NOT_FINITE, "NaN"),
        (lambda v: v * (1 + 2e-6 * RNG.normal(size=v.shape)), "float32", Look.ROUNDING, ""),
        (lambda v: v + RNG.normal(size=v.shape), "float32", Look.GROSS, ""),
        (lambda v: v[:8], "float32", Look.STRUCTURE, "shape [#] instead of [#]"),
    ],
)
def test_what_errors_look_like(made: Any, dtype: str, look: Look, detail: str) -> None:
    found = look_of(evidence(made, dtype))
    assert found[0] is look
    assert found[1] == detail


def test_gradients_that_are_missing_and_integers_have_their_own_looks() -> None:
    assert look_of(Evidence("gradient", "args.0", "float32", (2,), "is missing")) == (Look.NO_GRADIENT, "is missing")
    right = np.arange(40)
    wrong = np.where(right < 3, 7, right)
    made = measure("output", "out", wrong, right, right, dtype="int64")
    assert look_of(made) == (Look.EXACT, "some of them")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: cannot take [16, 33] today", "ValueError: cannot take [128] today"),
        ("(InvalidArgument) dim 3 at /a/b/c.cc:77 of 0x7ffe", "(InvalidArgument) dim 12 at /x/c.cc:5 of 0x11"),
        ("it got (2, 3) and 1.5e-3", "it got (4,) and 7"),
    ],
)
def test_errors_are_the_same_without_their_numbers(one: str, other: str) -> None:
    assert stripped(one) == stripped(other)
    assert stripped("float32 is not int8") == "float32 is not int8"


CASE = Case("paddle.tanh", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", (16, 33)),))


def result_of(made: Any = None, status: Status = Status.RETURNED, reason: str = "", **more: Any) -> CaseResult:
    found = () if made is None else (evidence(made, more.pop("dtype", "float32"), more.pop("part", "output")),)
    reference = more.pop("reference", Outcome(Status.RETURNED))
    measured = CaseMeasured(CASE.key, Outcome(status, reason), reference, found, **more)
    return judge_case(CASE, measured, check_standard_named("calibrated"))


def labelled(result: CaseResult, *, crossed: bool = True, **opinion: Any) -> Label:
    signature = signature_of(result)
    assert signature is not None
    return label_of(result, signature, Opinion("key", "line", **opinion), crossed=crossed)[0]


WRONG = result_of(lambda v: v + 0.3 * np.sign(v) ** 2 * np.abs(v))
NUMBERS = {"error": 0.3, "scale": 3.0, "repeat": 0.0, "honest": 1e-8, "moved": 1e-8, "own": 0.3, "frameworks": 1e-15}


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, Label.TARGET),
        ({"repeat": 0.2}, Label.NONDETERMINISTIC),
        ({"repeat": 1e-7}, Label.TARGET),
        ({"moved": 0.2}, Label.ILL_CONDITIONED),
        ({"moved": 0.01}, Label.ILL_CONDITIONED),
        ({"own": 1e-7, "frameworks": 0.3}, Label.REFERENCE),
        ({"honest": 0.25, "own": 1e-7}, Label.REFERENCE),
        ({"slope": 1.0, "slope_noise": 1e-8, "slope_target": 2.0, "slope_reference": 1.0}, Label.TARGET),
        ({"slope": 1.0, "slope_noise": 1e-8, "slope_target": 1.0, "slope_reference": 2.0}, Label.REFERENCE),
    ],
)
def test_who_is_wrong_where_numbers_differ(changes: dict[str, float], label: Label) -> None:
    assert labelled(WRONG, again="mismatch", seeds=("mismatch",) * 2, numbers={**NUMBERS, **changes}) is label


def test_labels_without_tensors() -> None:
    assert labelled(WRONG, again="pass") is Label.NONDETERMINISTIC
    assert labelled(WRONG, again="mismatch", own="mismatch") is Label.TARGET
    assert labelled(WRONG, again="mismatch", own="pass") is Label.REFERENCE
    assert labelled(WRONG, again="mismatch") is Label.UNDECIDED
    assert labelled(WRONG, again="mismatch", crossed=False) is Label.TARGET
    narrow = result_of(lambda v: v.astype(np.float32), dtype="float64")
    assert labelled(narrow, again="mismatch") is Label.TARGET


def test_labels_of_what_did_not_return() -> None:
    raises = result_of(status=Status.RAISED, reason="ValueError: no")
    assert labelled(raises, again="target raises") is Label.TARGET
    assert labelled(raises, again="pass") is Label.NONDETERMINISTIC
    assert labelled(result_of(status=Status.RAISED, reason="f() got an unexpected keyword x")) is Label.REFERENCE
    assert labelled(result_of(status=Status.RAISED, reason="axis 1 is not supported")) is Label.UNSUPPORTED
    crash = result_of(status=Status.CRASHED, reason="its process died of SIGSEGV")
    assert labelled(crash, again="crashed") is Label.CRASHES
    assert labelled(crash, again="pass") is Label.NONDETERMINISTIC
    elsewhere = result_of(status=Status.CRASHED, reason="x", skipped="crashed in the reference: x")
    assert labelled(elsewhere) is Label.REFERENCE
    refused = result_of(lambda v: v, reference=Outcome(Status.RAISED, "RuntimeError: no"))
    assert labelled(refused, again="reference raises") is Label.REFERENCE
    memory = result_of(status=Status.OUT_OF_MEMORY, reason="it used more than the 2.0 GB that it may")
    assert labelled(memory, notes={"part": "out of memory"}) is Label.TARGET
    assert labelled(memory, timings=(Timing(10, 0.1, 0.1),)) is Label.UNSUPPORTED


def test_the_reason_of_a_slow_one_tells_how_it_grows() -> None:
    slow = result_of(status=Status.TIMED_OUT, reason="it did not return within 10 s")
    timings = tuple(Timing(n, 1e-8 * n**2, 1e-9 * n) for n in (1000, 2000, 4000))
    opinion = Opinion("key", "line", timings=timings, exponent=2.0, reference_exponent=None)
    signature = signature_of(slow)
    assert signature is not None
    label, why = label_of(slow, signature, opinion, crossed=True)
    assert label is Label.TOO_SLOW
    assert "super-linear" in why and "power 2.00" in why and "528 would take about" in why


def test_a_group_has_the_label_of_most() -> None:
    label, why = common([(Label.TARGET, "a"), (Label.UNDECIDED, "b")])
    assert (label, why) == (Label.TARGET, "a (but another of its cases: undecided)")
    assert common([(Label.UNSUPPORTED, "a")]) == (Label.UNSUPPORTED, "a")


def test_tensors_tell_edges_and_unstable_results() -> None:
    few = Signature("cumsum", "float32", "forward", Look.FEW_ELEMENTS)
    assert refined(few, Label.TARGET, [Opinion("k", "l", numbers={"edges": 1.0})]).look is Look.EDGES
    assert refined(few, Label.TARGET, [Opinion("k", "l", numbers={"edges": 0.4})]).look is Look.FEW_ELEMENTS
    assert refined(few, Label.NONDETERMINISTIC, []).look is Look.UNSTABLE


LONG = Case(
    "paddle.min",
    {"args": [{"$t": 0}], "kwargs": {"shape": [4096], "axis": 0}},
    (TensorSpec("args.0", "float64", (4096, 3)), TensorSpec("args.1", "int64", (5,))),
)


def test_parts_grow_and_numbers_in_arguments_with_them() -> None:
    found = parts(LONG)
    assert [part.shape(LONG.tensors[0])[0] for part in found] == [16, 32, 64, 128, 256, 512, 1024, 2048]
    assert found[0].arguments["kwargs"] == {"shape": [16], "axis": 0}
    assert found[0].shape(LONG.tensors[1]) == (5,)
    assert parts(CASE.__class__("paddle.f", {"args": [], "kwargs": {}})) == []


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_power_of_growth_is_measured(power: float) -> None:
    def measured(part: Reduction) -> CaseMeasured:
        seconds = 1e-2 + 1e-7 * float(part.shape(LONG.tensors[0])[0] * 3) ** power
        return CaseMeasured("key", Outcome(Status.RETURNED, seconds=seconds), Outcome(Status.RETURNED, seconds=1e-5))

    timings, ended = time_parts(LONG, measured)
    exponent = exponent_of(timings, lambda one: one.target)
    assert ended is None and timings[-1].target <= 10
    if power == 1.0:
        assert exponent is not None and exponent < 0.5, "a call that takes as long whatever its size"
        return
    assert exponent == pytest.approx(power, abs=0.35)
    assert exponent_of(timings, lambda one: one.reference) is None
    assert expected_seconds(timings, 2.0, 2 * timings[-1].elements) == pytest.approx(4 * timings[-1].target)


def test_a_part_that_does_not_return_ends_the_series() -> None:
    def measured(part: Reduction) -> CaseMeasured | None:
        size = part.shape(LONG.tensors[0])[0]
        if size == 16:
            return None
        status = Status.RETURNED if size < 100 else Status.TIMED_OUT
        return CaseMeasured("key", Outcome(status, seconds=0.01), Outcome(Status.RETURNED))

    timings, ended = time_parts(LONG, measured)
    assert [timing.elements for timing in timings] == [32 * 3, 64 * 3]
    assert ended is Status.TIMED_OUT
