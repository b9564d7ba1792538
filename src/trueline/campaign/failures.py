"""Keeps what is needed to see a failure again: inputs, outputs, and a script, shrunk to the smallest case that fails.

    failures/<key>/inputs.safetensors     what the call was given, gradients that arrived among it
    failures/<key>/outputs.safetensors    what it gave, with the honest outputs and the gold
    failures/<key>/repro.py               shows it again with plain torch or paddle, or both (and repro.safetensors,
                                          where it needs that)
    failures/<key>/failure.json           what is known of it, and whether the script was seen to show it

Each script is run once, in a process of its own, before anybody is told of it.
"""

from __future__ import annotations

import base64
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.campaign.executors import may_be_warm
from trueline.campaign.identity import override_place
from trueline.campaign.shrink import MOST_ATTEMPTS, MOST_SECONDS, Shrunk, elements, shrink
from trueline.cases import Case, CaseMeasured, CaseResult, Evidence, Outcome, Status, Target, TensorFinding
from trueline.dtypes import dtype_named
from trueline.events import Progress
from trueline.judge.checks import CheckStandard, judge_case
from trueline.numerics import widen
from trueline.ops.mapping.translate import framework_of, translate
from trueline.records import Verdict
from trueline.replay.reduce import Reduction
from trueline.replay.serial import case_to_json, measured_from_json, plain, target_to_json
from trueline.replay.translated import is_foreign
from trueline.report.kept_scripts import KEPT_FILE, SCRIPT_FILE, SCRIPT_SUM, script_sum
from trueline.report.repro import Repro, ReproTensor, repro_script
from trueline.report.repro_frameworks import Side
from trueline.report.repro_source import NotWritable
from trueline.store.seal import sealed_text
from trueline.tree import tensor_paths

if TYPE_CHECKING:
    from trueline.campaign.check import CheckReport, PoolSettings
    from trueline.replay.pool import Done, Pool

FAILURES_FOLDER = "failures"
MOST_SAVED = 50
SAVE_JOBS = "trueline.replay.jobs:saving"
DESCRIBE_JOBS = "trueline.replay.opinions:describing"
"""For what has no counterpart in the reference, and cannot be executed either."""
_DYING = (Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY)
_PATIENCE = 5.0
"""Seconds that a smaller form of a case which hangs is given."""
_SCRIPT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SavedFailure:
    """A failure that was kept. ``reproduced`` tells whether its script was seen to show it; ``elements`` how many are
    left in it of the ``elements_before``."""

    key: str
    folder: Path
    reproduced: bool
    lines: int
    elements: int
    elements_before: int
    note: str = ""


def save_failures(
    report: CheckReport,
    target: Target,
    reference: Target,
    standard: CheckStandard,
    settings: PoolSettings,
    progress: Progress | None = None,
    *,
    seconds: float = MOST_SECONDS,
) -> list[SavedFailure]:
    """Keeps the failures of a check that are not kept yet, at most ``MOST_SAVED``, of every API some. Each may be
    shrunk for so many seconds."""
    assert report.folder is not None
    chosen = _chosen(report.failures)
    waiting = [result for result in chosen if not (_folder(report.folder, result) / KEPT_FILE).exists()]
    if not waiting:
        return []
    saved = []
    with saving_pool(target, reference, settings) as pool:
        for number, result in enumerate(waiting):
            folder = _folder(report.folder, result)
            saved.append(save_failure(result, (target, reference), standard, settings, pool, folder, seconds))
            if progress is not None:
                progress("failures kept", number + 1, len(waiting))
    return saved


def save_failure(
    result: CaseResult,
    targets: tuple[Target, Target],
    standard: CheckStandard,
    settings: PoolSettings,
    pool: Pool,
    folder: Path,
    seconds: float = MOST_SECONDS,
) -> SavedFailure:
    """Keeps one failure in a folder, by a pool that does ``SAVE_JOBS`` for target and reference."""
    return _Saver(result, targets, standard, settings, pool, folder).save(seconds)


def saving_pool(target: Target, reference: Target, settings: PoolSettings, jobs: str = SAVE_JOBS) -> Pool:
    """A worker that does what is done with failures."""
    from trueline.replay.pool import Pool

    setup = {"target": target_to_json(target), "reference": target_to_json(reference)}
    return Pool(
        jobs, setup, workers=1, timeout=settings.timeout, memory=settings.memory, environment=settings.environment,
        warm=may_be_warm(setup),
    )  # fmt: skip


def _chosen(failures: Sequence[CaseResult]) -> list[CaseResult]:
    """At most ``MOST_SAVED``: first one of each API, then a second one, and so on."""
    seen: dict[str, int] = {}
    ranked = []
    for position, result in enumerate(failures):
        turn = seen.get(result.case.api, 0)
        seen[result.case.api] = turn + 1
        ranked.append((turn, position, result))
    return [result for _, _, result in sorted(ranked, key=lambda item: item[:2])[:MOST_SAVED]]


def _folder(check: Path, result: CaseResult) -> Path:
    return check / FAILURES_FOLDER / result.case.key


