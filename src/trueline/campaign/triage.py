"""``triage``: the failures of a check that was kept, grouped by likely cause, each group labelled by second opinions.

    DIR/groups.json, groups.md          all groups
    DIR/groups/01-stanh-float64/        one group: group.json; repro.py shows it again (see ``failures``)

Cases are read one after the other; of each group a few are kept, so that a million cases need no more memory than their
groups do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueline.campaign.check import DEFAULT_TIMEOUT
from trueline.campaign.executors import PoolSettings, pool_settings
from trueline.campaign.failures import DESCRIBE_JOBS, SAVE_JOBS, save_failure, saving_pool
from trueline.campaign.ledger import read_info
from trueline.campaign.shelf import Shelf, shelf_of
from trueline.campaign.triage_labels import common, label_of, refined
from trueline.campaign.triage_opinions import Asked, Consultant, place_of
from trueline.campaign.triage_signature import FAILURES, signature_of
from trueline.cases import CaseMeasured, CaseResult, CheckInfo, Ending, Outcome, Status, Target
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.groups import Group, Label, Member, Opinion, Signature, Triage, as_plain
from trueline.judge.checks import CheckStandard, check_standard_named, stored_check_standard
from trueline.ops.mapping.translate import NoCounterpart, translate
from trueline.replay.pool import Pool
from trueline.replay.translated import is_foreign
from trueline.report.triage import groups_markdown
from trueline.store.seal import sealed_text

TRIAGE_FOLDER = "triage"
REPRESENTATIVES = 2
MOST_SCRIPTS = 50
MOST_GROUPS = 500
"""Of more groups than that only the largest are done again."""
MOST_MEMBERS = 20
"""Of a group so many cases are listed; it says how many more there are."""
_SHRINK_SECONDS = 5.0
_KEPT = 3
_WITHOUT_OPINION = (Ending.UNSUPPORTED, Ending.HARNESS_ERROR)
"""They say themselves what they are; doing them again teaches nothing."""
_RANK = (
    Label.CRASHES, Label.TARGET, Label.TOO_SLOW, Label.NONDETERMINISTIC, Label.UNDECIDED, Label.REFERENCE,
    Label.ILL_CONDITIONED, Label.TOOL, Label.UNSUPPORTED,
)  # fmt: skip
"""What wants attention comes first."""


def triage(
    check: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    opinions: bool = True,
    representatives: int = REPRESENTATIVES,
    scripts: int = MOST_SCRIPTS,
    workers: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    memory: float | None = None,
    standard: str | None = None,
    overrides: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Triage:
    """Groups the failures of the check in a folder by likely cause and asks for second opinions on each group.

        found = trueline.triage("checks/nightly")
        for group in found.groups:
            group.label, group.why, group.size, group.folder

    Everything is written to ``out``, by default the folder ``triage`` of the check. Of each group ``representatives``
    cases (one to three) are done again: as they were, with other inputs, in other dtypes, and in parts; without
    ``opinions`` nothing is executed. A ``standard`` that is a function and the ``overrides`` of the check are not
    imported because its files name them: who trusts them repeats them here. At most ``scripts`` groups get a script
    that shows the failure.
    """
    if not 1 <= representatives <= _KEPT:
        raise UsageError(f"of a group 1 to {_KEPT} cases can be done again, not {representatives}")
    if scripts < 0:
        raise UsageError(f"the number of scripts must be 0 or more, not {scripts}")
    info = read_info(Path(check))
    judge = stored_check_standard(info.standard, check) if standard is None else check_standard_named(standard)
    if opinions:
        _refuse_stored_overrides(info, overrides or {}, check)
    shelf = shelf_of(Path(check), judge)
    folder = Path(check) / TRIAGE_FOLDER if out is None else Path(out)
    _make_folder(folder)
    heaps = _heaped(shelf)
    room = _Room(info, judge, folder, workers, timeout, memory, progress)
    groups = room.labelled(heaps, representatives) if opinions else [(heap.group(), heap) for heap in heaps]
    groups = _named(groups)
    if opinions:
        groups = room.with_scripts(groups, scripts)
    endings = {ending.value: count for ending, count in shelf.summary().endings.items() if count}
    found = Triage(
        Path(check), folder, info.target, info.reference, sum(endings.values()), endings,
        tuple(group for group, _ in groups), _left_out(endings),
    )  # fmt: skip
    _write(found)
    return found


def _flag(override: tuple[str, str]) -> str:
    """How an override is written on the command line; one for a whole module is a flag of its own."""
    api, place = override
    return f"--operators {api.removesuffix('.*')}" if api.endswith(".*") else f"--override {api}={place}"


def _refuse_stored_overrides(info: CheckInfo, given: Mapping[str, str], check: object) -> None:
    """Doing cases again imports the functions that stood in for APIs. Nothing is imported because a file names it:
    whoever trusts them says them again."""
    if dict(given) != dict(info.overrides):
        again = " ".join(map(_flag, info.overrides.items()))
        raise UsageError(
            f"{check} was made with {again[:400] or 'no --override'}; "
            + ("if you trust these functions, repeat that, or ask for --no-opinions" if again else "leave it out here")
        )


@dataclass(slots=True)
class _Heap:
    """A group that is being gathered. ``kept`` are results to be done again, small ones first."""

    signature: Signature
    ending: Ending
    size: int = 0
    of: int = 0
    members: list[Member] = field(default_factory=list)
    apis: dict[str, int] = field(default_factory=dict)
    kept: list[CaseResult] = field(default_factory=list)

    def add(self, result: CaseResult) -> None:
        self.size += 1
        self.apis[result.case.api] = self.apis.get(result.case.api, 0) + 1
        if len(self.members) < MOST_MEMBERS:
            case = result.case
            self.members.append(Member(case.key, case.api, place_of(case), result.reason[:300], case.count))
        self.kept = sorted([*self.kept, result], key=_weight)[:_KEPT]

    def group(self) -> Group:
        apis = tuple(sorted(self.apis, key=lambda api: (-self.apis[api], api)))
        return Group("", self.signature, self.ending, self.size, self.of, tuple(self.members), apis)


def _weight(result: CaseResult) -> int:
    """How much there is to do again."""
    return sum(_count(spec.shape) for spec in result.case.tensors)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _heaped(shelf: Shelf) -> list[_Heap]:
    """The failures of a check in heaps."""
    heaps: dict[tuple[Signature, Ending], _Heap] = {}
    names = ", ".join(f"'{ending.value}'" for ending in FAILURES)
    for result in shelf.results(f"ending IN ({names})"):
        signature = signature_of(result)
        if signature is None:
            raise UsageError(
                f"{shelf.name} is damaged: it says of {result.case.api[:80]} that it failed, and nothing that was "
                "measured of it did; check it again into another folder"
            )
        key = (signature, result.ending)
        heaps.setdefault(key, _Heap(*key)).add(result)
    cases_of = dict(shelf.ask("SELECT api, COUNT(*) FROM judged GROUP BY api"))
    for heap in heaps.values():
        strange = [api for api in heap.apis if api not in cases_of]
        if strange:
            raise UsageError(f"{shelf.name} is damaged: a case in it is of {strange[0][:80]}, and its row of another")
        heap.of = sum(cases_of[api] for api in heap.apis)
    return list(heaps.values())


def _left_out(endings: Mapping[str, int]) -> dict[str, int]:
    looked_at = {ending.value for ending in (*FAILURES, Ending.PASS)}
    return {f"ended in: {name}": count for name, count in endings.items() if name not in looked_at}


@dataclass(frozen=True, slots=True)
class _Room:
    """Where second opinions are asked for: the targets of a check and how its cases are executed."""

    info: CheckInfo
    judge: CheckStandard
    folder: Path
    workers: int | None
    timeout: float
    memory: float | None
    progress: Progress | None

    def labelled(self, heaps: Sequence[_Heap], representatives: int) -> list[tuple[Group, _Heap]]:
        if self.info.mode != "accuracy":
            why = f"second opinions are about accuracy; this check was in the mode {self.info.mode}"
            return [(replace(heap.group(), why=why), heap) for heap in heaps]
        doubtful = [heap for heap in heaps if heap.ending not in _WITHOUT_OPINION]
        chosen = sorted(doubtful, key=lambda heap: -heap.size)[:MOST_GROUPS]
        asked = [Asked(result, heap.signature) for heap in chosen for result in heap.kept[:representatives]]
        consultant = Consultant(self._target(), self._reference(), self._standard(), self._settings())
        found = consultant.opinions(asked, self.progress) if asked else {}
        why = f"only the {MOST_GROUPS} largest groups were done again"
        left = {id(heap) for heap in doubtful} - {id(heap) for heap in chosen}
        return [
            (replace(heap.group(), why=why) if id(heap) in left else self._judged(heap, found, representatives), heap)
            for heap in heaps
        ]

    def _judged(self, heap: _Heap, opinions: Mapping[str, Opinion], representatives: int) -> Group:
        crossed = self._target().framework != self._reference().framework
        labels, kept = [], []
        for result in heap.kept[:representatives]:
            opinion = opinions.get(result.case.key, Opinion(result.case.key, place_of(result.case)))
            label, why = label_of(result, heap.signature, opinion, crossed=crossed)
            labels.append((label, why))
            kept.append(replace(opinion, label=label, why=why))
        label, why = common(labels)
        done = () if heap.ending in _WITHOUT_OPINION else tuple(kept)
        signature = refined(heap.signature, label, done)
        return replace(heap.group(), signature=signature, label=label, why=why, opinions=done)

    def with_scripts(self, groups: Sequence[tuple[Group, _Heap]], most: int) -> list[tuple[Group, _Heap]]:
        """The groups, each with a script where it can have one."""
        made: list[tuple[Group, _Heap]] = []
        scripts = 0
        with contextlib.ExitStack() as stack:
            pools = _Pools(stack, self._settings())
            for group, heap in groups:
                if heap.ending in _WITHOUT_OPINION:
                    group = replace(group, note="nothing to show: nothing was executed")
                elif scripts >= most:
                    group = replace(group, note=f"no script: only {most} were asked for")
                else:
                    scripts += 1
                    group = self._with_script(group, heap, pools)
                    if self.progress is not None:
                        self.progress("scripts written", scripts, min(most, len(groups)))
                made.append((group, heap))
        return made

    def _with_script(self, group: Group, heap: _Heap, pools: _Pools) -> Group:
        folder = self.folder / "groups" / group.name
        result, target, seconds = heap.kept[0], self._target(), _SHRINK_SECONDS
        if heap.ending is Ending.REFERENCE_RAISES or _in_reference(result):
            result, seconds = _as_target(result), 0.0
            target = replace(self._reference(), dtype=target.dtype)
        targets, jobs = (target, self._reference()), SAVE_JOBS
        if not _has_counterpart(result, self._reference()):
            targets, jobs, seconds = (target, replace(target, device="cpu", overrides={})), DESCRIBE_JOBS, 0.0
        pool = pools.of(targets, jobs)
        saved = save_failure(result, targets, self._standard(), self._settings(), pool, folder, seconds)
        return replace(group, folder=folder, reproduced=saved.reproduced, note=saved.note)

    def _target(self) -> Target:
        return Target.parse(self.info.target, self.info.overrides)

    def _reference(self) -> Target:
        return Target.parse(self.info.reference)

    def _standard(self) -> CheckStandard:
        return self.judge

    def _settings(self) -> PoolSettings:
        return pool_settings(self._target(), self.workers, self.timeout, self.memory)


@dataclass(frozen=True, slots=True)
class _Pools:
    """Workers for scripts, one for each pair of targets: a framework is imported once."""

    stack: contextlib.ExitStack
    settings: PoolSettings
    made: dict[tuple[str, str, str], Pool] = field(default_factory=dict)

    def of(self, targets: tuple[Target, Target], jobs: str) -> Pool:
        key = (str(targets[0]), str(targets[1]), jobs)
        if key not in self.made:
            self.made[key] = self.stack.enter_context(saving_pool(*targets, self.settings, jobs))
        return self.made[key]


def _has_counterpart(result: CaseResult, reference: Target) -> bool:
    if not is_foreign(result.case, reference):
        return True
    try:
        translate(result.case, reference.framework)
    except NoCounterpart:
        return False
    return True


def _in_reference(result: CaseResult) -> bool:
    return bool(result.measured.skipped) and result.ending in (Ending.CRASHED, Ending.TIMED_OUT, Ending.OUT_OF_MEMORY)


def _as_target(result: CaseResult) -> CaseResult:
    """A result in which what the reference did is what the target did, so that a script shows that."""
    outcome = result.measured.reference
    if outcome is None:
        outcome = replace(result.measured.candidate)
    reason = f"the reference {outcome.status.value}: {outcome.reason}"
    measured = CaseMeasured(result.case.key, outcome, Outcome(Status.RETURNED))
    return replace(result, measured=measured, reason=reason, findings=())


def _named(groups: Sequence[tuple[Group, _Heap]]) -> list[tuple[Group, _Heap]]:
    """The groups in the order of their importance, each with a name that can be a folder's."""
    ordered = sorted(groups, key=lambda item: (_RANK.index(item[0].label), -item[0].size, item[0].signature))
    width = max(2, len(str(len(ordered))))
    return [
        (replace(group, name=f"{number:0{width}}-{_slug(group)}"), heap)
        for number, (group, heap) in enumerate(ordered, 1)
    ]


def _slug(group: Group) -> str:
    signature = group.signature
    api = group.apis[0].rpartition(".")[2] if signature.family != "*" else "any"
    words = (api, signature.dtype, signature.direction, signature.look.value)
    text = "-".join(word for word in words if word)
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60]


def _make_folder(folder: Path) -> None:
    """A place for a triage: new, empty, or that of an earlier one, which is removed."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / "groups.json").is_file():
            raise UsageError(f"{folder} holds something other than a triage; choose another folder")
        shutil.rmtree(folder / "groups", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _write(found: Triage) -> None:
    """Writes what was found, each file whole or not at all."""
    content = {"format": "trueline-triage", "version": 1, **as_plain(found), "labels": found.labels}
    _replace(found.folder / "groups.json", sealed_text(content))
    _replace(found.folder / "groups.md", groups_markdown(found))
    for group in found.groups:
        if group.folder is not None:
            _replace(group.folder / "group.json", json.dumps(as_plain(group), indent=1) + "\n")


def _replace(path: Path, content: str) -> None:
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(content, encoding="utf-8")
    os.replace(draft, path)


