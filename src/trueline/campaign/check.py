"""``check``: every call alone, on a Target, against a reference that can be trusted.

    sources -> plan in the ledger -> jobs, the longest first -> executor -> judged -> final rows -> report

Everything streams: of a million cases those in flight are in memory, and no others.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trueline._version import __version__
from trueline.campaign.endings import endings_named
from trueline.campaign.executors import EXECUTORS, PoolSettings, pool_settings
from trueline.campaign.identity import framework_version, override_identity
from trueline.campaign.ledger import PAGE, Ledger, read_info
from trueline.campaign.modes import ACCURACY, PERFORMANCE, TOLERANCE, Applied, Mode, apply_mode
from trueline.campaign.planning import (
    Asked,
    Planned,
    check_overrides_are_used,
    plan_into,
    refuse_unused_overrides,
)
from trueline.campaign.shelf import Shelf, judge_name, shelf_of
from trueline.campaign.sources import Part, Plan, Source, parts_of, plan_of
from trueline.campaign.variants import Wish
from trueline.campaign.work import Watch, work_off
from trueline.cases import INDEPENDENT, CaseResult, CheckInfo, Ending, Target
from trueline.errors import TruelineError, UsageError
from trueline.events import OnCase, Progress
from trueline.judge.checks import DEFAULT_CHECK_STANDARD, CheckStandard, check_standard_named, stored_check_standard
from trueline.records import Verdict
from trueline.report.check_summary import Summary, summary_of, wrong_of

DEFAULT_TIMEOUT = 120.0

__all__ = ["CheckReport", "PoolSettings", "check", "load_check", "pool_settings"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check, judged. ``results`` are read when they are looked at. ``folder`` is where it lies on disk, None where it
    was not kept."""

    info: CheckInfo
    results: Sequence[CaseResult]
    folder: Path | None = None

    @property
    def summary(self) -> Summary:
        """Everything that is counted."""
        return summary_of(self.results)

    @property
    def verdict(self) -> Verdict:
        """The worst of all cases; NOT_COMPARED where there are none."""
        return self.summary.verdict

    @property
    def counts(self) -> dict[str, int]:
        """How many cases have which verdict."""
        return {verdict.name: count for verdict, count in self.summary.verdicts.items()}

    @property
    def endings(self) -> dict[Ending, int]:
        """How the cases ended; what became no case is skipped. All of them add up."""
        found = self.summary.endings
        return {**found, Ending.SKIPPED: found[Ending.SKIPPED] + sum(self.info.skipped.values())}

    @property
    def failures(self) -> Sequence[CaseResult]:
        """The cases that are wrong, the worst first."""
        return wrong_of(self.results)


