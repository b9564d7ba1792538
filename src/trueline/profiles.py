"""The words of a profile, as data and nothing else.

A call of a **Case** is timed in **Laps**; the laps of one direction on one Target are a **Timing**. A **Footprint** is
what the call did to memory, a **Cost** what it cannot do without, a **Roofline** what the device could do at best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trueline.cases import Case, Outcome
from trueline.records import Phase, Verdict


@dataclass(frozen=True, slots=True)
class Lap:
    """Some calls in a row, in seconds a call. ``seconds`` is the time of the device where it keeps one of its own,
    else that of the host; ``launch`` is how long the host was busy telling the device, None where host and device are
    one. ``wall`` is all the time that a call took of somebody who waits for it."""

    seconds: float
    launch: float | None = None
    calls: int = 1
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a call took beyond those that were held before it: at its ``peak``, and ``retained`` when it had
    returned, by its results and by what it keeps for its backward."""

    peak: int
    retained: int


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One tensor that a call gave, or an argument that it changed. ``shared`` says that its memory is that of an
    argument, so that nothing was written where nothing was changed."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """What the arithmetic of a call needs, however it is done. None where nobody knows; ``reason`` says why."""

    flops: float | None = None
    bytes: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a device was seen to do at best: floating-point operations a second by dtype, bytes a second to and from
    its memory."""

    flops: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float = 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The laps of one direction of a call: the median of seconds a call, the tenth and ninetieth percentile, the
    smallest; how many laps and how many calls these are; the median launch. ``taken_off`` are the seconds that were
    taken off each lap because they are no part of the call."""

    median: float
    low: float
    high: float
    smallest: float
    laps: int
    calls: int
    launch: float | None = None
    taken_off: float = 0.0

    @property
    def spread(self) -> float:
        """The width of the middle four fifths, as a share of the median."""
        return (self.high - self.low) / self.median if self.median > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """Target over against, in pairs of neighbouring rounds: the median, the tenth and ninetieth percentile. To both
    ``floor`` seconds were added, which is how well a time of this kind is known: what is shorter is taken for equal."""

    value: float
    low: float
    high: float
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class PhaseProfile:
    """One direction of a call on one Target. ``share`` is the part of the time that the roofline explains, ``bound``
    which of ``arithmetic`` and ``memory`` it is."""

    timing: Timing
    memory: Footprint | None = None
    cost: Cost = field(default_factory=Cost)
    share: float | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True)
class SideProfile:
    """A Case on one Target. ``phases`` is empty where it did not return. ``notes`` say what a reader must know of how
    it was measured."""

    outcome: Outcome
    phases: Mapping[Phase, PhaseProfile] = field(default_factory=dict)
    outputs: tuple[OutputSpec, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Forward and backward of one call."""
        return sum(phase.timing.median for phase in self.phases.values())

    @property
    def launch(self) -> float:
        """How long one call, forward and backward, keeps the host busy; 0 where host and device are one."""
        return sum(phase.timing.launch or 0.0 for phase in self.phases.values())


@dataclass(frozen=True, slots=True)
class CaseTimed:
    """What was measured of a Case. ``against`` is None where there is nothing to hold it against."""

    case: Case
    target: SideProfile
    against: SideProfile | None = None
    ratios: Mapping[Phase, Ratio] = field(default_factory=dict)

    @property
    def lost(self) -> float:
        """Seconds that one call takes longer than on the other side, by the ratios, which bear noise better than the
        difference of two times does; 0 where one of the two did not return."""
        if self.against is None or not self.against.phases or not self.target.phases:
            return 0.0
        theirs = self.against.phases
        lost = sum(
            (ratio.value - 1.0) * (theirs[phase].timing.median + ratio.floor) for phase, ratio in self.ratios.items()
        )
        alone = [profile for phase, profile in self.target.phases.items() if phase not in self.ratios]
        return lost + sum(profile.timing.median for profile in alone)


@dataclass(frozen=True, slots=True)
class SpeedFinding:
    """What is said of one direction: of its ``time`` or its ``memory``."""

    what: str
    phase: Phase
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class CaseProfile:
    """A Case, measured and judged. ``accuracy`` is what a check says of the same Case, None where none was asked."""

    measured: CaseTimed
    verdict: Verdict
    reason: str
    findings: tuple[SpeedFinding, ...] = ()
    accuracy: Verdict | None = None
    accuracy_reason: str = ""

    @property
    def case(self) -> Case:
        return self.measured.case

    @property
    def total(self) -> float:
        """Seconds that all calls of the source which are this Case take on the target."""
        return self.case.count * self.measured.target.seconds

    @property
    def launches(self) -> float:
        """Seconds for which all these calls keep the host of the target busy."""
        return self.case.count * self.measured.target.launch

    @property
    def lost(self) -> float:
        """Seconds that all these calls take longer than on the other side."""
        return self.case.count * self.measured.lost


TIME_LIMIT = 1.2
MEMORY_LIMIT = 1.1


@dataclass(frozen=True, slots=True)
class Limits:
    """How many times as slow, and how many times as much memory, is still allowed."""

    time: float = TIME_LIMIT
    memory: float = MEMORY_LIMIT


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """The head of a profile: what was asked for and what the devices can do."""

    sources: tuple[str, ...]
    target: str
    against: str
    overrides: Mapping[str, str]
    limits: Limits
    seed: int
    threads: int
    created: str
    tool_version: str
    versions: Mapping[str, str]
    """Framework -> version."""
    calls: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    steps: int = 1
    """How many steps of how many ranks the calls are of; sums are divided by it."""
    step_seconds: float | None = None
    rooflines: Mapping[str, Roofline] = field(default_factory=dict)
    """Target -> what its device can do."""
    check: str = ""
    """Where the accuracy verdicts come from; empty where there are none."""


def totals(results: Sequence[CaseProfile], info: ProfileInfo) -> dict[str, float]:
    """Seconds of one step: forward, backward and launches of the target, and the same of the other side."""
    found = {"forward": 0.0, "backward": 0.0, "launch": 0.0, "against": 0.0, "against_launch": 0.0, "lost": 0.0}
    for result in results:
        share = result.case.count / max(info.steps, 1)
        for phase, profile in result.measured.target.phases.items():
            found[phase.value] += share * profile.timing.median
        found["launch"] += share * result.measured.target.launch
        found["lost"] += result.lost / max(info.steps, 1)
        if result.measured.against is not None:
            found["against"] += share * result.measured.against.seconds
            found["against_launch"] += share * result.measured.against.launch
    return {**found, "seconds": found["forward"] + found["backward"]}
