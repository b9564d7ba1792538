"""The rule of ptdbg_ascend: a tensor is wrong where its cosine is below 0.99 and its largest absolute error
above 0.001.

It looks at outputs alone and does not ask what went in, so that victims are reported like origins. Without the bytes
of the tensors the cosine and the largest error are estimates from sketch and statistics, and the reason says so.
"""

from __future__ import annotations

from trueline.judge.evidence import CallEvidence, Judgement, TensorEvidence
from trueline.records import Verdict

COSINE = 0.99
MAX_ABS = 0.001


class Ptdbg:
    """``cosine < 0.99 and max_abs > 0.001`` is a FAIL."""

    name = "ptdbg"

    def judge(self, evidence: CallEvidence) -> Judgement:
        measured = [tensor for tensor in evidence.outputs if tensor.measured]
        if not measured:
            notes = [tensor.note or f"only the {tensor.only} has it" for tensor in evidence.outputs]
            return Judgement(
                Verdict.NOT_COMPARED, notes[0] if notes else "returns no tensor", idle=not evidence.outputs
            )
        for tensor in measured:
            if reason := _fault(tensor):
                return Judgement(Verdict.FAIL, reason)
        if len(measured) < len(evidence.outputs):
            return Judgement(Verdict.NOT_COMPARED, f"{len(evidence.outputs) - len(measured)} outputs were not compared")
        return Judgement(Verdict.PASS, "cosine and largest error are within ptdbg's limits")


def _fault(tensor: TensorEvidence) -> str:
    if tensor.bad_mismatch:
        return f"{tensor.path}: NaN or Inf in other places than in the reference ({tensor.bad_mismatch})"
    largest = tensor.measurement.max_abs if tensor.measurement is not None else tensor.peak * tensor.largest
    if tensor.cosine < COSINE and largest > MAX_ABS:
        how = "estimated " if tensor.estimated else ""
        return f"{tensor.path}: {how}cosine {tensor.cosine:.6f} < {COSINE}, {how}max_abs {largest:.3g} > {MAX_ABS}"
    return ""
