"""The commands that read Runs and checks, called in this process, and what they answered in a form to compare."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.damage_sources import Source

_TIMES = re.compile(
    r"\d[\d.,e+-]*\s?(?:s|ms|µs|ns|cases/s|seconds?)\b|20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[+-]\d\d:\d\d)?"
)
_SECONDS = re.compile(r'("(?:seconds|total_seconds|created|time|peak_bytes|folder|checksum)": )("[^"]*"|[-\d.e+]+)')
_BYTES_ON_DISK = re.compile(r'"bytes": \d+|[\d.,]+ [kMG]?B\b')


@dataclass(frozen=True)
class Answer:
    """What a command gave: exit code (None for an error that nobody caught), words, and files or output."""

    code: int | None
    words: str
    content: str


@dataclass(frozen=True)
class Command:
    """A command line; ``view`` instead for what only the server asks for. ``every`` says of how many mutations one is
    read by it: some are too slow for all. Of what measures times only the lines that match ``lines`` are its answer."""

    name: str
    words: tuple[str, ...]
    every: int = 1
    lines: str = ""


def commands(source: Source) -> list[Command]:
    """All that read this kind of folder."""
    return _CHECK_COMMANDS if source.kind == "check" else _run_commands(source)


_CHECK_COMMANDS = [
    Command("report", ("report", "run", "--json", "out.json", "--html", "out.html")),
    Command("report --standard", ("report", "run", "--standard", "allclose", "--csv", "out.csv")),
    Command("report --baseline", ("report", "twin", "--baseline", "run")),
    Command("diff", ("diff", "twin", "run", "--json", "-")),
    Command("diff, as the old one", ("diff", "run", "twin")),
    Command("triage", ("triage", "run", "--no-opinions", "--out", "out", "--json")),
    Command("tolerances", ("tolerances", "run", "--out", "out", "--json")),
    Command("view", ("view", "check")),
    Command("check, on", ("check", "lines.txt", "--target", "torch:cpu", "--workers", "0", "--out", "twin_again"), 10),
]  # fmt: skip


def _run_commands(source: Source) -> list[Command]:
    foreign = "apex" if source.framework == "paddle" else "msprobe"
    return [
        Command("show", ("show", "run")),
        Command("show --json", ("show", "run", "--json")),
        Command("show CALL", ("show", "run", source.call, "--json")),
        Command("show CALL --stack", ("show", "run", source.call, "--stack", "--step", "1", "--rank", "0")),
        Command("compare", ("compare", "twin", "run", "--json", "out.json", "--html", "out.html")),
        Command("compare, as the reference", ("compare", "run", "twin", "--csv", "out.csv")),
        Command("overflow", ("overflow", "run", "--json", "-")),
        Command("report --html", ("report", "run", "--html", "out.html")),
        Command("export --configs", ("export", "run", "--configs", "-", "--counts")),
        Command("export --format", ("export", "run", "--format", foreign, "--out", "out")),
        Command("check", ("check", "run", "--target", "torch:cpu", "--workers", "0", "--limit", "6", "--json", "-"), 2),
        Command("exec", ("exec", "run", "--target", "torch:cpu", "--workers", "0", "--limit", "4", "--out", "out"), 4),
        Command(
            "profile",
            ("profile", "run", "--target", "torch:cpu", "--limit", "1", "--budget", "0.01"),
            60,
            r"PARTIAL RECORD  .*|  (source|calls) .*",
        ),
        Command("view", ("view", "run")),
        Command("view --overflow", ("view", "overflow")),
        Command("view, a comparison", ("view", "comparison")),
    ]


def call(command: Command) -> Answer:
    """Calls a command in the current folder."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = _VIEWS[command.words[1]]() if command.words[0] == "view" else _main(command.words)
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((f for f in reversed(frames) if "/trueline/" in f.filename), frames[-1])
            where = f"{place.filename.rpartition('/trueline/')[2]}:{place.lineno}"
            return Answer(None, f"{type(error).__name__} at {where}: {str(error)[:300]}", "")
    given = out.getvalue() + _written()
    if command.lines:
        given = "\n".join(line for line in given.splitlines() if re.fullmatch(command.lines, line))
    return Answer(code, err.getvalue(), _plain(given))


def _main(words: tuple[str, ...]) -> int:
    from trueline.cli.main import main

    return main(words)


def _written() -> str:
    """What was written into files."""
    found = []
    for path in sorted(Path().glob("out*")):
        for file in sorted([path, *path.rglob("*")] if path.is_dir() else [path]):
            if file.is_file() and file.suffix != ".db":  # its pages hold the time
                found.append(f"{file}\n{file.read_bytes().decode('utf-8', 'replace')}")
    return "\n".join(found)


def _plain(text: str) -> str:
    """Without what is another each time."""
    text = _SECONDS.sub(r"\1", text)
    return _BYTES_ON_DISK.sub("BYTES", _TIMES.sub("TIME", text))


def _told(make: Callable[[], Any], questions: Mapping[str, Mapping[str, str]]) -> int:
    """What the command line does with errors, for a page and what it asks for."""
    from trueline.errors import TruelineError

    try:
        view = make()
        answers = [view.page(), *(view.answer(name, words) for name, words in questions.items())]
    except TruelineError as error:
        import sys

        print(f"trueline view: {error}", file=sys.stderr)
        return 2
    print("\n".join("nothing" if one is None else one.content.decode() for one in answers))
    return 0


def _view_run() -> int:
    def make() -> Any:
        from trueline.store import open_run
        from trueline.web.run_page import run_page

        return run_page(open_run("run"))

    return _told(make, {"data/detail": {"position": "1"}, "data/rows": {}, "data/call": {"position": "2"}})


def _view_overflow() -> int:
    def make() -> Any:
        from trueline.web.overflow_page import overflow_page

        return overflow_page(Path("run"))

    return _told(make, {"data/detail": {"position": "0"}})


def _view_comparison() -> int:
    def make() -> Any:
        from trueline.diagnose import compare_runs
        from trueline.web.comparison_page import comparison_page

        return comparison_page(compare_runs("run", "twin"))

    return _told(make, {"data/detail": {"position": "1"}})


def _view_check() -> int:
    def make() -> Any:
        from trueline.web.check_page import check_page

        return check_page(Path("run"), standard=None, baseline=None)

    return _told(make, {"data/detail": {"position": "1"}, "data/rows": {}})


_VIEWS: dict[str, Callable[[], int]] = {
    "run": _view_run, "overflow": _view_overflow, "comparison": _view_comparison, "check": _view_check,
}  # fmt: skip
