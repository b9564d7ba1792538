"""Standards of checks, asked about the tensors of two or three Runs.

A standard of a check judges one measured tensor at a time (``checks.CheckStandard``), so it serves as well where the
tensors come from Runs: every output of a call is evidence, and the verdict of the call is the worst of them. ``apex``
is the exception: it gives PaddleAPEX's own answers, among them its silence where the numbers of outputs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.judge.checks import CheckStandard, judge_evidence
from trueline.judge.evidence import CallEvidence, Judgement
from trueline.judge.findings import dropout_finding
from trueline.judge.predecessors_apex import Apex, api_verdict
from trueline.records import Verdict


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a pair of calls: what was measured of those that both have, and which only one side has."""

    api: str
    evidence: Sequence[Evidence]
    lonely: Sequence[tuple[str, str]] = ()
    """(path, side that has it)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of a pair of calls, and of each of its outputs in order."""

    verdict: Verdict
    reason: str
    findings: tuple[TensorFinding, ...] = ()
    idle: bool = False


@dataclass(frozen=True)
class ByElement:
    """A standard of checks for the calls of Runs. ``peers`` says that it asks for a peer's errors besides."""

    standard: CheckStandard
    peers: bool = False

    @property
    def name(self) -> str:
        return self.standard.name

    def judge(self, evidence: CallEvidence) -> Judgement:
        """Statistics are not enough for a standard that looks at elements."""
        return Judgement(Verdict.NOT_COMPARED, f"the standard {self.name} needs the tensors of both sides")

    def judge_outputs(self, outputs: Outputs) -> Answer:
        """What the standard says of a pair of calls."""
        if not outputs.evidence and not outputs.lonely:
            return Answer(Verdict.NOT_COMPARED, "returns no tensor", idle=True)
        if isinstance(self.standard, Apex):
            return _as_apex(self.standard, outputs)
        case = Case(outputs.api, None)
        findings = tuple(judge_evidence(one, case, self.standard) for one in outputs.evidence)
        if outputs.lonely:
            path, side = outputs.lonely[0]
            return Answer(Verdict.FAIL, f"only the {side} has {path}", findings)
        worst = max(findings, key=lambda one: int(one.verdict))
        return Answer(worst.verdict, f"{worst.evidence.path}: {worst.reason}", findings)


def _as_apex(standard: Apex, outputs: Outputs) -> Answer:
    """APEX has no row for an API whose numbers of outputs differ."""
    if outputs.lonely:
        path, side = outputs.lonely[0]
        return Answer(Verdict.NOT_COMPARED, f"PaddleAPEX has no row where only the {side} has {path}")
    case = Case(outputs.api, None)
    findings = tuple(_apex_finding(one, case, standard) for one in outputs.evidence)
    verdict = api_verdict([one.verdict for one in findings])
    shown = next((one for one in reversed(findings) if one.verdict is verdict), findings[0])
    return Answer(verdict, f"{shown.evidence.path}: {shown.reason}", findings)


def _apex_finding(evidence: Evidence, case: Case, standard: Apex) -> TensorFinding:
    if "dropout" in case.api and not evidence.structure and not evidence.note:
        return dropout_finding(evidence, "honest")
    return judge_evidence(evidence, case, standard)
