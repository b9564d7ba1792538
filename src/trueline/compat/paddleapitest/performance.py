"""The timing modes of engineV2: ``[Prof]`` lines, and a CSV, of ``trueline.profile``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from trueline.cases import Status
from trueline.compat.paddleapitest.log_folder import LogFolder, line_number
from trueline.profiles import CaseProfile, SideProfile
from trueline.records import Phase, Verdict

PERFORMANCE = ("paddle_gpu_performance", "torch_gpu_performance", "paddle_torch_gpu_performance")

_STATUSES = {
    Status.RETURNED: "pass",
    Status.RAISED: "paddle_error",
    Status.UNSUPPORTED: "paddle_error",
    Status.CRASHED: "crash",
    Status.TIMED_OUT: "timeout",
    Status.OUT_OF_MEMORY: "oom",
}


def time_configs(
    waiting: Sequence[str], batch: Path, log: LogFolder, paddle: str, torch: str, options: argparse.Namespace
) -> bool:
    """Times the configs of a batch; True where Paddle is slower than torch beyond what noise explains."""
    from trueline.campaign.profile import profile

    alone = torch if options.torch_gpu_performance else paddle
    report = profile(
        batch / "configs.txt",
        target=alone,
        against=torch if options.paddle_torch_gpu_performance else None,
        out=batch / "profile",
    )
    names = (alone.partition(":")[0], torch.partition(":")[0])
    for result in sorted(report.results, key=lambda one: line_number(one.case.calls[0])):
        config = waiting[line_number(result.case.calls[0]) - 1]
        log.say(f"[Prof] {config} {_times(result, names)}")
        outcome = result.measured.target.outcome
        log.ended(config, _STATUSES[outcome.status], outcome.reason)
    for config in [one for one in waiting if one not in log.done]:
        log.ended(config, "skip", "it cannot be executed alone")
    return report.verdict >= Verdict.FAIL


def _times(result: CaseProfile, names: Sequence[str]) -> str:
    sides = {names[0]: result.measured.target}
    if result.measured.against is not None:
        sides[names[1]] = result.measured.against
    said = [f"{name} {_side(side)}" for name, side in sides.items()]
    if len(sides) > 1 and result.measured.ratios:
        ratios = ", ".join(f"{phase.value} {one.value:.2f}" for phase, one in result.measured.ratios.items())
        said.append(f"{names[0]}/{names[1]} {ratios} ({result.verdict.name})")
    return "; ".join(said)


def _side(side: SideProfile) -> str:
    phases: Mapping[Phase, object] = side.phases
    if not phases:
        return f"{side.outcome.status.value}: {side.outcome.reason}"
    return ", ".join(f"{phase.value} {1e6 * one.timing.median:.3f} us" for phase, one in side.phases.items())
