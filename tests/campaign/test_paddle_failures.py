"""Scripts for failures of Paddle, and of one framework against the other, are run and show the failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402
from trueline.campaign.check import pool_settings  # noqa: E402
from trueline.campaign.failures import SavedFailure, save_failures  # noqa: E402
from trueline.cases import Target  # noqa: E402
from trueline.judge.checks import check_standard_named  # noqa: E402

GELU = "paddle.nn.functional.gelu"
KERNELS = "tests.helpers.wrong_paddle_kernels"


def saved(
    tmp_path: Path, lines: list[str], reference: str, kernel: str, place: str = "paddle:cpu"
) -> dict[str, tuple[SavedFailure, str]]:
    """The failures of some lines, by API, with their scripts."""
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"target": place, "overrides": {GELU: f"{KERNELS}:{kernel}"}}
    report = trueline.check(
        tmp_path / "lines.txt", reference=reference, out=tmp_path / "check", workers=0, **options
    )
    target, judge = Target.parse(place, options["overrides"]), check_standard_named("calibrated")
    settings = pool_settings(target, 0, 60.0, None)
    found = save_failures(report, target, Target.parse(reference), judge, settings, seconds=3.0)
    assert len(found) == len(report.failures) == len(lines)
    scripts = {one.key: (one, (one.folder / "repro.py").read_text(encoding="utf-8")) for one in found}
    assert all(json.loads((one.folder / "failure.json").read_text())["reproduced"] is one.reproduced for one in found)
    return {failure.case.api: scripts[failure.case.key] for failure in report.failures}


@pytest.mark.parametrize("kernel", ["wrong_gradient", "writes_to_its_argument"])
def test_plain_paddle_shows_a_wrong_kernel(tmp_path: Path, kernel: str) -> None:
    found, script = saved(tmp_path, [f'{GELU}(Tensor([8, 16],"float32"), )'], "paddle:cpu", kernel)[GELU]
    assert found.reproduced, (found.note, script)
    assert found.elements < found.elements_before
    assert "import paddle" in script and "import torch" not in script and "import trueline" not in script


def test_a_script_makes_the_graph_that_its_target_makes(tmp_path: Path) -> None:
    line = f'{GELU}(Tensor([8, 16],"float32"), )'
    found, script = saved(tmp_path, [line], "paddle:cpu", "negated", "paddle:cpu+static")[GELU]
    assert found.reproduced, (found.note, script)
    assert "graph_of(override)" in script and "paddle.jit.to_static" in script


def test_both_frameworks_show_what_is_different(tmp_path: Path) -> None:
    """A wrong kernel; a backward that raises; a slope that Paddle keeps in float32 where it computes in float64."""
    pytest.importorskip("torch")
    lines = [
        f'{GELU}(Tensor([8, 16],"float32"), )',
        'paddle.einsum("ij,ij->j", Tensor([10, 2],"float64"), Tensor([1, 2],"float64"), )',
        'paddle.nn.functional.celu(Tensor([4, 4],"float64"), 0.2, )',
    ]
    for api, (found, script) in saved(tmp_path, lines, "torch:cpu", "one_element").items():
        assert found.reproduced, (api, found.note, script)
        assert "import paddle" in script and "import torch" in script
