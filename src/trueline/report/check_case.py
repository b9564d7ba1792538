"""One case as pages show it: its row in the table, and what the side panel tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueline.cases import CaseResult, Evidence, Outcome, TensorFinding
from trueline.records import Measurement, Verdict
from trueline.report.check_cells import WAITING, Dtypes, dtype_of
from trueline.report.check_wording import (
    call_words,
    score_of,
    script_of,
    simulated_words,
    worst_element,
)
from trueline.report.json import plain
from trueline.report.wording import size

_CALLS_SHOWN = 8


def case_row(result: CaseResult, dtypes: Dtypes, *, ended: bool = True) -> dict[str, Any]:
    """What the table shows of a case. Scores are None where there is none; a score that is itself NaN is beyond any
    limit. A case that has not ended has no verdict and no reason."""
    case = result.case
    forward, backward = result.forward, result.backward
    return {
        "api": case.api,
        "call": call_words(case, name=False),
        "module": case.module,
        "source": case.source,
        "reason": result.reason if ended else "",
        "dtype": dtypes.shown(dtype_of(case)),
        "ending": result.ending.value if ended else WAITING,
        "verdict": int(result.verdict),
        "calls": case.count,
        "seconds": result.measured.candidate.seconds,
        "forward": _score(result, "output"),
        "backward": _score(result, "gradient"),
        "forward_verdict": None if forward is None else int(forward),
        "backward_verdict": None if backward is None else int(backward),
    }


def _score(result: CaseResult, part: str) -> float | None:
    score = score_of(result, part)
    return float("inf") if score is not None and score != score else score


def case_details(result: CaseResult, folder: Path | None = None) -> dict[str, Any]:
    """One case as the page's side panel shows it."""
    case = result.case
    script = script_of(result, folder)
    return {
        "key": case.key,
        "seed": str(case.seed),
        "repro": "" if script is None else script.command or script.fault,
        "script": "" if script is None else script.shown,
        "calls": list(case.calls[:_CALLS_SHOWN]),
        "candidate": _outcome(result.measured.candidate),
        "reference": None if result.measured.reference is None else _outcome(result.measured.reference),
        "inputs": [
            f"{spec.path}  {spec.dtype} {list(spec.shape)}"
            + (f" strides {list(spec.strides)}" if spec.strides else "")
            + (f", {spec.domain}" if spec.domain else "")
            for spec in (*case.tensors, *case.gradients)
        ],
        "tensors": [_tensor(finding) for finding in result.findings],
    }


def _outcome(outcome: Outcome) -> str:
    told = f"{outcome.status.value}: {outcome.reason}" if outcome.reason else outcome.status.value
    if outcome.simulated:
        told += f", simulated {simulated_words(outcome.simulated)}"
    memory = f", {size(outcome.peak_bytes)}" if outcome.peak_bytes else ""
    return f"{told} ({1000 * outcome.seconds:.3g} ms{memory})"


def _tensor(finding: TensorFinding) -> dict[str, Any]:
    evidence = finding.evidence
    sides = (
        ("candidate to gold", evidence.gold),
        ("honest to gold", evidence.honest),
        ("candidate to honest", evidence.direct),
    )
    content: dict[str, Any] = {
        "part": evidence.part,
        "path": evidence.path,
        "dtype": evidence.dtype,
        "shape": list(evidence.shape),
        "verdict": int(finding.verdict),
        "reason": finding.reason,
        "score": plain(finding.score),
        "worst": _worst(evidence),
        "measured": [[label, *_numbers(found)] for label, found in sides if found is not None and found.count],
    }
    if finding.verdict is not Verdict.PASS:
        content["numbers"] = plain(evidence.numbers)
    return content


def _worst(evidence: Evidence) -> list[Any] | None:
    worst = worst_element(evidence)
    return None if worst is None else [list(worst.position), plain(worst.candidate), plain(worst.gold)]


def _numbers(found: Measurement) -> list[Any]:
    unlike = found.nan_mismatch + found.infinity_mismatch
    values = (found.rmse, found.max_abs, found.max_ulp, found.mean_ulp, found.bias, 1.0 - found.cosine, unlike)
    return [plain(value) for value in values]
