"""Why a command ended badly, from what it printed: the first line of its exception, with file and line, and what is to
be done where that is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from trueline.report.terminal import visible

_TAIL = 1 << 16
_LENGTH = 200
_BEGINS = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Warning|Interrupt|Exit|Fault|NotMet)\b|^[A-Za-z_][\w.]*: ")
_SUMMARY = "Error Message Summary:"
_MOST_BEHIND = 3
"""Lines of their own that may stand behind an exception: with more of them it was told, and the program went on."""
_ELSEWHERE = ("site-packages/", "dist-packages/", "/lib/python", "<frozen")
_KNOWN = (
    (re.compile(r"Cannot open file \S*\.pdmodel"),
     "Paddle 3 writes inference.json in place of inference.pdmodel: let the script read that, or export with "
     "FLAGS_enable_pir_api=0 in the environment"),
    (re.compile(r"(?P<name>python[\d.]*): (command not found|not found|No such file)"),
     "there is no {name} here: name the interpreter that you have under python: in the config"),
)  # fmt: skip


def reason_in(log: Path, code: int) -> str:
    """What a command said of its end. Python ends with 1 after an exception that nobody caught."""
    lines = _last_lines(log)
    told = (_exception(lines) if code == 1 else "") or _summary(lines) or next(_words(lines), "")
    return "; ".join(part for part in (told[:_LENGTH], _remedy(lines)) if part)


def last_words(log: Path) -> str:
    """The last line of an output that says anything."""
    return next(_words(_last_lines(log)), "")[:_LENGTH]


def _last_lines(log: Path) -> list[str]:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return [visible(line) for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return []


def _words(lines: Sequence[str]) -> Iterator[str]:
    """Lines that say anything, the last first."""
    return (line.strip() for line in reversed(lines) if line.strip())


def _exception(lines: Sequence[str]) -> str:
    """The first line of the last exception, and the place in the project's own code where it was raised."""
    begins = [place for place, line in enumerate(lines) if line.strip() == _BEGINS]
    if not begins:
        return ""
    frames: list[tuple[str, str]] = []
    for place in range(begins[-1] + 1, len(lines)):
        line = lines[place]
        if frame := _FRAME.match(line):
            frames.append((frame["file"], frame["line"]))
        elif line and not line.startswith(" "):
            behind = [one for one in lines[place + 1 :] if one and not one.startswith((" ", "-", "["))]
            told = len(behind) > _MOST_BEHIND or not _EXCEPTION.match(line)
            return "" if told else f"{line.strip()}{_raised_at(frames)}"
    return ""


def _raised_at(frames: Sequence[tuple[str, str]]) -> str:
    own = [one for one in frames if not any(part in one[0] for part in _ELSEWHERE)]
    chosen = (own or frames)[-1:]
    return "".join(f" ({Path(file).name}:{line})" for file, line in chosen)


def _summary(lines: Sequence[str]) -> str:
    """What Paddle says below this head when it ends without Python."""
    heads = [place for place, line in enumerate(lines) if line.strip() == _SUMMARY]
    behind = (line.strip() for line in lines[heads[-1] + 1 :]) if heads else iter(())
    return next((line for line in behind if line.strip("- ")), "")


def _remedy(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        for pattern, remedy in _KNOWN:
            if found := pattern.search(line):
                return remedy.format(**found.groupdict())
    return ""
