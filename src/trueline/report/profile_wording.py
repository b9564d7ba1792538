"""What all reports of a profile say in the same words: its verdict, its sums, what a device can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trueline.profiles import CaseProfile, Footprint, PhaseProfile, ProfileInfo, Roofline, SideProfile, totals
from trueline.records import Phase, Verdict
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.wording import plural, size

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def duration(seconds: float) -> str:
    """``12.3 ms``; differences may be negative."""
    for unit, name in _UNITS:
        if abs(seconds) >= unit:
            return f"{seconds / unit:.3g} {name}" if abs(seconds) < 999.5 * unit else f"{seconds / unit:.0f} {name}"
    return "0" if not seconds else f"{seconds * 1e9:.1g} ns"


def rate(amount: float, unit: str) -> str:
    """``88.7 GFLOP/s``."""
    for factor, letter in _LARGE:
        if amount >= factor:
            return f"{amount / factor:.3g} {letter}{unit}"
    return f"{amount:.3g} {unit}"


@dataclass(frozen=True, slots=True)
class CaseSaid:
    """What the sentence about a profile needs of one case."""

    api: str
    module: str
    verdict: Verdict
    accuracy: Verdict | None
    timed: bool


def verdict_line(info: ProfileInfo, results: Sequence[CaseProfile]) -> str:
    """The whole profile in one sentence."""
    cases = [
        CaseSaid(one.case.api, one.case.module, one.verdict, one.accuracy, bool(one.measured.target.phases))
        for one in results
    ]
    return profile_sentence(cases, info.target, info.against)


def profile_sentence(cases: Sequence[CaseSaid], target: str, against: str) -> str:
    """A profile of these cases, those that lost most time first, in one sentence."""
    if not cases:
        return Phrase("No case was executed")
    if not against:
        timed = sum(one.timed for one in cases)
        one, many = "{n} case of {all} timed on {target}", "{n} cases of {all} timed on {target}"
        return counted(timed, one, many, all=len(cases), target=target)
    wrong = sum(one.accuracy is not None and one.accuracy >= Verdict.FAIL for one in cases)
    said = [_limits_said(cases, against)]
    if wrong:
        said.append(counted(wrong, "{n} case with wrong numbers", "{n} cases with wrong numbers"))
    return Phrases("; ", said)


def _limits_said(cases: Sequence[CaseSaid], against: str) -> str:
    bad = [one for one in cases if one.verdict >= Verdict.FAIL]
    compared = sum(one.verdict is not Verdict.NOT_COMPARED for one in cases)
    if bad:
        first = bad[0]
        where = Phrase("{call} in {module}", call=first.api, module=first.module) if first.module else first.api
        one = "{n} of {cases} is beyond the limits: {where}"
        many = "{n} of {cases} are beyond the limits: the most lost in {where}"
        return counted(len(bad), one, many, cases=counted(compared, "{n} case", "{n} cases"), where=where)
    if not compared:
        told = counted(len(cases), "{n} case", "{n} cases")
        return Phrase("None of {cases} could be held against {other}", cases=told, other=against)
    one, many = "{n} case compared, none beyond the limits", "{n} cases compared, none beyond the limits"
    return counted(compared, one, many)


def calls_line(info: ProfileInfo, results: Sequence[CaseProfile]) -> str:
    """``836 = 102 timed + 712 the same as these + 22 skipped``."""
    timed = [one for one in results if one.measured.target.phases]
    failed = [one for one in results if not one.measured.target.phases]
    merged = sum(one.case.count - 1 for one in timed)
    parts = [
        (len(timed), "timed"),
        (merged, "the same as these"),
        (sum(one.case.count for one in failed), "that did not return"),
        (sum(info.skipped.values()), "skipped"),
    ]
    said = " + ".join(f"{amount:,} {what}" for amount, what in parts if amount)
    steps = f", of {plural(info.steps, 'step')}" if info.steps > 1 else ""
    return f"{max(info.calls, sum(amount for amount, _ in parts)):,} = {said}{steps}" if said else "none"


def sum_line(info: ProfileInfo, results: Sequence[CaseProfile]) -> str:
    """``41.2 ms = 14.0 ms forward + 27.2 ms backward``."""
    found = totals(results, info)
    parts = " + ".join(f"{duration(found[phase.value])} {phase.value}" for phase in Phase)
    said = f"{duration(found['seconds'])} = {parts}"
    if found["launch"]:
        said += f"; the host is busy for {duration(found['launch'])}"
    return said


def against_line(info: ProfileInfo, results: Sequence[CaseProfile]) -> str:
    found = totals(results, info)
    lost = found["lost"]
    word = "lost" if lost >= 0 else "gained"
    return f"{duration(found['against'])} on {info.against}; {duration(abs(lost))} {word}"


def explained_line(info: ProfileInfo, results: Sequence[CaseProfile]) -> str:
    """How much of a step the sum of its calls is; empty where nobody said how long the step takes."""
    if not info.step_seconds:
        return ""
    share = totals(results, info)["seconds"] / info.step_seconds
    return f"{100 * share:.0f} % of the {duration(info.step_seconds)} that the step takes"


def roofline_line(line: Roofline) -> str:
    parts = [f"{rate(speed, 'FLOP/s')} in {dtype}" for dtype, speed in sorted(line.flops.items())]
    return ", ".join([*parts, rate(line.bandwidth, "B/s")]) if line.bandwidth else "not known"


def ratio_of(result: CaseProfile) -> float | None:
    """Forward and backward together, target over against; None where one of them was not timed."""
    against = result.measured.against
    if against is None or not against.seconds or not result.measured.target.phases:
        return None
    return 1.0 + result.measured.lost / against.seconds


def peak_of(side: SideProfile | None) -> int | None:
    """The larger of the peaks of both directions."""
    if side is None:
        return None
    return max((phase.memory.peak for phase in side.phases.values() if phase.memory is not None), default=None)


def memory_words(memory: Footprint | None) -> str:
    return "-" if memory is None else size(memory.peak)


def share_words(side: SideProfile) -> str:
    """``41 % memory``: of the direction that takes longest. More than all of it means that caches were faster than
    the memory that the roofline is made of."""
    slowest = max(side.phases.values(), key=lambda phase: phase.timing.median, default=None)
    if slowest is None or slowest.share is None:
        return "-"
    if slowest.share > 1 and slowest.bound == "memory":
        return ">100 % (cache)"
    return f"{100 * slowest.share:.0f} % {slowest.bound}"


def phase_of(side: SideProfile | None, phase: Phase) -> PhaseProfile | None:
    return None if side is None else side.phases.get(phase)
