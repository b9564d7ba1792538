"""``profile``: how long every call of a source takes on a Target, and how much memory, held against another Target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from trueline._version import __version__
from trueline.campaign.check import DEFAULT_TIMEOUT, check, limited, load_check, request_of
from trueline.campaign.identity import framework_version
from trueline.campaign.machine import cores, default_memory
from trueline.campaign.sources import Plan, Source
from trueline.cases import Case, CaseResult, Target
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.judge.speed import judge_speed
from trueline.ops.costs import cost_of, working_dtype
from trueline.profiles import (
    MEMORY_LIMIT,
    TIME_LIMIT,
    CaseProfile,
    CaseTimed,
    Limits,
    PhaseProfile,
    ProfileInfo,
    Roofline,
    SideProfile,
    totals,
)
from trueline.records import Verdict
from trueline.replay.timing_rounds import Pace, Side, time_case

DEFAULT_BUDGET = 1.0
CSV_FILE, JSON_FILE = "profile.csv", "profile.json"


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """A profile, judged; the cases are those that lost most time first."""

    info: ProfileInfo
    results: Sequence[CaseProfile]

    @property
    def verdict(self) -> Verdict:
        """The worst of all cases; a case that a check found wrong counts as well. NOT_COMPARED where there are none."""
        verdicts = [result.verdict for result in self.results]
        verdicts += [one.accuracy for one in self.results if one.accuracy is not None and one.accuracy >= Verdict.FAIL]
        return max(verdicts, default=Verdict.NOT_COMPARED)

    @property
    def counts(self) -> dict[str, int]:
        """How many cases have which verdict."""
        return {verdict.name: sum(one.verdict is verdict for one in self.results) for verdict in Verdict}

    @property
    def findings(self) -> list[CaseProfile]:
        """The cases that are slower or larger than allowed, the most lost time first."""
        return [result for result in self.results if result.verdict >= Verdict.FAIL]

    @property
    def timed(self) -> int:
        """How many cases returned on the target and were timed."""
        return sum(bool(result.measured.target.phases) for result in self.results)

    @property
    def totals(self) -> dict[str, float]:
        """Seconds of one step: forward, backward, launches; the same of the other side; what was lost."""
        return totals(self.results, self.info)


def profile(
    source: Source | Sequence[Source] = (),
    *,
    target: str,
    against: str | None = None,
    limit_time: float = TIME_LIMIT,
    limit_memory: float = MEMORY_LIMIT,
    overrides: Mapping[str, str] | None = None,
    ops: str | Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    budget: float = DEFAULT_BUDGET,
    timeout: float = DEFAULT_TIMEOUT,
    memory: float | None = None,
    limit: int | None = None,
    step_seconds: float | None = None,
    check_folder: Source | None = None,
    with_check: bool = False,
    out: Source | None = None,
    progress: Progress | None = None,
) -> ProfileReport:
    """Times every call of a source on a Target, forward and backward, and counts its memory.

        report = trueline.profile("runs/a", target="torch:cuda", against="torch:cuda", overrides={...})
        report.verdict, report.findings, report.totals

    ``against`` is the Target to hold it against; without one there are times and no verdicts. ``overrides`` apply to
    the target alone. A case fails that is, noise aside, more than ``limit_time`` times as slow or takes more than
    ``limit_memory`` times as much memory. ``threads`` are those of each worker (default: all cores), ``budget`` the
    seconds after which a case that will not hold still is left. ``step_seconds`` is how long the step takes by itself,
    to say how much of it the sum of its calls explains. ``check_folder`` joins the verdicts of a check that was kept;
    ``with_check`` runs one. ``out`` is a new folder for ``profile.csv``, in which every case stands as soon as it was
    timed, and ``profile.json``. Other options as in ``check``.
    """
    limits = _limits(limit_time, limit_memory, budget, threads)
    request = request_of(target, None, overrides, seed, source, ops)
    targets = [request.target, *([] if against is None else [Target.parse(against)])]
    _check_targets(targets)
    plan = limited(request.plan, limit)
    accuracy = _accuracy(source, target, overrides, ops, seed, limit, check_folder, with_check, progress)
    used = threads or cores()
    allowed = default_memory(len(targets)) if memory is None else int(memory * 1e9)
    results = []
    with _kept(out) as kept, _sides(targets, used, timeout, allowed) as sides:
        rooflines = _rooflines(plan.cases, sides)
        pace = Pace(budget=budget, limit=limits.time)
        for number, case in enumerate(plan.cases):
            measured = _with_costs(time_case(case, sides, pace), targets, rooflines)
            results.append(_judged(measured, limits, accuracy))
            kept(results[-1])
            if progress is not None:
                progress("cases timed", number + 1, len(plan.cases))
    info = replace(
        _info(plan, targets, rooflines),
        limits=limits,
        seed=seed,
        threads=used,
        steps=_steps(source),
        step_seconds=step_seconds,
        check=str(check_folder) if check_folder is not None else "checked along with it" if with_check else "",
    )
    report = ProfileReport(info, sorted(results, key=lambda one: -(one.total if against is None else one.lost)))
    if out is not None:
        _keep_whole(report, Path(out))
    return report


@contextmanager
def _kept(out: Source | None) -> Iterator[Callable[[CaseProfile], object]]:
    """What writes down a case that was timed."""
    if out is None:
        yield lambda result: None
        return
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already; choose another folder for this profile or remove the old one")
    from trueline.report.profile_csv import ProfileTable

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / CSV_FILE, "w", encoding="utf-8", newline="") as stream:
        yield ProfileTable(stream).add


def _keep_whole(report: ProfileReport, folder: Path) -> None:
    from trueline.report.profile_json import write_profile_json

    with open(folder / JSON_FILE, "w", encoding="utf-8") as stream:
        write_profile_json(report.info, report.results, report.verdict, stream)


def _info(plan: Plan, targets: Sequence[Target], rooflines: Sequence[Roofline]) -> ProfileInfo:
    return ProfileInfo(
        sources=plan.names,
        target=str(targets[0]),
        against=str(targets[1]) if len(targets) > 1 else "",
        overrides=dict(targets[0].overrides),
        limits=Limits(),
        seed=0,
        threads=1,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tool_version=__version__,
        versions={one.framework: framework_version(one.framework) for one in targets},
        calls=plan.calls,
        skipped=dict(plan.skipped),
        rooflines={str(one): line for one, line in zip(targets, rooflines, strict=True)},
    )


def _check_targets(targets: Sequence[Target]) -> None:
    for one in targets:
        if one.simulated:
            raise UsageError(f"{one} computes in float32 what it rounds: its times are those of no {one.dtype} kernel")
        if one.how:
            raise UsageError(f"{one} cannot be timed: times are those of eager calls, without +{one.how}")


def _limits(time: float, memory: float, budget: float, threads: int | None) -> Limits:
    for name, value in (("time", time), ("memory", memory)):
        if value < 1:
            raise UsageError(f"the limit of {name} must be at least 1 (as much as the other side), not {value:g}")
    if budget <= 0:
        raise UsageError(f"the budget of a case must be more than 0 seconds, not {budget:g}")
    if threads is not None and threads < 1:
        raise UsageError(f"there must be at least 1 thread, not {threads}")
    return Limits(time, memory)


@contextmanager
def _sides(targets: Sequence[Target], threads: int, timeout: float, memory: int | None) -> Iterator[list[Side]]:
    """A worker for each Target; started when they are first asked."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {name: str(threads) for name in names}
    sides = [Side(targets, which, environment, timeout, memory) for which in range(len(targets))]
    try:
        yield sides
    finally:
        for side in sides:
            side.close()


