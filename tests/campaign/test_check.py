"""Checks from end to end, on real calls: nothing lost, faults found, deaths survived, work not done twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import trueline
from tests.helpers.synthetic import Spec, array, write_run
from trueline.campaign.ledger import LEDGER_FILE
from trueline.campaign.modes import Mode
from trueline.cases import Case, CaseMeasured, Ending, Status
from trueline.errors import UsageError
from trueline.records import Verdict
from trueline.replay.measuring import Measuring

ROOT = Path(__file__).parents[2]
KERNELS = "tests.campaign.kernels"
DEADLY = {
    "torch.nn.functional.gelu": f"{KERNELS}:segfault",
    "torch.softmax": f"{KERNELS}:hang",
    "torch.nn.functional.layer_norm": f"{KERNELS}:eat",
}


@pytest.mark.parametrize("data", ["program", "statistics"])
def test_honest_calls_pass_and_none_is_lost(data: str, request: pytest.FixtureRequest) -> None:
    report = trueline.check(request.getfixturevalue(data), target="torch:cpu", workers=0)
    assert report.verdict is Verdict.PASS, [(result.case.api, result.reason) for result in report.results]
    assert sum(result.case.count for result in report.results) + sum(report.info.skipped.values()) == report.info.calls
    assert report.counts["PASS"] == len(report.results) > 10
    assert report.failures == []


def test_a_wrong_kernel_is_found_and_only_it(program: Path) -> None:
    overrides = {"torch.nn.functional.gelu": f"{KERNELS}:gelu_scaled"}
    report = trueline.check(program, target="torch:cpu", overrides=overrides, workers=0)
    assert report.verdict is Verdict.FAIL
    assert [result.case.api for result in report.failures] == ["torch.nn.functional.gelu"]
    assert report.counts["FAIL"] == 1 and report.counts["PASS"] == len(report.results) - 1


def test_each_death_is_its_own_outcome_and_the_rest_finishes(program: Path, tmp_path: Path) -> None:
    report = trueline.check(
        program, target="torch:cpu", overrides=DEADLY, workers=2, timeout=8, memory=0.8, out=tmp_path / "check"
    )
    ended = {result.case.api: result.measured.candidate for result in report.failures}
    assert {api: outcome.status for api, outcome in ended.items()} == {
        "torch.nn.functional.gelu": Status.CRASHED,
        "torch.softmax": Status.TIMED_OUT,
        "torch.nn.functional.layer_norm": Status.OUT_OF_MEMORY,
    }
    assert "SIGSEGV" in ended["torch.nn.functional.gelu"].reason
    others = [result for result in report.results if result.case.api not in DEADLY]
    assert len(others) > 10
    assert {result.verdict for result in others} == {Verdict.PASS}


def test_a_kept_check_is_judged_again_by_another_standard(program: Path, tmp_path: Path) -> None:
    overrides = {"torch.nn.functional.gelu": f"{KERNELS}:gelu_scaled"}
    kept = trueline.check(program, target="torch:cpu", overrides=overrides, workers=0, out=tmp_path / "check")
    again = trueline.load_check(tmp_path / "check")
    assert again.counts == kept.counts
    assert again.info == kept.info
    strict = trueline.load_check(tmp_path / "check", "bitwise")
    assert strict.info.standard == "bitwise"
    lenient = trueline.load_check(tmp_path / "check", "precheck")
    assert [result.verdict for result in lenient.results] != [result.verdict for result in kept.results]


def test_another_check_into_the_same_folder_is_refused(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "check"
    trueline.check(program, target="torch:cpu", workers=0, out=folder, limit=2)
    with pytest.raises(UsageError, match="another target"):
        trueline.check(program, target="torch:cpu/bfloat16", workers=0, out=folder)
    with pytest.raises(UsageError, match="another seed"):
        trueline.check(program, target="torch:cpu", seed=1, workers=0, out=folder)


def test_a_kernel_that_was_changed_is_another_one(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from torch.nn.functional import gelu\n")
    overrides = {"torch.nn.functional.gelu": "mine:gelu"}
    trueline.check(program, target="torch:cpu", overrides=overrides, workers=0, out="check", limit=2)
    trueline.check(program, target="torch:cpu", overrides=overrides, workers=0, out="check", limit=3)
    (tmp_path / "mine.py").write_text("from torch.nn.functional import gelu  # better\n")
    with pytest.raises(UsageError, match="another overrides"):
        trueline.check(program, target="torch:cpu", overrides=overrides, workers=0, out="check", limit=3)


def test_a_limit_is_counted_not_hidden(program: Path) -> None:
    report = trueline.check(program, target="torch:cpu", workers=0, limit=2)
    assert len(report.results) == 2
    assert sum(result.case.count for result in report.results) + sum(report.info.skipped.values()) == report.info.calls
    assert any("2 cases were asked for" in reason for reason in report.info.skipped)


def test_operators_are_checked_without_a_capture() -> None:
    report = trueline.check(ops="torch.nn.functional.hardtanh", target="torch:cpu/bfloat16", workers=0)
    assert report.counts["PASS"] > 0 and report.verdict < Verdict.FAIL
    assert {result.case.api for result in report.results} == {"torch.nn.functional.hardtanh"}
    other = trueline.check(ops="torch.nn.functional.hardtanh", target="torch:cpu/bfloat16", workers=0, seed=1)
    assert {one.case.key for one in report.results}.isdisjoint(one.case.key for one in other.results)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "cuda"}, "not a target"),
        ({"overrides": {"torch.gelu": f"{KERNELS}:gelu_scaled"}}, "did you mean torch.nn.functional.gelu"),
        ({"overrides": {"torch.nn.functional.gelu": "nowhere_to_be_found:gelu"}}, "no module 'nowhere_to_be_found'"),
        ({"overrides": {"torch.nn.functional.gelu": "gelu"}}, "write module:function"),
        ({"save_failures": True}, "--out"),
        ({"standard": "nice"}, "unknown standard"),
        ({"limit": 0}, "at least 1"),
        ({"memory": -1.0}, "more than 0 GB"),
        ({"workers": -1}, "workers must be 0 or more"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, object], message: str, program: Path) -> None:
    with pytest.raises(UsageError, match=message):
        trueline.check(program, **{"target": "torch:cpu", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("stage", "verdict"), [("candidate", Verdict.ERROR), ("gold", Verdict.NOT_COMPARED)])
def test_only_a_death_in_the_candidate_is_a_finding(
    stage: str, verdict: Verdict, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that die of their first case at some stage, which is all that is known of it."""
    monkeypatch.setenv("TRUELINE_TEST_STAGE", stage)
    mode = Mode("accuracy", jobs="tests.campaign.test_check:dying")
    report = trueline.check(program, target="torch:cpu", workers=1, limit=1, mode=mode)
    assert report.endings[Ending.CRASHED] == 1
    assert report.results[0].verdict is verdict
    assert "SIGABRT" in report.results[0].reason


