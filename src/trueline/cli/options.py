"""What the commands share: a parser whose errors are one line, numbers written as ``2,4-6``, files to write."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from trueline.errors import UsageError
from trueline.records import Verdict

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_FAILED = 2


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises UsageError instead of printing its usage and leaving."""

    def __init__(self, command: str, usage: str, description: str, example: str) -> None:
        super().__init__(
            prog=f"trueline {command}",
            usage=f"trueline {command} {usage}",
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        options, unknown = self.parse_known_args(words)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def _unknown(self, word: str) -> str:
        known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        near = difflib.get_close_matches(word.partition("=")[0], known, n=1) if word.startswith("-") else []
        return f"unknown option {word!r}" + (f", did you mean {near[0]}?" if near else "")


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_json_file(parser: Parser, what: str) -> None:
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help=f"write {what} as JSON; '-', or nothing, prints it"
    )


def numbers(text: str) -> list[int]:
    """Reads ``2,4-6`` as 2, 4, 5, 6."""
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.strip().partition("-")
            found.extend(range(int(first), int(last or first) + 1))
            if last and int(last) < int(first):
                raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 2,4-6") from None
    return sorted(set(found))


@contextlib.contextmanager
def written(path: str) -> Iterator[TextIO]:
    """A text file to write, or standard output for ``-``. A file takes its place only when it is whole."""
    if path == "-":
        yield sys.stdout
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {path}: the folder {target.parent} does not exist")
    draft = target.with_name(f".{target.name}.part")
    try:
        with open(draft, "w", encoding="utf-8", newline="") as file:
            yield file
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def exit_code(verdict: Verdict, measured: int, *, partial: bool = True) -> int:
    """0 clean, 1 findings; 2 where nothing was compared at all: that is no clean bill. ``partial`` says that a part is
    enough."""
    if verdict >= Verdict.FAIL or (verdict is Verdict.NOT_COMPARED and measured and not partial):
        return EXIT_FINDINGS
    return EXIT_CLEAN if measured else EXIT_FAILED


def given(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Those of the named options that the user gave, so that the defaults live in the library alone."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def let_go(stream: TextIO) -> None:
    """Points a stream whose reader has gone to nowhere, so that Python does not complain when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