def check(
    source: Source | Sequence[Source] = (),
    *,
    target: str,
    reference: str | None = None,
    standard: str | CheckStandard = DEFAULT_CHECK_STANDARD,
    mode: str | Mode = ACCURACY,
    overrides: Mapping[str, str] | None = None,
    ops: str | Sequence[str] | None = None,
    seed: int = 0,
    draws: int = 1,
    variants: Sequence[str] = (),
    strided: bool = False,
    workers: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    memory: float | None = None,
    executor: str = EXECUTORS[0],
    address: str | None = None,
    places: Sequence[Mapping[str, str]] = (),
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    retry: str | Sequence[Ending] = (),
    save_failures: bool = False,
    progress: Progress | None = None,
    on_case: OnCase | None = None,
) -> CheckReport:
    """Executes every call of a source alone on a Target and judges its numbers.

        report = trueline.check("runs/a", target="torch:cuda/bfloat16")
        report.verdict, report.counts, report.failures

    ``source`` is the folder of a Run, a file of config lines or a pattern of such, or several; ``ops`` are patterns of
    operators for which cases are made without any capture. ``reference`` is what is trusted: by default the target's
    own framework on the CPU; one of another framework judges the calls that both have. ``mode`` is one of
    ``campaign.modes``. ``overrides`` maps an API to ``module:function``, which is called in its place.

    Beside each case there are, on request, other ``draws`` of its numbers, ``variants`` ("zero-size", "big", "dtypes")
    and the same with ``strided`` inputs. Cases run in ``workers`` processes (default: one a core; 0: in this process,
    for debugging), each with ``timeout`` seconds and ``memory`` gigabytes, or with ``executor="ray"`` on the cluster at
    ``address``. ``places`` are variables of the environment that one worker each has for itself, such as
    ``{"CUDA_VISIBLE_DEVICES": "1"}``. ``limit`` stops after so many cases. ``out`` keeps everything in a folder and
    goes on there where a check was stopped; ``retry`` takes cases back that ended in one of these endings
    ("crashed,timed_out", "all") and runs them again; ``save_failures`` also keeps inputs, outputs and a script for
    each failure. ``on_case`` is told of each case that ends.
    """
    asked = apply_mode(mode, target, reference, standard)
    if asked.mode.name == PERFORMANCE:
        raise UsageError("a check judges numbers; for times use trueline.profile")
    request = request_of(asked.target, asked.reference, overrides, seed, source, ops, mode=asked)
    judge = check_standard_named(asked.standard)
    if save_failures and out is None:
        raise UsageError("failures are kept in the folder of the check: give one with out=... (--out FOLDER)")
    if asked.mode.name == TOLERANCE and out is None:
        raise UsageError("tolerances are collected in a folder: give one with out=... (--out FOLDER)")
    again = endings_named(retry) if isinstance(retry, str) and retry else tuple(Ending(one) for one in retry)
    if again and out is None:
        raise UsageError("only a check that was kept has cases to retry: give its folder with out=... (--out FOLDER)")
    wish = Wish(draws, tuple(variants), strided)
    plan = Asked(request.parts, request.target, request.reference, wish, limit)
    settings = pool_settings(request.target, workers, timeout, memory, executor, address, places)
    folder = None if out is None else Path(out)
    try:
        with Ledger(folder, request.identity) as ledger:
            info = _begin(ledger, request, plan, judge, progress)
            if again:
                ledger.take_back(again)
            watch = Watch(ledger, progress, on_case)
            work_off(request.target, request.reference, asked, ledger, judge, settings, watch)
    except sqlite3.Error as error:
        raise TruelineError(f"the ledger of the check cannot be written{_at(folder)}: {error}") from error
    shelf = Shelf(folder, None if folder is not None else ledger.connection, judge, judged=True)
    report = CheckReport(info, shelf.results(), folder)
    if folder is not None:
        _conclude(report, asked, request, judge, settings, progress, save_failures=save_failures)
    return report


def _at(folder: Path | None) -> str:
    return "" if folder is None else f" in {folder}"


def load_check(folder: str | os.PathLike[str], standard: str | CheckStandard | None = None) -> CheckReport:
    """A check that was kept, judged by its own standard or by another one. Executes nothing, and imports no function
    by which it was judged unless ``standard`` names it."""
    path = Path(folder)
    info = read_info(path)
    judge = stored_check_standard(info.standard, path) if standard is None else check_standard_named(standard)
    return CheckReport(replace(info, standard=judge.name), shelf_of(path, judge).results(), path)


def _begin(
    ledger: Ledger, request: Request, plan: Asked, judge: CheckStandard, progress: Progress | None
) -> CheckInfo:
    """Plans, and has everything that ended before judged by the standard of now."""
    try:
        planned = plan_into(ledger, plan, progress)
        check_overrides_are_used(ledger, plan)
    except BaseException as error:
        if isinstance(error, UsageError):
            ledger.abandon()
        raise
    info = request.info(planned, plan, judge.name)
    ledger.write_info(info)
    name = judge_name(judge)
    if name is None or ledger.get("judge") != name:
        _judge_again(ledger, judge)
        ledger.put("judge", name)
        ledger.commit()
    return info


