"""Runs trueline with many versions of torch, Paddle, Python and numpy, and writes down what works.

    python -m benchmarks.versions [--only NAME,...] [--list] [--stages STAGE,...] [--keep] [--smoke] [--table]

Makes one environment after another in a folder outside of the repository (``--folder``), installs trueline from this
tree, runs tests, bit identity, a demo, planted faults and a measurement of cost in it, and removes it again. Rows that
are not run keep what the last run said. NAME is ``torch-2.15-py3.12`` or a part of it. Interpreters are looked for in
``TRUELINE_PYTHONS`` (a list of programs, as in PATH), on PATH and below ``~/.pyenv``. Writes ``results/versions.json``
and ``results/versions.md``; ``--table`` writes from them the versions with which the C extensions may run. ``--smoke``
runs the newest torch alone, for a few minutes at most: exit code 1 where a capture is broken there, 0 where it works
or could not be tried in that time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.versions_rows import IDENTITY, REFERENCE, ROWS, TESTS, Row

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
JSON, MARKDOWN = RESULTS / "versions.json", RESULTS / "versions.md"
TABLE = ROOT / "src" / "trueline" / "frameworks" / "torch" / "verified.py"
LIMIT = 1800
"""Seconds that a stage may take."""
SMOKE_LIMIT = 300
NEWEST = "2.15.0"
STAGES = ("tests", "identity", "demo", "faults", "cost")
COLUMNS = (
    "version", "Python", "numpy", "supported", "way", "tests", "same bits", "demo", "faults", "fast costs",
    "portable costs",
)  # fmt: skip


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Failed(Exception):
    """A stage could not be run; the message says why."""


class Environment:
    """An interpreter with a framework and trueline, in a folder that goes with it."""

    def __init__(self, row: Row, folder: Path, interpreter: str) -> None:
        self.row = row
        self.folder = folder
        self.tree = folder / "tree"
        self.python = str(folder / "env" / "bin" / "python")
        self._interpreter = interpreter

    def make(self, limit: float = LIMIT) -> None:
        ends = time.monotonic() + limit
        if not Path(self.python).exists():
            self._must([self._interpreter, "-m", "venv", str(self.folder / "env")], limit)
            self._pip([*self.row.packages, "safetensors", "setuptools>=69", "wheel"], ends)
            self._pip(["pytest", "PyYAML", "rich", "tomli"], ends)
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in ("src", "tests", "benchmarks", "examples"):
            shutil.copytree(
                ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
            )
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            shutil.copy(ROOT / name, self.tree)
        self._pip(["--force-reinstall", "--no-build-isolation", "--no-deps", str(self.tree)], ends)
        shutil.rmtree(self.tree / "src")  # what is tested is what was installed

    def _pip(self, words: list[str], ends: float) -> None:
        install = [self.python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile"]
        self._must([*install, *words], ends - time.monotonic())

    def _must(self, command: list[str], limit: float) -> str:
        code, output = self.run(command, limit)
        if code:
            raise Failed(f"{' '.join(command[1:6])}…: exit code {code}: {output.strip()[-600:]}")
        return output

    def run(self, command: Sequence[str], limit: float = LIMIT) -> tuple[int, str]:
        """Runs a command in the tree; its exit code and what it said."""
        if limit <= 0:
            raise Failed("no time is left")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRUELINE_"))}
        clean |= {
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_NO_INPUT": "1",
        }
        where = self.tree if self.tree.exists() else self.folder
        try:
            done = subprocess.run(
                command, cwd=where, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not done within {limit:.0f} s") from error
        return done.returncode, done.stdout

    def program(self, name: str, *words: str) -> Any:
        """The line of JSON that one of ``versions_programs`` ends with."""
        output = self._must([self.python, "-m", "benchmarks.versions_programs", name, *words], LIMIT)
        lines = [line for line in output.splitlines() if line.startswith("result ")]
        if not lines:
            raise Failed(f"{name} said nothing: {output[-300:]}")
        return json.loads(lines[-1].removeprefix("result "))

    def pytest(self, files: Sequence[str]) -> dict[str, Any]:
        """Counts of a run of tests, and the names of those that failed."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        begun = time.monotonic()
        _, output = self.run([self.python, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *files])
        (self.folder / "pytest.log").write_text(output)
        if not report.exists():
            raise Failed(f"pytest made no report: {output[-600:]}")
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        skipped = sum(case.find("skipped") is not None for case in cases)
        return {
            "passed": len(cases) - len(bad) - skipped,
            "failed": len(bad),
            "skipped": skipped,
            "seconds": round(time.monotonic() - begun),
            "failures": {f"{case.get('classname')}::{case.get('name')}": _reason(case) for case in bad},
        }


