"""What is kept of a failure: scripts that show it again in a clean process, short, and smaller than the case was."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import statistics as numbers
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file

import trueline
from trueline.campaign import CheckReport
from trueline.campaign.check import pool_settings
from trueline.campaign.failures import SavedFailure, save_failures
from trueline.cases import Target
from trueline.cli.main import main
from trueline.judge.checks import check_standard_named
from trueline.report.kept_scripts import kept_script

KERNELS = "tests.campaign.kernels"
KINDS = {
    "torch.nn.functional.gelu": "gelu_scaled",
    "torch.tanh": "tanh_wrong_gradient",
    "torch.exp": "exp_nan",
    "torch.sigmoid": "sigmoid_other_dtype",
    "torch.sum": "sum_other_shape",
    "torch.nn.functional.silu": "silu_raises",
    "torch.argmax": "argmax_off_by_one",
    "torch.Tensor.add_": "add_in_place_wrong",
    "torch.softmax": "softmax_one_element",
    "torch.matmul": "matmul_bfloat16",
    "torch.nn.functional.layer_norm": "layer_norm_other_epsilon",
    "torch.nn.functional.log_softmax": "log_softmax_transposed",
}
DEADLY = {"torch.nn.functional.gelu": "segfault", "torch.softmax": "hang", "torch.nn.functional.layer_norm": "eat"}


def run_clean(script: Path) -> subprocess.CompletedProcess[str]:
    """As somebody else would: another folder, nothing of this project on the path but what the script puts there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, str(script)]
    return subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False)


