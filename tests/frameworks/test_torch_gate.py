"""Which way captures take: verified versions, trials in a process of their own, and everything else in Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from trueline.frameworks.torch import calls, fast, gate, trial, trials  # noqa: E402
from trueline.frameworks.torch.gate import Place, Way  # noqa: E402
from trueline.frameworks.torch.verified import LACKING, MACHINE, VERIFIED  # noqa: E402

RELEASE, (PYTHON, *_) = next(iter(VERIFIED.items()))
KNOWN = Place(f"{RELEASE}+cpu", "/nowhere", (__file__,), f"{PYTHON}.9", MACHINE, False)
UNKNOWN = replace(KNOWN, torch="99.1.0")
GOOD = (
    "import json,sys; print('noise'); [print('trueline-trial ' + json.dumps({k: 'ok'})) for k in ('portable', 'fast')]"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRUELINE_NO_KERNELS", raising=False)
    return tmp_path / "cache" / "trueline"


@pytest.fixture
def a_trial(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[list[str]]]:
    """``a_trial(code)``: trials run this program; gives the list of those that were started."""

    def become(code: str) -> list[list[str]]:
        begun: list[list[str]] = []
        run = subprocess.run

        def instead(command: list[str], **options: Any) -> Any:
            begun.append(command)
            return run([sys.executable, "-c", code], **options)

        monkeypatch.setattr(trials.subprocess, "run", instead)
        return begun

    return become


def test_a_verified_version_is_fast_without_a_trial(a_trial: Callable[[str], list[list[str]]]) -> None:
    begun = a_trial("raise SystemExit('a trial was made')")
    assert gate.decide(KNOWN) == Way(True, f"verified with torch {RELEASE} and Python {PYTHON}")
    assert begun == []


@pytest.mark.parametrize(
    "other",
    [
        {"torch": "99.1.0"}, {"torch": f"{RELEASE}a0+gitabc"}, {"torch": f"{RELEASE}+mine"}, {"python": "3.99.0"},
        {"machine": "Linux aarch64"},
    ],
)  # fmt: skip
def test_whatever_else_there_is_has_a_trial(other: dict[str, str], a_trial: Callable[[str], list[list[str]]]) -> None:
    begun = a_trial(GOOD)
    way = gate.decide(replace(KNOWN, **other))
    assert way.fast and way.why.startswith("tried out with torch")
    assert len(begun) == 1


def test_what_a_trial_found_is_kept(a_trial: Callable[[str], list[list[str]]], own_cache: Path) -> None:
    begun = a_trial(GOOD)
    first, second = gate.decide(UNKNOWN), gate.decide(UNKNOWN)
    assert first == second and len(begun) == 1
    assert [file.suffix for file in own_cache.iterdir()] == [".json"]
    gate.decide(replace(UNKNOWN, torch="99.2.0"))
    gate.decide(replace(UNKNOWN, python="3.99.1"))
    assert len(begun) == 3, "another torch or Python has a trial of its own"


def test_another_build_of_the_extension_has_another_trial(
    a_trial: Callable[[str], list[list[str]]], tmp_path: Path
) -> None:
    begun = a_trial(GOOD)
    file = tmp_path / "_look.so"
    file.write_bytes(b"one")
    gate.decide(replace(UNKNOWN, extensions=(str(file),)))
    file.write_bytes(b"another")
    gate.decide(replace(UNKNOWN, extensions=(str(file),)))
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV"),
        ("sys.exit('torn')", "exit code 1: torn"),
        ("say('fast', 'graph: other calls than in Python')", "graph: other calls than in Python"),
    ],
)
def test_a_trial_that_goes_wrong_means_the_portable_way(
    after: str, said: str, a_trial: Callable[[str], list[list[str]]]
) -> None:
    begun = a_trial(
        "import json,os,signal,sys\n"
        "say = lambda key, text: print('trueline-trial ' + json.dumps({key: text}), flush=True)\n"
        f"say('portable', 'ok')\n{after}"
    )
    for _ in range(2):
        way = gate.decide(UNKNOWN)
        assert not way.fast and way.broken == ""
        assert way.why == f"the C extensions failed their trial with torch 99.1.0: {said}"
    assert len(begun) == 1, "it would go wrong again"


def test_a_trial_says_when_even_the_portable_way_is_broken(a_trial: Callable[[str], list[list[str]]]) -> None:
    a_trial('print(\'trueline-trial {"portable": "AttributeError: gone"}\')')
    way = gate.decide(UNKNOWN)
    assert not way.fast and way.broken == "AttributeError: gone"


def test_a_trial_that_cannot_be_made_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*_: Any, **__: Any) -> Any:
        asked.append(1)
        raise PermissionError("no processes here")

    monkeypatch.setattr(trials.subprocess, "run", refuse)
    way = gate.decide(UNKNOWN)
    assert not way.fast and "not possible: no processes here" in way.why
    gate.decide(UNKNOWN)
    assert len(asked) == 2


def test_a_trial_has_its_time(monkeypatch: pytest.MonkeyPatch, a_trial: Callable[[str], list[list[str]]]) -> None:
    monkeypatch.setattr(trials, "LIMIT", 0.2)
    a_trial("import time; time.sleep(60)")
    way = gate.decide(UNKNOWN)
    assert not way.fast and "took more than 0.2 s" in way.why


def test_a_folder_that_cannot_be_written_is_no_trouble(
    a_trial: Callable[[str], list[list[str]]], own_cache: Path
) -> None:
    own_cache.parent.mkdir(parents=True)
    own_cache.write_text("a file where the folder should be")
    a_trial(GOOD)
    assert gate.decide(UNKNOWN).fast


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fast": true}'])
def test_a_damaged_file_of_the_cache_means_another_trial(
    text: str, a_trial: Callable[[str], list[list[str]]], own_cache: Path
) -> None:
    begun = a_trial(GOOD)
    gate.decide(UNKNOWN)
    (file,) = own_cache.iterdir()
    file.write_text(text)
    assert gate.decide(UNKNOWN).fast and len(begun) == 2
    assert json.loads(file.read_text())["fast"] is True


def test_a_python_without_the_global_lock_takes_the_portable_way() -> None:
    way = gate.decide(replace(KNOWN, free_threaded=True))
    assert not way.fast and "global lock" in way.why


def test_extensions_that_were_not_built_are_said() -> None:
    assert gate.decide(replace(KNOWN, extensions=())) == Way(False, "the C extensions were not built")


@pytest.mark.parametrize("release", LACKING)
def test_what_a_version_lacks_is_known_without_a_trial(release: str, a_trial: Callable[[str], list[list[str]]]) -> None:
    begun = a_trial(GOOD)
    way = gate.decide(replace(KNOWN, torch=f"{release}.1"))
    assert not way.fast and LACKING[release] in way.why and begun == []
    assert not any(version.rpartition(".")[0] == release for version in VERIFIED)


def test_the_variable_switches_the_extensions_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    assert str(gate.way()) == "portable (switched off by TRUELINE_NO_KERNELS)"
    assert fast.fast_looks() is None and calls.fast_calls() is None


def test_the_real_trial_of_this_torch_ends_in_a_verdict(tmp_path: Path) -> None:
    """The extensions agree with Python here, or the trial says where they do not; on a verified version they agree."""
    here = gate.place()
    if not here.extensions:
        pytest.skip("the C extension was not built")
    done = subprocess.run(
        [sys.executable, "-m", "trueline.frameworks.torch.trial", torch.__version__],
        env=trials._environment(os.environ), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = [json.loads(line.removeprefix(trials.MARK)) for line in done.stdout.splitlines() if trials.MARK in line]
    assert said[0] == {"portable": "ok"}, done.stderr[-500:]
    assert done.returncode == 0 and (said[1] == {"fast": "ok"}) is gate.decide(here).fast, said


def test_the_trial_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared can be unequal: another program in the second round is noticed."""
    programs = trial.PROGRAMS
    monkeypatch.setattr(trial, "PROGRAMS", programs[1:2])
    monkeypatch.setattr(gate, "_forced", False)
    expected = trial.recorded()
    monkeypatch.setattr(trial, "PROGRAMS", programs[2:3])
    (other,) = trial.recorded()
    assert [part for part in other if other[part] != expected[0][part]] == ["calls", "visits", "definitions", "tensors"]


