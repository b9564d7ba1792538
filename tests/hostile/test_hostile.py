"""Data never becomes code: of a file that came from somebody else nothing is executed, written, read or imported,
whatever is in it, and no call that is no declared operator passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.hostile.bait import Bait
from tests.hostile.names import Hostile
from tests.hostile.victim import GUARD, PASSED, REFUSED, Result, Victim
from tests.hostile.ways import WAYS

Way = Callable[[str], Result]
TOLD_BY_ROW = (
    "config lines under check",
    "config lines under check across frameworks",
    "Run under check",
    "journal under check",
    "Run under exec",
    "Run under profile",
)
WITH_REASONS = ("config lines under check", "Run under check")


def told(result: Result, numbers: set[int]) -> str:
    """The first of some calls, in words."""
    names = {call.number: f"{call.kind}: {call.name[:80]!r}" for call in result.calls}
    return f"{len(numbers)} calls: " + "; ".join(names.get(one, "not known which") for one in sorted(numbers)[:12])


@pytest.mark.parametrize("name", WAYS)
def test_nothing_is_executed(name: str, way: Way) -> None:
    result = way(name)
    assert not result.harm.executed, told(result, result.harm.executed) + "\n" + "\n".join(result.harm.told[:8])


@pytest.mark.parametrize("name", WAYS)
def test_nothing_is_written_or_read(name: str, way: Way) -> None:
    result = way(name)
    touched = result.harm.written | result.harm.read
    assert not touched, told(result, touched) + "\n" + "\n".join(result.harm.told[:8])


@pytest.mark.parametrize("name", WAYS)
def test_a_file_is_refused_in_words(name: str, way: Way) -> None:
    """Exit codes are ours, and nobody sees a traceback."""
    result = way(name)
    assert not result.tracebacks
    assert {done.code for done in result.commands} <= {0, 1, 2}


@pytest.mark.parametrize("name", WAYS)
def test_what_is_harmless_in_the_file_is_done(name: str, way: Way) -> None:
    """Otherwise the hostile part of it was not looked at either."""
    assert way(name).good


@pytest.mark.parametrize("name", WAYS)
def test_nothing_steers_the_terminal(name: str, way: Way) -> None:
    printed = "".join(done.out + done.err for done in way(name).commands)
    steering = {char for char in printed if (ord(char) < 32 and char not in "\n\t\r") or 0x7F <= ord(char) < 0xA0}
    assert not steering


@pytest.mark.parametrize("name", WAYS)
def test_no_page_holds_markup_of_the_file(name: str, way: Way) -> None:
    for page in way(name).pages:
        if page.suffix == ".html" and page.exists():
            text = page.read_text(encoding="utf-8", errors="replace")
            for markup in ("<script>alert(1)", "<img src=x onerror", "<svg onload", "<iframe src=", "<script>fetch("):
                assert markup not in text, f"{markup} in {page.name}"


@pytest.mark.parametrize("name", TOLD_BY_ROW)
def test_no_hostile_call_passes(name: str, way: Way) -> None:
    result = way(name)
    assert not result.passed(), told(result, result.passed())


@pytest.mark.parametrize("name", TOLD_BY_ROW)
def test_a_name_that_is_no_operator_is_never_reached(name: str, way: Way) -> None:
    result = way(name)
    undeclared = {call.number for call in result.calls if not call.declared}
    assert not result.reached() & undeclared, told(result, result.reached() & undeclared)


@pytest.mark.parametrize("name", WITH_REASONS)
def test_every_refusal_has_its_reason(name: str, way: Way) -> None:
    """``no operator`` for what the framework does not declare, or why the line is none."""
    result = way(name)
    reasons = {call.number: result.rows[call.number] for call in _undeclared(result) if call.number in result.rows}
    assert reasons
    silent = {number for number, row in reasons.items() if row.state == REFUSED and not _says_why(row.reason)}
    assert not silent, told(result, silent) + f"\n{reasons[min(silent)].reason[:300]}"


def test_every_config_line_is_accounted_for(way: Way) -> None:
    result = way("config lines under check")
    assert {call.number for call in result.calls if not call.alone} <= set(result.rows)


def _undeclared(result: Result) -> Sequence[Hostile]:
    return [call for call in result.calls if not call.declared]


def _says_why(reason: str) -> bool:
    reasons = ("no operator", "cannot be read", "expected the dotted name", "communicates with other ranks")
    return any(words in reason for words in reasons)


def test_the_names_are_many_and_distinct(calls: tuple[Hostile, ...]) -> None:
    assert len({call.name for call in calls}) >= 700
    assert len({call.digest for call in calls}) == len(calls)
    assert 0.4 < sum(call.counted_only for call in calls) / len(calls) < 0.6


CONTROLS = {
    "executed": [
        "import os; os.system(shell)",
        "import subprocess; subprocess.run(['touch', ran])",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import trueline_canary'])",
        "import os\nif os.fork() == 0: os.execvp('touch', ['touch', ran])\nos.wait()",
        "import os; os.posix_spawnp('touch', ['touch', ran], os.environ)",
        "eval(python.replace('touch', 'true'))",
        "exec(compile(python.replace('touch', 'true'), 'x', 'exec'))",
        "import importlib; importlib.import_module('trueline_canary')",
        "import urllib.request, contextlib\nwith contextlib.suppress(OSError): urllib.request.urlopen(url)",
        "import ctypes, contextlib\nwith contextlib.suppress(OSError): ctypes.CDLL(library)",
        "import pickle; pickle.load(open(stored, 'rb'))",
    ],
    "written": ["open(wrote, 'w')", "import os; os.mkdir(wrote)", "import os; os.symlink(secret, wrote)",
                "import torch; torch.from_file(wrote, shared=True, size=4)"],
    "read": ["open(secret).read()", "print(open(secret).read())", "import os; os.listdir(hub)"],
}  # fmt: skip


@pytest.mark.parametrize(("harm", "code"), [(harm, code) for harm, codes in CONTROLS.items() for code in codes])
def test_the_guard_sees(harm: str, code: str, tmp_path: Path) -> None:
    """What is done on purpose is seen, and told with its number."""
    with Bait(tmp_path / "bait", [7]) as bait:
        fill = bait.fill(7)
        marks = ("shell", "python", "ran", "wrote", "secret", "url", "library", "hub")
        head = "".join(f"{mark} = {fill('{' + mark + '}')!r}\n" for mark in marks)
        head += f"stored = {fill('{pickle}')!r}\n"
        Victim(tmp_path / "work", bait, []).python("-c", head + code)
        found = getattr(bait.harm(), harm)
        assert found and found <= {0, 7}


def test_the_guard_is_silent_about_ourselves(tmp_path: Path) -> None:
    """A check of harmless lines, with its workers and files, touches nothing."""
    with Bait(tmp_path / "bait", [7]) as bait:
        victim = Victim(tmp_path / "work", bait, [])
        lines = tmp_path / "lines.txt"
        lines.write_text('torch.relu(Tensor([4],"float32"), )\n')
        words = ("--target", "torch:cpu", "--workers", "1", "--out", tmp_path / "out", "--html", tmp_path / "page.html")
        done = victim.trueline("check", lines, *words)
        harm = bait.harm([done.out, done.err])
        assert done.code == 0 and not harm, harm.told


def test_a_row_that_passes_is_seen_as_passed() -> None:
    """The tests above can fail: a result of a call that passed says so."""
    from tests.hostile.ways import _row, _worse

    assert _row("pass", 0, "equal").state == PASSED
    assert _row("skipped", 2, "no operator").state == REFUSED
    assert _worse(_row("skipped", 2, "x"), _row("pass", 0, "")).state == PASSED
    assert GUARD.is_dir()
