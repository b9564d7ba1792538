"""What the live view of a check shows: a tally that is cheap to keep, and pure functions that make lines of it.

    ██████████░░░░░░░░░░  1,234 of 3,000  41 %  118 cases/s  0:10 gone, about 0:15 left
    pass 1,102 · mismatch 12 · unsupported here 118 · crashed 1 · timed out 1
    slowest  12.3 s  paddle.Tensor.min             lines.txt:512
    wrong    mismatch   paddle.stanh               lines.txt:9    out: off by 2.1e+08 ulp at [3]

The longest cases come first, so the number of cases a second grows all the time and says little about when all are
done. Where the costs of cases were estimated, the time that is left is what is estimated of the rest, at the pace at
which estimated seconds were worked off of late; else it is the number of the rest at the pace of late.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import PurePath

from trueline.cases import Ending
from trueline.events import CaseEnded
from trueline.report.terminal import visible

CASES = "cases checked"
MOST_SLOWEST = 3
MOST_WRONG = 4
_WINDOW_SECONDS = 30.0
"""How far back "of late" reaches at the least; in long checks it is the last fifth."""
_WINDOW_SHARE = 0.2
_MOST_SAMPLES = 400
_PATIENCE_SECONDS = 1.0
"""So long nothing is said of the time that is left."""

WRONG = (Ending.MISMATCH, Ending.TARGET_RAISES, Ending.TIMED_OUT, Ending.CRASHED, Ending.OUT_OF_MEMORY)
"""Endings that are findings, and shown one by one."""
_WRONG = frozenset(ending.value for ending in WRONG)
_ORDER = {ending.value: place for place, ending in enumerate(Ending)}


@dataclass(frozen=True, slots=True)
class Sample:
    """How far things were at a moment."""

    time: float
    done: int
    cost_left: float


@dataclass(slots=True)
class Tally:
    """What is known of a check that runs. ``seen`` cases ended while we watched; those of an earlier run are in
    ``done`` as well."""

    started: float
    what: str = CASES
    done: int = 0
    total: int = 0
    seen: int = 0
    cost_left: float = 0.0
    endings: dict[str, int] = field(default_factory=dict)
    slowest: list[CaseEnded] = field(default_factory=list)
    wrong: deque[CaseEnded] = field(default_factory=lambda: deque(maxlen=MOST_WRONG))
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLES))

    def add(self, event: CaseEnded, now: float) -> None:
        """Counts one case in. Called for every case, so it does as little as it can."""
        if self.what != CASES:
            self.turn_to(CASES, event.done, event.total, now)
            self.samples.clear()
        if not self.samples:
            self.samples.append(Sample(now, event.done, event.cost_left))
        self.done, self.total, self.cost_left = event.done, event.total, event.cost_left
        self.seen += 1
        ending = event.ending
        self.endings[ending] = self.endings.get(ending, 0) + 1
        if ending in _WRONG:
            self.wrong.append(event)
        slowest = self.slowest
        if len(slowest) < MOST_SLOWEST or event.seconds > slowest[-1].seconds:
            slowest.append(event)
            slowest.sort(key=_seconds, reverse=True)
            del slowest[MOST_SLOWEST:]

    def turn_to(self, what: str, done: int, total: int, now: float) -> None:
        """Notes how far some other work is; the pace of what went before says nothing about it."""
        if what != self.what:
            self.what, self.started, self.cost_left = what, now, 0.0
            self.samples.clear()
            self.samples.append(Sample(now, done, 0.0))
        self.done, self.total = done, total

    def sample(self, now: float) -> None:
        """Notes how far things are, to know the pace later."""
        window = max(_WINDOW_SECONDS, _WINDOW_SHARE * (now - self.started))
        while len(self.samples) > 1 and self.samples[1].time < now - window:
            self.samples.popleft()
        if len(self.samples) < 2 or now - self.samples[-1].time >= window / _MOST_SAMPLES:
            self.samples.append(Sample(now, self.done, self.cost_left))

    def rate(self, now: float) -> float:
        """Cases a second, of late."""
        if not self.samples or now <= self.samples[0].time:
            return 0.0
        return (self.done - self.samples[0].done) / (now - self.samples[0].time)

    def seconds_left(self, now: float) -> float | None:
        """None where nobody can tell yet."""
        if not self.samples or not self.total or now - self.samples[0].time < _PATIENCE_SECONDS:
            return None
        first = self.samples[0]
        worked_off = first.cost_left - self.cost_left
        if self.cost_left > 0.0 and worked_off > 0.0:
            return self.cost_left * (now - first.time) / worked_off
        rate = self.rate(now)
        return (self.total - self.done) / rate if rate > 0.0 else None


def _seconds(event: CaseEnded) -> float:
    return event.seconds


@dataclass(frozen=True, slots=True)
class Look:
    """How lines may look: columns, rows, and whether colours and characters beyond ASCII may be used."""

    columns: int = 80
    rows: int = 24
    colour: bool = False
    unicode: bool = True


def frame(tally: Tally, now: float, look: Look) -> list[str]:
    """The lines of the view, each at most one column shorter than the terminal, whose last column may wrap."""
    lines = [_bar_line(tally, now, look)]
    if tally.endings:
        lines.append(_endings_line(tally, look))
    lines += [*_slowest_lines(tally, look), *_wrong_lines(tally, look)]
    return lines[: max(1, look.rows - 2)]


def log_line(tally: Tally, now: float) -> str:
    """One plain line, for a log."""
    counts = ", ".join(f"{name} {count:,}" for name, count in _ordered(tally.endings))
    parts = [f"{tally.what}: {_amount(tally)}", *_pace(tally, now), *([counts] if counts else [])]
    return visible("; ".join(parts))


def _amount(tally: Tally) -> str:
    if not tally.total:
        return f"{tally.done:,}"
    return f"{tally.done:,} of {tally.total:,}  {100 * tally.done // tally.total} %"


def _pace(tally: Tally, now: float) -> list[str]:
    rate = tally.rate(now)
    counted = rate > 0 and tally.what == CASES
    parts = [f"{rate:.3g} cases/s" if rate < 1000 else f"{rate:,.0f} cases/s"] if counted else []
    left = tally.seconds_left(now)
    gone = f"{duration(now - tally.started)} gone"
    unfinished = left is not None and tally.done < tally.total
    return [*parts, f"{gone}, about {duration(left or 0.0)} left" if unfinished else gone]


def _bar_line(tally: Tally, now: float, look: Look) -> str:
    amount, pace = _amount(tally), _pace(tally, now)
    text = "  ".join([amount, *pace])
    if tally.what != CASES:
        text = f"{tally.what}: {text}"
    room = look.columns - 1 - len(text) - 2
    if not tally.total or room < 8:
        return clipped(text, look.columns - 1)
    width = min(room, 40)
    full = width * tally.done // tally.total
    filled, empty = ("█", "░") if look.unicode else ("#", "-")
    return _styled(filled * full, "32", look) + empty * (width - full) + f"  {text}"


def _endings_line(tally: Tally, look: Look) -> str:
    separator = " · " if look.unicode else ", "
    line, length = "", 0
    for name, count in _ordered(tally.endings):
        text = f"{name} {count:,}"
        if length + len(text) + len(separator) > look.columns - 1:
            break
        style = "31" if name in _WRONG else "32" if name == Ending.PASS.value else ""
        line += (separator if line else "") + _styled(text, style, look)
        length += len(text) + len(separator)
    return line


def _slowest_lines(tally: Tally, look: Look) -> list[str]:
    slow = [event for event in tally.slowest if event.seconds >= 0.1]
    heads = ["slowest", *[""] * len(slow)]
    return [
        _row(head, f"{event.seconds:.1f} s".rjust(8), event, "", look)
        for head, event in zip(heads, slow, strict=False)
    ]


def _wrong_lines(tally: Tally, look: Look) -> list[str]:
    wrong = list(reversed(tally.wrong))
    heads = ["wrong", *[""] * len(wrong)]
    width = max((len(event.ending) for event in wrong), default=0)
    return [
        _row(head, event.ending.ljust(width), event, event.reason, look)
        for head, event in zip(heads, wrong, strict=False)
    ]


def _row(head: str, what: str, event: CaseEnded, reason: str, look: Look) -> str:
    """Head, what, API, place and reason, as much of them as fits."""
    start = f"{head:<8} {what}  "[: look.columns - 1]
    room = look.columns - 1 - len(start)
    place = PurePath(event.line).name if " " not in event.line else event.line
    text = "  ".join(part for part in (visible(event.api), visible(place), visible(reason)) if part)
    shown = clipped(" ".join(text.split("\n")), room)
    return start[:9] + _styled(start[9:], "31" if reason else "", look) + shown


def _ordered(endings: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(endings.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER)))


def clipped(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."[: max(0, width)]


def duration(seconds: float) -> str:
    """``0:07``, ``12:34``, ``1:02:03``."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _styled(text: str, code: str, look: Look) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if look.colour and code and text else text
