"""``trueline report`` of a pipeline that was run before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.test_run import MODE, OUTPUT, run
from tests.pipeline.tipc_project import calls, make_project
from trueline.cli.pipeline import parser as pipeline_parser
from trueline.cli.pipeline import run as run_pipeline
from trueline.cli.report import parser
from trueline.cli.report import run as run_report
from trueline.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path, export="fail")
    monkeypatch.chdir(tmp_path)
    run()
    return tmp_path


def reported(*words: str) -> int:
    return run_report(parser().parse([str(OUTPUT), *words]))


def test_it_says_what_the_pipeline_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_pipeline(pipeline_parser().parse(["train_infer_python.txt", MODE]))
    said = capsys.readouterr().out.partition("\n\n")[2]
    before = calls(project)
    assert reported() == 1
    assert capsys.readouterr().out.strip() == said.strip()
    assert run_report(parser().parse([str(OUTPUT / "pipeline.json")])) == 1
    assert calls(project) == before, "nothing is run"


def test_all_its_files_are_written_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reported("--junit", "j.xml", "--html", "p.html", "--json", "p.json") == 1
    assert Path("j.xml").read_bytes() == (OUTPUT / "junit.xml").read_bytes()
    assert Path("p.json").read_bytes() == (OUTPUT / "pipeline.json").read_bytes()
    assert "something is wrong in export" in Path("p.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert reported("--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"


@pytest.mark.parametrize("words", [["--csv", "x.csv"], ["--standard", "allclose"], ["--profile", "x"]])
def test_what_is_not_of_pipelines_is_refused(project: Path, words: list[str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        reported(*words)


def test_few_rows_are_few(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported("--rows", "2")
    assert "and 3 more, in pipeline.html" in capsys.readouterr().out
    reported()
    assert "more, in pipeline.html" not in capsys.readouterr().out


def test_a_broken_file_is_said(project: Path) -> None:
    (OUTPUT / "pipeline.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="is no report of a pipeline"):
        reported()
