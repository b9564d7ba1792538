"""What the walks through the predecessors' documents share: running their commands as a shell would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ROOT / "src" / "trueline" / "compat" / "names"

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def adopted_shell(tmp_path: Path) -> Shell:
    """The same with trueline installed, and nothing else on the path: what a project has adopted must do."""
    return _shell(tmp_path, [ROOT / "src"])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs words, or a line of a shell, in the folder of the test, with the old names on the path as their documents
    ask for, and gives what came of it. ``codes`` are the exit codes that are allowed."""
    return _shell(tmp_path, [ROOT / "src", NAMES])


def _shell(tmp_path: Path, path: Sequence[Path]) -> Shell:
    def run(
        words: Sequence[str] | str, *, folder: Path | None = None, codes: Sequence[int] = (0,), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        done = subprocess.run(
            words, shell=isinstance(words, str), cwd=folder or tmp_path, env=environment, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    return run
