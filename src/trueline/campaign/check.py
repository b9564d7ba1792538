"""``check``: every call alone, on a Target, against a reference that can be trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trueline._version import __version__
from trueline.campaign.identity import framework_version, override_identity
from trueline.campaign.ledger import Ledger, read_check
from trueline.campaign.machine import default_memory, default_workers, worker_environment
from trueline.campaign.sources import Plan, Source, plan_of
from trueline.cases import Case, CaseMeasured, CaseResult, CheckInfo, Outcome, Status, Target
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.judge.checks import DEFAULT_CHECK_STANDARD, CheckStandard, check_standard_named, judge_case
from trueline.records import Verdict

DEFAULT_TIMEOUT = 120.0
MEASURE_JOBS = "trueline.replay.jobs:measuring"
"""What workers do; by name, so that this process needs no framework."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check, judged. ``folder`` is where it lies on disk, None where it was not kept."""

    info: CheckInfo
    results: Sequence[CaseResult]
    folder: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of all cases; NOT_COMPARED where there are none."""
        return max((result.verdict for result in self.results), default=Verdict.NOT_COMPARED)

    @property
    def counts(self) -> dict[str, int]:
        """How many cases have which verdict."""
        counts = {verdict.name: 0 for verdict in Verdict}
        for result in self.results:
            counts[result.verdict.name] += 1
        return counts

    @property
    def failures(self) -> list[CaseResult]:
        """The cases that are wrong, the worst first."""
        wrong = [result for result in self.results if result.verdict >= Verdict.FAIL]
        return sorted(wrong, key=lambda result: -result.verdict)


def check(
    source: Source | Sequence[Source] = (),
    *,
    target: str,
    reference: str | None = None,
    standard: str | CheckStandard = DEFAULT_CHECK_STANDARD,
    overrides: Mapping[str, str] | None = None,
    ops: str | Sequence[str] | None = None,
    seed: int = 0,
    workers: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    memory: float | None = None,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    save_failures: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """Executes every call of a source alone on a Target and judges its numbers.

        report = trueline.check("runs/a", target="torch:cuda/bfloat16")
        report.verdict, report.counts, report.failures

    ``source`` is the folder of a Run, a file of config lines or a pattern of such, or several; ``ops`` are patterns of
    operators for which cases are made without any capture. ``reference`` is what is trusted: by default the target's
    own framework on the CPU; one of another framework judges the calls that both have. ``overrides`` maps an API to
    ``module:function``, which is called in its place. Cases run in ``workers`` processes (default: one a core; 0: in
    this process, for debugging), each with ``timeout`` seconds and ``memory`` gigabytes. ``limit`` stops after so many
    cases. ``out`` keeps everything in a folder and goes on there where a check was stopped; ``save_failures`` also
    keeps inputs, outputs and a script for each failure.
    """
    request = request_of(target, reference, overrides, seed, source, ops)
    judge = check_standard_named(standard)
    if save_failures and out is None:
        raise UsageError("failures are kept in the folder of the check: give one with out=... (--out FOLDER)")
    plan = limited(request.plan, limit)
    settings = pool_settings(request.target, workers, timeout, memory)
    folder = None if out is None else Path(out)
    info = request.info(plan, judge.name)
    with Ledger(folder, request.identity) as ledger:
        ledger.plan(plan.cases)
        ledger.write_info(info)
        _execute(request, plan, ledger, settings, progress)
        results = [judged(case, measured, judge) for case, measured in ledger.rows()]
    report = CheckReport(info, results, folder)
    if save_failures and folder is not None:
        from trueline.campaign.failures import save_failures as save

        save(report, request.target, request.reference, judge, settings, progress)
    return report


def load_check(folder: str | os.PathLike[str], standard: str | CheckStandard | None = None) -> CheckReport:
    """A check that was kept, judged by its own standard or by another one. Executes nothing."""
    path = Path(folder)
    info, rows = read_check(path)
    judge = check_standard_named(info.standard if standard is None else standard)
    results = [judged(case, measured, judge) for case, measured in rows]
    return CheckReport(_with_standard(info, judge.name), results, path)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, understood."""

    target: Target
    reference: Target
    seed: int
    plan: Plan
    framework_version: str

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for results of an earlier run to count."""
        return {
            "target": str(self.target),
            "reference": str(self.reference),
            "seed": self.seed,
            "overrides": override_identity(self.target.overrides),
            "source": list(self.plan.identity),
            "framework version": self.framework_version,
            "version of trueline": __version__,
        }

    def info(self, plan: Plan, standard: str) -> CheckInfo:
        return CheckInfo(
            sources=plan.names,
            target=str(self.target),
            reference=str(self.reference),
            standard=standard,
            overrides=dict(self.target.overrides),
            seed=self.seed,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            tool_version=__version__,
            framework_version=self.framework_version,
            calls=plan.calls,
            skipped=dict(plan.skipped),
        )


def request_of(
    target: str,
    reference: str | None,
    overrides: Mapping[str, str] | None,
    seed: int,
    source: Source | Sequence[Source],
    ops: str | Sequence[str] | None,
) -> Request:
    """Understands what was asked for and gathers the cases."""
    candidate = Target.parse(target, overrides)
    trusted = Target.parse(reference or f"{candidate.framework}:cpu/float64")
    version = framework_version(candidate.framework)
    if trusted.framework != candidate.framework:
        version += f", reference {trusted.framework} {framework_version(trusted.framework)}"
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    patterns = [ops] if isinstance(ops, str) else list(ops or ())
    plan = plan_of(sources, patterns, seed, candidate)
    _check_overrides_are_used(candidate, plan)
    return Request(candidate, trusted, seed, plan, version)


def _check_overrides_are_used(target: Target, plan: Plan) -> None:
    """An override that replaces nothing would let everything pass."""
    if not target.overrides:
        return
    from trueline.replay.translated import api_on

    apis = {name for case in plan.cases for name in (case.api, api_on(case, target))}
    for api in target.overrides:
        if api not in apis:
            near = sorted(name for name in apis if name.rpartition(".")[2] == api.rpartition(".")[2])
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"the override of {api} replaces nothing: no case calls it{hint}")


def limited(plan: Plan, limit: int | None) -> Plan:
    """The first cases of a plan; the calls of the others are counted as left out."""
    if limit is None or limit >= len(plan.cases):
        return plan
    if limit < 1:
        raise UsageError(f"the limit must be at least 1 case, not {limit}")
    left_out = sum(case.count for case in plan.cases[limit:])
    skipped = {**plan.skipped, f"left out: only {limit} cases were asked for": left_out}
    return Plan(plan.cases[:limit], plan.calls, skipped, plan.names, plan.identity)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How cases are executed: see ``check``; ``memory`` in bytes."""

    workers: int
    timeout: float
    memory: int | None
    environment: Mapping[str, str]


