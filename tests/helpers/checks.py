"""Checks made of plain records: measured tensors, judged cases, whole checks, for tests of standards and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import (
    Case,
    CaseMeasured,
    CaseResult,
    CheckInfo,
    Evidence,
    Outcome,
    Status,
    TensorFinding,
    TensorSpec,
)
from trueline.dtypes import DTYPES, DType
from trueline.numerics import compare, widen
from trueline.numerics.predecessors import predecessor_numbers
from trueline.records import Measurement, Verdict

Array = NDArray[Any]


def bits_of(values: Any, dtype: str) -> Array:
    """Numbers as the storage bits of a dtype, rounded to nearest even."""
    kind = DTYPES[dtype]
    if dtype == "bfloat16":
        with np.errstate(over="ignore"):
            words = np.asarray(values, dtype=np.float32).view(np.uint32)
        rounded = (words + 0x7FFF + ((words >> 16) & 1)) >> 16
        return np.asarray(np.where(np.isnan(np.asarray(values, np.float32)), 0x7FC0, rounded)).astype(np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(kind.storage)


def evidence_of(
    candidate: Any, honest: Any, gold: Any, dtype: str = "float32", *, part: str = "output", path: str = "out"
) -> Evidence:
    """Evidence of three tensors given as numbers; candidate and honest are rounded to the dtype, gold is not. One that
    is None does not exist."""
    kind = DTYPES[dtype]
    mine = bits_of(candidate, dtype)
    theirs = None if honest is None else bits_of(honest, dtype)
    wide = kind if kind.is_exact else DTYPES["complex128" if kind.is_complex else "float64"]
    truth = None if gold is None else np.asarray(gold).astype(wide.storage)
    numbers = predecessor_numbers(
        widen(mine, kind), None if theirs is None else widen(theirs, kind), None if truth is None else truth, kind
    )
    return Evidence(
        part, path, dtype, tuple(np.shape(candidate)), exact=kind.is_exact,
        gold=None if truth is None else _compare(truth, wide, mine, kind),
        honest=None if truth is None or theirs is None else _compare(truth, wide, theirs, kind),
        direct=None if theirs is None else _compare(theirs, kind, mine, kind),
        numbers=numbers,
    )  # fmt: skip


def _compare(reference: Array, reference_dtype: DType, candidate: Array, dtype: DType) -> Measurement:
    return compare(reference, reference_dtype, candidate, dtype)


def case_of(api: str = "torch.nn.functional.gelu", *, dtypes: Sequence[str] = ("float32",), **changes: Any) -> Case:
    """A case of tensor arguments, one for each dtype."""
    tensors = tuple(TensorSpec(f"args.{n}", dtype, (8, 32), requires_grad=True) for n, dtype in enumerate(dtypes))
    arguments = {"args": [{"$t": n} for n in range(len(dtypes))], "kwargs": {"approximate": "none"}}
    return Case(api, arguments, tensors, **({"backward": True} | changes))


def finding_of(
    verdict: Verdict, *, part: str = "output", path: str = "out", score: float | None = None, dtype: str = "float32",
    reason: str = "",
) -> TensorFinding:  # fmt: skip
    """A finding with evidence that looks the part."""
    random = np.random.default_rng(7)
    gold = random.normal(size=(8, 32))
    wrong = gold + (0.01 * gold if verdict is Verdict.FAIL else 0.0)
    evidence = evidence_of(wrong, gold, gold, dtype, part=part, path=path)
    usual = "RMSE 3.2e-03, 41 times the honest error" if verdict is Verdict.FAIL else "as good as the honest one"
    return TensorFinding(evidence, verdict, reason or usual, score)


def result_of(
    verdict: Verdict, case: Case | None = None, *, status: Status = Status.RETURNED, reason: str = "",
    score: float | None = None, findings: Sequence[TensorFinding] | None = None, seconds: float = 0.0123,
) -> CaseResult:  # fmt: skip
    """A judged case: without findings where it did not return or was not compared."""
    chosen = case or case_of()
    if findings is None:
        quiet = status is not Status.RETURNED or verdict is Verdict.NOT_COMPARED
        findings = () if quiet else (finding_of(verdict, score=score),
                                     finding_of(Verdict.PASS, part="gradient", path="args.0", score=0.2))  # fmt: skip
    told = reason or (findings[0].reason if findings else status.value)
    outcome = Outcome(status, "" if status is Status.RETURNED else told, seconds, 1 << 20)
    evidence = tuple(finding.evidence for finding in findings)
    measured = CaseMeasured(chosen.key, outcome, Outcome(Status.RETURNED, "", 0.002), evidence)
    return CaseResult(chosen, measured, verdict, told, tuple(findings))


def info_of(**changes: Any) -> CheckInfo:
    values: dict[str, Any] = {
        "sources": ("runs/a",), "target": "torch:cuda:0/bfloat16", "reference": "torch:cpu", "standard": "calibrated",
        "overrides": {}, "seed": 0, "created": "2026-01-01T10:00:00+00:00", "tool_version": "0.2.0",
        "framework_version": "2.13.0", "calls": 0, "skipped": {},
    }  # fmt: skip
    return CheckInfo(**(values | changes))