def _judge_again(ledger: Ledger, judge: CheckStandard) -> None:
    from trueline.campaign.shelf import read_row

    last = -1
    while rows := ledger.connection.execute(
        "SELECT number, count, case_json, measured_json FROM cases WHERE number > ? AND measured_json IS NOT NULL "
        "ORDER BY number LIMIT ?", (last, PAGE),
    ).fetchall():  # fmt: skip
        last = rows[-1][0]
        ledger.rewrite((row[0], read_row(row, judge)) for row in rows)


def _conclude(
    report: CheckReport, asked: Applied, request: Request, judge: CheckStandard, settings: PoolSettings,
    progress: Progress | None, *, save_failures: bool,
) -> None:  # fmt: skip
    """What is written beside the ledger of a check that has run."""
    assert report.folder is not None
    if asked.mode.name == TOLERANCE:
        from trueline.campaign.tolerances import write_tolerances

        write_tolerances(report.folder)
    if save_failures:
        from trueline.campaign.failures import save_failures as save

        save(report, request.target, request.reference, judge, settings, progress)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, understood."""

    target: Target
    reference: Target
    seed: int
    parts: Sequence[Part]
    framework_version: str
    mode: Mode

    @property
    def plan(self) -> Plan:
        """All cases at once, for whoever can hold them."""
        plan = plan_of(self.parts)
        refuse_unused_overrides(plan.cases, self.target)
        return plan

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for results of an earlier run to count."""
        return {
            "target": str(self.target),
            "reference": str(self.reference),
            "seed": self.seed,
            "overrides": override_identity(self.target.overrides),
            "source": [part.identity for part in self.parts],
            "mode": str(self.mode),
            "framework version": self.framework_version,
            "version of trueline": __version__,
        }

    def info(self, planned: Planned, asked: Asked, standard: str) -> CheckInfo:
        return CheckInfo(
            sources=tuple(part.name for part in self.parts),
            target=str(self.target),
            reference=str(self.reference),
            standard=standard,
            overrides=dict(self.target.overrides),
            seed=self.seed,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            tool_version=__version__,
            framework_version=self.framework_version,
            calls=planned.calls,
            skipped=dict(planned.skipped),
            mode=str(self.mode),
            passed=self.mode.passed,
            draws=asked.wish.draws,
            variants=asked.wish.variants,
            strided=asked.wish.strided,
        )


def request_of(
    target: str,
    reference: str | None,
    overrides: Mapping[str, str] | None,
    seed: int,
    source: Source | Sequence[Source],
    ops: str | Sequence[str] | None,
    *,
    mode: Applied | None = None,
) -> Request:
    """Understands what was asked for and finds the sources."""
    candidate = Target.parse(target, overrides)
    if candidate.how == INDEPENDENT:
        raise UsageError(f"{target} cannot be a target: +{INDEPENDENT} is said of a reference")
    trusted = Target.parse(reference or _trusted_by_default(candidate))
    version = framework_version(candidate.framework)
    if trusted.framework != candidate.framework:
        version += f", reference {trusted.framework} {framework_version(trusted.framework)}"
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    patterns = [ops] if isinstance(ops, str) else list(ops or ())
    parts = parts_of(sources, patterns, seed, candidate)
    return Request(candidate, trusted, seed, parts, version, Mode(ACCURACY) if mode is None else mode.mode)


def _trusted_by_default(candidate: Target) -> str:
    """The target's own framework on the CPU; where the candidate runs there too, by other kernels than its own."""
    alone = f"{candidate.framework}:cpu/float64"
    shared = (candidate.framework, candidate.device) == ("torch", "cpu") and not candidate.how
    return f"{alone}+{INDEPENDENT}" if shared else alone


def limited(plan: Plan, limit: int | None) -> Plan:
    """The first cases of a plan; the calls of the others are counted as left out."""
    if limit is None or limit >= len(plan.cases):
        return plan
    if limit < 1:
        raise UsageError(f"the limit must be at least 1 case, not {limit}")
    left_out = sum(case.count for case in plan.cases[limit:])
    skipped = {**plan.skipped, f"left out: only {limit} cases were asked for": left_out}
    return Plan(plan.cases[:limit], plan.calls, skipped, plan.names)
