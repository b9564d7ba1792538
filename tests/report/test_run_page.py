"""The page of a Run, as a file, in a real browser."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

import trueline
from tests.report.browser import CHROMIUM, Browser
from tests.report.growing_run import HOSTILE, STEPS, record
from tests.report.looking import WIDTHS, asks_only, choose, fits, opened, rows, text
from trueline.cli.main import main
from trueline.errors import UsageError
from trueline.report.run_page import has_bad_numbers, run_page_data, write_run_html
from trueline.report.run_times import NO_VERDICT, call_times
from trueline.web.run_page import write_run_file

torch = pytest.importorskip("torch")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten steps of a float16 program whose numbers grow until they are infinite, in a folder with a hostile name."""
    path = tmp_path_factory.mktemp("runs") / HOSTILE
    record(path)
    return path


def profile_of(*cases: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": "trueline-profile", "version": 1, "summary": "one case is slow", "cases": list(cases),
        "info": {"target": "torch:cpu", "against": "torch:cpu/float32"},
    }  # fmt: skip


def timed_case(call: str, seconds: float, *, verdict: str = "PASS", accuracy: str | None = None) -> dict[str, Any]:
    """A case as the JSON of a profile has it: its backward takes twice as long."""

    def phase(factor: float) -> dict[str, Any]:
        return {"timing": {"median": factor * seconds}, "memory": {"peak": factor * 1024}}

    side = {"phases": {"forward": phase(1.0), "backward": phase(2.0)}}
    return {
        "call": call, "accuracy": accuracy, "target": side, "against": side,
        "findings": [{"phase": "forward", "verdict": verdict}],
    }  # fmt: skip


SQUARE = timed_case("torch.Tensor.mul(float16[4, 8], float16[4, 8])", 5e-6, verdict="FAIL", accuracy="PASS")


@pytest.fixture(scope="module")
def file(run: Path, folder: Path) -> Path:
    """Its page, with the overflow found and a profile joined."""
    (folder / "profile.json").write_text(json.dumps(profile_of(SQUARE)))
    path = folder / "run.html"
    with trueline.open_run(run) as opened_run, path.open("w", encoding="utf-8") as stream:
        write_run_file(opened_run, stream, profile=folder)
    return path


def test_the_columns_say_how_much_room_is_left(run: Path) -> None:
    with trueline.open_run(run) as opened_run:
        traces = [opened_run.rank(0).trace()]
        data = run_page_data(opened_run, traces)
        assert data["count"] == len(traces[0]) == len(data["details"])
        assert data["head"]["bad"] > 0 and "float16" in data["names"]["dtype"] and has_bad_numbers(traces)
        assert "overflow" not in data["head"], "nobody has looked where it was born"
        first = data["details"]["0"]
        assert first["tensors"] and first["stack"]


def test_the_calls_of_a_run_get_the_times_of_those_that_are_written_the_same(run: Path) -> None:
    with trueline.open_run(run) as opened_run:
        trace = opened_run.rank(0).trace()
        found = call_times(trace, profile_of(SQUARE))
        for position in range(len(trace)):
            call = trace.call(position, statistics=False)
            square = call.api == "torch.Tensor.mul" and call.index % 2 == 1
            expected = {"forward": 5e-6, "backward": 1e-5}[call.phase.value] if square else math.nan
            assert found["seconds"][position] == pytest.approx(expected, nan_ok=True), call.name
            assert found["speed"][position] == (3 if square and call.phase.value == "forward" else NO_VERDICT)


def test_a_profile_that_is_none_is_a_clear_error(run: Path, tmp_path: Path) -> None:
    with trueline.open_run(run) as opened_run, pytest.raises(UsageError, match="cannot be read"):
        run_page_data(opened_run, [opened_run.rank(0).trace()], profile={"cases": [{"call": 3}]})
    with trueline.open_run(run) as opened_run, pytest.raises(UsageError, match="cannot read"):
        write_run_file(opened_run, io.StringIO(), profile=tmp_path / "none")


