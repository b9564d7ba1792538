"""Programs that do unusual things are the same bits, errors and warnings under an observer; all: benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
WAYS = ("api/stats", "kernel/tensors", "watch")
PROGRAMS = (
    "optimizers_of_many_kinds",
    "jit_trace_before",
    "make_fx_of_a_gradient",
    "class_that_is_no_tensor_answers_torch_functions",
    "user_traces_with_settrace",
    "texts_and_frames_of_exceptions",
    "forked_pool_that_maps",
    "shapes_and_sizes_are_plain",
    "parametrization_registered_and_removed",
    "function_mode_that_replaces_a_function",
    "data_and_detach_and_versions",
    "vmap_refuses_item_and_if",
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the programs run in forked children")
def test_nothing_changes_for_odd_programs(tmp_path):
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks.odd_programs.run", "--only", ",".join(PROGRAMS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "--ways", ",".join(WAYS), "--out", str(out)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["programs"]
    ran = [row for row in rows if "skip" not in row]
    assert len(rows) == len(PROGRAMS) and ran
    assert {row["name"]: row["ways"] for row in ran} == {row["name"]: {way: [] for way in WAYS} for row in ran}