def _rooflines(cases: Sequence[Case], sides: Sequence[Side]) -> list[Roofline]:
    """Of every device once, however many Targets are on it."""
    found: dict[str, Roofline] = {}
    for side in sides:
        place = f"{side.target.framework}:{side.target.device}"
        if place not in found:
            dtypes = {side.target.dtype} if side.target.dtype else {working_dtype(case, ()) for case in cases}
            found[place] = side.roofline(dtypes - {""})
    return [found[f"{side.target.framework}:{side.target.device}"] for side in sides]


def _with_costs(measured: CaseTimed, targets: Sequence[Target], rooflines: Sequence[Roofline]) -> CaseTimed:
    sides = [measured.target, *([] if measured.against is None else [measured.against])]
    costed = [
        _costed(_as_executed(measured.case, target), side, line)
        for side, target, line in zip(sides, targets, rooflines, strict=False)
    ]
    return replace(measured, target=costed[0], against=costed[1] if len(costed) > 1 else None)


def _as_executed(case: Case, target: Target) -> Case:
    """The Case in the dtype of the Target."""
    if not target.dtype:
        return case
    tensors = tuple(
        replace(spec, dtype=target.dtype) if dtype_named(spec.dtype).is_float else spec for spec in case.tensors
    )
    return replace(case, tensors=tensors)


