"""``profile_analyze.log`` and ``memory_analyze.log`` of the old tool, as the rows that ``timed`` keeps of a replay.

    paddle.add*0.forward<TAB>dtype<TAB>FLOAT32<TAB>input shape<TAB>[[2, 2], [2, 2]]<TAB>output shape<TAB>[2, 2]
        <TAB>forward<TAB>12.5
    paddle.add*0*FLOAT32.forward:<TAB>16

They have one number for each call and direction. Without a spread no difference can be told from noise, so that such
rows are held together as the old tool does it, and are no verdict of ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trueline.checked import Unfit, json_value, text_of
from trueline.errors import UsageError

NO_SPREAD = "a log of PaddleAPEX has one number and no spread: no difference can be told from noise"
_MOST_BYTES = 256 << 20
_NAME = re.compile(r"(?P<api>[A-Za-z_][\w.]*)\*(?P<index>\d+)(?:\*(?P<dtype>\w+))?\.(?P<phase>forward|backward)")


def read_times(path: Path) -> dict[str, dict[str, Any]]:
    """The calls of ``profile_analyze.log``: the name of a call -> its row."""
    rows: dict[str, dict[str, Any]] = {}
    for number, line in _lines(path):
        parts = line.split("\t")
        if len(parts) != 9 or (name := _NAME.fullmatch(parts[0])) is None:
            raise UsageError(f"{path}, line {number}: it is no line of PaddleAPEX")
        seconds = _number(parts[8], path, number) / 1e6
        row = _row(rows, name)
        row["inputs"], row["outputs"] = (_shapes(text, parts[2]) for text in (parts[4], parts[6]))
        if seconds >= 0.0:  # -1 is the old tool's word for a call that could not be timed
            row["phases"][name["phase"]] = {"seconds": [seconds] * 4, "laps": [1, 1], "bytes": None}
    return rows


def read_memory(path: Path) -> dict[str, dict[str, Any]]:
    """The calls of ``memory_analyze.log``, which says what a call holds when it has returned."""
    rows: dict[str, dict[str, Any]] = {}
    for number, line in _lines(path):
        word, _, text = line.partition(":")
        name = _NAME.fullmatch(word.strip())
        if name is None:
            raise UsageError(f"{path}, line {number}: it is no line of PaddleAPEX")
        held = int(_number(text, path, number))
        row = _row(rows, name)
        row["outputs"] = _shapes("[]", name["dtype"] or "")
        row["phases"][name["phase"]] = {"seconds": [0.0] * 4, "laps": [1, 1], "bytes": [held, held]}
    return rows


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = text_of(path, _MOST_BYTES)
    except Unfit as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _call(name: re.Match[str]) -> str:
    return f"{name['api']}.{name['index']}.forward"


def _row(rows: dict[str, dict[str, Any]], name: re.Match[str]) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "api": name["api"],
        "call": _call(name),
        "status": "returned",
        "reason": "",
        "inputs": [],
        "outputs": [],
        "phases": {},
        "spread": False,
    }
    return rows.setdefault(_call(name), empty)


def _shapes(text: str, dtype: str) -> list[list[Any]]:
    """Shapes as Python prints them, nested for lists of tensors; those that are none are left out."""
    try:
        waiting = [json_value(text.replace("None", "null").replace("(", "[").replace(")", "]").replace(",]", "]"))]
    except ValueError:
        return []
    found: list[list[Any]] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, list) and all(isinstance(size, int) for size in one):
            found.append([dtype.lower(), one])
        elif isinstance(one, list):
            waiting += reversed(one)
    return found


def _number(text: str, path: Path, line: int) -> float:
    try:
        found = float(text)
        if not math.isfinite(found):
            raise ValueError
        return found
    except ValueError:
        raise UsageError(f"{path}, line {line}: {text.strip()[:40]!r} is no number") from None