def _reason(case: ElementTree.Element) -> str:
    found = case.find("failure") if case.find("failure") is not None else case.find("error")
    return (found.get("message") or "")[:300] if found is not None else ""


def stage_tests(one: Environment) -> Any:
    return one.pytest(TESTS[one.row.framework])


def stage_identity(one: Environment) -> Any:
    return one.pytest(IDENTITY[one.row.framework])


def stage_demo(one: Environment) -> Any:
    if one.row.framework == "paddle":
        found = one.program("paddle", str(_fresh(one.folder / "demo")))
        return {"works": found["right"] and found["same bits"], **found}
    code, output = one.run([one.python, "examples/01_drifting_loss/demo.py", "--out", str(one.folder / "demo")])
    return {"works": code == 0, "exit code": code, **({} if code == 0 else {"said": output[-800:]})}


def stage_faults(one: Environment) -> Any:
    return one.program("faults", str(_fresh(one.folder / "faults"))) if one.row.faults else None


def stage_cost(one: Environment) -> Any:
    return one.program("cost", str(_fresh(one.folder / "cost"))) if one.row.framework == "torch" else None


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


RUN = {
    "tests": stage_tests,
    "identity": stage_identity,
    "demo": stage_demo,
    "faults": stage_faults,
    "cost": stage_cost,
}


def interpreters() -> Iterator[str]:
    """Every interpreter that may be used, the named ones first."""
    yield from filter(None, os.environ.get("TRUELINE_PYTHONS", "").split(os.pathsep))
    for row in ROWS:
        found = shutil.which(f"python{row.python}")
        if found:
            yield found
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")))


