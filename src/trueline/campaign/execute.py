"""``execute``: every call of a source alone on a Target, its outputs and gradients kept as a Run.

Two such Runs, of two machines, are compared like any two Runs. The calls are in the order of the cases, so they match.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueline._version import __version__
from trueline.campaign.check import DEFAULT_REFERENCE, DEFAULT_TIMEOUT, limited, pool_settings, request_of
from trueline.campaign.run_writer import RunOfCases
from trueline.campaign.sources import Source
from trueline.cases import Case, Status
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.records import Certificate, RunInfo
from trueline.replay.serial import case_to_json, target_to_json
from trueline.store.columns import FORMAT_VERSION
from trueline.store.writer import RankWriter, write_run_info

if TYPE_CHECKING:
    from trueline.replay.pool import Done, Job

EXECUTE_JOBS = "trueline.replay.jobs:executing"


@dataclass(frozen=True, slots=True)
class ExecReport:
    """What was executed: the folder of the Run, how many cases ended how, and why those that did not return did not."""

    folder: Path
    target: str
    cases: int
    calls: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def returned(self) -> int:
        return self.outcomes.get(Status.RETURNED.value, 0)


def execute(
    source: Source | Sequence[Source] = (),
    *,
    target: str,
    out: str | os.PathLike[str],
    overrides: Mapping[str, str] | None = None,
    ops: str | Sequence[str] | None = None,
    seed: int = 0,
    workers: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    memory: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> ExecReport:
    """Executes the cases of a source on a Target and writes what they gave into the Run ``out``. Options as in
    ``check``."""
    from trueline.replay.pool import Pool

    request = request_of(target, DEFAULT_REFERENCE, overrides, seed, source, ops)
    plan = limited(request.plan, limit)
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists already; choose another path for this Run or remove the old one")
    settings = pool_settings(request.target, workers, timeout, memory)
    setup = {"target": target_to_json(request.target), "reference": target_to_json(request.reference)}
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix=".spool-", dir=folder) as spool:
        writer = RankWriter(folder, 0)
        run = RunOfCases(writer, Path(spool))
        with Pool(
            EXECUTE_JOBS,
            {**setup, "spool": spool},
            workers=max(min(settings.workers, len(plan.cases)), min(settings.workers, 1)),
            timeout=settings.timeout,
            memory=settings.memory,
            environment=settings.environment,
        ) as pool:
            ended = _in_order(pool.run(_jobs(plan.cases)), len(plan.cases))
            for number, (case, done) in enumerate(zip(plan.cases, ended, strict=True)):
                status, reason, tensors = _end_of(done)
                run.add(case, str(number), tensors, "" if status == Status.RETURNED.value else f"{status}: {reason}")
                outcomes[status] += 1
                if status != Status.RETURNED.value:
                    reasons[f"{status}: {reason}"] += 1
                if progress is not None:
                    progress("cases executed", number + 1, len(plan.cases))
        writer.drain()
        writer.close(asdict(Certificate(calls=dict(run.counts), tensors=run.tensors, bytes_stored=writer.bytes_stored)))
    if writer.failed:
        raise UsageError(f"{folder} could not be written: {writer.failed}")
    write_run_info(folder, _run_info(str(request.target), request.framework_version, seed, plan.names))
    return ExecReport(
        folder, str(request.target), len(plan.cases), plan.calls, dict(outcomes), dict(reasons), plan.skipped
    )


def _jobs(cases: Sequence[Case]) -> Iterator[Job]:
    from trueline.replay.pool import Job

    for number, case in enumerate(cases):
        yield Job(str(number), {"case": case_to_json(case), "name": str(number)})


def _in_order(ended: Iterator[Done], count: int) -> Iterator[Done]:
    """As they were given out, not as they ended."""
    early: dict[str, Done] = {}
    for number in range(count):
        while str(number) not in early:
            done = next(ended)
            early[done.key] = done
        yield early.pop(str(number))


def _end_of(done: Done) -> tuple[str, str, list[dict[str, Any]]]:
    if done.fault:
        return Status.UNSUPPORTED.value, f"fault of the tool: {done.fault}", []
    if done.outcome is not None:
        return done.outcome.status.value, done.outcome.reason, []
    return done.answer["status"], done.answer["reason"], done.answer["tensors"]


def _run_info(target: str, framework_version: str, seed: int, sources: Sequence[str]) -> RunInfo:
    return RunInfo(
        format_version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        framework=target.partition(":")[0],
        framework_version=framework_version,
        python=platform.python_version(),
        host=platform.node(),
        devices=(target.partition(":")[2].partition("/")[0],),
        command=tuple(sys.orig_argv),
        git_commit="",
        seed=seed,
        world_size=1,
        options={"data": "tensors", "level": "api", "target": target, "sources": list(sources)},
    )
