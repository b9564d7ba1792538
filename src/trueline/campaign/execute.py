"""``execute``: every call of a source alone on a Target, its outputs and gradients kept as a Run.

Two such Runs, of two machines, are compared like any two Runs. The calls are in the order of the cases, so they match.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueline._version import __version__
from trueline.campaign.check import DEFAULT_TIMEOUT, PoolSettings, Request, limited, pool_settings, request_of
from trueline.campaign.run_writer import RunOfCases
from trueline.campaign.sources import Source
from trueline.cases import Case, Status, Target
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.records import Certificate, RunInfo
from trueline.replay.serial import case_to_json, target_to_json
from trueline.store.columns import FORMAT_VERSION
from trueline.store.writer import RankWriter, write_run_info

if TYPE_CHECKING:
    from trueline.replay.pool import Done, Job

EXECUTE_JOBS = "trueline.replay.jobs:executing"
SIMULATED = "simulated"
"""The context of a call in the Run whose dtype was simulated."""


@dataclass(frozen=True, slots=True)
class ExecReport:
    """What was executed: the folder of the Run, how many cases ended how, and why those that did not return did not.
    ``simulated`` counts those that returned and had no kernel in the dtype of the Target, by reason."""

    folder: Path
    target: str
    cases: int
    calls: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    simulated: Mapping[str, int] = field(default_factory=dict)
    inputs_rounded_to: str = ""

    @property
    def returned(self) -> int:
        return self.outcomes.get(Status.RETURNED.value, 0)


def execute_each(
    source: Source | Sequence[Source] = (),
    *,
    target: str,
    out: str | os.PathLike[str],
    inputs_rounded_to: str = "",
    **options: Any,
) -> list[ExecReport]:
    """``execute`` for every dtype of a Target, ``paddle:gpu/float32,bfloat16``: a Run for each, ``out/float32`` and
    ``out/bfloat16``. All are fed the same numbers: those that the coarsest of the dtypes has, unless another one is
    asked for. A Target with one dtype, or none, writes ``out`` itself."""
    place, _, dtypes = target.partition("/")
    wanted = [text.strip() for text in dtypes.split(",")]
    if len(wanted) == 1:
        return [execute(source, target=target, out=out, inputs_rounded_to=inputs_rounded_to, **options)]
    targets = [Target.parse(f"{place}/{text}") for text in wanted]
    if "" in wanted or len({one.dtype for one in targets}) < len(targets):
        raise UsageError(f"{target!r}: write each dtype once, for example {place}/float32,bfloat16")
    coarsest = min(targets, key=lambda one: dtype_named(one.dtype).digits).dtype
    rounded_to = inputs_rounded_to or coarsest
    return [
        execute(source, target=str(one), out=Path(out) / one.dtype, inputs_rounded_to=rounded_to, **options)
        for one in targets
    ]


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
    inputs_rounded_to: str = "",
    progress: Progress | None = None,
) -> ExecReport:
    """Executes the cases of a source on a Target and writes what they gave into the Run ``out``. Options as in
    ``check``; ``inputs_rounded_to`` is a dtype to which inputs are rounded before the Target rounds them to its own, so
    that Targets of several dtypes can be fed the same numbers."""
    if inputs_rounded_to and not dtype_named(inputs_rounded_to).is_float:
        raise UsageError(f"inputs cannot be rounded to {inputs_rounded_to}: it is not a floating-point type")
    request = request_of(target, None, overrides, seed, source, ops)
    plan = limited(request.plan, limit)
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists already; choose another path for this Run or remove the old one")
    settings = pool_settings(request.target, workers, timeout, memory)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spool-", dir=folder) as spool:
        writer = RankWriter(folder, 0)
        execution = _Execution(RunOfCases(writer, Path(spool)), request, settings, inputs_rounded_to, spool)
        try:
            execution.run(plan.cases, progress)
        except BaseException as error:
            _abandon(folder, writer, execution.certificate(0), error)
            raise
        writer.drain()
        writer.close(asdict(execution.certificate(writer.bytes_stored)))
    if writer.failed:
        raise UsageError(f"{folder} could not be written: {writer.failed}")
    write_run_info(folder, _run_info(request, inputs_rounded_to, plan.names))
    return ExecReport(
        folder, str(request.target), len(plan.cases), plan.calls, dict(execution.outcomes), dict(execution.reasons),
        plan.skipped, dict(execution.simulated), inputs_rounded_to,
    )  # fmt: skip


def _abandon(folder: Path, writer: RankWriter, certificate: Certificate, error: BaseException) -> None:
    """Ends a Run that was not finished. One in which nothing was executed is taken away, so that the same words can be
    tried again."""
    reason = f"{type(error).__name__}: {error}"
    writer.close(asdict(replace(certificate, complete=False, stopped_because=reason)))
    if not certificate.calls:
        shutil.rmtree(folder, ignore_errors=True)


class _Execution:
    """Cases executed one after the other into a Run, counted."""

    def __init__(
        self, run: RunOfCases, request: Request, settings: PoolSettings, inputs_rounded_to: str, spool: str
    ) -> None:
        self._run = run
        self._settings = settings
        self._setup = {
            "target": target_to_json(request.target),
            "reference": target_to_json(request.reference),
            "inputs_rounded_to": inputs_rounded_to,
            "spool": spool,
        }
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.simulated: Counter[str] = Counter()

    def run(self, cases: Sequence[Case], progress: Progress | None) -> None:
        from trueline.replay.pool import Pool

        settings = self._settings
        with Pool(
            EXECUTE_JOBS,
            self._setup,
            workers=max(min(settings.workers, len(cases)), min(settings.workers, 1)),
            timeout=settings.timeout,
            memory=settings.memory,
            environment=settings.environment,
        ) as pool:
            ended = _in_order(pool.run(_jobs(cases)), len(cases))
            for number, (case, done) in enumerate(zip(cases, ended, strict=True)):
                self._add(case, str(number), _end_of(done))
                if progress is not None:
                    progress("cases executed", number + 1, len(cases))

    def _add(self, case: Case, name: str, end: Mapping[str, Any]) -> None:
        status, simulated = end["status"], end.get("simulated", "")
        raised = "" if status == Status.RETURNED.value else f"{status}: {end['reason']}"
        self._run.add(case, name, end["tensors"], raised, SIMULATED if simulated else "")
        self.outcomes[status] += 1
        if raised:
            self.reasons[raised] += 1
        if simulated:
            self.simulated[simulated] += 1

    def certificate(self, stored: int) -> Certificate:
        return Certificate(calls=dict(self._run.counts), tensors=self._run.tensors, bytes_stored=stored)


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


def _end_of(done: Done) -> Mapping[str, Any]:
    if done.fault:
        return {"status": Status.UNSUPPORTED.value, "reason": f"fault of the tool: {done.fault}", "tensors": []}
    if done.outcome is not None:
        return {"status": done.outcome.status.value, "reason": done.outcome.reason, "tensors": []}
    answer: Mapping[str, Any] = done.answer
    return answer


def _run_info(request: Request, inputs_rounded_to: str, sources: Sequence[str]) -> RunInfo:
    target = request.target
    options = {"data": "tensors", "level": "api", "target": str(target), "sources": list(sources)}
    if target.simulated:
        options["simulated"] = f"calls without a kernel in {target.dtype} are computed in float32 and rounded"
    if inputs_rounded_to:
        options["inputs_rounded_to"] = inputs_rounded_to
    return RunInfo(
        format_version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        framework=target.framework,
        framework_version=request.framework_version,
        python=platform.python_version(),
        host=platform.node(),
        devices=(target.device,),
        command=tuple(sys.orig_argv),
        git_commit="",
        seed=request.seed,
        world_size=1,
        options=options,
    )
