"""Profiles from end to end, in worker processes: planted faults named, equal sides left in peace, checks joined."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from trueline.campaign.profile import profile  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.records import Phase, Verdict  # noqa: E402

KERNELS = """
import torch
def gelu(*args, **kwargs):
    for _ in range(3):
        torch.nn.functional.gelu(*args, **kwargs)
    return torch.nn.functional.gelu(*args, **kwargs)
def tanh(x):
    return torch.tanh(x.clone())
def crash(*args):
    import os
    os.abort()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of a small program whose calls take a while."""
    path = tmp_path_factory.mktemp("profiles") / "run"
    value = torch.randn(64, 1024, requires_grad=True)
    with trueline.capture(path, data="stats") as capture:
        for _ in range(2):
            hidden = torch.nn.functional.gelu(torch.tanh(value))
            torch.exp(hidden).sum().backward()
            capture.step()
    return path


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    (tmp_path / "costly.py").write_text(KERNELS)
    return str(tmp_path / "costly.py")


def test_planted_faults_are_named_and_nothing_else(run: Path, kernels: str, tmp_path: Path) -> None:
    overrides = {"torch.nn.functional.gelu": f"{kernels}:gelu", "torch.tanh": f"{kernels}:tanh"}
    trueline.check(run, target="torch:cpu", overrides=overrides, workers=0, out=tmp_path / "check")
    report = profile(
        run, target="torch:cpu", against="torch:cpu", overrides=overrides, threads=1, budget=0.3, limit_time=1.5,
        check_folder=tmp_path / "check",
    )  # fmt: skip
    assert report.verdict is Verdict.FAIL
    found = {one.case.api: one for one in report.findings}
    assert set(found) == set(overrides), [(one.case.api, one.reason) for one in report.findings]
    slow = found["torch.nn.functional.gelu"]
    assert slow.measured.ratios[Phase.FORWARD].value > 2
    assert any(one.what == "time" and one.verdict is Verdict.FAIL for one in slow.findings)
    size = 64 * 1024 * 4
    copy = found["torch.tanh"].measured
    assert copy.against is not None
    memory = copy.target.phases[Phase.FORWARD].memory, copy.against.phases[Phase.FORWARD].memory
    assert memory[0] is not None and memory[1] is not None
    assert (memory[0].peak, memory[1].peak) == (2 * size, size)
    assert {one.accuracy for one in report.results} == {Verdict.PASS}  # right numbers, at too high a price
    with trueline.open_run(run) as opened:
        steps = len(opened.rank(0).steps)
    assert report.info.steps == steps and all(one.case.count == 2 for one in report.results)
    everything = sum(2 * one.measured.target.seconds for one in report.results)
    assert report.totals["seconds"] == pytest.approx(everything / steps)


def test_a_target_alone_is_timed(run: Path) -> None:
    report = profile(run, target="torch:cpu", threads=1, budget=0.05, step_seconds=1.0)
    assert report.timed == len(report.results) == 5 and report.findings == []
    assert report.verdict is Verdict.NOT_COMPARED  # nothing passes that was held against nothing
    totals = [one.total for one in report.results]
    assert totals == sorted(totals, reverse=True) and min(totals) > 0
    exp = next(one for one in report.results if one.case.api == "torch.exp")
    assert exp.measured.target.phases[Phase.FORWARD].share is not None


def test_a_case_that_ends_its_worker_costs_itself_alone(run: Path, kernels: str) -> None:
    overrides = {"torch.tanh": f"{kernels}:crash"}
    report = profile(
        run, target="torch:cpu", against="torch:cpu", overrides=overrides, threads=1, budget=0.05, limit=2,
        limit_time=10,
    )  # fmt: skip
    by_api = {one.case.api: one for one in report.results}
    assert by_api["torch.tanh"].verdict is Verdict.NOT_COMPARED and "crashed" in by_api["torch.tanh"].reason
    assert by_api["torch.nn.functional.gelu"].verdict is Verdict.PASS


def test_what_cannot_be_done_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="computes in float32"):
        profile(run, target="torch:cpu/bfloat16+simulated")
    with pytest.raises(UsageError, match="not both"):
        profile(run, target="torch:cpu", check_folder=tmp_path, with_check=True)
    with pytest.raises(UsageError, match="not a check"):
        profile(run, target="torch:cpu", check_folder=tmp_path)
    trueline.check(run, target="torch:cpu", workers=0, out=tmp_path / "check")
    with pytest.raises(UsageError, match="a check of torch:cpu, not of"):
        profile(run, target="torch:cpu/float64", check_folder=tmp_path / "check")


def test_a_check_can_be_run_along_with_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.campaign import profile as module

    checked = trueline.check(run, target="torch:cpu", workers=0, seed=3)
    asked: dict[str, object] = {}

    def check(source: object, **options: object) -> object:
        asked.update(options)
        return checked

    monkeypatch.setattr(module, "check", check)
    found = module._accuracy(run, "torch:cpu", None, None, 3, None, None, True, None)
    assert found is not None and len(found) == len(checked.results) == 5
    assert asked["target"] == "torch:cpu" and asked["seed"] == 3
    plan = module.request_of("torch:cpu", None, None, 3, run, None).plan
    assert {case.key for case in plan.cases} == set(found)  # the same cases have the same keys


def test_two_frameworks_are_held_against_each_other(run: Path) -> None:
    pytest.importorskip("paddle")
    report = profile(run, target="paddle:cpu", against="torch:cpu", threads=1, budget=0.05, limit=1)
    assert len(report.results) == 1
    for one in report.results:
        assert set(one.measured.ratios) == set(Phase), one.reason
    assert set(report.info.versions) == {"paddle", "torch"}


def test_config_lines_are_timed_and_kept(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text('paddle.tanh(Tensor([512, 256],"float32"), )\npaddle.exp(Tensor([512, 512],"float32"), )\n')
    folder = tmp_path / "kept"
    report = profile(lines, target="torch:cpu", threads=1, budget=0.02, out=folder)
    assert report.timed == 2
    with open(folder / "profile.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["API"], row["Phase"]) for row in rows] == [
        (api, phase) for api in ("paddle.tanh", "paddle.exp") for phase in ("forward", "backward")
    ]
    assert all(float(row["Seconds"]) > 0 for row in rows)
    assert json.loads((folder / "profile.json").read_text(encoding="utf-8"))["info"]["target"] == "torch:cpu"
    with pytest.raises(UsageError, match="exists already"):
        profile(lines, target="torch:cpu", out=folder)


def test_graphs_are_not_timed(run: Path) -> None:
    with pytest.raises(UsageError, match="cannot be timed"):
        profile(run, target="torch:cpu+compile")
