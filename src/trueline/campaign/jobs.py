"""What the workers of a check do with a case: it is measured, and judged where it was measured.

The coordinator, of whom there is one, then only keeps rows: their columns and, unread, the text of what was measured.
Only what ended a worker is judged by the coordinator, and everything where the standard is not one that ships, whose
rules may lie in a file that other machines do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trueline.campaign.ledger import judgement
from trueline.judge.checks import check_standard_named, judge_case
from trueline.replay.measuring import Measuring
from trueline.replay.serial import case_from_json, written_measured
from trueline.replay.serve import Answer, resolve
from trueline.replay.tasks import Written

JUDGE_JOBS = "trueline.campaign.jobs:judging"
_TOLD = "judged"


def judging_setup(setup: Mapping[str, Any], jobs: str, standard: str) -> dict[str, Any]:
    """What ``judging`` is told: the maker whose work measures cases, with its own setup, and the standard."""
    return {**setup, _TOLD: {"jobs": jobs, "standard": standard}}


def judging_payload(key: str, case: str) -> Written:
    """A case, as it stands in a ledger, as a job."""
    return Written(f'{{"key":"{key}","case":{case}}}')


def judging(setup: dict[str, Any], announce: Callable[[str], None]) -> Callable[[Any], Answer]:
    told = setup[_TOLD]
    measuring = resolve(told["jobs"])(setup, announce)
    assert isinstance(measuring, Measuring), "the jobs of a mode measure cases"
    standard = check_standard_named(told["standard"])

    def work(payload: Any) -> Answer:
        case, key = case_from_json(payload["case"]), payload["key"]
        measured = measuring.measure(case)
        if measured.key != key:  # a mode may measure another case in its place
            measured = replace(measured, key=key)
        return Answer(judgement(judge_case(case, measured, standard)), written_measured(measured))

    work.warm_up = measuring.warm_up  # type: ignore[attr-defined]
    return work
