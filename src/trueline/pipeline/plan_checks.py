"""The checks of a plan: which numbers are looked at between its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trueline.pipelines import CheckKind, Stage, StageKind

MOST_SIBLINGS = 8
"""Others of the same kind that a check looks at: there may be thousands."""


def checks_of(stages: Sequence[Stage]) -> Iterator[Stage]:
    """What is looked at between the commands: neighbours, the precision of a training, pairs of trainings."""
    by_name = {stage.name: stage for stage in stages}
    alike: dict[tuple[str, StageKind], list[str]] = {}
    for stage in stages:
        alike.setdefault((stage.chain, stage.kind), []).append(stage.name)
    for stage in stages:
        siblings = alike[stage.chain, stage.kind][: MOST_SIBLINGS + 1]
        reference = _before(stage, by_name, siblings)
        if reference:
            yield _check(stage, reference, CheckKind.NEIGHBOURS, siblings)
        if stage.kind is StageKind.TRAIN and stage.precision != "fp32":
            base = _full_precision(stage, stages)
            yield _check(stage, base, CheckKind.PRECISION)
            if base in by_name:
                yield _check(stage, base, CheckKind.PAIR)


def _before(stage: Stage, by_name: Mapping[str, Stage], siblings: Sequence[str]) -> str:
    """The stage whose numbers a stage must repeat: the evaluation for an export, else what it follows; the first
    inference for the others of a model that was there."""
    if stage.kind not in (StageKind.EVAL, StageKind.EXPORT, StageKind.INFER):
        return ""
    if stage.kind is StageKind.EXPORT and f"{stage.chain}/eval" in by_name:
        return f"{stage.chain}/eval"
    followed = [name for name in stage.after if by_name[name].kind is not StageKind.PREPARE]
    if not followed and stage.kind is StageKind.INFER and stage.name != siblings[0]:
        return siblings[0]
    return followed[-1] if followed else ""


def _check(stage: Stage, reference: str, kind: CheckKind, siblings: Sequence[str] = ()) -> Stage:
    """A check. It waits for the first others of its kind in the chain: what they do and one does not is telling."""
    others = tuple(name for name in (reference, *siblings) if name and name != stage.name)
    return replace(
        stage,
        name=f"{stage.name}.{kind.value}",
        kind=StageKind.CHECK,
        command=None,
        after=(stage.name,),
        waits=others,
        check=kind,
        reference=reference,
        candidate=stage.name,
        reads=(),
        writes=(),
    )


def _full_precision(stage: Stage, stages: Sequence[Stage]) -> str:
    """The same training in full precision: of this plan, else the one that the norm config of TIPC would have left in
    the same folder."""
    same = [
        other
        for other in stages
        if other.kind is StageKind.TRAIN and other.precision == "fp32" and other.devices == stage.devices
    ]
    same.sort(key=lambda other: (other.trainer != stage.trainer, other.trainer != "norm_train"))
    if same:
        return same[0].name
    chain = stage.chain.replace(stage.trainer, "norm_train", 1)
    return re.sub(r"_autocast_[^_]+", "_autocast_False", chain, count=1) + "/train"