def test_a_trial_takes_no_part_in_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "RANK": "3",
        "WORLD_SIZE": "8",
        "TRUELINE_NO_KERNELS": "1",
        "HOME": "/home/me",
        "CUDA_VISIBLE_DEVICES": "5",
    }
    found = trials._environment(given)
    assert found["HOME"] == "/home/me" and found["CUDA_VISIBLE_DEVICES"] == ""
    assert not {"RANK", "WORLD_SIZE", "TRUELINE_NO_KERNELS"} & set(found)


def test_no_trial_is_made_by_importing(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, torch\n"  # torch itself may start one: 2.15 asks for the libraries of CUDA
        "subprocess.Popen.__init__ = lambda *a, **k: sys.exit('a process was started')\n"
        "import trueline, trueline.frameworks.torch.doors, trueline.frameworks.torch.light\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_gate_needs_no_torch() -> None:
    code = "import sys; from trueline.frameworks.torch import gate; gate.place(); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_says_which_way_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    with trueline.capture(tmp_path / "run", framework="torch") as capture:
        torch.relu(torch.ones(2))
    expected = {"torch": "portable (switched off by TRUELINE_NO_KERNELS)"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ways"] == expected
    assert capture.certificate is not None and capture.certificate.ways == expected


def test_an_extension_whose_own_checks_fail_is_not_used_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_forced", True)
    monkeypatch.setattr(fast, "_load", lambda: None)
    assert calls.fast_calls() is None
    assert not calls.way_taken().fast and "not what torch says" in calls.way_taken().why
