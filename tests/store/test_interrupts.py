"""Handlers of signals may raise wherever our own code runs: we stay in order, and what they raise comes out."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from trueline.capture.notebook import Notebook
from trueline.store.columns import Batch
from trueline.store.interrupts import Latch, from_handler, shielded
from trueline.store.journal import JournalWriter, read_frames
from trueline.store.writer import RankWriter

SIGNAL = signal.SIGUSR1


class Asked(Exception):
    """What handlers of these tests raise."""


@pytest.fixture
def came() -> Iterator[list[int]]:
    """A handler that raises; the list of what it was called with."""
    numbers: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        numbers.append(number)
        raise Asked

    before = signal.signal(SIGNAL, handler)
    yield numbers
    signal.signal(SIGNAL, before)


def ask() -> None:
    os.kill(os.getpid(), SIGNAL)


def test_a_handler_waits_for_what_is_shielded(came: list[int]) -> None:
    done = []

    @shielded
    def whole() -> None:
        ask()
        done.append(len(came))

    with pytest.raises(Asked):
        whole()
    assert (done, came) == ([0], [SIGNAL])


def test_handlers_are_there_again_also_after_an_error(came: list[int]) -> None:
    handler = signal.getsignal(SIGNAL)

    @shielded
    def fails() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert signal.getsignal(SIGNAL) is handler


def test_shields_lie_within_shields(came: list[int]) -> None:
    order = []

    @shielded
    def inner() -> None:
        ask()

    @shielded
    def outer() -> None:
        inner()
        order.append(len(came))

    with pytest.raises(Asked):
        outer()
    assert (order, came) == ([0], [SIGNAL])


class Holder:
    def method(self, number: int, frame: FrameType | None) -> None:
        raise Asked


def _gathers(*what: object) -> None:
    raise Asked


def _gives_back(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Asked


@pytest.mark.parametrize(
    "handler",
    [Holder().method, _gathers, _gives_back, functools.partial(Holder.method, Holder())],
    ids=["method", "any arguments", "gives itself back", "partial"],
)
def test_what_a_handler_raised_is_known(handler: object) -> None:
    before = signal.signal(SIGNAL, handler)  # type: ignore[arg-type]
    try:
        with pytest.raises(Asked) as caught:
            ask()
    finally:
        signal.signal(SIGNAL, before)
    assert from_handler(caught.value)


def test_what_anybody_else_raised_is_not_taken_for_it(came: list[int]) -> None:
    with pytest.raises(Asked) as caught:
        _gathers(int(SIGNAL), None)
    assert not from_handler(caught.value)


def test_what_a_handler_raised_inside_of_us_reaches_the_program(tmp_path: Path, came: list[int]) -> None:
    writer = RankWriter(tmp_path / "run", 0)
    notebook = Notebook(writer)
    try:
        with pytest.raises(Asked) as caught:
            ask()
        with pytest.raises(Asked):
            notebook.trouble(caught.value)
        assert not notebook.tally.not_recorded
        notebook.trouble(ValueError("ours"))
        assert notebook.tally.not_recorded
    finally:
        writer.close({})


def test_nobody_waits_for_ever_for_a_latch(came: list[int]) -> None:
    latch = Latch()
    timer = threading.Timer(0.05, ask)
    timer.start()
    with pytest.raises(Asked):
        latch.wait()
    latch.open()
    latch.wait()
    assert latch.is_open


def test_an_end_that_was_interrupted_is_waited_for_again(tmp_path: Path, came: list[int]) -> None:
    writer = RankWriter(tmp_path / "run", 0)
    go = threading.Event()
    writer.submit(Batch(prepare=go.wait))  # type: ignore[arg-type]
    timer = threading.Timer(0.05, ask)
    timer.start()
    with pytest.raises(Asked):
        writer.close({"calls": {}, "complete": True})
    go.set()
    writer.close({"calls": {}, "complete": True})
    assert (tmp_path / "run" / "rank0" / "calls.db").exists()


def test_a_frame_that_did_not_fit_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalWriter(tmp_path / "journal.bin")
    journal.append(b"E", b"one")
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, pieces: real(descriptor, pieces[:1]))
    with pytest.raises(OSError, match="only part"):
        journal.append(b"E", b"two")
    monkeypatch.undo()
    journal.append(b"X", b"three")
    journal.close()
    assert list(read_frames(tmp_path / "journal.bin")) == [(b"E", b"one"), (b"X", b"three")]