def run_here(script: Path) -> int | None:
    """The exit code of a script, without the wait for another import of torch; None where it just ends."""
    path = list(sys.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch may warn of what is left of a call; here warnings are errors
            runpy.run_path(str(script))
    except SystemExit as ended:
        return int(str(ended.code))
    finally:
        sys.path[:] = path
    return None


def save(
    run: Path, folder: Path, kinds: dict[str, str], seconds: float = 8, **options: float
) -> tuple[CheckReport, dict[str, SavedFailure]]:
    overrides = {api: f"{KERNELS}:{kernel}" for api, kernel in kinds.items()}
    report = trueline.check(run, target="torch:cpu", overrides=overrides, out=folder, workers=1, **options)  # type: ignore[arg-type]
    target, reference = Target.parse("torch:cpu", overrides), Target.parse("torch:cpu/float64")
    settings = pool_settings(target, 1, options.get("timeout", 60.0), options.get("memory"))
    standard = check_standard_named("calibrated")
    saved = save_failures(report, target, reference, standard, settings, seconds=seconds)
    apis = {result.case.key: result.case.api for result in report.failures}
    return report, {apis[one.key]: one for one in saved}


@pytest.fixture(scope="module")
def kinds(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SavedFailure]:
    """A failure of each kind. Each script was run in a process of its own before it was kept."""
    report, saved = save(program, tmp_path_factory.mktemp("failures") / "check", KINDS)
    assert {result.case.api for result in report.failures} == set(KINDS)
    return saved


def test_every_script_was_seen_to_show_its_failure(kinds: dict[str, SavedFailure]) -> None:
    assert set(kinds) == set(KINDS)
    assert {api: saved.note for api, saved in kinds.items() if not saved.reproduced} == {}


@pytest.mark.parametrize("api", ["torch.tanh", "torch.sum"])
def test_a_script_shows_it_to_somebody_else_too(api: str, kinds: dict[str, SavedFailure]) -> None:
    ended = run_clean(kinds[api].folder / "repro.py")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert re.search("expected .*got ", ended.stdout, re.DOTALL)


def test_a_failure_on_drawn_inputs_is_shown_again(statistics: Path, tmp_path: Path) -> None:
    kinds = {api: KINDS[api] for api in ("torch.matmul", "torch.argmax")}
    _, saved = save(statistics, tmp_path / "check", kinds)
    assert set(saved) == set(kinds)
    assert all(one.reproduced for one in saved.values())


def test_scripts_are_short_plain_and_small(kinds: dict[str, SavedFailure]) -> None:
    texts = {api: (saved.folder / "repro.py").read_text() for api, saved in kinds.items()}
    assert numbers.median(text.count("\n") for text in texts.values()) < 40
    assert all("import trueline" not in text for text in texts.values())
    assert all(saved.elements < saved.elements_before / 4 for saved in kinds.values())
    assert numbers.median(saved.elements for saved in kinds.values()) <= 48
    assert all(max(map(len, text.splitlines())) <= 120 for text in texts.values())


def test_scripts_pass_once_the_kernel_is_right(kinds: dict[str, SavedFailure]) -> None:
    """With torch's own function in place of the override nothing is wrong: the check of the script can fail."""
    for api, saved in kinds.items():
        text = (saved.folder / "repro.py").read_text()
        mended = re.sub(r"^from .* as override$", f"override = {api}", text, flags=re.MULTILINE)
        assert mended != text
        script = saved.folder / "mended" / "repro.py"
        script.parent.mkdir()
        script.write_text(mended)
        if (saved.folder / "repro.safetensors").exists():
            shutil.copy(saved.folder / "repro.safetensors", script.parent)
        assert run_here(script) == (0 if "raises" not in text else None), api
        assert run_here(saved.folder / "repro.py") == 1, api


def test_inputs_outputs_and_the_worst_element_are_kept(kinds: dict[str, SavedFailure]) -> None:
    saved = kinds["torch.nn.functional.gelu"]
    inputs = load_file(saved.folder / "inputs.safetensors")
    outputs = load_file(saved.folder / "outputs.safetensors")
    assert inputs["args.0"].shape == outputs["candidate out"].shape == outputs["gold out"].shape == (8, 6, 16)
    content = json.loads((saved.folder / "failure.json").read_text())
    worst = content["worst"]
    assert content["reproduced"] is True
    assert (worst["part"], worst["path"]) == ("output", "out")
    element = tuple(worst["element"])
    assert outputs["candidate out"][element] == pytest.approx(worst["actual"])
    assert outputs["gold out"][element] == pytest.approx(worst["expected"])


def test_deaths_are_shown_again_too(program: Path, tmp_path: Path) -> None:
    _, saved = save(program, tmp_path / "check", DEADLY, seconds=1, timeout=5.0, memory=0.8)
    assert set(saved) == set(DEADLY)
    assert {api: one.note for api, one in saved.items() if not one.reproduced} == {}
    assert all((one.folder / "inputs.safetensors").exists() for one in saved.values())


def test_what_is_kept_is_not_kept_again(program: Path, tmp_path: Path) -> None:
    kinds = {"torch.nn.functional.gelu": "gelu_scaled"}
    _, saved = save(program, tmp_path / "check", kinds)
    _, again = save(program, tmp_path / "check", kinds)
    assert len(saved) == 1 and again == {}


def test_a_script_that_was_changed_or_removed_is_told(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {"torch.nn.functional.gelu": "gelu_scaled"}
    _, saved = save(program, tmp_path / "check", kinds, seconds=0)
    folder = saved["torch.nn.functional.gelu"].folder
    script = folder / "repro.py"
    kept = kept_script(folder, tmp_path / "check")
    assert kept is not None and (kept.fault, kept.text) == ("", script.read_text())
    changes: dict[str, Callable[[], object]] = {
        "was changed after it was kept": lambda: script.write_text(kept.text + "# more"),
        "it is a link that leads out": lambda: (script.unlink(), script.symlink_to("/etc/hostname")),
        "it is not a file": lambda: (script.unlink(), os.mkfifo(script)),
        "was removed after it was kept": script.unlink,
        "failure.json: it is not as it was written": lambda: (folder / "failure.json").write_text(
            (folder / "failure.json").read_text().replace("gelu", "relu")
        ),
    }
    for words, change in changes.items():
        change()
        found = kept_script(folder, tmp_path / "check")
        assert found is not None and words in found.fault and found.fault in found.shown
        assert main(["report", str(tmp_path / "check")]) == 1
        assert words in " ".join(capsys.readouterr().out.split())
