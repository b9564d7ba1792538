"""Which stages may start, which are skipped and why."""

from __future__ import annotations

import pytest

from trueline.errors import UsageError
from trueline.pipeline.graph import Graph, cards_of
from trueline.pipelines import Command, Stage, StageKind, StageResult, StageStatus
from trueline.records import Verdict


def stage(name: str, *after: str, kind: StageKind = StageKind.TRAIN, devices: str = "-1", **more: object) -> Stage:
    return Stage(name, kind, Command(name), after, devices=devices, **more)  # type: ignore[arg-type]


def ended(one: Stage, status: StageStatus = StageStatus.DONE) -> StageResult:
    return StageResult(one, status, Verdict.PASS if status is StageStatus.DONE else Verdict.FAIL, "broken")


def names(stages: object) -> list[str]:
    return [one.name for one in stages]  # type: ignore[attr-defined]


def test_a_stage_starts_when_what_it_needs_is_done() -> None:
    train, export, infer, other = stage("train"), stage("export", "train"), stage("infer", "export"), stage("other")
    graph = Graph([train, export, infer, other])
    assert names(graph.ready([])) == ["train", "other"]
    graph.start(train)
    assert names(graph.ready([train])) == ["other"]
    assert graph.end(ended(train)) == []
    assert names(graph.ready([])) == ["export", "other"]
    assert not graph.finished


def test_descendants_of_a_failure_are_skipped_and_say_whose() -> None:
    train, export, infer = stage("train"), stage("export", "train"), stage("infer", "export")
    graph = Graph([train, export, infer])
    skipped = graph.end(ended(train, StageStatus.TIMED_OUT))
    assert [(one.stage.name, one.status, one.reason) for one in skipped] == [
        ("export", StageStatus.SKIPPED, "train ended: timed out"),
        ("infer", StageStatus.SKIPPED, "train ended: timed out"),
    ]
    assert graph.finished
    assert names(one.stage for one in graph.in_order()) == ["train", "export", "infer"]


def test_waiting_is_not_needing() -> None:
    first, second = stage("first"), stage("second", waits=("first", "elsewhere"))
    graph = Graph([first, second])
    assert names(graph.ready([])) == ["first"]
    assert graph.end(ended(first, StageStatus.FAILED)) == []
    assert names(graph.ready([])) == ["second"]


def test_a_card_is_never_shared() -> None:
    one, two, other, cpu = (
        stage("one", devices="0"),
        stage("two", devices="0,1"),
        stage("other", devices="1"),
        stage("cpu"),
    )
    graph = Graph([one, two, other, cpu])
    assert names(graph.ready([])) == ["one", "other", "cpu"]
    assert cards_of(stage("x", kind=StageKind.EVAL, devices="2,3")) == {"2"}
    assert cards_of(stage("x", kind=StageKind.INFER, devices="2", settings={"device": "cpu"})) == set()
    assert cards_of(stage("x", devices="10.0.0.1,10.0.0.2;4,5")) == {"4", "5"}


def test_circles_and_strangers_are_refused() -> None:
    with pytest.raises(UsageError, match="wait for each other: a -> b -> a"):
        Graph([stage("a", "b"), stage("b", "a")])
    with pytest.raises(UsageError, match="no stage of the plan"):
        Graph([stage("a", "b")])


def test_giving_up() -> None:
    train, export = stage("train"), stage("export", "train")
    graph = Graph([train, export])
    assert [one.reason for one in graph.give_up("interrupted")] == ["interrupted", "interrupted"]
    assert graph.finished
