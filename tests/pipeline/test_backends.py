"""A trained model asked through a backend, as a stage of a pipeline that needs no script of the project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueline.pipeline import backends
from trueline.pipeline.recording import points_in

MODEL = """
import torch

def trained(checkpoint=""):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5), torch.nn.Softmax(-1))
    if checkpoint:
        network.load_state_dict(torch.load(checkpoint, weights_only=True))
    return network

number = 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    (tmp_path / "tiny_model.py").write_text(MODEL, encoding="utf-8")
    values = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.savez(tmp_path / "inputs.npz", values=values, labels=np.arange(5) % 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRUELINE_PROBE_DIR", str(tmp_path / "probe"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "tiny_model", raising=False)
    return tmp_path


def asked(*words: str, inputs: str = "inputs.npz") -> int:
    return backends.main([*words, f"--inputs={inputs}"])


def outputs(folder: Path) -> Any:
    *_, point = points_in(folder)
    section = point.first("batch")
    assert section is not None and not section.raised
    (leaf,) = section.outputs.values()
    return leaf.bits


def expected(project: Path) -> Any:
    import tiny_model  # type: ignore[import-not-found]
    import torch

    with np.load(project / "inputs.npz") as content, torch.no_grad():
        return tiny_model.trained().eval()(torch.from_numpy(content["values"])).numpy()


@pytest.mark.parametrize("backend", ["torch:eager", "script"])
def test_a_model_is_asked_in_batches(project: Path, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(f"--backend={backend}", "--model=tiny_model:trained", "--batch-size=2", "--threads=1") == 0
    assert np.array_equal(outputs(project / "probe"), expected(project))
    (point,) = points_in(project / "probe")
    assert point.name == "infer" and point.facts["labels"] == [0, 1, 2, 0, 1]
    assert "output 0: float32 [5, 3]" in capsys.readouterr().out


def test_an_exported_file_is_found_and_a_probe_gives_the_inputs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert asked("--backend=torch:eager", "--model=tiny_model:trained") == 0
    import tiny_model

    exported = project / "exported"
    exported.mkdir()
    torch.jit.save(torch.jit.trace(tiny_model.trained().eval(), torch.zeros(2, 4)), str(exported / "net.pt"))
    monkeypatch.setenv("TRUELINE_PROBE_DIR", str(project / "second"))
    assert asked("--backend=script", f"--model-dir={exported}", inputs="probe") == 0
    assert np.array_equal(outputs(project / "second"), expected(project))


def test_a_checkpoint_lies_in_the_folder_of_the_model(project: Path) -> None:
    import torch

    assert asked("--backend=torch:eager", "--model=tiny_model:trained") == 0
    import tiny_model

    changed = {name: value + 1 for name, value in tiny_model.trained().state_dict().items()}
    (project / "out").mkdir()
    torch.save(changed, project / "out" / "latest.pt")
    words = ("--backend=torch:eager", "--model=tiny_model:trained", "--model-dir=out", "--checkpoint=latest.pt")
    assert asked(*words) == 0
    assert not np.array_equal(outputs(project / "probe"), expected(project))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--backend=torch:eager",), "say --model-dir"),
        (("--backend=tensorrt", "--model=tiny_model:trained"), "unknown backend"),
        (("--backend=torch:eager", "--model=tiny_model"), "write module:function"),
        (("--backend=torch:eager", "--model=no_such_module:f"), "cannot be imported"),
        (("--backend=torch:eager", "--model=tiny_model:number"), "no function 'number'"),
        (("--backend=script", "--model-dir=."), "no exported model for 'script'"),
        (("--backend=torch:eager", "--model=tiny_model:trained", "--precision=int32"), "no floating-point precision"),
    ],
)
def test_wrong_arguments_are_one_line(
    project: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(*words) == 2
    assert said in capsys.readouterr().err


def test_inputs_must_be_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--backend=torch:eager", "--model=tiny_model:trained", inputs="nowhere") == 2
    assert "holds no probe" in capsys.readouterr().err
    (project / "broken.npz").write_bytes(b"PK broken")
    for name in ("nowhere.npz", "broken.npz", "nowhere.npy"):
        assert asked("--backend=torch:eager", "--model=tiny_model:trained", inputs=name) == 2
        assert f"{name} cannot be read" in capsys.readouterr().err


def test_what_is_missing_is_unsupported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--backend=torch:eager", "--model=tiny_model:trained", "--precision=int8") == 77
    assert capsys.readouterr().out.splitlines()[-1].startswith("UNSUPPORTED: int8 needs")
    assert not (project / "probe").exists()