def dying(setup: object, announce: Callable[[str], None]) -> Measuring:
    """Makes a worker that aborts at a stage."""

    def measure(case: Case) -> CaseMeasured:
        announce(os.environ["TRUELINE_TEST_STAGE"])
        os.abort()

    return Measuring(measure)


def test_no_source_is_an_error() -> None:
    with pytest.raises(UsageError, match="no source"):
        trueline.check(target="torch:cpu")


def test_an_override_that_cannot_be_imported_is_one_error(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_kernels.py").write_text("import nothing_of_the_kind\n")
    with pytest.raises(trueline.TruelineError, match="nothing_of_the_kind"):
        trueline.check(
            program, target="torch:cpu", workers=1, overrides={"torch.nn.functional.gelu": "broken_kernels:gelu"}
        )


def finished(folder: Path) -> set[str]:
    """What the ledger says is done, by the shape of its input."""
    if not (folder / LEDGER_FILE).exists():
        return set()
    connection = sqlite3.connect(folder / LEDGER_FILE)
    try:
        query = "SELECT json_extract(case_json, '$.tensors[0].shape') FROM cases WHERE measured_json IS NOT NULL"
        return {f"({row[0][1:-1].replace(',', ', ')})" for row in connection.execute(query)}
    except sqlite3.OperationalError:  # killed before the tables were made
        return set()
    finally:
        connection.close()


def test_a_killed_check_goes_on_without_doing_finished_cases_again(tmp_path: Path) -> None:
    """Killed with SIGKILL at several random moments; what was finished before is not executed again."""
    count = 60
    run = write_run(tmp_path / "run", [Spec("torch.relu", [array(2, n + 1)], [array(2, n + 1)]) for n in range(count)])
    log, folder = tmp_path / "log.txt", tmp_path / "check"
    log.touch()
    words = [sys.executable, "-m", "trueline", "check", str(run), "--target", "torch:cpu", "--out", str(folder)]
    words += ["--override", f"torch.relu={KERNELS}:logged", "--workers", "2"]
    environment = {
        **os.environ, "TRUELINE_TEST_LOG": str(log), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }  # fmt: skip
    random_moments = random.Random(7)
    kills = 0
    while kills < 4:
        before = Counter(log.read_text().splitlines())
        done_before = finished(folder)
        process = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        target = len(log.read_text().splitlines()) + random_moments.randrange(1, 12)
        while len(log.read_text().splitlines()) < target and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        time.sleep(0.2)  # workers see the end of their coordinator
        kills += 1
        now = Counter(log.read_text().splitlines())
        assert all(now[shape] == before[shape] for shape in done_before)
        assert done_before <= finished(folder)
    done_before, before = finished(folder), Counter(log.read_text().splitlines())
    assert 0 < len(done_before) < count
    ended = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    now = Counter(log.read_text().splitlines())
    assert all(now[shape] == before[shape] for shape in done_before)
    assert finished(folder) == set(now) and len(now) == count
    calls = 4  # one that is measured, and three that show what a kernel keeps
    assert max(now.values()) <= calls * (1 + kills)
    report = trueline.load_check(folder)
    assert report.counts["PASS"] == len(report.results) == count
