"""The log of a watch: bounded, readable after a kill, the newest steps whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueline.errors import CorruptRunError
from trueline.store import watch_log
from trueline.store.watch_log import POINT, Series, WatchLog, read_watch_log


def series(number: int) -> Series:
    return Series("torch.matmul", number, "forward", "output", f"layers.{number}", "Linear", "", "out", "float16")


def points(step: int, numbers: Any, size: float = 1.0) -> Any:
    rows = np.zeros(len(numbers), POINT)
    rows["series"], rows["step"], rows["size"] = numbers, step, size
    return rows


def filled(folder: Path, steps: int, count: int) -> WatchLog:
    log = WatchLog(folder)
    numbers = [log.number(series(one)) for one in range(count)]
    for step in range(steps):
        log.add(points(step, numbers, float(step)))
    return log


def test_what_was_added_is_read_back_without_closing(tmp_path: Path) -> None:
    log = filled(tmp_path, 5, 3)
    log.event({"kind": "overflow", "step": 4})
    read = read_watch_log(tmp_path)
    assert read is not None
    assert read.series == {number: series(number) for number in range(3)}
    assert len(read.points) == 15
    assert read.events == ({"kind": "overflow", "step": 4},)
    log.close()


def test_a_log_that_grows_is_thinned_and_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_log, "LEAST_POINTS", 1000)
    log = filled(tmp_path, 2000, 10)
    log.close()
    read = read_watch_log(tmp_path)
    assert read is not None
    assert len(read.points) <= 2 * watch_log.MOST_POINTS * 10
    assert (tmp_path / watch_log.WATCH_FILE).stat().st_size < 3 * watch_log.MOST_POINTS * 10 * POINT.itemsize
    own = np.sort(read.points["step"][read.points["series"] == 3])
    assert own[0] == 0 and own[-1] == 1999, "the first step and the last are still there"
    gaps = np.diff(own)
    assert gaps[-20:].max() == 1, "the newest steps are whole"
    assert gaps[:20].min() > 10 and gaps.max() < 100, "the older ones lie apart, evenly"


def test_the_recent_points_come_in_order(tmp_path: Path) -> None:
    log = filled(tmp_path, 3 * watch_log.RECENT // 2, 70)
    steps, sizes = log.recent.of(69)
    assert steps.tolist() == list(range(watch_log.RECENT // 2, 3 * watch_log.RECENT // 2))
    assert sizes.tolist() == steps.tolist()
    log.close()


def test_what_was_collected_before_there_was_a_folder_is_written_too(tmp_path: Path) -> None:
    log = WatchLog()
    log.add(points(0, [log.number(series(0))]))
    log.event({"kind": "meant", "step": 0})
    log.settle(tmp_path)
    log.add(points(1, [log.number(series(1))]))
    log.close()
    read = read_watch_log(tmp_path)
    assert read is not None
    assert (len(read.series), len(read.points), len(read.events)) == (2, 2, 1)


def test_a_cut_or_foreign_file_is_said_to_be_one(tmp_path: Path) -> None:
    assert read_watch_log(tmp_path) is None
    filled(tmp_path, 4, 2).close()
    file = tmp_path / watch_log.WATCH_FILE
    content = file.read_bytes()
    file.write_bytes(content[:-7])  # as a kill would leave it
    read = read_watch_log(tmp_path)
    assert read is not None and len(read.points) == 6
    file.write_bytes(b"something else altogether")
    with pytest.raises(CorruptRunError, match="damaged"):
        read_watch_log(tmp_path)