def interpreter_for(python: str) -> str | None:
    """One that really is of this version: a shim on PATH may stand for none."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for program in interpreters():
        try:
            done = subprocess.run([program, "-c", ask], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.stdout.strip() == python:
            return program
    return None


@contextmanager
def _place(row: Row, folder: Path | None, keep: bool) -> Iterator[Path]:
    """Where an environment is made: a folder that goes away, or one that stays for the next time."""
    if keep and folder is not None:
        (folder / row.name).mkdir(parents=True, exist_ok=True)
        yield folder / row.name
        return
    with tempfile.TemporaryDirectory(prefix="trueline-versions-", dir=folder, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def measure(
    row: Row, folder: Path | None, stages: Sequence[str], known: dict[str, Any], keep: bool = False
) -> dict[str, Any]:
    """Runs the stages of a row; what was known of the others stays."""
    interpreter = interpreter_for(row.python)
    if interpreter is None:
        return known or {"not run": f"no interpreter of Python {row.python}"}
    with _place(row, folder, keep) as place:
        one = Environment(row, place, interpreter)
        say(f"{row.name}: installing")
        try:
            one.make()
            result = {
                **known,
                **one.program("about", row.framework),
                "machine": f"{platform.system()} {platform.machine()}",
            }
        except Failed as error:
            return {**known, "not run": str(error)}
        result.pop("not run", None)
        for stage in stages:
            say(f"{row.name}: {stage}")
            try:
                result[stage] = RUN[stage](one)
            except Failed as error:
                result[stage] = {"broken": str(error)}
    return result


def reasons_against(name: str, cells: dict[str, Any], rows: dict[str, Any]) -> list[str]:
    """Why a row is not supported; nothing where it is."""
    if "not run" in cells:
        return [f"not run: {cells['not run']}"]
    found = []
    for stage in ("tests", "identity", "demo"):
        cell = cells.get(stage)
        if cell is None or "broken" in cell:
            found.append(f"{stage}: {(cell or {}).get('broken', 'not run')}")
        elif cell.get("failed"):
            found.append(f"{stage}: {cell['failed']} failed")
        elif stage == "demo" and not cell["works"]:
            found.append("demo: the planted call was not named")
    same, of = same_faults(cells, rows)
    if cells.get("faults") and same < of:
        found.append(f"faults: {of - same} answers differ from those with torch 2.13")
    return found


def same_faults(cells: dict[str, Any], rows: dict[str, Any]) -> tuple[int, int]:
    """How many planted faults get the same answer as with the version of reference, of how many."""
    expected = rows.get(REFERENCE, {}).get("faults") or {}
    found = cells.get("faults") or {}
    return sum(found.get(name) == answer for name, answer in expected.items()), len(expected)


def right_faults(rows: dict[str, Any]) -> str:
    """How many of the answers of the version of reference are right: the same answer may be a wrong one."""
    answers = (rows.get(REFERENCE, {}).get("faults") or {}).values()
    return f", where {sum(bool(right) for right, _ in answers)} of {len(answers)} are right" if answers else ""


def markdown(rows: dict[str, Any]) -> str:
    """The matrix as a table, and what failed below it."""
    lines = [
        "# Versions",
        "",
        "Made by `python -m benchmarks.versions`: every cell was run, in an environment of its own; an empty one was",
        "not. Cost is processor time of a captured training step of a small transformer on the CPU, as a multiple of",
        f"the bare step. Faults: how many planted faults get the same answer as with torch 2.13{right_faults(rows)}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    notes = []
    for row in ROWS:
        cells = rows.get(row.name, {"not run": "not yet"})
        against = reasons_against(row.name, cells, rows)
        lines.append("| " + " | ".join(_cells(row, cells, against, rows)) + " |")
        notes += [f"- {row.name}: {reason}" for reason in against]
        notes += [
            f"  - `{test}`: {why.splitlines()[0] if why else ''}"
            for stage in ("tests", "identity")
            for test, why in (cells.get(stage) or {}).get("failures", {}).items()
        ]
        if cells.get("way"):
            notes.append(f"- {row.name}: {cells['way']}")
    return "\n".join([*lines, "", "## Notes", "", *notes]) + "\n"


def _cells(row: Row, cells: dict[str, Any], against: list[str], rows: dict[str, Any]) -> list[str]:
    counted = [_counts(cells.get(stage)) for stage in ("tests", "identity")]
    demo = cells.get("demo") or {}
    same, of = same_faults(cells, rows)
    cost = cells.get("cost") or {}
    return [
        f"{row.framework} {row.version}",
        cells.get("python", row.python),
        cells.get("numpy", ""),
        "not run" if "tests" not in cells else "no" if against else "yes",
        cells.get("way", "").split(" ")[0],
        *counted,
        "" if not demo else "named" if demo.get("works") else "no",
        f"{same}/{of}" if cells.get("faults") else "",
        f"{cost['fast_ratio']:.2f}" if "fast_ratio" in cost else "",
        f"{cost['portable_ratio']:.2f}" if "portable_ratio" in cost else "",
    ]


def _counts(cell: dict[str, Any] | None) -> str:
    if not cell or "passed" not in cell:
        return "-"
    return f"{cell['passed']} passed, {cell['failed']} failed, {cell['skipped']} skipped"


def write_table(rows: dict[str, Any]) -> None:
    """Writes down with which versions the C extensions passed all tests."""
    found: dict[str, list[str]] = {}
    for row in ROWS:
        cells = rows.get(row.name, {})
        if (
            row.framework == "torch"
            and cells.get("way", "").startswith("fast")
            and not reasons_against(row.name, cells, rows)
        ):
            found.setdefault(row.version, []).append(row.python)
    text = TABLE.read_text()
    head, begins, rest = text.partition("VERIFIED: dict[str, tuple[str, ...]] = {\n")
    _, ends, tail = rest.partition("}\n")
    entries = [
        f'    "{one}": ({", ".join(json.dumps(each) for each in sorted(found[one]))},),\n' for one in sorted(found)
    ]
    TABLE.write_text(head + begins + "".join(entries) + ends + tail)


def smoke(folder: Path | None) -> int:
    """Whether a capture works with the newest torch; whatever keeps this from being tried is no failure."""
    row = next(row for row in reversed(ROWS) if row.version == NEWEST and interpreter_for(row.python))
    interpreter = interpreter_for(row.python)
    assert interpreter is not None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trueline-smoke-", dir=folder, ignore_cleanup_errors=True) as scratch:
        one = Environment(row, Path(scratch), interpreter)
        try:
            one.make(SMOKE_LIMIT)
            code, output = one.run(
                [one.python, "-m", "pytest", "-p", "no:cacheprovider", "tests/capture/test_completeness.py"],
                SMOKE_LIMIT - (time.monotonic() - begun),
            )
        except (Failed, OSError) as error:
            print(f"not tried with torch {NEWEST}: {error}")
            return 0
    print(output[-2000:] if code else f"a capture works with torch {NEWEST}, Python {row.python}")
    return 1 if code else 0


def chosen(only: str) -> list[Row]:
    """The rows of which a name is a part: ``torch-2.15-py3.12`` is ``torch-2.15.0-py3.12``."""
    wanted = [part for part in only.split(",") if part]

    def fits(row: Row, name: str) -> bool:
        framework, _, rest = name.partition("-")
        version, _, python = rest.partition("-py")
        return row.framework == framework and row.version.startswith(version) and python in ("", row.python)

    return [row for row in ROWS if not wanted or any(fits(row, name) for name in wanted)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME,...", help="rows to run")
    parser.add_argument("--stages", default=",".join(STAGES), metavar="STAGE,...", help="what to run in each of them")
    parser.add_argument("--folder", type=Path, help="where environments are made (default: that for temporary files)")
    parser.add_argument("--keep", action="store_true", help="environments stay in --folder, and are used again")
    parser.add_argument("--list", action="store_true", help="only say which rows there are")
    parser.add_argument("--table", action="store_true", help="only write the table of verified versions and the page")
    parser.add_argument("--smoke", action="store_true", help="only try the newest torch, for some minutes at most")
    arguments = parser.parse_args(argv)
    stages = [stage for stage in arguments.stages.split(",") if stage]
    if set(stages) - set(STAGES):
        parser.error(f"stages are {', '.join(STAGES)}")
    if arguments.smoke:
        return smoke(arguments.folder)
    rows = _read()
    todo = [] if arguments.table else chosen(arguments.only)
    if arguments.list:
        print("\n".join(f"{row.name}  {interpreter_for(row.python) or 'no interpreter'}" for row in todo))
        return 0
    for row in todo:
        cells = measure(row, arguments.folder, stages, rows.get(row.name, {}), arguments.keep)
        rows = {**_read(), row.name: cells}  # another process may have measured other rows meanwhile
        _write(rows)
    if arguments.table:
        write_table(rows)
        _write(rows)
    print(markdown(rows).partition("## Notes")[0])
    return 1 if any(reasons_against(row.name, rows[row.name], rows) for row in todo) else 0


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JSON.read_text()) if JSON.exists() else {}
    return found


def _write(rows: dict[str, Any]) -> None:
    JSON.write_text(json.dumps({row.name: rows[row.name] for row in ROWS if row.name in rows}, indent=1) + "\n")
    MARKDOWN.write_text(markdown(rows))


if __name__ == "__main__":
    raise SystemExit(main())
