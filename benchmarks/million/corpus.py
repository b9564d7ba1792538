"""Distinct, cheap config lines; now and then one that is written twice, one that nobody can read, one that raises.

Which line is of which kind follows from its number alone, so that a million of them can be checked without holding any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TORCH = (
    'torch.add(Tensor([{a}, {b}],"float32"), {k}, )',
    'torch.mul(Tensor([{a}, {b}],"float32"), {k}, )',
    'torch.lt(Tensor([{a}, {b}],"int32"), {k}, )',
    'torch.clamp(Tensor([{a}, {b}],"float32"), max={k}, )',
    'torch.sub(Tensor([{a}, {b}],"int64"), {k}, )',
    'torch.full(list[{a},{b},], {k}, )',
    'torch.eq(Tensor([{a}, {b}],"float32"), {k}, )',
    'torch.ge(Tensor([{b}, {a}],"float32"), {k}, )',
)
PADDLE = (
    'paddle.scale(Tensor([{a}, {b}],"float32"), {k}, )',
    'paddle.clip(Tensor([{a}, {b}],"float32"), max={k}, )',
    "paddle.full(list[{a},{b},], {k}, )",
    'paddle.scale(Tensor([{b}, {a}],"float32"), 1.0, {k}, )',
)
LINES = {"torch": TORCH, "paddle": PADDLE}
RAISES = {
    "torch": 'torch.add(Tensor([2, 3],"float32"), Tensor([4, {k}],"float32"), )',
    "paddle": 'paddle.add(Tensor([2, 3],"float32"), Tensor([4, {k}],"float32"), )',
}
TWICE, UNREADABLE, RAISING = 1_009, 10_007, 5_003
"""Every so many lines (primes, so that they seldom meet)."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must become of a line: a row of its own that stands for ``count`` lines, or none and the reason."""

    number: int
    count: int
    readable: bool = True
    ending: str = "pass"


def line(number: int, framework: str) -> str:
    """The text of a line, counted from 1."""
    if _is_unreadable(number):
        return f"{framework}.add(Tensor([2, 3], no dtype {number}), )"
    if _repeats(number):
        return line(number - 1, framework)
    if number % RAISING == 0:
        return RAISES[framework].format(k=number)
    texts = LINES[framework]
    return texts[number % len(texts)].format(a=number % 5 + 1, b=number % 3 + 1, k=number)


def write(path: Path, count: int, framework: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for number in range(1, count + 1):
            file.write(line(number, framework) + "\n")


def expected(count: int) -> Iterator[Expected]:
    """What must become of each line that has a row, or a reason, of its own, in order."""
    for number in range(1, count + 1):
        if _is_unreadable(number):
            yield Expected(number, 1, readable=False)
        elif not _repeats(number):
            ending = "reference raises" if number % RAISING == 0 else "pass"
            yield Expected(number, 2 if number < count and _repeats(number + 1) else 1, ending=ending)


def _is_unreadable(number: int) -> bool:
    return number % UNREADABLE == 0


def _repeats(number: int) -> bool:
    """Whether a line is the one before it, written again."""
    return number % TWICE == 0 and not _is_unreadable(number) and not _is_unreadable(number - 1)
