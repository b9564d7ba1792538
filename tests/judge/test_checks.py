"""What is settled before a standard is asked, and standards by name."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.cases import Case, CaseMeasured, Evidence, Outcome, Status, TensorFinding
from trueline.errors import UsageError
from trueline.judge.checks import CHECK_STANDARDS, CheckStandard, check_standard_named, judge_case
from trueline.numerics.evidence import measure
from trueline.records import Verdict

CASE = Case("torch.anything", None)
RETURNED = Outcome(Status.RETURNED)
GOOD = measure("output", "out", np.ones(3, np.float32), None, np.ones(3), dtype="float32")


class Fixed:
    """Says what it was told to say of every tensor."""

    name = "fixed"

    def __init__(self, **verdicts: Verdict) -> None:
        self._verdicts = verdicts
        self.asked: list[str] = []

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        self.asked.append(evidence.path)
        return TensorFinding(evidence, self._verdicts.get(evidence.path, Verdict.PASS), f"about {evidence.path}", 0.5)


def judged(*evidence: Evidence, candidate: Outcome = RETURNED, reference: Outcome | None = RETURNED, skipped: str = ""):
    return judge_case(CASE, CaseMeasured("key", candidate, reference, evidence, skipped), Fixed(bad=Verdict.FAIL))


def named(path: str, part: str = "output") -> Evidence:
    return measure(part, path, np.ones(3, np.float32), None, np.ones(3), dtype="float32")


def test_the_verdict_is_the_worst() -> None:
    found = judged(named("good"), named("bad"), named("other"))
    assert found.verdict is Verdict.FAIL
    assert found.reason == "bad: about bad"
    assert len(found.findings) == 3


def test_a_gradient_is_called_one() -> None:
    found = judged(named("good"), named("bad", "gradient"))
    assert found.reason == "gradient of bad: about bad"
    assert found.forward is Verdict.PASS
    assert found.backward is Verdict.FAIL


def test_nothing_measured_is_not_compared() -> None:
    assert judged().verdict is Verdict.NOT_COMPARED
    assert judged(Evidence("output", "out", "float32", (3,))).verdict is Verdict.NOT_COMPARED
    assert judged(Evidence("output", "out", "float32", (3,), note="no gold")).reason == "out: no gold"


def test_a_wrong_structure_fails_whatever_the_standard() -> None:
    standard = Fixed()
    evidence = Evidence("output", "out", "float32", (3,), structure="shape [3] instead of [4]")
    found = judge_case(CASE, CaseMeasured("key", RETURNED, RETURNED, (evidence,)), standard)
    assert found.verdict is Verdict.FAIL
    assert "shape [3] instead of [4]" in found.reason
    assert not standard.asked


def test_a_skipped_case_says_why() -> None:
    found = judged(skipped="draws random numbers")
    assert (found.verdict, found.reason) == (Verdict.NOT_COMPARED, "draws random numbers")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (Status.RAISED, Verdict.FAIL),
        (Status.CRASHED, Verdict.ERROR),
        (Status.TIMED_OUT, Verdict.ERROR),
        (Status.OUT_OF_MEMORY, Verdict.ERROR),
        (Status.UNSUPPORTED, Verdict.NOT_COMPARED),
    ],
)
def test_a_candidate_that_does_not_return(status: Status, verdict: Verdict) -> None:
    found = judged(candidate=Outcome(status, "the reason"))
    assert found.verdict is verdict
    assert "the reason" in found.reason


def test_what_both_refuse_says_nothing_about_numbers() -> None:
    found = judged(candidate=Outcome(Status.RAISED, "no"), reference=Outcome(Status.RAISED, "no either"))
    assert found.verdict is Verdict.NOT_COMPARED


def test_without_a_reference_nothing_passes() -> None:
    assert judged(GOOD, reference=Outcome(Status.RAISED, "no")).verdict is Verdict.NOT_COMPARED


@pytest.mark.parametrize("name", sorted(CHECK_STANDARDS))
def test_every_standard_is_there_by_its_name(name: str) -> None:
    standard = check_standard_named(name)
    assert isinstance(standard, CheckStandard)
    assert standard.name == name


def test_a_standard_that_was_given_is_used() -> None:
    standard = Fixed()
    assert check_standard_named(standard) is standard


def test_an_unknown_standard_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="calibrated"):
        check_standard_named("nonsense")
