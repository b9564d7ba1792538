"""Lists of functions to be recorded besides those of the framework: names, or files in the form of ``op_target.yaml``.

Such a file has a list under ``target_op`` (or ``target op``) and may have one under ``ignored_op``::

    target_op:
      - paddlenlp.transformers.fusion_ops.fusion_rope
    ignored_op:
      - paddle.Tensor.astype

That is all of YAML that is read here: keys, lists of plain or quoted names, comments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from trueline.checked import Unfit, text_of
from trueline.errors import UsageError

_KEYS = {"target_op": "target", "target op": "target", "ignored_op": "ignored", "ignored op": "ignored"}
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_FILES = (".yaml", ".yml", ".txt")


def read_targets(given: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions that are wanted and those that are not, from names and files."""
    found: dict[str, list[str]] = {"target": [], "ignored": []}
    for text in given:
        if _is_file(text):
            _read_file(text, found)
        elif _NAME.fullmatch(text):
            found["target"].append(text)
        else:
            raise UsageError(f"targets: {text!r} is neither a function's full name nor a .yaml file")
    return tuple(dict.fromkeys(found["target"])), tuple(dict.fromkeys(found["ignored"]))


def absolute(given: Iterable[str]) -> list[str]:
    """The same, checked, and readable from any folder."""
    given = list(given)
    read_targets(given)
    return [os.path.abspath(text) if _is_file(text) else text for text in given]


def _is_file(text: str) -> bool:
    return text.endswith(_FILES) or os.sep in text


def _read_file(path: str, found: dict[str, list[str]]) -> None:
    try:
        lines = text_of(Path(path)).splitlines()
    except Unfit as error:
        raise UsageError(f"targets: cannot read {path}: {error}") from None
    into: list[str] | None = None
    for number, line in enumerate(lines, 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text == "---":
            continue
        if text.startswith("-") and into is not None:
            into.append(_name(text[1:], path, number))
            continue
        key, colon, rest = text.partition(":")
        kind = _KEYS.get(key.strip().strip("'\""))
        if not colon or kind is None:
            raise UsageError(f"targets: {path}, line {number}: expected target_op, ignored_op or a name; got {text!r}")
        into = found[kind]
        into.extend(_name(item, path, number) for item in _inline(rest.strip(), path, number))


def _inline(text: str, path: str, number: int) -> list[str]:
    """``[a, b]`` behind a key; nothing there is nothing."""
    if not text:
        return []
    if not (text.startswith("[") and text.endswith("]")):
        raise UsageError(f"targets: {path}, line {number}: expected a list; got {text!r}")
    return [item for item in text[1:-1].split(",") if item.strip()]


def _name(text: str, path: str, number: int) -> str:
    name = text.strip().strip("'\"")
    if not _NAME.fullmatch(name) and not _WORD.fullmatch(name):  # a word is no function: it is told as not found
        raise UsageError(f"targets: {path}, line {number}: {name!r} is not the full name of a function")
    return name
