"""The watch without any framework: what it makes of looks, what it keeps, when it speaks, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.fake_light import FakeAdapter, FakeLight, held, look_name, row
from trueline.capture import suspicion
from trueline.diagnose.overflow import overflow
from trueline.diagnose.watching import OverflowWatch, watch
from trueline.errors import UsageError
from trueline.frameworks import machine
from trueline.frameworks.light import HeldCall, Sink
from trueline.overflows import EventKind, OverflowKind, WatchEvent
from trueline.records import Phase
from trueline.store import open_run

GOOD = np.ones(4, dtype=np.float32)
BAD = np.array([1, np.nan, 1, 1], dtype=np.float32)
MASK = np.array([1, -np.inf, 1, 1], dtype=np.float32)
INFINITE = np.array([1, np.inf, 1, 1], dtype=np.float32)

LOSS = look_name("loss", path="loss")
GRADIENT = look_name("model.weight", path="grad", phase=Phase.BACKWARD)
OUTPUT = look_name("torch.relu")

Watched = Callable[..., tuple[OverflowWatch, FakeLight, FakeAdapter]]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    def make(**options: Any) -> tuple[OverflowWatch, FakeLight, FakeAdapter]:
        light = FakeLight()
        adapter = FakeAdapter(light, *options.pop("rank", (0, 1)))
        monkeypatch.setattr(machine, "chosen", lambda name: adapter.several())
        path = options.pop("path", tmp_path / "run")
        return watch(path, **options), light, adapter

    return make


def log_of_a_negative(step: int) -> list[HeldCall]:
    """A forward of three calls, the second of which is to blame, and the backward of the loss."""
    x, negative = np.ones(4, dtype=np.float32), np.array([1, -2, 3, 4], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        logs = np.log(negative)
    loss = np.array(logs.sum(), dtype=np.float32)
    return [
        held(0, "torch.sub", [x, np.full(4, 3, dtype=np.float32)], [negative], step=step),
        held(1, "torch.log", [negative], [logs], step=step),
        held(2, "torch.sum", [logs], [loss], step=step),
    ]


def ran(watching: OverflowWatch, adapter: FakeAdapter, steps: int) -> None:
    with watching:
        for _ in range(steps):
            adapter.optimizer_step()


def breaks_at(light: FakeLight, step: int) -> None:
    light.held[step] = log_of_a_negative(step)
    light.looks_of = lambda now: [(LOSS, row(GOOD if now < step else BAD), Sink.LOSS), (OUTPUT, row(GOOD), Sink.NONE)]


def test_an_overflow_is_found_at_its_step_and_explained(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watching, light, adapter = watched()
    breaks_at(light, 3)
    with watching:
        for _ in range(4):
            adapter.optimizer_step()
    (event,) = watching.events
    assert (event.kind, event.step, event.call) == (EventKind.OVERFLOW, 3, "torch.log.0.forward")
    assert event.birth is not None and event.birth.kind is OverflowKind.OUTSIDE_DOMAIN
    assert event.source.startswith("train.py:11")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "torch.log.0.forward" in said[0] and "overflow-rank0.txt" in said[0]
    assert not light.running


def test_the_report_is_on_disk_while_the_program_still_runs(watched: Watched) -> None:
    watching, light, adapter = watched()
    breaks_at(light, 0)
    watching.start()
    adapter.optimizer_step()
    assert watching.path is not None
    assert "torch.log.0.forward" in (watching.path / "overflow-rank0.txt").read_text()
    told = json.loads((watching.path / "overflow-rank0.json").read_text())
    assert told["alarms"] == 1 and told["events"][0]["call"] == "torch.log.0.forward"
    report = overflow(watching.path)  # nobody has closed it yet
    assert report.origin is not None and report.origin.call.name == "torch.log.0.forward"
    watching.stop()


def test_the_look_back_is_a_run_with_the_tensors_of_the_origin(watched: Watched) -> None:
    watching, light, adapter = watched()
    breaks_at(light, 2)
    with watching:
        for _ in range(3):
            adapter.optimizer_step()
    assert watching.path is not None
    with open_run(watching.path) as run:
        calls = list(run.rank(0).trace())
        assert [call.name for call in calls] == ["torch.sub.0.forward", "torch.log.0.forward", "torch.sum.0.forward"]
        assert {call.step for call in calls} == {2}
        stored = run.rank(0).tensor(calls[1].inputs[0])
        assert stored.tolist() == [1, -2, 3, 4]
        assert run.rank(0).certificate.complete
        assert calls[0].outputs[0].tensor_id == calls[1].inputs[0].tensor_id
    report = watching.report
    assert report.watched[0].overflows == (2,) and report.watched[0].steps == 3
    assert report.wrong and report.measured


def test_gradients_are_looked_at_before_the_optimizer_changes_anything(watched: Watched) -> None:
    watching, light, adapter = watched()
    light.partial = lambda step: [(GRADIENT, row(BAD), Sink.GRADIENT)]
    light.held[0] = log_of_a_negative(0)
    with watching:
        assert adapter.begins is not None
        adapter.begins(None)
        assert light.examined == [0], "before the step of the optimizer"
        adapter.begins, begins = (lambda optimizer: None), adapter.begins
        adapter.optimizer_step()
        adapter.begins = begins
    assert light.examined == [0], "a step is examined once"
    assert watching.counts["overflows"] == 1


def test_curiosity_does_not_hide_what_comes_out_of_the_same_step(watched: Watched) -> None:
    """Infinity inside of the step is asked about before the optimizer steps; then a parameter is bad."""
    watching, light, adapter = watched()
    light.partial = lambda step: [(LOSS, row(GOOD), Sink.LOSS), (OUTPUT, row(INFINITE), Sink.NONE)]
    light.looks_of = lambda step: [(look_name("model.weight"), row(BAD), Sink.PARAMETER)]
    light.held[0] = [held(0, "torch.relu", [GOOD], [GOOD.copy()], step=0)]
    with watching:
        adapter.optimizer_step()
    assert [event.kind for event in watching.events] == [EventKind.OVERFLOW]
    assert "after the step of the optimizer" in watching.events[0].message
    assert light.examined == [0], "no call was made since it was examined"
    assert watching.path is not None
    with open_run(watching.path) as run:
        assert [call.name for call in run.rank(0).trace()] == ["torch.relu.0.forward"]


def test_a_mask_inside_a_good_step_is_not_examined(watched: Watched) -> None:
    watching, light, adapter = watched()
    light.looks_of = lambda step: [(LOSS, row(GOOD), Sink.LOSS), (OUTPUT, row(MASK), Sink.NONE)]
    with watching:
        for _ in range(5):
            adapter.optimizer_step()
    assert light.examined == [] and watching.events == []
    assert light.forgotten == list(range(6)), "good steps are let go of"


def test_infinity_inside_a_good_step_is_examined_once(watched: Watched) -> None:
    watching, light, adapter = watched()
    light.looks_of = lambda step: [(LOSS, row(GOOD), Sink.LOSS), (OUTPUT, row(INFINITE), Sink.NONE)]
    light.held[0] = [held(0, "torch.relu", [GOOD], [GOOD.copy()], step=0)]
    with watching:
        for _ in range(5):
            adapter.optimizer_step()
    assert light.examined == [0] and watching.events == []


def test_a_scaler_that_probes_is_meant_and_one_that_never_stops_is_not(watched: Watched) -> None:
    watching, light, adapter = watched()
    light.looks_of = lambda step: [(LOSS, row(GOOD), Sink.LOSS), (GRADIENT, row(BAD), Sink.GRADIENT)]
    light.found_inf = lambda step: True
    with watching:
        for _ in range(suspicion.MOST_PROBES - 1):
            adapter.optimizer_step()
        assert {event.kind for event in watching.events} == {EventKind.MEANT}
        light.held[suspicion.MOST_PROBES - 1] = log_of_a_negative(suspicion.MOST_PROBES - 1)
        adapter.optimizer_step()
    assert watching.counts["overflows"] == 1
    assert "32 steps in a row" in next(event for event in watching.events if event.kind is EventKind.OVERFLOW).message


def test_a_bad_loss_is_no_probe_whatever_the_scaler_says(watched: Watched) -> None:
    watching, light, adapter = watched()
    breaks_at(light, 0)
    light.found_inf = lambda step: True
    with watching:
        adapter.optimizer_step()
    assert watching.counts["overflows"] == 1


def test_steps_after_a_bad_one_are_counted_and_not_examined_again(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    watching, light, adapter = watched()
    breaks_at(light, 1)
    with watching:
        for _ in range(5):
            adapter.optimizer_step()
    assert light.examined == [1]
    assert [event.step for event in watching.events] == [1, 2, 3, 4]
    assert watching.counts["overflows"] == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_watch_ends_after_so_many_overflows(watched: Watched) -> None:
    seen: list[WatchEvent] = []
    watching, light, adapter = watched(overflow_nums=2, on_overflow=seen.append)
    breaks_at(light, 0)
    with watching:
        for _ in range(5):
            if adapter.begins is not None:
                adapter.optimizer_step()
    assert [event.step for event in seen] == [0, 1]
    assert not light.running


def test_the_program_ends_after_the_first_overflow_on_request(watched: Watched) -> None:
    watching, light, adapter = watched(exit_after=True)
    breaks_at(light, 1)
    with pytest.raises(SystemExit) as ended:
        ran(watching, adapter, 5)
    assert ended.value.code == 0
    assert watching.path is not None and overflow(watching.path).wrong


def test_what_on_overflow_raises_goes_through(watched: Watched) -> None:
    def refuse(event: WatchEvent) -> None:
        raise ValueError(f"step {event.step}")

    watching, light, adapter = watched(on_overflow=refuse)
    breaks_at(light, 0)
    with pytest.raises(ValueError, match="step 0"), watching:
        adapter.optimizer_step()


def test_a_program_that_breaks_off_in_a_step_is_looked_at_all_the_same(watched: Watched) -> None:
    watching, light, _ = watched()
    breaks_at(light, 0)
    light.ran = True
    with pytest.raises(ZeroDivisionError), watching:
        raise ZeroDivisionError
    assert watching.counts["overflows"] == 1


def test_a_fault_of_ours_is_a_warning_and_the_program_goes_on(watched: Watched) -> None:
    watching, light, adapter = watched()

    def broken(step: int) -> Any:
        raise RuntimeError("ours")

    light.looks_of = broken
    with pytest.warns(RuntimeWarning, match="the program goes on") as warned:
        ran(watching, adapter, 50)
    assert len(warned) == 2, "one when it begins, one when the watch gives up"
    assert not light.running


def test_without_a_path_nothing_is_written_until_something_breaks(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watching, light, adapter = watched(path=None)
    breaks_at(light, 2)
    watching.start()
    adapter.optimizer_step()
    assert list(tmp_path.iterdir()) == []
    adapter.optimizer_step()
    adapter.optimizer_step()
    watching.stop()
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("trueline-watch-")
    assert overflow(folder).origin is not None


def test_a_drift_is_told_long_before_it_overflows(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    watching, light, adapter = watched()
    name = look_name("torch.matmul", dtype="float16")

    def drifting(step: int) -> list[tuple[Any, Any, Sink]]:
        noise = float(np.random.default_rng(step).normal(0, 0.1))
        value = np.array([min(2.0 ** (step / 14 + noise), 60000)], dtype=np.float16)
        return [(name, row(value), Sink.NONE)] if step % 4 == 1 else []

    light.looks_of = drifting
    with watching:
        for _ in range(200):
            adapter.optimizer_step()
    (event,) = watching.events
    assert event.kind is EventKind.FORECAST and event.step < 190
    assert event.forecast is not None and 200 <= event.forecast.step <= 250, event
    assert "overflows float16 in about" in capsys.readouterr().err
    assert watching.path is not None
    foretold = overflow(watching.path).forecasts
    assert [one.call.name for one in foretold] == ["torch.matmul.0.forward"]


def test_steady_and_settled_numbers_are_not_told(watched: Watched) -> None:
    watching, light, adapter = watched()
    steady, settled = look_name("torch.exp", dtype="float16"), look_name("torch.add", dtype="float16")

    def looks(step: int) -> list[tuple[Any, Any, Sink]]:
        noise = float(np.random.default_rng(step).normal(0, 0.3))
        grown = min(step, 30) / 6 + noise / 3
        return [
            (steady, row(np.array([2.0 ** (10 + noise)], dtype=np.float16)), Sink.NONE),
            (settled, row(np.array([2.0 ** (8 + grown)], dtype=np.float16)), Sink.NONE),
        ]

    light.looks_of = looks
    with watching:
        for _ in range(200):
            adapter.optimizer_step()
    assert watching.path is not None
    assert [event for event in watching.events if event.step > 60] == []
    assert not overflow(watching.path).forecasts


def test_each_rank_counts_for_itself(watched: Watched) -> None:
    for rank in (0, 1):
        watching, light, adapter = watched(rank=(rank, 2), overflow_nums=1)
        if rank == 1:
            breaks_at(light, 0)
        with watching:
            adapter.optimizer_step()
        assert watching.counts["overflows"] == rank
    assert watching.path is not None
    report = overflow(watching.path)
    assert report.origin is not None and report.origin.call.rank == 1
    assert {one.rank: one.overflows for one in report.watched} == {0: (), 1: (0,)}


def test_ranks_and_steps_that_were_not_asked_for_are_left_alone(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watching, light, adapter = watched(ranks=[1])
    with watching:
        pass
    assert not light.running and adapter.begins is None
    watching, light, adapter = watched(path=None, steps=[1])
    breaks_at(light, 0)
    with watching:
        assert not light.running
        adapter.optimizer_step()
        assert light.running
        adapter.optimizer_step()
        assert not light.running
    assert [event.step for event in watching.events] == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"overflow_nums": 0}, "overflow_nums"),
        ({"rotation": 0}, "rotation"),
        ({"look_back": -1}, "look_back"),
        ({"hold": 0}, "hold"),
        ({"steps": "a"}, "numbers"),
        ({"look_back": True}, "look_back"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        watch(None, framework="torch", **options)
