"""Whether a stage works with what the training made: the checkpoint file, and the weights themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trueline.dtypes import dtype_named
from trueline.pipeline.history import training_facts
from trueline.pipeline.recording import CHECKPOINT_FILE, read_lines
from trueline.pipeline.sides import Asked, Side
from trueline.pipelines import NumberFinding, StageKind, StageRun
from trueline.records import TensorRecord, Verdict


def judge_checkpoint(reference: StageRun, candidate: StageRun, earlier: Sequence[StageRun]) -> Iterator[NumberFinding]:
    """The files that a stage read must be those that the training wrote last under these names."""
    trainings = [run for run in (*earlier, reference) if run.stage.kind is StageKind.TRAIN]
    read = read_lines(candidate.probe / CHECKPOINT_FILE)
    if not trainings or not read or candidate.stage.kind is StageKind.TRAIN:
        return
    written = read_lines(trainings[-1].probe / CHECKPOINT_FILE)
    if not written:
        return
    training, stage = trainings[-1].stage.name, candidate.stage.name
    last = {Path(str(line.get("path"))).name: line.get("sha256") for line in written}
    digests = [line.get("sha256") for line in written]
    for line in read:
        name, digest = Path(str(line.get("path"))).name, line.get("sha256")
        if line.get("missing") or digest is None:
            yield NumberFinding("checkpoint", Verdict.FAIL, f"{line.get('path')} is not there", stage)
        elif digest in (last.get(name), *([] if name in last else digests)):
            yield NumberFinding("checkpoint", Verdict.PASS, f"{name} is what {training} wrote last")
        elif digest in digests:
            reason = f"{name} is stale: {training} wrote it, and wrote a later one"
            yield NumberFinding("checkpoint", Verdict.FAIL, reason, stage)
        else:
            reason = (
                f"{line.get('path')} is not a file that {training} wrote: it is of another training, or was changed"
            )
            yield NumberFinding("checkpoint", Verdict.FAIL, reason, stage)


def judge_parameters(trusted: Side, side: Side, asked: Asked, earlier: Sequence[StageRun]) -> Iterator[NumberFinding]:
    """The weights of two stages; where a stage is no eager model, only what they were changed to is told."""
    theirs, mine = _floating(trusted.point.parameters), _floating(side.point.parameters)
    if not theirs or not mine:
        return
    what = side.what("parameters")
    narrowed = [name for name, one in mine.items() if not _permitted(one, theirs, asked)]
    if narrowed:
        dtype = mine[narrowed[0]].dtype
        reason = f"{len(narrowed)} of {len(mine)} are {dtype} ({narrowed[0]}), in {trusted.name} they are not"
        yield NumberFinding(side.what("parameter dtypes"), Verdict.FAIL, reason, side.stage)
        return
    lost = _lost(theirs, mine)
    numbers = {"changed": float(len(lost)), "count": float(len(theirs))}
    if not lost:
        yield NumberFinding(what, Verdict.PASS, f"all {len(theirs)} are those of {trusted.name}", numbers=numbers)
    elif theirs.keys() == mine.keys() and not _cast(theirs, mine):
        reason = (
            f"{len(lost)} of {len(theirs)} are not those of {trusted.name}, {lost[0]} for one{_hint(side, earlier)}"
        )
        yield NumberFinding(what, Verdict.FAIL, reason, side.stage, numbers)
    else:
        reason = f"{len(lost)} of {len(theirs)} are not found as they were: they were folded or cast; outputs decide"
        yield NumberFinding(what, Verdict.PASS, reason, numbers=numbers)


def _floating(records: Mapping[str, TensorRecord]) -> dict[str, TensorRecord]:
    return {name: one for name, one in records.items() if dtype_named(one.dtype).is_float}


def _permitted(one: TensorRecord, theirs: Mapping[str, TensorRecord], asked: Asked) -> bool:
    coarsest = max(dtype_named(record.dtype).epsilon for record in theirs.values())
    return dtype_named(one.dtype).epsilon <= max(coarsest, asked.epsilon)


def _cast(theirs: Mapping[str, TensorRecord], mine: Mapping[str, TensorRecord]) -> bool:
    return any(theirs[name].dtype != mine[name].dtype for name in theirs)


def _lost(theirs: Mapping[str, TensorRecord], mine: Mapping[str, TensorRecord]) -> list[str]:
    """Parameters that are not there with the same bits: by name, or by content where names differ."""
    if theirs.keys() == mine.keys():
        return [name for name, one in theirs.items() if one.digest != mine[name].digest]
    there = Counter(one.digest for one in mine.values())
    lost = []
    for name, one in theirs.items():
        if there[one.digest] > 0:
            there[one.digest] -= 1
        else:
            lost.append(name)
    return lost


def _hint(side: Side, earlier: Sequence[StageRun]) -> str:
    """Whether they are those with which the training began."""
    found = {name: one.digest for name, one in side.point.parameters.items()}
    mine = [f"{(found[name] or 0) & (2**64 - 1):016x}" for name in sorted(found)]
    for run in earlier:
        if run.stage.kind is StageKind.TRAIN and training_facts(run.probe).get("digests") == mine:
            return f"; they are those with which {run.stage.name} began: untrained weights"
    return ""
