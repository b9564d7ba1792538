"""Finds the command and runs it; errors become one line and exit code 2.

argparse and not typer: on a machine where an empty Python starts in 0.02 s, importing typer took 0.10 s more and
argparse 0.01 s; and ``trueline capture`` runs where people train, where nothing but numpy and safetensors is to be
needed. Commands are imported when they are called for.
"""

from __future__ import annotations

import difflib
import importlib
import keyword
import sys
from collections.abc import Sequence

from trueline.cli.options import EXIT_FAILED, Parser, let_go
from trueline.errors import TruelineError

COMMANDS = {
    "capture": "run a program and record its calls into a Run",
    "compare": "compare two Runs and name where they part, and why",
    "overflow": "say where NaN and infinity were born in a Run, and whether they were meant",
    "check": "execute every call of a Run alone and say which are wrong",
    "exec": "execute every call of a Run alone and keep the outputs as a Run",
    "profile": "time every call of a Run alone and say which are slow or large",
    "diff": "hold two checks that were kept against each other: what fails now and did not",
    "triage": "group the failures of a check by likely cause and say who is wrong",
    "tolerances": "say how large the errors of a check are, and which tolerances would hold",
    "pipeline": "test train, export and infer of a project: that they run, and that their numbers agree",
    "import": "turn a dump of another tool into a Run",
    "export": "write the calls of a Run as config lines, or as another tool's dump",
    "report": "judge and write again a check that was kept, running nothing",
    "view": "show a Run, a comparison, a check or a pipeline as a page in the browser",
    "show": "print what is in a Run, or one of its calls",
    "adopt": "put the names and scripts of a predecessor into a project, so that its document works there",
    "doctor": "say what works on this machine",
}
"""Command -> what it does; the module that ``module_of`` names holds it."""

_USAGE = """usage: trueline COMMAND [options]

Finds out whether the numbers of a deep-learning program are right, and names the call that made them wrong.

commands:
{commands}

example:
  trueline capture --out runs/good -- python train.py
  trueline capture --out runs/bad  -- python train.py --new-kernels
  trueline compare runs/good runs/bad

`trueline COMMAND --help` says more. Exit codes: 0 clean, 1 findings, 2 the tool or its input failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_USAGE.format(commands="\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())))
        return 0 if words else EXIT_FAILED
    if words[0] in ("-V", "--version", "version"):
        from trueline._version import __version__

        print(f"trueline {__version__}")
        return 0
    if words[0] not in COMMANDS:
        return _complain("trueline", _unknown_command(words[0]))
    return _run(words[0], words[1:])


def module_of(name: str) -> str:
    """The module of a command: a name that Python keeps for itself has an underscore behind it."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _run(name: str, words: list[str]) -> int:
    command = importlib.import_module(f"trueline.cli.{module_of(name)}")
    parser: Parser = command.parser()
    try:
        code: int = command.run(parser.parse(words))
        sys.stdout.flush()
        return code
    except TruelineError as error:
        return _complain(parser.prog, str(error))
    except BrokenPipeError:
        let_go(sys.stdout)  # the reader (head, less) has seen enough: not a failure
        return 0
    except OSError as error:
        return _complain(parser.prog, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except KeyboardInterrupt:
        return _complain(parser.prog, "interrupted")


def _complain(program: str, message: str) -> int:
    from trueline.report.terminal import visible

    one_line = visible(" ".join(message.split()))
    print(f"{program}: {one_line}", file=sys.stderr)
    return EXIT_FAILED


def _unknown_command(word: str) -> str:
    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"no command {word!r}; {hint}"