def test_a_run_of_structure_alone_has_a_page(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", data="structure"):
        torch.relu(torch.ones(2))
    assert main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "run.html")]) == 0
    assert "torch.relu" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_without_a_file_to_write_it_says_what_to_do(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 2
    assert "--html FILE" in capsys.readouterr().err


@needs_browser
def test_the_page_opens_from_disk_and_shows_names_as_text(run: Path, tmp_path: Path, shared: Browser) -> None:
    file = tmp_path / "run.html"
    assert main(["report", str(run), "--html", str(file)]) == 0
    opened(shared, file)
    assert HOSTILE in text(shared, "#runs")
    assert shared.run("document.querySelectorAll('img').length") == 0
    choose(shared, "kind", "infinite")
    assert "torch.Tensor.mul.3.forward" in rows(shared)
    shared.run("document.querySelector('.body .row:not([hidden])').click()")
    details = text(shared, "#drawer")
    assert "infinite" in details and "trueline show" in details and "rank 0" in details
    assert "call=" in shared.run("location.hash")
    asks_only(shared, "file://")


@needs_browser
def test_the_way_of_the_bad_numbers_leads_to_their_calls(file: Path, shared: Browser) -> None:
    opened(shared, file)
    boxes = shared.run("[...document.querySelectorAll('#way .way-box b')].map((one) => one.textContent)")
    assert boxes[0] == "mul.3" and boxes[-1] == "the loss (torch.Tensor.sum.0.forward)", boxes
    assert "is the first to give infinity: product overflow" in text(shared, "#way")
    shared.click_on("#way .way-box.born")
    assert text(shared, "#drawer h2") == "torch.Tensor.mul.3.forward"
    assert "growing_run.py" in text(shared, "#drawer") and "blocks.1" in text(shared, "#drawer")
    shared.press("Escape")
    shared.press("o")
    assert text(shared, "#drawer h2") == "torch.Tensor.mul.3.forward"
    asks_only(shared, "file://")


@needs_browser
def test_statistics_over_the_steps_are_of_the_calls_in_view(file: Path, shared: Browser) -> None:
    opened(shared, file, "over=gradient")
    assert "of all calls" in text(shared, "#steps-title")
    assert "gradients" in text(shared, "#steps-chart .legend") and "not finite" in text(shared, "#steps-chart .legend")
    shared.run("""document.querySelector('#modules button[title="blocks.1"]').click()""")
    assert "of the " in text(shared, "#steps-title") and "in view" in text(shared, "#steps-title")
    assert set(rows(shared, ".module")) <= {"blocks.1", "blocks.1.up"}
    hash_now = shared.run("location.hash")
    assert "module=blocks.1" in hash_now and "over=gradient" in hash_now
    shared.run("document.querySelector('#steps-values button[data-value=mean]').click()")
    assert "over=mean" in shared.run("location.hash")
    assert "forward" in text(shared, "#steps-chart .legend") and "backward" in text(shared, "#steps-chart .legend")
    opened(shared, file, hash_now.removeprefix("#"))
    assert shared.run("document.querySelector('#steps-values [aria-pressed=true]').dataset.value") == "gradient"
    choose(shared, "search", "growing_run.py mul.3.forward")
    assert rows(shared) == ["torch.Tensor.mul.3.forward"] * STEPS, "search by line, API and number"
    asks_only(shared, "file://")


@needs_browser
def test_time_and_memory_stand_beside_the_numbers(file: Path, shared: Browser) -> None:
    opened(shared, file, "sort=-seconds")
    assert rows(shared)[0].endswith("backward") and rows(shared, ".seconds")[0] == "10 µs"
    assert rows(shared, ".peak")[0] == "2.05 kB"
    choose(shared, "kind", "slow")
    assert {one.rpartition(".")[2] for one in rows(shared)} == {"forward"}
    shared.run("document.querySelector('.body .row:not([hidden])').click()")
    details = text(shared, "#drawer").lower()
    assert "5 µs (5 µs on torch:cpu/float32)" in details and "✕ beyond the limits" in details and "✓" not in details
    assert "bits left, over the steps" in details
    assert shared.run("document.querySelectorAll('#drawer .line-plot canvas').length") == 2
    shared.run("document.querySelector('#plot-values [data-value=seconds]').click()")
    assert "alone" in text(shared, "#reading") and "plot=seconds" in shared.run("location.hash")
    asks_only(shared, "file://")


@needs_browser
def test_without_a_profile_there_are_no_empty_columns(run: Path, folder: Path, shared: Browser) -> None:
    path = folder / "bare.html"
    with trueline.open_run(run) as opened_run, path.open("w", encoding="utf-8") as stream:
        write_run_html(opened_run, stream)
    opened(shared, path)
    assert "trueline profile" in text(shared, "#verdict")
    assert shared.run("document.querySelectorAll('#grid-head .seconds').length") == 0
    assert shared.run("document.getElementById('way').hidden")


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_a_wall(file: Path, shared: Browser, theme: str) -> None:
    for width in WIDTHS:
        shared.resize(width, 900)
        opened(shared, file)
        shared.run(f"document.documentElement.dataset.theme !== '{theme}' && document.getElementById('theme').click()")
        shared.run("document.querySelector('.body .row:not([hidden])').click()")
        assert fits(shared), width
        assert shared.run("document.querySelectorAll('#steps-chart canvas').length") == 1
        asks_only(shared, "file://")
    shared.resize(1300, 900)
