"""Commands that fail and are run again: how often, what is said of it, what is kept."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.pipeline.test_run import CHAIN, run, statuses
from tests.pipeline.tipc_project import calls, make_project, set_faults
from trueline.errors import UsageError
from trueline.pipelines import StageKind, StageStatus
from trueline.records import Verdict
from trueline.report.pipeline_junit import write_pipeline_junit


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_flaky(project: Path, times: int) -> None:
    """Makes the export fail so many times."""
    script = (project / "export.py").read_text(encoding="utf-8")
    counting = f"import os, sys\nif open('calls.txt').read().count('export') < {times}:\n"
    fail = "    open('calls.txt', 'a').write('export\\n')\n    sys.exit('not yet')\n"
    (project / "export.py").write_text(counting + fail + script, encoding="utf-8")


def test_what_succeeds_later_is_a_warning(project: Path) -> None:
    make_flaky(project, 2)
    report = run(retries=2)
    result = report.result(f"{CHAIN}/export")
    assert (result.status, result.verdict, result.attempts) == (StageStatus.DONE, Verdict.WARN, 3)
    assert result.reason == "succeeded at attempt 3 only; the one before: exit code 1: not yet"
    logs = {path.name: path.read_text(encoding="utf-8") for path in Path(result.folder).glob("log*")}
    assert logs.pop("log.txt").startswith("this is export")
    assert logs == {"log-1.txt": "not yet\n", "log-2.txt": "not yet\n"}
    assert calls(project).count("export") == 3 and calls(project).count("train") == 2
    assert set(statuses(report).values()) == {StageStatus.DONE}
    stream = io.StringIO()
    write_pipeline_junit(report, stream)
    assert "succeeded at attempt 3 only" in stream.getvalue()


def test_what_was_flaky_stays_so_when_it_is_reused(project: Path) -> None:
    make_flaky(project, 1)
    run(retries=1)
    result = run(retries=1, resume="always").result(f"{CHAIN}/export")
    assert result.reused and result.verdict is Verdict.WARN and result.attempts == 2


def test_what_always_fails_has_failed(project: Path) -> None:
    set_faults(project, export="fail")
    report = run(retries=2)
    (failure,) = report.failures
    assert failure.verdict is Verdict.FAIL and failure.attempts == 3
    assert failure.reason == "exit code 1: something is wrong in export (attempt 3 of 3)"
    assert calls(project).count("export") == 3


def test_a_hang_is_tried_again_within_its_own_time(project: Path) -> None:
    set_faults(project, export="hang")
    failure = run(retries=1, timeout=2.0).result(f"{CHAIN}/export")
    assert failure.status is StageStatus.TIMED_OUT and failure.attempts == 2 and failure.seconds < 4.0


def test_nothing_is_tried_again_unasked_or_where_it_cannot_be_done(project: Path) -> None:
    set_faults(project, export="fail")
    assert run().result(f"{CHAIN}/export").attempts == 1
    set_faults(project, export="unsupported")
    report = run(retries=5, resume="never")
    assert report.result(f"{CHAIN}/export").attempts == 1
    assert all(result.attempts == 1 for result in report.results if result.stage.kind is StageKind.CHECK)


def test_a_negative_number_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="retries is -1"):
        run(retries=-1)
