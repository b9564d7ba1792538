"""``trueline doctor`` and what it looks at."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from trueline.cli import machine
from trueline.cli.main import main
from trueline.frameworks.torch import gate


def test_this_machine_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert text.rstrip().endswith("ready")
    assert all(word in text for word in ("python", "numpy", "safetensors", "CPU kernels", "triton", "disk"))


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["ok"] is True
    assert {check["state"] for check in content["checks"]} <= {"ok", "missing", "broken"}


def test_a_missing_need_is_a_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "NEEDED", ("numpy", "no-such-package"))
    assert main(["doctor"]) == 1
    assert "not ready: no-such-package" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path / "nowhere")]) == 1
    assert "No such file or directory" in capsys.readouterr().out


def test_old_framework_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FRAMEWORKS", {"numpy": ("99.0", ("numpy",))})
    (check,) = [check for check in machine.examine() if check.detail.endswith("99.0 or newer")]
    assert check.state == "broken"


def test_no_framework_is_imported() -> None:
    before = set(sys.modules)
    machine.examine()
    assert not {"torch", "paddle", "triton"} & (set(sys.modules) - before)


@pytest.mark.parametrize(
    ("way", "state", "detail"),
    [
        (gate.Way(True, "verified with torch 2.13.0 and Python 3.11"), "ok", "fast (verified with torch 2.13.0"),
        (gate.Way(False, "switched off by TRUELINE_NO_KERNELS"), "missing", "portable (switched off by"),
        (gate.Way(False, "its trial failed", "AttributeError: gone"), "broken", "in Python: AttributeError: gone"),
    ],
)
def test_which_way_captures_take_is_said(
    way: gate.Way, state: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "way", lambda: way)
    monkeypatch.setattr(machine, "FRAMEWORKS", {"torch": ("2.4", ("numpy",))})
    monkeypatch.setattr(machine, "find_spec", lambda name: object())
    monkeypatch.setattr(machine, "_paddle_plugins", list)
    (check,) = [check for check in machine.examine() if check.name == "capture of torch"]
    assert check.state == state and detail in check.detail


def test_a_torch_that_captures_break_with_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(gate, "way", lambda: gate.Way(False, "its trial failed", "AttributeError: gone"))
    assert main(["doctor"]) == 1
    assert "not ready: capture of torch" in capsys.readouterr().out


def test_versions_compare_as_numbers() -> None:
    assert machine._numbers("2.13.0+cpu") == (2, 13)
    assert machine._numbers("2.4") < machine._numbers("2.13")


def test_what_paddle_was_built_for_and_which_devices_plugins_bring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from its files: nothing is imported to find it out."""
    folder = tmp_path / "paddle" / "version"
    folder.mkdir(parents=True)
    (tmp_path / "paddle" / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "__init__.py").write_text("full_version = '3.3.1'\ncuda_version     = '12.9'\nhip_version      = None\n")
    plugins = tmp_path / "paddle_custom_device"
    plugins.mkdir()
    (plugins / "libpaddle-custom-npu.so").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("CUSTOM_DEVICE_ROOT", raising=False)
    monkeypatch.delitem(sys.modules, "paddle", raising=False)
    monkeypatch.setattr(machine, "FRAMEWORKS", {"paddle": ("1.0", ("numpy",))})
    found = {check.name: check.detail for check in machine.examine()}
    assert found["paddle"].endswith("built for CUDA 12.9 (not imported)")
    assert found["paddle custom devices"] == "npu"
