"""``trueline check``, ``report`` and ``exec`` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two calls that are the same case, and one of another."""
    value = array(4, 5)
    path = tmp_path_factory.mktemp("checks") / "run"
    specs = [Spec("torch.tanh", [value], [value]), Spec("torch.tanh", [value], [value]), Spec("torch.relu", [value])]
    return write_run(path, specs)


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mykernels.py").write_text("import torch\ndef tanh(x):\n    return torch.tanh(x) * 1.01\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = ["--override", "torch.tanh=mykernels:tanh"]


def check(run: Path, *words: str) -> int:
    return main(["check", str(run), "--target", "torch:cpu", "--workers", "0", *words])


def test_honest_calls_are_clean(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(run) == 0
    assert capsys.readouterr().out.startswith("PASS  ")


def test_a_wrong_kernel_is_a_finding_and_every_report_is_written(
    run: Path, kernels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {kind: f"report.{kind}" for kind in ("csv", "json", "junit", "html")}
    words = [word for kind, name in files.items() for word in (f"--{kind}", name)]
    assert check(run, *WRONG, *words, "--accuracy-csv", "accuracy", "--out", "kept") == 1
    text = capsys.readouterr().out
    assert text.startswith("FAIL  ") and "torch.tanh" in text and "written: " in text
    assert json.loads((kernels / "report.json").read_text())["verdict"] == "FAIL"
    assert "<failure" in (kernels / "report.junit").read_text()
    assert {path.name for path in (kernels / "accuracy").iterdir()} == {
        "accuracy_checking_result.csv",
        "accuracy_checking_details.csv",
    }
    assert "torch.tanh" in (kernels / "report.html").read_text()


def test_a_kept_check_is_reported_again(run: Path, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(run, *WRONG, "--out", "kept", "--json", "first.json") == 1
    assert main(["report", "kept", "--json", "second.json"]) == 1
    first, second = (json.loads(Path(name).read_text()) for name in ("first.json", "second.json"))
    assert first == second
    capsys.readouterr()
    assert main(["report", "kept", "--standard", "precheck", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["info"]["standard"] == "precheck"
    (kernels / "mykernels.py").unlink()
    assert main(["report", "kept"]) == 1  # nothing is run


def test_outputs_are_kept_for_another_machine(run: Path, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [str(run), "--target", "torch:cpu", "--workers", "0"]
    assert main(["exec", *common, "--out", "good"]) == 0
    assert "2 of 2 returned" in capsys.readouterr().out
    assert main(["exec", *common, *WRONG, "--out", "bad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == 2
    assert main(["compare", "good", "bad"]) == 1
    assert "torch.tanh.0.forward went wrong first" in capsys.readouterr().out


def test_nothing_executed_is_no_clean_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = array(3)
    run = write_run(tmp_path / "run", [Spec("torch.distributed.all_reduce", [value], [value])])
    assert check(run) == 2
    assert capsys.readouterr().out.startswith("NOT COMPARED")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--override", "torch.tanh"], "write API=module:function"),
        (["--target", "cuda"], "is not a target"),
        (["--standard", "nice"], "unknown standard"),
        (["--save-failures"], "--out"),
        (["--reference", "torch:cpu/bfloat16"], "cannot be a reference"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(run, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert message in captured.err


@pytest.mark.parametrize("command", ["check", "exec", "report"])
def test_what_is_not_there_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, str(tmp_path / "nowhere")]
    if command != "report":
        words += ["--target", "torch:cpu", "--out", str(tmp_path / "out")]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "nowhere" in captured.err
    assert not (tmp_path / "out").exists()


def test_failures_are_kept_with_a_script(run: Path, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(run, *WRONG, "--out", "kept", "--save-failures") == 1
    (script,) = (kernels / "kept" / "failures").glob("*/repro.py")
    assert f"python {script.relative_to(kernels)}" in capsys.readouterr().out