def pool_settings(target: Target, workers: int | None, timeout: float, memory: float | None) -> PoolSettings:
    """What was given, and for the rest what suits this machine."""
    count = default_workers(target) if workers is None else workers
    if memory is not None and memory <= 0:
        raise UsageError(f"the memory must be more than 0 GB, not {memory}")
    allowed = default_memory(count) if memory is None else int(memory * 1e9)
    return PoolSettings(count, timeout, allowed, worker_environment(count))


def _execute(
    request: Request, plan: Plan, ledger: Ledger, settings: PoolSettings, progress: Progress | None
) -> None:
    """Executes the cases that are not finished."""
    finished = ledger.finished()
    waiting = [case for case in plan.cases if case.key not in finished]
    done = len(plan.cases) - len(waiting)
    for measured in execute_cases(waiting, request.target, request.reference, settings):
        ledger.record(measured)
        done += 1
        if progress is not None:
            progress("cases checked", done, len(plan.cases))


def execute_cases(
    cases: Sequence[Case], target: Target, reference: Target, settings: PoolSettings
) -> Iterator[CaseMeasured]:
    """Measures cases in worker processes; each is given back once, in the order in which they end."""
    if not cases:
        return
    from trueline.replay.pool import Done, Job, Pool
    from trueline.replay.serial import case_to_json, measured_from_json, target_to_json

    def measured_of(done: Done) -> CaseMeasured:
        if done.fault:
            fault = f"fault of the tool {_STAGES.get(done.stage, 'with it')}: {done.fault}"
            return CaseMeasured(done.key, Outcome(Status.RAISED, done.fault), skipped=fault)
        if done.outcome is not None:
            return _ended(done.key, done.outcome, done.stage)
        return measured_from_json({**done.answer, "key": done.key})

    setup = {"target": target_to_json(target), "reference": target_to_json(reference)}
    jobs = (Job(case.key, case_to_json(case)) for case in cases)
    with Pool(
        MEASURE_JOBS,
        setup,
        workers=min(settings.workers, len(cases)),
        timeout=settings.timeout,
        memory=settings.memory,
        environment=settings.environment,
    ) as pool:
        yield from (measured_of(done) for done in pool.run(jobs))


def _ended(key: str, outcome: Outcome, stage: str) -> CaseMeasured:
    """A case that ended its worker. What happens anywhere but in the candidate is no fault of the candidate."""
    if stage == "candidate":
        return CaseMeasured(key, outcome)
    where = _STAGES.get(stage, "when its inputs were made")
    return CaseMeasured(key, outcome, skipped=f"{outcome.status.value} {where}: {outcome.reason}")


_STAGES = {
    "honest": "in the reference",
    "gold": "in the reference, in high precision",
    "measure": "when its results were measured",
}


def judged(case: Case, measured: CaseMeasured | None, standard: CheckStandard) -> CaseResult:
    """A case with what a standard says of it; one that was not executed is not compared."""
    if measured is None:
        measured = CaseMeasured(case.key, Outcome(Status.UNSUPPORTED), skipped="not executed: the check was stopped")
    return judge_case(case, measured, standard)


def _with_standard(info: CheckInfo, standard: str) -> CheckInfo:
    from dataclasses import replace

    return replace(info, standard=standard)
