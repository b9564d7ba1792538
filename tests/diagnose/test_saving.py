"""One call of a Run in a folder of its own, with a script that makes it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.diagnose.test_compare_runs import program
from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli.main import main
from trueline.records import Phase

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.numpy").load_file


def made_again(script: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, str(script)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_call_is_kept_and_its_script_shows_what_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "bad", program(fault="layers.1.matmul"))
    words = ["show", str(run), "torch.matmul.1.forward", "--step", "0", "--save", str(tmp_path / "kept")]
    assert main(words) == 0
    assert "3 tensors in" in capsys.readouterr().out
    kept = load_file(tmp_path / "kept" / "repro.safetensors")
    assert set(kept) == {"args.0", "args.1", "output out"}
    assert json.loads((tmp_path / "kept" / "call.json").read_text())["name"] == "torch.matmul.1.forward"
    done = made_again(tmp_path / "kept" / "repro.py")
    assert done.returncode == 0, done.stderr  # the planted fault is not in torch itself
    recorded, now, exact = (float(word.split()[-1]) for word in done.stdout.splitlines()[-1].split(": ")[1].split(", "))
    assert abs(now - exact) < 1e-5 < abs(recorded - exact)
    product = kept["args.0"].astype(np.float64) @ kept["args.1"]
    assert np.isclose(np.abs(kept["output out"] - product).max(), abs(recorded - exact), rtol=1e-3)


def test_a_backward_call_is_made_again_with_the_gradients_that_arrived(tmp_path: Path) -> None:
    x, gradient = array(8, 4), array(8, 4, seed=3)
    forward = Spec("torch.tanh", [x], [np.tanh(x)])
    wrong = (gradient * (1 - np.tanh(x) ** 2) * 1.01).astype(np.float32)
    backward = Spec("torch.tanh", [gradient], [wrong], phase=Phase.BACKWARD, forward=forward)
    run = write_run(tmp_path / "run", [forward, backward])
    assert main(["show", str(run), "torch.tanh.0.backward", "--save", str(tmp_path / "kept")]) == 0
    assert set(load_file(tmp_path / "kept" / "repro.safetensors")) == {"gradient out", "args.0", "output args.0"}
    done = made_again(tmp_path / "kept" / "repro.py")
    assert done.returncode == 0 and "gradient of args.0" in done.stdout, done.stderr


def test_rounding_is_no_fault_and_a_fault_of_the_framework_shows_again(tmp_path: Path) -> None:
    x = torch.linspace(-4, 4, 64)
    for name, output in (("right", torch.exp(x)), ("wrong", torch.exp(x) * (1 + 4e-7))):
        run = write_run(tmp_path / name, [Spec("torch.exp", [x.numpy()], [output.numpy()])])
        assert main(["show", str(run), "torch.exp.0", "--save", str(tmp_path / f"kept-{name}")]) == 0
        done = made_again(tmp_path / f"kept-{name}" / "repro.py")
        assert done.returncode == 0, done.stdout + done.stderr
    script = tmp_path / "kept-wrong" / "repro.py"
    script.write_text(script.read_text().replace('run(torch.exp, "cpu", False)', '(run(torch.exp, "cpu", False) + 1)'))
    assert made_again(script).returncode == 1


def test_what_cannot_be_made_again_is_kept_without_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [Spec("torch.no.such.operator", [array(3)], [array(3)])])
    assert main(["show", str(run), "torch.no.such.operator.0", "--save", str(tmp_path / "kept"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["no_script"] and sorted(os.listdir(tmp_path / "kept")) == ["call.json", "repro.safetensors"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torch.matmul", "--save", "kept"], "8 calls match"),
        (["--save", "kept"], "--save keeps one call"),
        (["torch.matmul.0", "--step", "0", "--save", "."], "name one that does not exist"),
    ],
)
def test_bad_requests_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", program(steps=2))
    assert main(["show", "run", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_call_without_tensors_says_how_to_get_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", program(), data="stats")
    assert main(["show", str(run), "torch.matmul.0", "--save", str(tmp_path / "kept")]) == 2
    assert "--data tensors" in capsys.readouterr().err
