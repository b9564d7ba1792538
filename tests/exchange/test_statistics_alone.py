"""Dumps that hold four numbers of each tensor: they prove that two runs differ, never that they do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.diagnose import compare_runs
from trueline.exchange import export_run, import_run
from trueline.records import Verdict


def dumped(folder: Path, name: str, factor: float) -> Path:
    """A program of four calls, the third of which gives ``factor`` times what it should, as msprobe's statistics."""
    x, weight = array(32, 16, seed=1), array(8, 16, seed=2)
    y = (x @ weight.T).astype(np.float32)
    z = (np.maximum(y, 0) * factor).astype(np.float32)
    indices = np.array([0, 3, 5], dtype=np.int64)  # of integers msprobe writes neither mean nor norm
    calls = [
        Spec("torch.nn.functional.embedding", [indices, weight], [weight[indices]], module="tokens"),
        Spec("torch.nn.functional.linear", [x, weight], [y], module="fc"),
        Spec("torch.relu", [y], [z], module="act", source=("model.py", 7, "forward")),
        Spec("torch.Tensor.mul", [z, 2], [z * 2]),
    ]
    write_run(folder / f"{name}-run", calls)
    export_run(folder / f"{name}-run", folder / f"{name}-dump", format="msprobe", tensors=False)
    _without_sums_of_integers(folder / f"{name}-dump")
    import_run(folder / f"{name}-dump", folder / name)
    return folder / name


def _without_sums_of_integers(dump: Path) -> None:
    (file,) = dump.rglob("dump.json")
    content = json.loads(file.read_text())
    (indices,) = [
        node
        for call in content["data"].values()
        for node in (*call.get("input_args", ()), *call.get("output", ()))
        if isinstance(node, dict) and node.get("dtype") == "torch.int64"
    ]
    indices["Mean"] = indices["Norm"] = None
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.NOT_COMPARED), (1.05, Verdict.FAIL)])
def test_a_clear_difference_is_named_and_agreement_is_no_proof(tmp_path: Path, factor: float, verdict: Verdict) -> None:
    with compare_runs(dumped(tmp_path, "good", 1.0), dumped(tmp_path, "other", factor)) as report:
        assert report.verdict is verdict
        found = report.first_divergence
        assert (found.api if found else None) == (None if factor == 1.0 else "torch.relu")
