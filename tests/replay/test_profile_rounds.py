"""Rounds by turns, by a clock that the test turns: who is asked when, when it ends, what is made of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from typing import Any

import pytest

from tests.helpers.profiles import case
from trueline.cases import Case, Outcome, Status, Target
from trueline.frameworks.base import CannotExecute, Inputs
from trueline.frameworks.timing import CallFailed
from trueline.profiles import Footprint, Lap, OutputSpec, Roofline
from trueline.records import Phase
from trueline.replay.serial import case_to_json
from trueline.replay.timing import Bench, calls_of_a_lap, inputs_of
from trueline.replay.timing_rounds import Pace, Round, Side, quantile, ratios_of, time_case, timing_of

QUICK = Pace(budget=0.05, round_seconds=0.0)


class FakePrepared:
    def __init__(self, seconds: Iterator[float], phases: tuple[Phase, ...] = tuple(Phase)) -> None:
        self.phases = phases
        self.outputs = (OutputSpec("out", "float32", (4, 8)),)
        self.notes: list[str] = []
        self.taken_off = 0.0
        self.laps = 0
        self._seconds = seconds

    def lap(self, phase: Phase, times: int) -> Lap:
        self.laps += 1
        return Lap(next(self._seconds), None, times)

    def memory(self, phase: Phase) -> Footprint | None:
        return Footprint(128, 64)


class FakeTimer:
    """Gives what it is told to; counts how often a Case was made ready."""

    def __init__(self, seconds: Callable[[], Iterator[float]], error: Exception | None = None) -> None:
        self._seconds = seconds
        self._error = error
        self.prepared: list[str] = []

    def prepare(self, case: Case, inputs: Inputs) -> FakePrepared:
        self.prepared.append(case.key)
        if self._error is not None:
            raise self._error
        return FakePrepared(self._seconds())

    def roofline(self, dtypes: Any) -> Roofline:
        return Roofline(dict.fromkeys(dtypes, 1e9), 1e9)


class FakeSide(Side):
    """A worker without a process."""

    def __init__(self, timers: list[FakeTimer], which: int, log: list[str], bias: float = 1.0) -> None:
        targets = [Target("torch", "cpu"), Target("torch", "cuda")]
        self.target, self.which = targets[which], which
        self._bench = Bench(targets, lambda stage: None, lambda target: timers[targets.index(target)])
        self._log = log
        self._bias = bias

    def round(self, case: Case, which: int, seconds: float, *, fresh: bool) -> dict[str, Any]:
        self._log.append("AB"[which] + ("*" if fresh else ""))
        payload = {"case": case_to_json(case), "which": which, "seconds": seconds, "fresh": fresh}
        answer: dict[str, Any] = self._bench.work(payload)
        for laps in answer.get("laps", {}).values():
            laps["seconds"] = [self._bias * one for one in laps["seconds"]]
        return answer


def sides(*seconds: Callable[[], Iterator[float]], bias: float = 1.0) -> tuple[list[Side], list[str], list[FakeTimer]]:
    """Workers for as many Targets; in the first everything takes ``bias`` times as long."""
    log: list[str] = []
    timers = [FakeTimer(one) for one in seconds]
    return [FakeSide(timers, place, log, 1.0 if place else bias) for place in range(len(timers))], log, timers


def test_rounds_alternate_and_so_does_who_begins() -> None:
    both, log, timers = sides(lambda: repeat(1e-3), lambda: repeat(1e-3))
    time_case(case(), both, QUICK)
    assert log == ["A*", "B*", "B", "A", "A", "B", "B", "A", "A", "B"]
    assert [len(timer.prepared) for timer in timers] == [1, 1]


def test_equal_sides_give_a_ratio_of_one() -> None:
    both, _, _ = sides(lambda: repeat(1e-3), lambda: repeat(1e-3))
    measured = time_case(case(), both, QUICK)
    assert set(measured.ratios) == set(Phase)
    assert all((one.value, one.low, one.high) == (1.0, 1.0, 1.0) for one in measured.ratios.values())
    assert measured.target.phases[Phase.FORWARD].memory == Footprint(128, 64)
    assert measured.lost == 0.0


def test_what_looks_like_a_finding_is_timed_again_from_the_start() -> None:
    both, log, timers = sides(lambda: repeat(2e-3), lambda: repeat(1e-3))
    measured = time_case(case(), both, QUICK)
    assert [len(timer.prepared) for timer in timers] == [2, 2]
    assert log.count("A*") == log.count("B*") == 2 and len(log) == 20
    assert measured.ratios[Phase.FORWARD].low == pytest.approx(2.0, rel=2e-3)
    assert measured.lost == pytest.approx(2e-3)  # a millisecond forward, one backward


def test_a_slow_start_that_does_not_come_back_is_no_finding() -> None:
    first = iter([True, False])

    def once() -> Iterator[float]:
        return repeat(2e-3) if next(first) else repeat(1e-3)

    both, _, _ = sides(once, lambda: repeat(1e-3))
    assert time_case(case(), both, QUICK).ratios[Phase.FORWARD].low == pytest.approx(1.0)


def test_what_a_process_is_slow_at_is_not_laid_on_its_target() -> None:
    both, log, _ = sides(lambda: repeat(1e-3), lambda: repeat(1e-3), bias=2.0)
    ratio = time_case(case(), both, QUICK).ratios[Phase.FORWARD]
    assert len(log) >= 20 and ratio.low == pytest.approx(0.5, rel=1e-2)
    slow, _, _ = sides(lambda: repeat(3e-3), lambda: repeat(1e-3), bias=1.1)
    assert time_case(case(), slow, QUICK).ratios[Phase.FORWARD].low > 2.5


def test_noise_shows_as_spread() -> None:
    noisy = [1e-3, 3e-3, 0.8e-3, 2e-3, 1e-3, 5e-3, 1.1e-3]
    both, log, _ = sides(lambda: cycle(noisy), lambda: repeat(1e-3))
    measured = time_case(case(), both, QUICK)
    ratio = measured.ratios[Phase.FORWARD]
    assert ratio.low < 1.2 < ratio.high
    assert len(log) > 10  # it went on until the time was spent


def test_one_side_alone_is_timed() -> None:
    one, log, _ = sides(lambda: repeat(1e-3))
    measured = time_case(case(), one, QUICK)
    assert measured.against is None and log == ["A*"] + ["A"] * 4
    assert measured.target.seconds == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CallFailed(Outcome(Status.OUT_OF_MEMORY, "no room")), Status.OUT_OF_MEMORY),
        (CannotExecute("no counterpart"), Status.UNSUPPORTED),
    ],
)
def test_a_case_that_does_not_return_ends_with_its_outcome(error: Exception, status: Status) -> None:
    log: list[str] = []
    timers = [FakeTimer(lambda: repeat(1.0), error), FakeTimer(lambda: repeat(1.0))]
    measured = time_case(case(), [FakeSide(timers, place, log) for place in range(2)], QUICK)
    assert measured.target.outcome == Outcome(status, str(error)) and not measured.target.phases
    assert measured.against is not None and measured.against.phases and measured.ratios == {}
    assert len(log) == 2


def test_a_case_is_warmed_up_until_it_is_steady() -> None:
    cold = chain([5e-3, 3e-3, 2e-3, 1.5e-3, 1.2e-3, 1.19e-3], repeat(1e-3))
    timer = FakeTimer(lambda: cold)
    bench = Bench([Target("torch", "cpu")], lambda stage: None, lambda target: timer)
    answer = bench.work({"which": 0, "case": case_to_json(case()), "seconds": 0.0, "fresh": True})
    assert answer["laps"]["backward"]["seconds"] == [1e-3]
    assert max(answer["laps"]["forward"]["seconds"]) <= 1.2e-3


def test_a_call_whose_time_is_taken_off_wholly_does_not_make_a_lap_without_end() -> None:
    class Slow(FakePrepared):
        def lap(self, phase: Phase, times: int) -> Lap:
            return Lap(0.0, None, times, wall=0.5)

    class SlowTimer(FakeTimer):
        def prepare(self, case: Case, inputs: Inputs) -> FakePrepared:
            return Slow(repeat(0.0))

    bench = Bench([Target("torch", "cpu")], lambda stage: None, lambda target: SlowTimer(lambda: repeat(0.0)))
    answer = bench.work({"which": 0, "case": case_to_json(case()), "seconds": 0.0, "fresh": True})
    assert answer["laps"]["forward"]["calls"] == 1


def test_a_worker_keeps_its_case_ready() -> None:
    timer = FakeTimer(lambda: repeat(1e-3))
    bench = Bench([Target("torch", "cpu")], lambda stage: None, lambda target: timer)
    payload = {"which": 0, "case": case_to_json(case()), "seconds": 0.0, "fresh": False}
    for _ in range(3):
        bench.work(payload)
    assert len(timer.prepared) == 1
    bench.work({**payload, "fresh": True})
    bench.work({**payload, "case": case_to_json(case("torch.relu"))})
    assert len(timer.prepared) == 3


def test_laps_are_long_enough_to_be_read() -> None:
    assert calls_of_a_lap(1e-3) == 1 and calls_of_a_lap(1.0) == 1
    assert calls_of_a_lap(1e-5) == 100
    assert calls_of_a_lap(1e-9) == 5000


def test_quantiles_and_ratios() -> None:
    assert quantile([3.0], 0.1) == 3.0
    assert quantile([4.0, 1.0, 3.0, 2.0, 5.0], 0.5) == 3.0
    assert quantile([0.0, 10.0], 0.25) == 2.5
    rounds = [Round(10, (1e-3, 2e-3, 9e-3), ()), Round(10, (2e-3,), (1e-4,))]
    found = timing_of(rounds)
    assert (found.median, found.smallest, found.laps, found.calls, found.launch) == (2e-3, 1e-3, 4, 20, 1e-4)
    tiny = {Phase.BACKWARD: [Round(1, (0.0,), ())] * 5}
    less = {Phase.BACKWARD: [Round(1, (2e-6,), ())] * 5}
    assert ratios_of(tiny, tiny, {})[Phase.BACKWARD].value == 1.0
    assert ratios_of(less, tiny, {})[Phase.BACKWARD].value == pytest.approx(3.0)
    known = ratios_of(less, tiny, {Phase.BACKWARD: 2e-5})[Phase.BACKWARD]
    assert known.value == pytest.approx(1.1) and known.floor == 2e-5  # shorter than is known of what was taken off


def test_large_tensors_repeat_themselves_and_small_ones_are_as_in_a_check() -> None:
    from trueline.replay.inputs import inputs_for

    small = case()
    assert (inputs_of(small).tensors["args.0"].bits == inputs_for(small).tensors["args.0"].bits).all()
    from dataclasses import replace

    large = replace(small, tensors=(replace(small.tensors[0], shape=(3, 1 << 20)),))
    bits = inputs_of(large).tensors["args.0"].bits
    assert bits.shape == (3, 1 << 20) and (bits[0] == bits[1]).all() and len(set(bits[0, :1000].tolist())) > 900
