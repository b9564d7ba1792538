"""A finished check made of plain records, for tests of the reports: every verdict, status and sort of case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.helpers.checks import evidence_of, finding_of, info_of, result_of
from trueline.cases import Case, CaseResult, CheckInfo, Status, TensorFinding, TensorSpec
from trueline.records import Verdict

APIS = (
    "torch.nn.functional.linear", "torch.nn.functional.gelu", "torch.nn.functional.layer_norm", "torch.matmul",
    "torch.Tensor.softmax", "torch.Tensor.__add__", "torch.nn.functional.embedding", "torch.Tensor.transpose",
)  # fmt: skip


def fake_case(position: int, api: str = "") -> Case:
    width = 2 ** (3 + position % 5)
    dtype = ("float32", "bfloat16", "float16")[position % 3]
    chosen = api or APIS[position % len(APIS)]
    tensors = (
        TensorSpec("args.0", dtype, (8, 16, width), requires_grad=True),
        TensorSpec("args.1", dtype, (width, width), requires_grad=True),
    )
    arguments = {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {"eps": 1e-5, "mode": "none"}}
    return Case(
        chosen, arguments, tensors, backward=True, seed=position, count=1 + position % 7,
        calls=(f"{chosen}.{position}.forward",), module=f"encoder.layers.{position % 12}.mlp",
        source=f"model.py:{40 + position} in forward",
    )  # fmt: skip


def fake_check(size: int = 106, *, faults: bool = True) -> tuple[CheckInfo, list[CaseResult]]:
    """A check of so many cases; with faults every fifteenth or so is not right."""
    random = np.random.default_rng(11)
    results = [_passed(position, np.minimum(0.95, 10.0 ** random.normal(-0.9, 0.25, 3))) for position in range(size)]
    if faults:
        for position, result in _faults(size):
            results[position] = result
    skipped = {"optimizer step: nothing is returned": 12, "captured without statistics and tensors": 6}
    calls = sum(result.case.count for result in results) + sum(skipped.values())
    return info_of(calls=calls, skipped=skipped), results


def _passed(position: int, scores: np.ndarray) -> CaseResult:
    case = fake_case(position)
    dtype = case.tensors[0].dtype
    findings = [finding_of(Verdict.PASS, score=float(scores[0]) if position % 8 != 7 else 0.0, dtype=dtype)]
    if position % 8 != 6:
        findings += [
            finding_of(Verdict.PASS, part="gradient", path=f"args.{n}", score=float(scores[1 + n]), dtype=dtype)
            for n in (0, 1)
        ]
    return result_of(Verdict.PASS, case, findings=findings)


def _faults(size: int) -> list[tuple[int, CaseResult]]:
    told = "RMSE 3.2e-03 against the gold, 41 times that of an honest bfloat16 implementation (7.8e-05)"
    wrong = finding_of(Verdict.FAIL, score=41.2, reason=told)
    gradient = finding_of(Verdict.FAIL, part="gradient", path="args.1", score=3.4, reason="biased by 2.1 ULP")
    fine = finding_of(Verdict.PASS, score=0.3)
    warned = finding_of(Verdict.WARN, score=0.9, reason="2 of 256 elements are off by 9 ULP")
    endless = finding_of(Verdict.FAIL, score=float("inf"), reason="NaN where the gold has none (3)")
    lost = TensorFinding(
        replace(evidence_of(np.ones(4), np.ones(4), np.ones(4)), structure="dtype float16 instead of float32"),
        Verdict.FAIL, "dtype float16 instead of float32",
    )  # fmt: skip
    rows = [
        result_of(Verdict.FAIL, fake_case(9), findings=[wrong, gradient], reason=f"out: {told}"),
        result_of(Verdict.FAIL, fake_case(25), findings=[fine, gradient], reason="gradient of args.1: biased"),
        result_of(Verdict.FAIL, fake_case(33), findings=[endless], reason="out: NaN where the gold has none (3)"),
        result_of(Verdict.FAIL, fake_case(35), findings=[lost], reason="dtype float16 instead of float32"),
        result_of(Verdict.WARN, fake_case(40), findings=[warned], reason="out: 2 of 256 elements are off by 9 ULP"),
        result_of(Verdict.ERROR, fake_case(51), status=Status.CRASHED, reason="crashed: killed by signal 11 (SIGSEGV)"),
        result_of(Verdict.ERROR, fake_case(52), status=Status.TIMED_OUT, reason="timed out: after 120 s"),
        result_of(Verdict.FAIL, fake_case(60), status=Status.RAISED, reason="raised: RuntimeError: a 3-D mask"),
        result_of(Verdict.NOT_COMPARED, fake_case(70), status=Status.UNSUPPORTED,
                  reason='unsupported: "addmm_impl" not implemented for \'Half\''),
        result_of(Verdict.NOT_COMPARED, fake_case(71), reason="returned nothing that could be compared"),
        result_of(Verdict.NOT_COMPARED, fake_case(72), reason="returned nothing that could be compared"),
    ]  # fmt: skip
    return [(row.case.seed, row) for row in rows if row.case.seed < size]