class _Saver:
    """Keeps one failure."""

    def __init__(
        self,
        result: CaseResult,
        targets: tuple[Target, Target],
        standard: CheckStandard,
        settings: PoolSettings,
        pool: Pool,
        folder: Path,
    ) -> None:
        self._result = result
        self._case = result.case
        self._target, self._reference = targets
        self._standard = standard
        self._settings = settings
        self._pool = pool
        self._folder = folder

    def save(self, seconds: float) -> SavedFailure:
        self._folder.mkdir(parents=True, exist_ok=True)
        dying = self._result.measured.candidate.status in _DYING
        self._ask("keep", None)
        self._pool.timeout = min(self._settings.timeout, _PATIENCE) if dying else self._settings.timeout
        try:
            saved = self._write_script(seconds)
        finally:
            self._pool.timeout = self._settings.timeout
        content = {**_description(self._result), "reproduced": saved.reproduced, "note": saved.note,
                   "elements": saved.elements, "elements_before": saved.elements_before}  # fmt: skip
        script = self._folder / SCRIPT_FILE
        content[SCRIPT_SUM] = script_sum(script.read_bytes()) if script.exists() else ""
        (self._folder / KEPT_FILE).write_text(sealed_text(content), encoding="utf-8")
        return saved

    def _write_script(self, seconds: float) -> SavedFailure:
        """The script of the smallest case that fails; where that one does not show it, that of the whole case."""
        shrunk = shrink(self._result, self._attempt, seconds=seconds, attempts=MOST_ATTEMPTS if seconds > 0 else 0)
        whole = Shrunk(Reduction(self._case.arguments), self._result, 0)
        note = ""
        for choice in (shrunk, whole):
            try:
                text = repro_script(self._repro(choice))
            except (NotWritable, LookupError) as error:
                note = f"no script: {error}"
                continue
            (self._folder / SCRIPT_FILE).write_text(text, encoding="utf-8")
            reproduced, note = _shows_it(self._folder / SCRIPT_FILE)
            if reproduced or choice.reduction == whole.reduction:
                break
        else:
            reproduced, text, choice = False, "", whole
        before = elements(self._case, whole.reduction)
        lines = text.count("\n")
        return SavedFailure(
            self._case.key, self._folder, reproduced, lines, elements(self._case, choice.reduction), before, note
        )

    def _attempt(self, reduction: Reduction) -> CaseResult | None:
        """What is left of the case, executed and judged; None where it does not fail in the same way."""
        done = self._ask("measure", reduction)
        if done.outcome is not None and done.stage == "candidate":
            measured = CaseMeasured(self._case.key, done.outcome, Outcome(Status.RETURNED))
        elif done.answer is not None and "measured" in done.answer:
            measured = measured_from_json(done.answer["measured"])
        else:
            return None
        if measured.reference is None or measured.reference.status is not Status.RETURNED:
            return None
        left = judge_case(replace(self._case, arguments=reduction.arguments), measured, self._standard)
        return left if _same_kind(self._result, left) else None

    def _ask(self, job: str, reduction: Reduction | None) -> Done:
        from trueline.replay.pool import Job

        content = None if reduction is None else reduction.as_json()
        payload = {
            "job": job,
            "case": case_to_json(self._case),
            "reduction": content,
            "folder": str(self._folder),
            "execute": self._result.measured.candidate.status not in _DYING,
        }
        (done,) = self._pool.run([Job(self._case.key, payload)])
        return done

    def _repro(self, shrunk: Shrunk) -> Repro:
        done = self._ask("describe", shrunk.reduction)
        if done.answer is None:
            raise LookupError(done.fault or "its inputs could not be described")
        result = shrunk.result
        outcome = result.measured.candidate
        finding = _worst(result)
        evidence = finding.evidence if finding is not None else None
        returned = outcome.status is Status.RETURNED
        gradient = returned and evidence is not None and evidence.part == "gradient"
        backward = self._case.backward and (gradient or not returned)
        names = [f"x{number}" for number in range(len(done.answer["tensors"]))]
        candidate, truth = self._sides(replace(self._case, arguments=shrunk.reduction.arguments))
        replaced = self._case.api if candidate is None else candidate.api
        override = self._target.overrides.get(replaced)
        return Repro(
            api=self._case.api,
            arguments=shrunk.reduction.arguments,
            tensors=[_tensor(name, one, one["path"]) for name, one in zip(names, done.answer["tensors"], strict=True)],
            gradients=[
                _tensor(f"g{number}", one, f"gradient {one['path']}")
                for number, one in enumerate(done.answer["gradients"])
                if backward
            ],
            device=self._target.device,
            title=_title(self._case, self._target, evidence if returned else None, outcome),
            reason=finding.reason if returned and finding is not None else result.reason,
            override=None if override is None else override_place(replaced, override),
            autocast="" if self._target.dtype or self._target.autocast else self._case.autocast,
            seed=self._case.seed & (2**63 - 1),
            backward=backward,
            part=evidence.part if returned and evidence is not None else "output",
            path=evidence.path.partition(":")[0] if returned and evidence is not None else "out",
            error=_error(evidence) if returned else 0.0,
            exact=bool(evidence is not None and evidence.exact),
            structure=evidence.structure if evidence is not None else "",
            free=evidence is not None and ":" in evidence.path,
            status=outcome.status,
            limit=float(self._settings.memory or 0) if outcome.status is Status.OUT_OF_MEMORY else self._pool.timeout,
            candidate=candidate,
            truth=truth,
            how=self._target.how,
        )

    def _sides(self, case: Case) -> tuple[Side, Side] | tuple[None, None]:
        """The call as candidate and reference make it; nothing where torch is all there is."""
        frameworks = {framework_of(case.api), self._target.framework, self._reference.framework}
        if frameworks == {"torch"}:
            return None, None
        return _side(case, self._target), _side(case, replace(self._reference, overrides={}))


