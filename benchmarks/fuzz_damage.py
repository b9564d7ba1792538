"""Ways to damage a file: blind ones for any bytes, and ones that know JSON, zip archives and serialised Python."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

_ODD_NUMBERS = (0, -1, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, float("nan"), float("inf"))
_ODD_TEXTS = (
    "", "..", "../../../../etc/passwd", "/etc/passwd", "a" * 3000, "\x00", "$t", "torch.float32", "torch.nothing",
    "C:\\x", "x/../y", "\ud800", "-1", "Functional.linear.0.forward", "Tensor", "nan", "numpy.ndarray", "slice",
    "torch.Tensor", "torch.Size", "😀",
)  # fmt: skip
_PAYLOADS = (
    b"cos\nsystem\n(X\x04\x00\x00\x00truetR.",
    b"cbuiltins\neval\n(X\x11\x00\x00\x00__import__('os')tR.",
    b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
    b"cbuiltins\neval\n(X\x04\x00\x00\x00data}X\x04\x00\x00\x00dataK\x01stR.",
    b"(lp0\ng0\na.",
    b"i__main__\nx\n.",
)


def damaged(content: bytes, source: random.Random) -> bytes:
    """A damaged copy; one to three ways at once."""
    ways = list(_WAYS)
    if content[:1] in (b"{", b"["):
        ways += [_json] * 12
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        content = source.choice(ways)(content, source)
    return content


def _flip(content: bytes, source: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(source.randint(1, 8)):
        if changed:
            changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)


def _cut(content: bytes, source: random.Random) -> bytes:
    return content[: source.randrange(len(content) + 1)]


def _remove(content: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(content) + 1)
    return content[:start] + content[start + source.randint(1, 64) :]


def _repeat(content: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(content) + 1)
    piece = content[start : start + source.randint(1, 128)]
    return content[:start] + piece * source.randint(2, 50) + content[start:]


def _move(content: bytes, source: random.Random) -> bytes:
    start, target = (source.randrange(len(content) + 1) for _ in range(2))
    piece = content[start : start + source.randint(1, 128)]
    return content[:target] + piece + content[target + len(piece) :]


def _length(content: bytes, source: random.Random) -> bytes:
    """A number of two, four or eight bytes becomes an odd one."""
    form, top = source.choice((("<H", 2**16 - 1), ("<I", 2**32 - 1), ("<I", 2**31), ("<Q", 2**63), ("<Q", 2**40)))
    value = source.choice((0, 1, top, top - 1, source.randrange(top)))
    piece = struct.pack(form, value)
    start = source.randrange(max(1, len(content) - len(piece)))
    return content[:start] + piece + content[start + len(piece) :]


def _payload(content: bytes, source: random.Random) -> bytes:
    """Opcodes that would run something."""
    piece = source.choice(_PAYLOADS)
    starts = [place for place in (content.find(b"\x80\x02"), content.find(b"\x80\x04"), 0) if place >= 0]
    start = source.choice((source.choice(starts), source.randrange(len(content) + 1)))
    if source.random() < 0.5:
        return content[:start] + piece + content[start + len(piece) :]
    return content[:start] + piece + content[start:]


def _json(content: bytes, source: random.Random) -> bytes:
    """A value, a name or the nesting of JSON changes; of lines of JSON, those of one line."""
    lines = content.split(b"\n")
    place = source.randrange(len(lines))
    for text, put in ((content, None), (lines[place], place)):
        try:
            changed = json.dumps(_changed(json.loads(text), source, 0)).encode()
        except (ValueError, RecursionError):  # damaged before, or nested too deep to write
            continue
        if put is None:
            return changed
        lines[put] = changed
        return b"\n".join(lines)
    return _flip(content, source)


def _changed(tree: Any, source: random.Random, depth: int) -> Any:
    if depth > 12 or not isinstance(tree, dict | list) or not tree or source.random() < 0.08:
        return _odd(tree, source)
    if isinstance(tree, list):
        chosen = source.randrange(len(tree))
        return [_changed(item, source, depth + 1) if place == chosen else item for place, item in enumerate(tree)]
    key = source.choice(list(tree))
    action = source.random()
    if action < 0.08:
        return {name: value for name, value in tree.items() if name != key}
    if action < 0.16:
        return {(source.choice(_ODD_TEXTS) if name == key else name): value for name, value in tree.items()}
    return {name: _changed(value, source, depth + 1) if name == key else value for name, value in tree.items()}


def _odd(tree: Any, source: random.Random) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: source.choice(_ODD_NUMBERS),
        lambda: source.choice(_ODD_TEXTS),
        lambda: None,
        lambda: source.choice((True, False)),
        lambda: [tree] * source.choice((1, 2, 70)),
        lambda: [source.choice(_ODD_NUMBERS) for _ in range(source.choice((1, 3, 9, 80)))],
        lambda: {source.choice(_ODD_TEXTS): tree},
        lambda: _deep(tree, source.choice((3, 80, 400))),
    ]
    return source.choice(choices)()


def _deep(tree: Any, depth: int) -> Any:
    for _ in range(depth):
        tree = [tree]
    return tree


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _cut, _remove, _repeat, _move, _length, _length, _payload,
)  # fmt: skip
