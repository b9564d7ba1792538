"""Judges a profile: is the target slower, or does it take more memory, than a chosen limit allows?

A time is judged with its noise. ``ratio`` is target over against in neighbouring rounds; its spread is the middle four
fifths of the rounds. Only what lies beyond the limit with its whole spread fails. What lies beyond it while the spread
reaches below is a warning, unless the spread reaches down to equality: a difference within the spread is none.

Bytes are counted, not measured, and have no noise.
"""

from __future__ import annotations

from collections.abc import Iterator

from trueline.cases import Status
from trueline.profiles import CaseTimed, Footprint, Limits, PhaseProfile, Ratio, SideProfile, SpeedFinding
from trueline.records import Phase, Verdict

LEAST_SECONDS = 1e-6
"""A difference of less for each call is not a finding: reading the clock and calling a function cost as much."""
LEAST_BYTES = 1024
"""Allocators round up: a smaller difference is not a finding."""


def judge_speed(measured: CaseTimed, limits: Limits) -> tuple[Verdict, str, tuple[SpeedFinding, ...]]:
    """The verdict of a Case with its reason, and what it is made of."""
    target, against = measured.target, measured.against
    if not target.phases:
        return Verdict.NOT_COMPARED, _ended(target), ()
    if against is None:
        return Verdict.NOT_COMPARED, "timed, with nothing to hold it against", ()
    if not against.phases:
        return Verdict.NOT_COMPARED, f"on the other side: {_ended(against)}", ()
    findings = tuple(_findings(measured, against, limits))
    if not findings:
        return Verdict.NOT_COMPARED, "the two sides have no direction in common", ()
    worst = max(findings, key=lambda finding: finding.verdict)
    return worst.verdict, worst.reason, findings


def _findings(measured: CaseTimed, against: SideProfile, limits: Limits) -> Iterator[SpeedFinding]:
    for phase, ratio in measured.ratios.items():
        ours, theirs = measured.target.phases[phase], against.phases[phase]
        yield _time(phase, ratio, theirs, limits.time)
        if ours.memory is not None and theirs.memory is not None:
            yield _memory(phase, ours.memory, theirs.memory, limits.memory)


def _time(phase: Phase, ratio: Ratio, theirs: PhaseProfile, limit: float) -> SpeedFinding:
    said = f"{phase.value} takes {ratio.value:.2f} times as long"
    spread = f"{ratio.low:.2f} to {ratio.high:.2f}"
    lost = (ratio.value - 1.0) * (theirs.timing.median + ratio.floor)
    verdict, reason = Verdict.PASS, f"{said} (limit {limit:g})"
    if ratio.value > limit and lost < LEAST_SECONDS:
        reason = f"{said}, which is less than a microsecond"
    elif ratio.low > limit:
        verdict, reason = Verdict.FAIL, f"{said} (spread {spread}, limit {limit:g})"
    elif ratio.value > limit and ratio.low > 1.0:
        verdict, reason = Verdict.WARN, f"{said}, but the spread {spread} reaches below the limit {limit:g}"
    elif ratio.value > limit:
        reason = f"{said}, but the spread {spread} holds no difference as well"
    return SpeedFinding("time", phase, verdict, reason)


def _memory(phase: Phase, ours: Footprint, theirs: Footprint, limit: float) -> SpeedFinding:
    pairs = (("takes", "at its peak", ours.peak, theirs.peak), ("keeps", "", ours.retained, theirs.retained))
    for verb, when, one, other in pairs:
        if one - other >= LEAST_BYTES and one > limit * other:
            times = f"{one / other:.2f} times as much memory" if other else "memory where none was needed"
            said = f"{phase.value} {verb} {times}{f' {when}' if when else ''}: {one:,} against {other:,} bytes"
            return SpeedFinding("memory", phase, Verdict.FAIL, f"{said} (limit {limit:g})")
    said = f"{phase.value} takes {ours.peak:,} against {theirs.peak:,} bytes at its peak"
    return SpeedFinding("memory", phase, Verdict.PASS, said)


def _ended(side: SideProfile) -> str:
    status = side.outcome.status
    word = "not timed" if status is Status.RETURNED else status.value
    return f"{word}: {side.outcome.reason}" if side.outcome.reason else word