def _costed(case: Case, side: SideProfile, line: Roofline) -> SideProfile:
    peak = line.flops.get(working_dtype(case, side.outputs), 0.0)
    phases = {}
    for phase, found in side.phases.items():
        cost = cost_of(case, side.outputs, phase)
        arithmetic = cost.flops / peak if cost.flops is not None and peak else 0.0
        memory = cost.bytes / line.bandwidth if cost.bytes is not None and line.bandwidth else 0.0
        phases[phase] = _placed(replace(found, cost=cost), arithmetic, memory)
    return replace(side, phases=phases)


def _placed(found: PhaseProfile, arithmetic: float, memory: float) -> PhaseProfile:
    """Under the roofline: the least time that the device needs for it over the time that it took."""
    least = max(arithmetic, memory)
    if not least or not found.timing.median:
        return found
    return replace(found, share=least / found.timing.median, bound="arithmetic" if arithmetic > memory else "memory")


def _judged(measured: CaseTimed, limits: Limits, accuracy: Mapping[str, CaseResult] | None) -> CaseProfile:
    verdict, reason, findings = judge_speed(measured, limits)
    if accuracy is None:
        return CaseProfile(measured, verdict, reason, findings)
    known = accuracy.get(measured.case.key)
    if known is None:
        return CaseProfile(measured, verdict, reason, findings, Verdict.NOT_COMPARED, "the check has no such case")
    return CaseProfile(measured, verdict, reason, findings, known.verdict, known.reason)


def _accuracy(
    source: Source | Sequence[Source],
    target: str,
    overrides: Mapping[str, str] | None,
    ops: str | Sequence[str] | None,
    seed: int,
    limit: int | None,
    folder: Source | None,
    with_check: bool,
    progress: Progress | None,
) -> dict[str, CaseResult] | None:
    """What a check says, by the key of the case."""
    if folder is not None and with_check:
        raise UsageError("either a check that was kept or a new one, not both")
    if folder is not None:
        report = load_check(folder)
        if report.info.target != str(Target.parse(target)):
            raise UsageError(f"{folder} is a check of {report.info.target}, not of {target}")
    elif with_check:
        report = check(source, target=target, overrides=overrides, ops=ops, seed=seed, limit=limit, progress=progress)
    else:
        return None
    return {result.case.key: result for result in report.results}


def _steps(source: Source | Sequence[Source]) -> int:
    """How many steps the Runs hold, those of every rank counted; 1 where there is no Run."""
    from trueline.store import open_run

    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    count = 0
    for place in map(Path, sources):
        if not place.is_dir():
            continue  # config lines, of no step
        with open_run(place) as run:
            count += sum(len(run.rank(rank).steps) for rank in run.ranks)
    return max(count, 1)
