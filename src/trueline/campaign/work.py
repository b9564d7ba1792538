"""The cases of a ledger given out, and their ends written down: what the coordinator of a check does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trueline.campaign.executors import PoolSettings, executor_for
from trueline.campaign.ledger import Columns, Ledger, Waiting, judgement
from trueline.campaign.modes import Applied
from trueline.campaign.shelf import judge_name
from trueline.cases import CaseMeasured, Ending, Outcome, Status, Target
from trueline.events import CaseEnded, OnCase, Progress
from trueline.judge.checks import CheckStandard, judge_case
from trueline.replay.serial import case_from_json, measured_from_json, target_to_json, written_measured

if TYPE_CHECKING:
    from trueline.replay.pool import Done, Job


class Watch:
    """Tells of cases that ended, to whoever wants to know."""

    def __init__(self, ledger: Ledger, progress: Progress | None, on_case: OnCase | None) -> None:
        self._progress = progress
        self._on_case = on_case
        self.left, self._cost_left = ledger.unfinished()
        self._total = ledger.planned() if progress is not None or on_case is not None else 0

    def ended(self, one: Waiting, columns: Columns, worked: float) -> None:
        self.left -= 1
        self._cost_left = max(0.0, self._cost_left - one.cost)
        done = self._total - self.left
        if self._progress is not None:
            self._progress("cases checked", done, self._total)
        if self._on_case is not None:
            ending, _, reason, _, seconds, _ = columns
            told = "" if ending == Ending.PASS.value else reason
            self._on_case(CaseEnded(one.api, one.line or one.api, ending, told, seconds, done, self._total, one.cost,
                                    self._cost_left, worked))  # fmt: skip


def work_off(
    target: Target,
    reference: Target,
    asked: Applied,
    ledger: Ledger,
    judge: CheckStandard,
    settings: PoolSettings,
    watch: Watch,
) -> None:
    """Executes the cases that have not ended. Each is judged by the time it comes back, and its row is final."""
    if not watch.left:
        return
    from trueline.campaign.jobs import JUDGE_JOBS, judging_payload, judging_setup
    from trueline.replay.pool import Job, Written

    maker = asked.jobs
    setup = {"target": target_to_json(target), "reference": target_to_json(reference), **asked.setup}
    there = isinstance(asked.standard, str) and judge_name(judge) is not None
    if there:
        maker, setup = JUDGE_JOBS, judging_setup(setup, asked.jobs, judge.name)
    flying: dict[str, Waiting] = {}

    def jobs() -> Iterator[Job]:
        for one in ledger.waiting():
            flying[one.key] = one
            payload = judging_payload(one.key, one.case) if there else Written(one.case)
            yield Job(one.key, payload, one.cost, one.bytes)

    with executor_for(settings, maker, setup, most=watch.left) as executor:
        for done in executor.run(jobs()):
            one = flying.pop(done.key)
            columns, text = _row_of(done, one, judge)
            ledger.write(one.number, columns, text)
            watch.ended(one, columns, done.seconds)


def _row_of(done: Done, one: Waiting, judge: CheckStandard) -> tuple[Columns, str]:
    """The columns of a case that ended, and the text of what was measured."""
    if done.attachment:
        ending, verdict, reason, score, seconds, simulated = done.answer
        return (ending, verdict, reason, score, seconds, simulated), done.attachment
    measured = _measured_of(done)
    result = judge_case(case_from_json(json.loads(one.case)), measured, judge)
    return judgement(result), written_measured(measured)


def _measured_of(done: Done) -> CaseMeasured:
    if done.fault:
        fault = f"fault of the tool {_STAGES.get(done.stage, 'with it')}: {done.fault}"
        return CaseMeasured(done.key, Outcome(Status.RAISED, done.fault), skipped=fault)
    if done.outcome is not None:
        return _ended(done.key, done.outcome, done.stage)
    answer: Mapping[str, Any] = done.answer
    return measured_from_json({**answer, "key": done.key})


def _ended(key: str, outcome: Outcome, stage: str) -> CaseMeasured:
    """A case that ended its worker. What happens anywhere but in the candidate is no fault of the candidate."""
    if stage == "candidate":
        return CaseMeasured(key, outcome)
    if outcome.status is Status.UNSUPPORTED:  # it was not tried
        return CaseMeasured(key, outcome, skipped=outcome.reason)
    where = _STAGES.get(stage, "when its inputs were made")
    return CaseMeasured(key, outcome, skipped=f"{outcome.status.value} {where}: {outcome.reason}")


_STAGES = {
    "honest": "in the reference",
    "gold": "in the reference, in high precision",
    "measure": "when its results were measured",
}
