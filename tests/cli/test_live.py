"""The live view: drawn on a real terminal, told in plain lines to anybody else, and cheap."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trueline.cases import Ending
from trueline.cli.live import TERMINAL_SECONDS, Live, live
from trueline.cli.live_view import Look, Tally, duration, frame, log_line
from trueline.events import CaseEnded

ROOT = Path(__file__).resolve().parents[2]
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def ended(number: int, ending: str = "pass", seconds: float = 0.001, total: int = 1000, **more: float) -> CaseEnded:
    reason = "" if ending == "pass" else f"out: off by {number} ulp at [0, 3]"
    return CaseEnded(f"paddle.api{number}", f"some/folder/lines.txt:{number}", ending, reason, seconds, number, total,
                     **more)  # fmt: skip


def tally_of(events: Iterator[CaseEnded] | list[CaseEnded], every: float = 0.01) -> Tally:
    tally = Tally(0.0)
    for place, event in enumerate(events):
        tally.add(event, every * place)
        tally.sample(every * place)
    return tally


def test_counts_slowest_and_wrong_cases_are_kept() -> None:
    names = {n: "crashed" if n % 10 == 0 else "mismatch" if n % 7 == 0 else "pass" for n in range(1, 51)}
    tally = tally_of([ended(n, name, n / 100) for n, name in names.items()])
    assert tally.endings == {"pass": 38, "mismatch": 7, "crashed": 5}
    assert [event.done for event in tally.slowest] == [50, 49, 48]
    assert [event.done for event in tally.wrong] == [40, 42, 49, 50]
    assert (tally.done, tally.total, tally.seen) == (50, 1000, 50)


@pytest.mark.parametrize("columns", [20, 60, 80, 120, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_terminal(columns: int, colour: bool) -> None:
    names = [ending.value for ending in Ending]
    tally = tally_of([ended(n, names[n % len(names)], n / 10) for n in range(1, 400)])
    lines = frame(tally, 4.0, Look(columns, 24, colour, True))
    assert max(len(STYLE.sub("", line)) for line in lines) < columns
    assert any("\x1b[" in line for line in lines) == colour
    shown = STYLE.sub("", "\n".join(lines))
    if columns >= 80:
        assert "399 of 1,000  39 %" in lines[0] and "cases/s" in lines[0] and "left" in lines[0]
        assert "slowest" in shown and "paddle.api399" in shown and "lines.txt:399" in shown
        assert "mismatch 40" in shown and "some/folder" not in shown


def test_a_low_terminal_gets_fewer_lines_and_ascii_gets_ascii() -> None:
    tally = tally_of([ended(n, "mismatch", 1.0) for n in range(1, 100)])
    assert len(frame(tally, 2.0, Look(80, 5))) == 3
    assert len(frame(tally, 2.0, Look(80, 1))) == 1
    assert "".join(frame(tally, 2.0, Look(80, 24, unicode=False))).isascii()


def test_a_name_cannot_steer_the_terminal() -> None:
    evil = CaseEnded("paddle.\x1b[2Jevil", "line\x07", "mismatch", "says \x1b]0;title\x07", 1.0, 1, 2)
    shown = "".join(frame(tally_of([evil]), 2.0, Look(120)))
    assert "\x1b[2J" not in shown and "\x07" not in shown and r"\x1b[2Jevil" in shown


def test_the_time_left_knows_that_the_longest_come_first() -> None:
    """A thousand cases, costs falling from 2 s to 2 ms, done at exactly their costs: at any time the view must know
    the end within a tenth, where counting cases is wrong by far."""
    costs = [2.0 / (1 + n) for n in range(1000)]
    total, now, left = len(costs), 0.0, sum(costs)
    tally = Tally(0.0)
    for number, cost in enumerate(costs, 1):
        now += cost
        left -= cost
        tally.add(ended(number, seconds=cost, total=total, cost=3 * cost, cost_left=3 * left), now)
        tally.sample(now)
        if number in (10, 100, 900):
            known = tally.seconds_left(now)
            assert known is not None and known == pytest.approx(left, rel=0.1), number
            by_count = (total - number) * now / number
            assert number == 900 or by_count > 3 * left


def test_without_costs_the_time_left_goes_by_the_pace_of_late() -> None:
    tally = Tally(0.0)
    now = 0.0
    for number in range(1, 501):
        now += 1.0 if number <= 60 else 0.1
        tally.add(ended(number, total=1000), now)
        tally.sample(now)
    left = tally.seconds_left(now)
    assert left is not None and left == pytest.approx(50.0, rel=0.05)


def test_after_a_resume_the_cases_of_before_count_as_done_but_not_as_pace() -> None:
    tally = tally_of([ended(900 + n, total=1000) for n in range(1, 51)], every=0.1)
    assert tally.rate(4.9) == pytest.approx(10.0, rel=0.1)
    assert "950 of 1,000" in log_line(tally, 4.9)


def test_planning_and_keeping_failures_have_their_own_bars() -> None:
    tally = Tally(0.0)
    tally.turn_to("calls planned", 500, 0, 1.0)
    assert frame(tally, 3.0, Look(80)) == ["calls planned: 500  0:02 gone"]
    tally.add(ended(1, total=4), 10.0)
    tally.add(ended(2, total=4), 12.0)
    (line, endings) = frame(tally, 12.0, Look(80))
    assert "2 of 4" in line and "0.5 cases/s" in line and "0:02 gone, about 0:04 left" in line and endings == "pass 2"
    tally.turn_to("failures kept", 1, 3, 20.0)
    assert "failures kept: 1 of 3" in frame(tally, 21.0, Look(80))[0]


def test_durations() -> None:
    assert [duration(value) for value in (0.2, 59.6, 754, 3723)] == ["0:00", "1:00", "12:34", "1:02:03"]


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end() -> None:
    stream = io.StringIO()
    with live(stream, quiet=0.05, interval=0.2) as view:
        for number in range(1, 61):
            view.on_case(ended(number, "mismatch" if number == 9 else "pass", total=60))
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert 3 <= len(lines) <= 6
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()
    assert lines[-1].startswith("cases checked: 60 of 60  100 %") and "pass 59, mismatch 1" in lines[-1]


def test_short_work_and_no_work_say_nothing() -> None:
    stream = io.StringIO()
    with live(stream, quiet=5.0) as view:
        view.on_case(ended(1))
    with live(stream, quiet=0.01, interval=0.01):
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_stream_that_breaks_breaks_nothing_else() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        with live(stream, quiet=0.01, interval=0.01) as view:
            for number in range(1, 11):
                view.on_case(ended(number))
                time.sleep(0.01)
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # for what is left in the buffer


def test_a_case_costs_less_than_20_microseconds() -> None:
    view = Live(io.StringIO(), clock=time.monotonic, quiet=60.0)
    events = [ended(n, "pass" if n % 5 else "mismatch", (n * 7919 % 1000) / 1000, 20_000) for n in range(1, 20_001)]
    best = min(_seconds_for(view, events) for _ in range(3))
    view.close()
    assert best / len(events) < 20e-6


def _seconds_for(view: Live, events: list[CaseEnded]) -> float:
    started = time.process_time()
    for event in events:
        view.on_case(event)
    return time.process_time() - started


PROGRAM = """
import sys, time
from trueline.cli.live import live
from trueline.events import CaseEnded

