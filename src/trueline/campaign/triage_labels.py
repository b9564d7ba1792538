"""From second opinions to a label, with the reason in words. Pure.

The order of the questions matters: a case that does not do the same thing twice tells nothing else; an element that
jumps when inputs move by one rounding convicts nobody; and where two frameworks disagree, each is first held against
itself in float64, and gradients against differences of the forward, before one of them is called wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trueline.campaign.triage_scaling import expected_seconds
from trueline.campaign.triage_signature import worst_finding
from trueline.cases import CaseResult, Ending, Status
from trueline.dtypes import dtype_named
from trueline.groups import ENDLESS, Label, Look, Opinion, Signature

Judged = tuple[Label, str]
FORMS = (Look.STRUCTURE, Look.NO_GRADIENT)

SUPER_LINEAR = 1.5
_NOISE_SHARE = 0.1
"""Repeated executions that differ by this share of the error explain it."""
_MOVED_SHARE = 0.3
"""Moves of the gold of this share of the error explain it."""
_STEEP, _STEEP_ROUNDINGS = 64.0, 100.0
"""Where a rounding of the inputs grows to so many of the result, an error of so many such moves is one of the problem,
not of the method."""
_HONEST_SHARE = 0.3
_OWN_SHARE = 0.5
_NARROW_LIMIT = 1e-4
"""Relative errors above this are no matter of float32."""
_SURE = 10.0
_AT_EDGES = 0.99
_UNSUPPORTED = re.compile(
    r"not (?:implemented|supported|registered|compiled)|unimplemented|no kernel|does(?: not|n't) support|unsupported"
    r"|only supports?|NotImplementedError|not available",
    re.IGNORECASE,
)
_BINDING = re.compile(r"TypeError|unexpected keyword|missing \d+ required|takes \d+ positional|AttributeError")


def label_of(result: CaseResult, signature: Signature, opinion: Opinion, *, crossed: bool) -> Judged:
    """The label of one case. ``crossed`` says that target and reference are of two frameworks."""
    ending = result.ending
    if ending is Ending.UNSUPPORTED:
        return Label.UNSUPPORTED, result.measured.candidate.reason
    if ending is Ending.HARNESS_ERROR:
        return Label.TOOL, result.measured.skipped
    if ending is Ending.MISMATCH:
        return _of_mismatch(result, signature, opinion, crossed)
    if ending is Ending.TARGET_RAISES:
        return _of_raising(result, opinion)
    if ending is Ending.REFERENCE_RAISES:
        return _of_reference(result, opinion)
    if ending is Ending.CRASHED:
        return _of_crash(result, opinion)
    return _of_excess(result, opinion)


def common(labels: Sequence[Judged]) -> Judged:
    """The label that most of the cases of a group have, the first of equals."""
    counts: dict[Label, int] = {}
    for label, _ in labels:
        counts[label] = counts.get(label, 0) + 1
    best = max(counts, key=lambda label: (counts[label], label is not Label.UNDECIDED))
    why = next(why for label, why in labels if label is best)
    others = [label.value for label in counts if label is not best]
    return best, f"{why} (but another of its cases: {', '.join(others)})" if others else why


def refined(signature: Signature, label: Label, opinions: Sequence[Opinion]) -> Signature:
    """A signature with what only tensors can tell."""
    if label is Label.NONDETERMINISTIC and signature.direction:
        return replace(signature, look=Look.UNSTABLE, detail="")
    edges = [opinion.numbers.get("edges", 0.0) for opinion in opinions]
    if edges and min(edges) > _AT_EDGES and signature.look in (Look.ONE_ELEMENT, Look.FEW_ELEMENTS, Look.GROSS):
        return replace(signature, look=Look.EDGES)
    return signature


# Numbers that differ


def _of_mismatch(result: CaseResult, signature: Signature, opinion: Opinion, crossed: bool) -> Judged:
    numbers = opinion.numbers
    if signature.look in FORMS:
        return _of_structure(result, opinion, crossed)
    for rule in (_differs_by_itself, _is_ill_conditioned, _by_slope):
        found = rule(signature, opinion)
        if found is not None:
            return found
    if signature.look is Look.NARROWER and signature.dtype in ("float64", "complex128"):
        right = "; it is right in float32" if opinion.single == Ending.PASS.value else ""
        return Label.TARGET, f"it computes float64 in a narrower type inside{_size(numbers)}{right}"
    if crossed:
        return _across(opinion)
    return Label.TARGET, f"the same operator in float64 gives something else{_size(numbers)}{_for_others(opinion)}"


def _differs_by_itself(signature: Signature, opinion: Opinion) -> Judged | None:
    numbers = opinion.numbers
    repeat, error = numbers.get("repeat", 0.0), numbers.get("error", 0.0)
    if repeat > 0.0 and repeat >= _NOISE_SHARE * error:
        return Label.NONDETERMINISTIC, f"the same inputs give results that differ by up to {repeat:.2g}"
    if opinion.again == Ending.PASS.value:
        return Label.NONDETERMINISTIC, "the same case passed when it was done again"
    return None


def _is_ill_conditioned(signature: Signature, opinion: Opinion) -> Judged | None:
    numbers = opinion.numbers
    error, moved, scale = (numbers.get(name, 0.0) for name in ("error", "moved", "scale"))
    if not error > 0.0 or not moved > 0.0:
        return None
    grown = moved / (max(scale, 1e-300) * dtype_named(signature.dtype).epsilon / 2)
    regular = signature.look in (Look.FACTOR, Look.OFFSET, Look.NOT_FINITE)
    if moved >= _MOVED_SHARE * error or (grown >= _STEEP and error <= _STEEP_ROUNDINGS * moved and not regular):
        return Label.ILL_CONDITIONED, (
            f"moving the inputs by one rounding moves the exact result by {moved:.2g} there, {grown:.2g} roundings of "
            f"the result; the target is off by {error:.2g}"
        )
    return None


def _by_slope(signature: Signature, opinion: Opinion) -> Judged | None:
    """Whose gradient is the derivative of the forward?"""
    numbers = opinion.numbers
    if not {"slope", "slope_target", "slope_reference", "slope_noise"} <= numbers.keys():
        return None
    slope, noise = numbers["slope"], numbers["slope_noise"] + 1e-7 * abs(numbers["slope"])
    target, reference = abs(numbers["slope_target"] - slope), abs(numbers["slope_reference"] - slope)
    told = f"by differences of its own forward the derivative along a random direction is {slope:.6g}"
    given = f"the target's gradient says {numbers['slope_target']:.6g}, the other {numbers['slope_reference']:.6g}"
    if target > _SURE * max(reference, noise):
        return Label.TARGET, f"{told}; {given}"
    if reference > _SURE * max(target, noise):
        return Label.REFERENCE, f"{told}; {given}"
    return None


def _across(opinion: Opinion) -> Judged:
    """Two frameworks disagree: is the target at one with its own framework in another precision?"""
    numbers = opinion.numbers
    error, own, frameworks = (numbers.get(name) for name in ("error", "own", "frameworks"))
    if error is None or own is None or frameworks is None:
        return _by_itself(opinion)
    honest = numbers.get("honest", 0.0)
    if honest >= _HONEST_SHARE * error:
        return Label.REFERENCE, f"the reference in this dtype is off by {honest:.2g} itself, the target by {error:.2g}"
    if own >= _OWN_SHARE * error:
        much = "" if own >= ENDLESS else f", by {own:.2g}"
        return Label.TARGET, f"its own framework in float64 disagrees as well{much}{_for_others(opinion)}"
    small = error <= _NARROW_LIMIT * max(numbers.get("scale", 0.0), 1e-300)
    if "narrow" in numbers and small:
        return Label.TARGET, f"its float64 is no better than a narrower type{_size(numbers)}"
    if frameworks >= _OWN_SHARE * error:
        return Label.REFERENCE, (
            f"the two frameworks differ by {frameworks:.2g} in float64 as well, and each agrees with itself: they do "
            f"not mean the same call{_for_others(opinion)}"
        )
    return _undecided(opinion)


def _by_itself(opinion: Opinion) -> Judged:
    """Whether the target fails against its own framework as well."""
    if opinion.own == Ending.MISMATCH.value:
        return Label.TARGET, f"it fails against its own framework in float64 as well{_for_others(opinion)}"
    if opinion.own == Ending.PASS.value:
        return Label.REFERENCE, "it agrees with its own framework in float64: the two do not mean the same call"
    return _undecided(opinion)


def _of_structure(result: CaseResult, opinion: Opinion, crossed: bool) -> Judged:
    finding = worst_finding(result)
    what = finding.reason if finding is not None else result.reason
    if opinion.again == Ending.PASS.value:
        return Label.NONDETERMINISTIC, f"when it was done again it passed: {what}"
    if not crossed:
        return Label.TARGET, f"the same operator on the reference differs in form: {what}"
    label, why = _by_itself(opinion)
    return label, f"{what}; {why}"


def _undecided(opinion: Opinion) -> Judged:
    reasons = "; ".join(f"{name}: {text}" for name, text in opinion.notes.items() if text)
    return Label.UNDECIDED, f"it fails again, and nothing more could be found out{f' ({reasons})' if reasons else ''}"


def _size(numbers: Mapping[str, float]) -> str:
    if "error" not in numbers or not numbers.get("scale"):
        return ""
    if numbers["error"] >= ENDLESS:
        return ""
    return f", off by {numbers['error'] / numbers['scale']:.2g} of the largest result"


def _for_others(opinion: Opinion) -> str:
    wrong = [ending for ending in opinion.seeds if ending not in (Ending.PASS.value, "")]
    if not opinion.seeds or len(wrong) == len(opinion.seeds):
        return ""
    return f"; for {len(opinion.seeds) - len(wrong)} of {len(opinion.seeds)} other inputs it is right"


# Calls that do not return


def _of_raising(result: CaseResult, opinion: Opinion) -> Judged:
    reason = result.measured.candidate.reason
    if _UNSUPPORTED.search(reason):
        return Label.UNSUPPORTED, reason
    if opinion.again not in ("", Ending.TARGET_RAISES.value):
        return Label.NONDETERMINISTIC, f"when it was done again, it ended in: {opinion.again}"
    if _BINDING.search(reason):
        return Label.REFERENCE, f"the call does not fit the target: {reason}"
    returned = [ending for ending in opinion.seeds if ending != Ending.TARGET_RAISES.value]
    only = f"; not for {len(returned)} of {len(opinion.seeds)} other inputs" if returned else ""
    return Label.TARGET, f"it raises where the reference returns: {reason}{only}"


def _of_reference(result: CaseResult, opinion: Opinion) -> Judged:
    reference, candidate = result.measured.reference, result.measured.candidate
    reason = reference.reason if reference is not None else ""
    if _UNSUPPORTED.search(reason):
        return Label.UNSUPPORTED, f"by the reference: {reason}"
    if opinion.again not in ("", Ending.REFERENCE_RAISES.value):
        return Label.NONDETERMINISTIC, f"when it was done again, it ended in: {opinion.again}"
    if candidate.status is not Status.RETURNED:
        return Label.UNSUPPORTED, f"both refuse these arguments; the reference: {reason}"
    return Label.REFERENCE, f"it raises where the target returns: {reason}"


def _of_crash(result: CaseResult, opinion: Opinion) -> Judged:
    if result.measured.skipped:  # not in the candidate
        return Label.REFERENCE, result.measured.skipped
    if opinion.again == Ending.CRASHED.value:
        return Label.CRASHES, f"alone in a fresh process it crashes again: {result.measured.candidate.reason}"
    if not opinion.again:
        return Label.CRASHES, result.measured.candidate.reason
    return Label.NONDETERMINISTIC, f"alone in a fresh process it ended in: {opinion.again}"


def _of_excess(result: CaseResult, opinion: Opinion) -> Judged:
    """Too much time or memory."""
    if result.measured.skipped:
        return Label.REFERENCE, result.measured.skipped
    reason, part = result.measured.candidate.reason, opinion.notes.get("part", "")
    if result.ending is Ending.OUT_OF_MEMORY:
        if part and not opinion.timings:
            return Label.TARGET, f"even for the smallest part of it all memory is not enough: {reason}"
        return Label.UNSUPPORTED, f"it needs more memory than there is: {reason}"
    return Label.TOO_SLOW, _growth(result, opinion)


def _growth(result: CaseResult, opinion: Opinion) -> str:
    timings, reason = opinion.timings, result.measured.candidate.reason
    if not timings:
        hangs = bool(opinion.notes.get("part"))
        even = "even its smallest part does not return in time" if hangs else "no part of it could be timed"
        return f"{reason}; {even}"
    last = timings[-1]
    told = f"{last.elements:,} elements take {last.target:.2g} s, of the reference {last.reference:.2g} s"
    exponent = opinion.exponent
    if exponent is None:
        return f"{reason}; {told}"
    whole = sum(_count(spec.shape) for spec in result.case.tensors)
    grows = f"time grows with the power {exponent:.2f} of the size"
    if exponent >= SUPER_LINEAR:
        grows = f"super-linear: {grows}"
    if opinion.reference_exponent is not None:
        grows += f" ({opinion.reference_exponent:.2f} in the reference)"
    return f"{grows}; {told}; all {whole:,} would take about {expected_seconds(timings, exponent, whole):.3g} s"


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
