"""Every case has exactly one ending, and endings have names that people can type."""

from __future__ import annotations

import itertools

import pytest

from tests.campaign import records
from trueline.campaign.endings import ending_of, endings_named, word_of
from trueline.cases import CaseMeasured, CaseResult, Ending, Outcome, Status
from trueline.errors import UsageError
from trueline.judge.checks import check_standard_named, judge_case
from trueline.records import Verdict
from trueline.report.check_summary import summary_of

CALIBRATED = check_standard_named("calibrated")


def judged(candidate: Status, reference: Status | None, skipped: str = "", evidence: bool = False) -> CaseResult:
    case = records.case()
    found = records.measured(case.key).evidence if evidence else ()
    other = None if reference is None else Outcome(reference, "why")
    return judge_case(case, CaseMeasured(case.key, Outcome(candidate, "why"), other, found, skipped), CALIBRATED)


@pytest.mark.parametrize(
    ("result", "ending"),
    [
        (judged(Status.RETURNED, Status.RETURNED, evidence=True), Ending.MISMATCH),
        (judged(Status.RETURNED, Status.RETURNED), Ending.SKIPPED),
        (judged(Status.RETURNED, Status.RAISED, evidence=True), Ending.REFERENCE_RAISES),
        (judged(Status.RAISED, Status.RETURNED), Ending.TARGET_RAISES),
        (judged(Status.RAISED, Status.RAISED), Ending.REFERENCE_RAISES),
        (judged(Status.RAISED, None), Ending.TARGET_RAISES),
        (judged(Status.UNSUPPORTED, Status.RETURNED), Ending.UNSUPPORTED),
        (judged(Status.UNSUPPORTED, None, skipped="no counterpart"), Ending.SKIPPED),
        (judged(Status.RAISED, None, skipped="fault of the tool with it: KeyError"), Ending.HARNESS_ERROR),
        (judged(Status.CRASHED, None), Ending.CRASHED),
        (judged(Status.CRASHED, None, skipped="crashed in the reference: SIGSEGV"), Ending.CRASHED),
        (judged(Status.TIMED_OUT, Status.RETURNED), Ending.TIMED_OUT),
        (judged(Status.OUT_OF_MEMORY, Status.RETURNED), Ending.OUT_OF_MEMORY),
    ],
)
def test_endings(result: CaseResult, ending: Ending) -> None:
    assert ending_of(result) is ending
    # Only what the target did can be a finding.
    blamed = (Ending.MISMATCH, Ending.TARGET_RAISES, Ending.CRASHED, Ending.TIMED_OUT, Ending.OUT_OF_MEMORY)
    assert result.verdict < Verdict.FAIL or ending in blamed


def test_endings_add_up_whatever_happens() -> None:
    """Every combination of what can come back has one ending; a pass needs something that was measured."""
    statuses = list(Status)
    results = [
        judged(candidate, reference, skipped, evidence)
        for candidate, reference, skipped, evidence in itertools.product(
            statuses, [None, *statuses], ("", "because"), (False, True)
        )
    ]
    endings = summary_of(results).endings
    assert sum(endings.values()) == len(results) and set(endings) == set(Ending)
    assert endings[Ending.PASS] == 0


def test_endings_by_name() -> None:
    assert endings_named("crashed, timed-out,out_of_memory") == (Ending.CRASHED, Ending.TIMED_OUT, Ending.OUT_OF_MEMORY)
    assert endings_named("all") == tuple(Ending)
    assert [endings_named(word_of(ending)) for ending in Ending] == [(ending,) for ending in Ending]
    with pytest.raises(UsageError, match="no case ends in 'sulked'; there are pass, mismatch"):
        endings_named("sulked")
