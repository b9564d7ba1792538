"""Second opinions on the failures of a check: the same case again, with other inputs, in other dtypes, in parts.

Cases are done in batches, in worker processes, like those of the check itself; what needs tensors is done by
``replay.opinions``. Nothing is decided here: see ``triage_labels``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trueline.campaign.executors import PoolSettings, may_be_warm
from trueline.campaign.triage_labels import FORMS
from trueline.campaign.triage_scaling import exponent_of, time_parts
from trueline.campaign.triage_signature import worst_finding
from trueline.cases import Case, CaseMeasured, CaseResult, Ending, Outcome, Status, Target
from trueline.dtypes import dtype_named
from trueline.events import Progress
from trueline.groups import Look, Opinion, Signature
from trueline.judge.checks import CheckStandard, judge_case
from trueline.ops.equivalence import rule_for
from trueline.replay.pool import Done, Job, Pool
from trueline.replay.reduce import Reduction
from trueline.replay.serial import case_to_json, measured_from_json, target_to_json

OPINE_JOBS = "trueline.replay.opinions:opining"
MEASURE_PARTS = "trueline.replay.jobs:saving"
OTHER_SEEDS = 2
_STRIDE = 0x9E3779B97F4A7C15
_PATIENCE = 10.0
"""Seconds that a part of a case is given."""
_NOT_AGAIN = (Ending.TIMED_OUT, Ending.OUT_OF_MEMORY)
"""Done again only in parts: the whole would take as long as it took."""
_IN_DTYPES = (Ending.MISMATCH, Ending.TARGET_RAISES)


@dataclass(frozen=True, slots=True)
class Asked:
    """A failed case of which a second opinion is wanted."""

    result: CaseResult
    signature: Signature

    @property
    def case(self) -> Case:
        return self.result.case


@dataclass(frozen=True, slots=True)
class _Question:
    """Something to do with a case. ``name`` is the field of the opinion that the answer goes to."""

    key: str
    name: str
    case: Case
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Consultant:
    """Does cases again as a check did them."""

    target: Target
    reference: Target
    standard: CheckStandard
    settings: PoolSettings

    def opinions(self, asked: Sequence[Asked], progress: Progress | None = None) -> dict[str, Opinion]:
        """An opinion on each, by the key of its case."""
        found = {one.case.key: Opinion(one.case.key, place_of(one.case)) for one in asked}
        questions = {str(number): one for number, one in enumerate(self._questions(asked))}
        jobs = (Job(number, one.payload) for number, one in questions.items())
        if questions:
            with self._pool(OPINE_JOBS, min(self.settings.workers, len(questions)), self.settings.timeout) as pool:
                for place, done in enumerate(pool.run(jobs), 1):
                    question = questions[done.key]
                    found[question.key] = self._answered(found[question.key], question, done)
                    if progress is not None:
                        progress("second opinions", place, len(questions))
        for key, changes in self._parts(asked):
            found[key] = replace(found[key], **changes)
        return found

    def _questions(self, asked: Sequence[Asked]) -> Iterator[_Question]:
        crossed = self.target.framework != self.reference.framework
        for one in asked:
            ending, look, case = one.result.ending, one.signature.look, one.case
            if ending in _NOT_AGAIN:
                continue
            yield self._question(one, "again", case)
            if case.tensors:
                for number in range(OTHER_SEEDS):
                    yield self._question(one, "seeds", _drawn_anew(case, number))
            if ending in _IN_DTYPES and any(dtype_named(spec.dtype).is_float for spec in case.tensors):
                if one.signature.dtype != "float64":
                    yield self._question(one, "double", case, dtype="float64")
                elif look is Look.NARROWER:
                    yield self._question(one, "single", case, dtype="float32")
            if ending is Ending.MISMATCH and crossed and (look in FORMS or rule_for(case.api) is not None):
                # Elements alone do not tell: results are not unique, or are not as they must be.
                yield self._question(one, "own", case, reference=Target(self.target.framework, "cpu", "float64"))
            finding = worst_finding(one.result)
            if ending is Ending.MISMATCH and finding is not None:
                place = {"part": finding.evidence.part, "path": finding.evidence.path}
                yield _Question(case.key, "look", case, {"job": "look", "case": case_to_json(case), **place})

    def _question(
        self, one: Asked, name: str, case: Case, *, dtype: str = "", reference: Target | None = None
    ) -> _Question:
        """A case to be measured again: as it is, in another dtype, or against another reference."""
        target = replace(self.target, dtype=dtype, simulated=False) if dtype else self.target
        targets = {"target": target_to_json(target), "reference": target_to_json(reference or self.reference)}
        return _Question(one.case.key, name, case, {"job": "measure", "case": case_to_json(case), **targets})

    def _answered(self, opinion: Opinion, question: _Question, done: Done) -> Opinion:
        """An opinion with what came of a question. Inputs that are recorded are drawn anew in their likeness; a case
        that ended its worker was done alone, in a fresh one."""
        if question.name == "look":
            if done.answer is not None:
                return replace(opinion, numbers=done.answer["numbers"], notes=done.answer["notes"])
            return replace(opinion, notes={"look": done.fault or (done.outcome.reason if done.outcome else "")})
        measured = measured_of(done, question.case.key)
        ending = judge_case(question.case, measured, self.standard).ending.value
        if question.name == "seeds":
            return replace(opinion, seeds=(*opinion.seeds, ending))
        answer: dict[str, Any] = {question.name: ending}
        return replace(opinion, **answer)

    def _parts(self, asked: Sequence[Asked]) -> Iterator[tuple[str, dict[str, Any]]]:
        """How time grows with size, where a case took too much of it; or whether less of it takes less memory."""
        chosen = [one for one in asked if one.result.ending in _NOT_AGAIN]
        if not chosen:
            return
        timeout = min(_PATIENCE, self.settings.timeout)
        with tempfile.TemporaryDirectory() as folder, self._pool(MEASURE_PARTS, 1, timeout) as pool:
            for one in chosen:
                timings, ended = time_parts(one.case, _Parts(one.case, pool, folder).measure)
                yield one.case.key, {
                    "timings": tuple(timings),
                    "exponent": exponent_of(timings, lambda timing: timing.target),
                    "reference_exponent": exponent_of(timings, lambda timing: timing.reference),
                    "notes": {} if ended is None else {"part": ended.value},
                }

    def _pool(self, maker: str, workers: int, timeout: float) -> Pool:
        setup = {"target": target_to_json(self.target), "reference": target_to_json(self.reference)}
        settings = self.settings
        return Pool(maker, setup, workers=workers, timeout=timeout, memory=settings.memory,
                    environment=settings.environment, warm=may_be_warm(setup))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Parts:
    """Does parts of one case."""

    case: Case
    pool: Pool
    folder: str

    def measure(self, part: Reduction) -> CaseMeasured | None:
        payload = {"job": "measure", "case": case_to_json(self.case), "reduction": part.as_json(),
                   "folder": self.folder, "execute": False}  # fmt: skip
        (done,) = self.pool.run([Job(self.case.key, payload)])
        if done.outcome is not None and done.stage == "candidate":
            return CaseMeasured(self.case.key, done.outcome, Outcome(Status.RETURNED))
        if done.answer is None or "measured" not in done.answer:
            return None
        return measured_from_json({**done.answer["measured"], "key": self.case.key})


def measured_of(done: Done, key: str) -> CaseMeasured:
    """What was measured by a job, however it ended. What happens anywhere but in the candidate is no fault of it."""
    if done.fault:
        return CaseMeasured(key, Outcome(Status.RAISED, done.fault), skipped=f"fault of the tool: {done.fault}")
    if done.outcome is not None:
        elsewhere = "" if done.stage == "candidate" else f"{done.outcome.status.value}: {done.outcome.reason}"
        return CaseMeasured(key, done.outcome, skipped=elsewhere)
    return measured_from_json({**done.answer, "key": key})


def place_of(case: Case) -> str:
    """Where a case came from."""
    return case.calls[0] if case.calls else case.api


def _drawn_anew(case: Case, number: int) -> Case:
    """A case with other inputs of the same kind."""
    seed = (case.seed + (number + 1) * _STRIDE) % 2**63
    tensors = tuple(replace(spec, stored=None) for spec in case.tensors)
    gradients = tuple(replace(spec, stored=None) for spec in case.gradients)
    return replace(case, seed=seed, tensors=tensors, gradients=gradients)
