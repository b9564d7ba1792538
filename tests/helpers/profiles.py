"""Profiles made by hand, for tests of judging and of reports."""

from __future__ import annotations

from trueline.cases import Case, Outcome, Status, TensorSpec
from trueline.profiles import (
    CaseProfile,
    CaseTimed,
    Cost,
    Footprint,
    Limits,
    OutputSpec,
    PhaseProfile,
    ProfileInfo,
    Ratio,
    Roofline,
    SideProfile,
    Timing,
)
from trueline.records import Phase, Verdict


def timing(seconds: float, launch: float | None = None) -> Timing:
    return Timing(seconds, 0.9 * seconds, 1.1 * seconds, 0.8 * seconds, 50, 5000, launch)


def side(
    forward: float | None, backward: float | None = None, peak: int = 4096, launch: float | None = None
) -> SideProfile:
    """A side with these seconds; one that did not return where the forward has none."""
    if forward is None:
        return SideProfile(Outcome(Status.RAISED, "RuntimeError: no kernel"))
    phases = {
        phase: PhaseProfile(timing(seconds, launch), Footprint(peak, peak), Cost(100.0, 2000.0), 0.5, "memory")
        for phase, seconds in ((Phase.FORWARD, forward), (Phase.BACKWARD, backward))
        if seconds is not None
    }
    return SideProfile(Outcome(Status.RETURNED), phases, (OutputSpec("out", "float32", (4, 8)),))


def case(api: str = "torch.nn.functional.gelu", count: int = 3) -> Case:
    spec = TensorSpec("args.0", "float32", (4, 8), requires_grad=True)
    return Case(
        api, {"args": [{"$t": 0}], "kwargs": {}}, (spec,), backward=True, count=count, calls=(f"{api}.2.forward",),
        module="net.layers.0", source="train.py:7 in step",
    )  # fmt: skip


def timed(
    target: SideProfile, against: SideProfile | None, *ratios: Ratio, api: str = "torch.nn.functional.gelu"
) -> CaseTimed:
    return CaseTimed(case(api), target, against, dict(zip(Phase, ratios, strict=False)))


def result(
    measured: CaseTimed, verdict: Verdict = Verdict.PASS, accuracy: Verdict | None = None, reason: str = "fine"
) -> CaseProfile:
    return CaseProfile(measured, verdict, reason, (), accuracy, "" if accuracy is None else "within the limits")


def info(against: str = "torch:cpu", **more: object) -> ProfileInfo:
    content: dict[str, object] = {
        "sources": ("runs/a",), "target": "torch:cuda", "against": against, "overrides": {}, "limits": Limits(),
        "seed": 0, "threads": 2, "created": "2026-01-01T00:00:00+00:00", "tool_version": "0",
        "versions": {"torch": "2"}, "calls": 3, "rooflines": {"torch:cuda": Roofline({"float32": 5e10}, 2e10)}, **more,
    }  # fmt: skip
    return ProfileInfo(**content)  # type: ignore[arg-type]