def _side(case: Case, target: Target) -> Side:
    if not is_foreign(case, target) or case.api in target.overrides:
        paths = {path: path for _, path in tensor_paths(case.arguments)}
        return Side(target.framework, case.api, case.arguments, target.device, paths)
    found = translate(case, target.framework)
    return Side(target.framework, found.case.api, found.case.arguments, target.device, found.paths)


def _same_kind(before: CaseResult, after: CaseResult) -> bool:
    """Whether a smaller case fails as the whole one does."""
    if after.verdict < Verdict.FAIL or before.measured.candidate.status is not after.measured.candidate.status:
        return False
    first, second = _worst(before), _worst(after)
    if first is None or second is None:
        return first is second
    return bool(first.evidence.structure) == bool(second.evidence.structure)


def _worst(result: CaseResult) -> TensorFinding | None:
    """The tensor that is most wrong, outputs before gradients: a wrong output makes wrong gradients."""
    wrong = [finding for finding in result.findings if finding.verdict >= Verdict.FAIL]
    outputs = [finding for finding in wrong if finding.evidence.part == "output"]
    return max(outputs or wrong, key=lambda finding: finding.score or 0.0, default=None)


def _error(evidence: Evidence | None) -> float:
    """The largest error that was seen in a tensor."""
    measurement = None if evidence is None else evidence.gold or evidence.direct
    if measurement is None:
        return 0.0
    if measurement.nan_mismatch or measurement.infinity_mismatch:
        return math.inf
    return measurement.max_abs


def _tensor(name: str, content: Mapping[str, Any], saved: str) -> ReproTensor:
    shape = tuple(content["shape"])
    kind = dtype_named(content["dtype"])
    values = None
    if content["bits"] is not None:
        bits = np.frombuffer(base64.b64decode(content["bits"]), dtype=np.dtype(kind.storage)).reshape(shape)
        values = bits if kind.is_exact else widen(bits, kind).reshape(shape)
        if kind.is_float and kind.itemsize <= 4:
            values = values.astype(np.float32)
    strides = content.get("strides")
    return ReproTensor(
        name=name,
        path=content["path"],
        dtype=kind.name,
        shape=shape,
        strides=None if strides is None else tuple(strides),
        requires_grad=content.get("requires_grad", False),
        values=values,
        drawn=None if content["drawn"] is None else tuple(content["drawn"]),
        saved=saved,
    )


def _title(case: Case, target: Target, evidence: Evidence | None, outcome: Outcome) -> str:
    stand_in = f" with {target.overrides[case.api]} in its place" if case.api in target.overrides else ""
    if evidence is None:
        return f"{case.api} on {target}{stand_in}: {outcome.status.value}."
    what = f"the gradient of {evidence.path}" if evidence.part == "gradient" else evidence.path
    return f"{case.api} on {target}{stand_in}: {what} is wrong."


def _description(result: CaseResult) -> dict[str, Any]:
    finding = _worst(result)
    content: dict[str, Any] = {
        "key": result.case.key,
        "api": result.case.api,
        "calls": list(result.case.calls),
        "verdict": result.verdict.name,
        "reason": result.reason,
        "outcome": result.measured.candidate.status.value,
    }
    measurement = None if finding is None else finding.evidence.gold or finding.evidence.direct
    if finding is not None and measurement is not None:
        evidence = finding.evidence
        place = np.unravel_index(measurement.worst, evidence.shape) if evidence.shape and measurement.count else ()
        content["worst"] = {
            "part": evidence.part,
            "path": evidence.path,
            "element": [int(index) for index in place],
            "expected": plain(measurement.worst_reference),
            "actual": plain(measurement.worst_candidate),
        }
    return content


def _shows_it(script: Path) -> tuple[bool, str]:
    """Runs a script in a process of its own; tells whether it shows the failure, and if not what it said."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if "from trueline." in script.read_text(encoding="utf-8"):
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    try:
        ended = subprocess.run(
            [sys.executable, script.name],
            cwd=script.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SCRIPT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"the script did not end within {_SCRIPT_SECONDS:g} s"
    if ended.returncode == 1 and "Traceback" not in ended.stderr:
        return True, ""
    words = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return False, f"the script ended with {ended.returncode}: {words[-1][:200] if words else 'without a word'}"
