"""The default standard: an output is wrong where honest arithmetic on these inputs cannot explain its difference.

From equal inputs, only another order of summation or another library is an excuse, and that is a few roundings. From
inputs that differ, the output may differ as much as the operator can stretch that; the call is then a victim
(``inherited``), whoever caused it. Operators that do no arithmetic must give equal bits for equal bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from trueline.judge.evidence import CallEvidence, Floats, Judgement, OutputColumns, TensorEvidence
from trueline.judge.sensitivity import Limit, least_limits, limit_of
from trueline.ops.facts import Kind
from trueline.records import Phase, Verdict
from trueline.tree import Tree, render

_OF_A_NODE = "gradients."
"""How the gradients of a graph node are called whose places are not those of the arguments (dumps of msprobe)."""
_SAME_DIRECTION = 0.9999
"""Cosine above which two outputs of a random operator were drawn alike and only scaled differently."""


class Honest:
    """Tolerance from the dtypes, sizes and inputs of each call."""

    name = "honest"

    def judge(self, evidence: CallEvidence) -> Judgement:
        if reason := _structure(evidence):
            return Judgement(Verdict.FAIL, reason)
        if evidence.facts.kind is Kind.UNDEFINED:
            return Judgement(Verdict.NOT_COMPARED, f"{evidence.facts.name} {Kind.UNDEFINED.value}", idle=True)
        if not evidence.outputs:
            return _judge_values(evidence)
        worst: Judgement | None = None
        limits: list[float | None] = []
        for output in evidence.outputs:
            found = _judge_output(evidence, output)
            limits.append(found.limit)
            if worst is None or _rank(found) > _rank(worst):
                worst = found
        assert worst is not None
        worst.limits = limits
        return worst

    def within_rounding(self, columns: OutputColumns) -> Floats:
        return least_limits(columns)


def _rank(judgement: Judgement) -> tuple[int, bool, float]:
    return int(judgement.verdict), judgement.inherited, judgement.limit or 0.0


def _structure(evidence: CallEvidence) -> str:
    """What one side was given or returned and the other was not."""
    if evidence.rewired:
        return ""
    for verb, tensors in (("was given", evidence.inputs), ("returned", evidence.outputs)):
        lonely = [tensor for tensor in tensors if tensor.only]
        if any(tensor.path.startswith(_OF_A_NODE) for tensor in lonely):
            continue  # the two sides were taken by different tools, which do not look at the same gradients
        if lonely:
            paths = ", ".join(tensor.path for tensor in lonely[:3]) + (", …" if len(lonely) > 3 else "")
            side = lonely[0].only
            other = "candidate" if side == "reference" else "reference"
            return f"the {side} {verb} {len(lonely)} tensor(s) that the {other} was not: {paths}"
    return ""


def _judge_output(evidence: CallEvidence, output: TensorEvidence) -> Judgement:
    if not output.measured:
        return _not_measured(evidence, output)
    if output.equal:
        return Judgement(Verdict.PASS, "equal", 0.0)
    if output.rms == 0.0 and output.candidate_rms > 0.0 and not output.bad_mismatch:
        # Nothing is relative to zero: what is left of a sum that vanishes is measured by what was summed.
        output = replace(output, rms=output.candidate_rms, distance=1.0, peak=1.0)
    limit = _limit(evidence, output)
    if math.isnan(limit.total) and not output.bad_mismatch:
        return Judgement(
            Verdict.NOT_COMPARED, f"{output.path}: how large its inputs are is not known, so nor its limit"
        )
    if output.bad_mismatch:
        return _judge_not_finite(evidence, output, limit)
    if evidence.facts.kind is Kind.RANDOM and evidence.phase is Phase.FORWARD and output.distance > limit.total:
        return _judge_random(evidence, output, limit)
    if evidence.facts.kind is Kind.RANDOM and output.distance > limit.total and _drew_otherwise(evidence):
        return Judgement(
            Verdict.WARN, f"{output.path}: its forward call drew other random numbers", limit.total, inherited=True
        )
    if _bare(output) and output.distance <= limit.total:
        known = "max, min, mean and norm agree; that is all that is known of its elements"
        return Judgement(Verdict.NOT_COMPARED, f"{output.path}: {known}", limit.total)
    if output.distance <= limit.rounding and not _spikes(output, limit):
        return Judgement(Verdict.PASS, "within rounding", limit.total)
    if limit.inherited > 0.0 and output.distance <= limit.total and not _spikes(output, limit):
        return Judgement(Verdict.PASS, "follows its inputs", limit.total, inherited=True)
    unknown = [tensor.path for tensor in evidence.inputs if not tensor.measured]
    if unknown:
        return Judgement(
            Verdict.WARN, f"{output.path} differs, but so may {unknown[0]}, which was not measured", limit.total
        )
    given = [*evidence.inputs, *evidence.saved]
    vague = [tensor.path for tensor in given if _bare(tensor) and tensor.distance > 0.0]
    if vague:
        text = (
            f"{output.path} differs, and so does {vague[0]}, by an amount of which its statistics tell the least alone"
        )
        return Judgement(Verdict.WARN, text, limit.total, inherited=True)
    return Judgement(Verdict.FAIL, _blame(evidence, output, limit), limit.total)


def _bare(tensor: TensorEvidence) -> bool:
    """Whether its largest and smallest element, mean and norm are all that is known: its distance is then the least
    that it may be, never how large it is."""
    return tensor.measured and tensor.estimated and math.isnan(tensor.cosine)


def _limit(evidence: CallEvidence, output: TensorEvidence) -> Limit:
    if evidence.rewired:
        limit = limit_of(evidence, output)
        return Limit(64.0 * output.roundoff + limit.rounding, limit.inherited + 16.0 * evidence.background, math.inf)
    same_dtype = output.reference_dtype is output.candidate_dtype
    exact = output.reference_dtype.is_exact and output.candidate_dtype.is_exact
    limit = limit_of(evidence, output)
    if exact and limit.inherited > 0.0:
        return Limit(0.0, math.inf, math.inf)  # counts, masks and indices jump
    bound = evidence.facts.exact and evidence.phase is Phase.FORWARD and same_dtype
    if exact or (bound and all(tensor.equal for tensor in evidence.inputs)):
        limit.rounding = 0.0
    return limit


def _spikes(output: TensorEvidence, limit: Limit) -> bool:
    """Whether single elements are wrong by more than the limit, though they hardly show in the distance."""
    return output.peak == output.peak and output.peak > limit.peak


def _blame(evidence: CallEvidence, output: TensorEvidence, limit: Limit) -> str:
    inputs = max((tensor.distance for tensor in evidence.inputs if tensor.measured), default=0.0)
    same = "inputs of equal statistics" if any(map(_bare, evidence.inputs)) else "equal inputs"
    given = same if inputs == 0.0 else f"inputs that agree within {inputs:.2g}"
    if output.distance <= limit.total:
        return f"{output.path}: single elements are off by {output.peak:.2g} of the largest, from {given}"
    text = f"{output.path} differs by {output.distance:.2g} from {given}"
    if limit.total == 0.0:
        return f"{text}, and equal inputs must give equal bits here"
    coarsest = max(output.reference_dtype, output.candidate_dtype, key=lambda dtype: dtype.epsilon).name
    times = output.distance / limit.total
    return f"{text}, {times:.3g} times what {coarsest} arithmetic explains ({limit.total:.2g})"


def _judge_not_finite(evidence: CallEvidence, output: TensorEvidence, limit: Limit) -> Judgement:
    arrived = sum(tensor.bad_mismatch for tensor in [*evidence.inputs, *evidence.saved])
    what = f"{output.path}: NaN or Inf in {output.bad_candidate} elements, in the reference in {output.bad_reference}"
    if arrived:
        return Judgement(Verdict.PASS, f"{what}; they came with the inputs", limit.total, inherited=True)
    if math.isinf(limit.inherited):
        return Judgement(Verdict.PASS, f"{what}; indices or masks differ", limit.total, inherited=True)
    return Judgement(Verdict.FAIL, f"{what}, from inputs that are alike", limit.total)


def _judge_random(evidence: CallEvidence, output: TensorEvidence, limit: Limit) -> Judgement:
    if _drawn_alike(output):
        return Judgement(
            Verdict.FAIL, f"{output.path}: drawn alike but scaled differently ({output.distance:.2g})", limit.total
        )
    return Judgement(Verdict.WARN, f"{output.path}: random numbers differ: were the seeds the same?", limit.total)


def _drawn_alike(output: TensorEvidence) -> bool:
    return output.zeros_differ == 0 and output.cosine > _SAME_DIRECTION


def _drew_otherwise(evidence: CallEvidence) -> bool:
    """Whether the forward call of a backward one drew other numbers on the two sides, so that its backward must too."""
    drawn = (one for one in evidence.saved if one.path.startswith("out") and one.measured and not one.equal)
    return evidence.phase is Phase.BACKWARD and not all(_drawn_alike(one) for one in drawn)


def _not_measured(evidence: CallEvidence, output: TensorEvidence) -> Judgement:
    if output.same_shape or not output.note:
        return Judgement(Verdict.NOT_COMPARED, f"{output.path}: {output.note or 'nothing to compare'}")
    shapes_arrived = any(not tensor.same_shape for tensor in [*evidence.inputs, *evidence.saved])
    if shapes_arrived:
        return Judgement(
            Verdict.NOT_COMPARED, f"{output.path}: its shape differs, as those of the inputs do", inherited=True
        )
    return Judgement(Verdict.FAIL, f"{output.path} has another shape than the reference's, from inputs of equal shapes")


def _judge_values(evidence: CallEvidence) -> Judgement:
    """Calls that return no tensors: plain values are compared as they are."""
    reference, candidate = evidence.result
    if evidence.phase is Phase.BACKWARD:
        return Judgement(Verdict.NOT_COMPARED, "no gradient left that both sides have")
    if _empty(reference) and _empty(candidate):
        if evidence.facts.in_place and evidence.inputs:
            return Judgement(Verdict.NOT_COMPARED, "works in place, but what it changed was not recorded")
        return Judgement(Verdict.NOT_COMPARED, "returns nothing to compare", idle=True)
    if reference == candidate:
        return Judgement(Verdict.PASS, "returned the same value", 0.0)
    distance = max((tensor.distance for tensor in evidence.inputs if tensor.measured), default=0.0)
    text = f"returned {render(candidate)[:60]}, the reference {render(reference)[:60]}"
    if distance > 0.0 or any(not tensor.measured for tensor in evidence.inputs):
        return Judgement(Verdict.PASS, f"{text}; its inputs differ", inherited=True)
    if not evidence.inputs:
        return Judgement(Verdict.WARN, text)
    return Judgement(Verdict.FAIL, f"{text}, from equal inputs", 0.0)


def _empty(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return all(_empty(value) for value in tree.values()) and not any(key.startswith("$") for key in tree)
    if isinstance(tree, list):
        return all(_empty(item) for item in tree)
    return tree is None
