"""Judging the cases of a check: what every standard has in common, and standards by name.

A standard is asked about one measured output or gradient at a time. What no standard may overlook is settled here
before it is asked: outcomes that are not a return, structure that is not as it must be, and tensors of which nothing
was measured. The verdict of a case is the worst of its tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from trueline.cases import Case, CaseMeasured, CaseResult, Evidence, Outcome, Status, TensorFinding
from trueline.errors import UsageError
from trueline.judge.predecessors import PREDECESSORS, is_call, standard_with_settings
from trueline.records import Verdict

DEFAULT_CHECK_STANDARD = "calibrated"


@runtime_checkable
class CheckStandard(Protocol):
    """A named rule for measured tensors. ``judge_tensor`` is pure: the same evidence gives the same finding. It is
    asked only about evidence without ``structure`` and without ``note``."""

    @property
    def name(self) -> str: ...

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding: ...


CHECK_STANDARDS: dict[str, str] = {
    "calibrated": "trueline.judge.calibrated:Calibrated",
    "ran": "trueline.judge.modes:Ran",
    "repeatable": "trueline.judge.modes:Repeatable",
    "collected": "trueline.judge.modes:Collected",
    **PREDECESSORS,
}
"""What ships: name -> ``module:factory``, imported when asked for. The factory takes no arguments."""

_FILE_STANDARD = "trueline.judge.custom:standard_from_file"
_FUNCTION_STANDARD = "trueline.judge.custom:standard_from_function"


def check_standard_named(standard: str | CheckStandard) -> CheckStandard:
    """A standard by its name, from a TOML file (``limits.toml``) or a function (``module:function``), or the one that
    was given."""
    if not isinstance(standard, str):
        return standard
    if standard in CHECK_STANDARDS:
        return _factory(CHECK_STANDARDS[standard])()
    if is_call(standard):
        found: CheckStandard = standard_with_settings(standard)
        return found
    if standard.endswith(".toml"):
        return _factory(_FILE_STANDARD)(standard)
    if ":" in standard:
        return _factory(_FUNCTION_STANDARD)(standard)
    raise UsageError(
        f"unknown standard {standard!r}; known: {', '.join(sorted(CHECK_STANDARDS))}; "
        "or a file that ends in .toml, or module:function"
    )


def names_code(standard: str) -> bool:
    """Whether a name is that of a function, whose module would be imported."""
    return standard not in CHECK_STANDARDS and not is_call(standard) and not standard.endswith(".toml")


def stored_check_standard(standard: str, where: object) -> CheckStandard:
    """The standard that a file names. No module is imported because a file says so: whoever trusts it says it again."""
    if names_code(standard):
        raise UsageError(
            f"{where} was judged by the function {standard[:200]!r}, and nothing is imported because a file names it; "
            f"if you trust it, repeat it: --standard {standard[:200]} (of report, diff, triage and view)"
        )
    return check_standard_named(standard)


def _factory(place: str) -> Callable[..., CheckStandard]:
    module, _, attribute = place.partition(":")
    found: Any = getattr(import_module(module), attribute)
    return found


def judge_case(case: Case, measured: CaseMeasured, standard: CheckStandard) -> CaseResult:
    """What a standard says of a measured case. Pure: a stored result can be judged again without running."""
    if measured.skipped:
        return CaseResult(case, measured, Verdict.NOT_COMPARED, measured.skipped)
    if measured.candidate.status is not Status.RETURNED:
        verdict, reason = _did_not_return(measured.candidate, measured.reference)
        return CaseResult(case, measured, verdict, reason)
    if measured.reference is not None and measured.reference.status is not Status.RETURNED:
        reason = f"the reference {_how(measured.reference)}"
        return CaseResult(case, measured, Verdict.NOT_COMPARED, reason)
    findings = tuple(judge_evidence(evidence, case, standard) for evidence in measured.evidence)
    if not findings:
        return CaseResult(case, measured, Verdict.NOT_COMPARED, "returned nothing that could be compared")
    worst = max(findings, key=_badness)
    reason = worst.reason if worst.verdict is Verdict.PASS else f"{_subject(worst.evidence)}: {worst.reason}"
    return CaseResult(case, measured, worst.verdict, reason, findings)


def judge_evidence(evidence: Evidence, case: Case, standard: CheckStandard) -> TensorFinding:
    """What a standard says of one tensor, once what no standard may overlook is settled."""
    if evidence.structure:
        return TensorFinding(evidence, Verdict.FAIL, evidence.structure)
    if evidence.note:
        return TensorFinding(evidence, Verdict.NOT_COMPARED, evidence.note)
    alone = getattr(standard, "needs_no_reference", False)
    if evidence.gold is None and evidence.direct is None and not alone:
        return TensorFinding(evidence, Verdict.NOT_COMPARED, "nothing was measured")
    return standard.judge_tensor(evidence, case)


def _did_not_return(candidate: Outcome, reference: Outcome | None) -> tuple[Verdict, str]:
    """A missing kernel, or a call that the reference refuses as well, says nothing about numbers. Whatever else did
    not return is a finding."""
    if candidate.status is Status.UNSUPPORTED:
        return Verdict.NOT_COMPARED, _how(candidate)
    if reference is not None and reference.status is not Status.RETURNED:
        return Verdict.NOT_COMPARED, f"{_how(candidate)}; the reference {_how(reference)}"
    if candidate.status is Status.RAISED:
        returned = ", where the reference returned" if reference is not None else ""
        return Verdict.FAIL, f"{_how(candidate)}{returned}"
    return Verdict.ERROR, _how(candidate)


def _how(outcome: Outcome) -> str:
    name = "ran out of memory" if outcome.status is Status.OUT_OF_MEMORY else outcome.status.value
    return f"{name}: {outcome.reason}" if outcome.reason else name


def _badness(finding: TensorFinding) -> tuple[int, float]:
    score = finding.score
    return int(finding.verdict), score if score is not None and score == score else 0.0


def _subject(evidence: Evidence) -> str:
    return f"gradient of {evidence.path}" if evidence.part == "gradient" else evidence.path
