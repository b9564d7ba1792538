"""The laws of the house, kept by tests: who may import whom, what is public, what the documents promise."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trueline

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "trueline"

# Each layer may import the ones before it, never its own siblings (except inside one room) nor the ones after.
LAYERS = (
    {"_version", "checked", "errors", "tree"},
    {"dtypes", "records"},
    {"cases"},
    {"events", "graphs", "groups", "overflows", "pipelines", "profiles"},
    {"numerics", "ops", "formats"},
    {"store"},
    {"frameworks"},
    {"capture", "replay", "compare", "judge", "report"},
    {"diagnose", "campaign", "exchange"},
    {"pipeline", "web"},
    {"compat"},
    {"cli"},
)
LEVEL = {room: number for number, layer in enumerate(LAYERS) for room in layer}
FRAMEWORKS = {"torch", "paddle", "triton"}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    top = {SOURCE / "__init__.py", SOURCE / "__main__.py"}
    return sorted(path for path in SOURCE.rglob("*.py") if path not in top)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_every_room_has_a_layer() -> None:
    assert {room_of(path) for path in modules()} <= set(LEVEL)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    for name in imports_of(path):
        if not name.startswith("trueline."):
            continue
        other = name.split(".")[1]
        if other in LEVEL and other != room:
            assert LEVEL[other] < LEVEL[room], f"{room} must not import {other}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_frameworks_and_kernels_import_a_framework(path: Path) -> None:
    if room_of(path) in ("frameworks", "numerics"):
        return
    assert not {name.split(".")[0] for name in imports_of(path)} & FRAMEWORKS


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bpickle\b|(?<![\w.])eval\(|weights_only=False", text)


def fresh(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_importing_trueline_imports_no_framework() -> None:
    loaded = set(json.loads(fresh("import trueline, sys, json; print(json.dumps(sorted(sys.modules)))")))
    assert not loaded & {"torch", "paddle", "triton", "numba", "pandas", "scipy", "rich", "typer"}


def test_that_test_can_fail() -> None:
    pytest.importorskip("torch")
    loaded = json.loads(fresh("import trueline, torch, sys, json; print(json.dumps('torch' in sys.modules))"))
    assert loaded


def test_public_names_are_sorted_and_there() -> None:
    assert sorted(trueline.__all__) == trueline.__all__
    assert all(hasattr(trueline, name) for name in trueline.__all__)


def test_public_names_survive_the_rooms_of_the_same_name() -> None:
    """The rooms ``capture`` and ``compare`` share their names with functions; the functions must win."""
    code = "import trueline.capture.launch, trueline.compare.align, trueline as t\n"
    code += "print(callable(t.capture), callable(t.compare))"
    assert fresh(code).split() == ["True", "True"]


def documented_commands() -> set[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return set(re.findall(r"trueline (\w+)", " ".join(re.findall(r"`[^`]*`|^\$ .*$", text, flags=re.MULTILINE))))


def test_documented_commands_exist() -> None:
    named = documented_commands()
    assert {"capture", "compare", "show", "doctor"} <= named
    for command in named:
        answer = subprocess.run(
            [sys.executable, "-m", "trueline", command, "--help"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            timeout=60,
            check=False,
        )
        assert answer.returncode == 0, f"trueline {command} --help: {answer.stderr}"
        assert "example" in answer.stdout


def test_readme_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"make {target} is not in the Makefile"


def test_the_demo_of_the_readme_runs(tmp_path: Path) -> None:
    """What ``make demo`` does, without its set-up."""
    pytest.importorskip("torch")
    answer = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "01_drifting_loss" / "demo.py"), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},  # other tests need the other cores
        timeout=240,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-2000:]
    assert answer.stdout.count("the planted call was named") == 2
    assert (tmp_path / "out" / "report.html").exists()
