"""What a Run tells about the calls that an overflow report names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import trueline
from tests.report.growing_run import STEPS, record
from trueline.overflows import OverflowReport
from trueline.report import run_story
from trueline.report.run_story import RunStory
from trueline.store.watch_log import POINT, Series, WatchHistory

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OverflowReport, trueline.Run]]:
    path = tmp_path_factory.mktemp("runs") / "growing"
    record(path)
    with trueline.open_run(path) as run:
        yield trueline.overflow(path, replay=False), run


def test_the_way_is_in_order_and_says_what_each_call_gave(told: tuple[OverflowReport, trueline.Run]) -> None:
    report, run = told
    assert report.origin is not None
    way = RunStory(run).way(report.origin)
    assert way[0]["name"] == report.origin.call.name and way[0]["module"] == "blocks.1"
    positions = [one["position"] for one in way]
    assert positions == sorted(positions) and len(way) > 3
    assert all(one["nan"] + one["infinite"] > 0 for one in way)
    assert {one["step"] for one in way} == {report.origin.call.step}
    assert any(one["module"] == "head" and one["phase"] == "forward" for one in way), "it came to the head"


def test_the_room_shrinks_over_the_steps_and_the_bad_step_is_marked(
    told: tuple[OverflowReport, trueline.Run],
) -> None:
    report, run = told
    assert report.origin is not None
    course = RunStory(run).course(report.origin)
    assert course is not None and course["steps"] == list(range(STEPS))
    first = course["bad"].index(1)
    assert first == report.origin.call.step
    room = course["headroom"][:first]
    assert all(before > after for before, after in itertools.pairwise(room))


def test_the_calls_before_are_those_that_led_to_it(told: tuple[OverflowReport, trueline.Run]) -> None:
    report, run = told
    assert report.origin is not None
    before = RunStory(run).before(report.origin)
    assert before[-1]["name"] == "torch.Tensor.mul.2.forward", "the gain before the square"
    assert all(one["nan"] + one["infinite"] == 0 for one in before)


def test_the_log_of_a_watch_is_preferred_and_thinned(
    told: tuple[OverflowReport, trueline.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    report, run = told
    origin = report.origin
    assert origin is not None
    points = np.zeros(1000, POINT)
    points["step"], points["size"] = np.arange(1000), np.linspace(0, 14, 1000)
    points["infinite"][-1] = 4
    series = Series(origin.call.api, origin.call.index, "forward", "output", "", "", "", origin.path, "float16")
    monkeypatch.setattr(run_story, "watched_ranks", lambda _: {0: WatchHistory({0: series}, points)})
    course = RunStory(run).course(origin)
    assert course is not None and len(course["steps"]) == 400
    assert course["steps"][0] == 0 and course["steps"][-200:] == list(range(800, 1000)), "the newest are all there"
    assert course["headroom"][0] == pytest.approx(16.0, abs=1e-2) and course["bad"][-1] == 1


def test_a_call_that_the_run_does_not_hold_has_no_story(told: tuple[OverflowReport, trueline.Run]) -> None:
    from dataclasses import replace

    report, run = told
    assert report.origin is not None
    strange = replace(report.origin, call=replace(report.origin.call, api="torch.nowhere"), chain=("odd",))
    story = RunStory(run)
    assert story.way(strange) == [{"name": "torch.nowhere.3.forward"}, {"name": "odd"}]
    assert story.before(strange) == [] and story.course(strange) is None
    elsewhere = replace(report.origin, call=replace(report.origin.call, rank=9))
    assert story.course(elsewhere) is None and "position" not in story.way(elsewhere)[0]
