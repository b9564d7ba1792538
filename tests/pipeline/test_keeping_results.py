"""How a stage ended is written down, whatever other stages do to the folder meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from trueline.pipeline.resume import RESULT_FILE, Memory
from trueline.pipelines import Command, Stage, StageKind, StageResult, StageStatus
from trueline.records import Verdict


def result() -> StageResult:
    stage = Stage("chain/eval", StageKind.EVAL, Command("true"))
    return StageResult(stage, StageStatus.DONE, Verdict.PASS)


@pytest.mark.parametrize("times", [1, 2])
def test_a_folder_that_somebody_deletes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    folder, left = tmp_path / "out" / "stage", [times]
    write = Path.write_text

    def deleted_first(path: Path, *text: Any, **more: Any) -> int:
        if left[0] and path.parent == folder:
            left[0] -= 1
            shutil.rmtree(tmp_path / "out")
        return write(path, *text, **more)

    monkeypatch.setattr(Path, "write_text", deleted_first)
    Memory(tmp_path / "out", tmp_path, "never").keep(result(), "key", folder)
    assert (folder / RESULT_FILE).exists()
