"""What the old commands share: flags as they were spelled, errors in one line, exit codes 0, 1 and 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from trueline.errors import TruelineError, UsageError
from trueline.records import Verdict

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_FAILED = 2

_TRUE = ("true", "1", "yes", "y", "on")
_FALSE = ("false", "0", "no", "n", "off")


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of printing its usage and leaving. The old commands have flags such as
    ``-forward``, which must not be taken for ``-f orward``: nothing is abbreviated."""

    def __init__(self, command: str, description: str, example: str) -> None:
        super().__init__(
            prog=command,
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def truth(text: str) -> bool:
    """``True`` and ``False`` as they are written after a flag; any other word is an error."""
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return word in _TRUE


def glued(flag: str, words: Sequence[str]) -> list[str]:
    """The words, with a value that was written right behind a flag (``-out./results``) as a word of its own."""
    found: list[str] = []
    for word in words:
        behind = word[len(flag) :] if word.startswith(flag) else ""
        found += [flag, behind] if behind and not behind.startswith(("=", "put")) else [word]
    return found


def run_command(parser: Parser, run: Callable[[argparse.Namespace], int], words: Sequence[str] | None = None) -> int:
    """Parses, runs, and turns errors into one line and exit code 2."""
    try:
        code = run(parser.parse_args(words))
        sys.stdout.flush()
        return code
    except TruelineError as error:
        return _complain(parser.prog, str(error))
    except OSError as error:
        return _complain(parser.prog, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except KeyboardInterrupt:
        return _complain(parser.prog, "interrupted; the same command goes on from here")


def exit_code(verdict: Verdict, measured: int) -> int:
    """0 clean, 1 findings; 2 where nothing was compared at all: that is no clean bill."""
    if verdict >= Verdict.FAIL:
        return EXIT_FINDINGS
    return EXIT_CLEAN if measured else EXIT_FAILED


def _complain(program: str, message: str) -> int:
    from trueline.report.terminal import visible

    print(f"{program}: {visible(' '.join(message.split()))}", file=sys.stderr)
    return EXIT_FAILED