print("before", file=sys.stderr)
with live(sys.stderr, quiet=0.1) as view:
    for n in range(1, 121):
        ending, reason = ("mismatch", "out: off by 7 ulp") if n % 30 == 0 else ("pass", "")
        view.on_case(CaseEnded("paddle.tanh", f"lines.txt:{n}", ending, reason, n / 100, n, 120, 0.01, (120 - n) / 100))
        time.sleep(0.01)
print("after", file=sys.stderr)
"""


def on_a_terminal(columns: int, rows: int = 24, **environment: str) -> tuple[bytes, list[float]]:
    """What a program writes to a real terminal of this size, and when."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    named = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment}
    named = {name: value for name, value in named.items() if value}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=follower, env=named) as program:
        os.close(follower)
        content, times = b"", []
        while select.select([leader], [], [], 30)[0]:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            content += part
            times.append(time.monotonic())
        assert program.wait(30) == 0
    os.close(leader)
    return content, times


def screen_of(content: str, columns: int, rows: int = 24) -> tuple[list[str], list[list[str]]]:
    """A terminal that understands what the view uses: the screen at the end, and at every clearing before it."""
    screen, row, column, seen = [""] * 400, 0, 0, []
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", content):
        if part == "\n":
            row, column = row + 1, column
        elif part == "\r":
            column = 0
        elif part.startswith("\x1b["):
            if part.endswith("A"):
                row -= int(part[2:-1])
                assert row >= 0
            elif part.endswith("J"):
                seen.append([line for line in screen if line])
                screen[row] = screen[row][:column]
                screen[row + 1 :] = [""] * (len(screen) - row - 1)
            else:
                assert part.endswith("m"), part
        else:
            assert column + len(part) <= columns
            screen[row] = screen[row][:column].ljust(column) + part + screen[row][column + len(part) :]
            column += len(part)
    return [line for line in screen if line], seen


@pytest.mark.parametrize("columns", [60, 130])
def test_on_a_real_terminal_it_is_drawn_in_place_and_gone_at_the_end(columns: int) -> None:
    content, _ = on_a_terminal(columns, NO_COLOR="")
    at_the_end, frames = screen_of(content.decode(), columns)
    assert at_the_end == ["before", "after"]
    assert 3 <= len(frames) <= 2 + 1.6 / TERMINAL_SECONDS
    last = frames[-1]
    assert last[0] == "before" and "of 120" in last[1] and "pass" in last[2]
    assert any("slowest" in line for line in last) and any("mismatch" in line and "tanh" in line for line in last)
    assert len(last) <= 10
    assert b"\x1b[32m" in content


def test_no_color_and_dumb_terminals_are_respected() -> None:
    content, _ = on_a_terminal(100, NO_COLOR="1")
    assert not re.search(rb"\x1b\[[0-9;]*m", content) and b"\x1b[J" in content
    content, _ = on_a_terminal(100, TERM="dumb")
    assert b"\x1b" not in content
    assert content.decode().splitlines()[1].startswith("cases checked: ")
