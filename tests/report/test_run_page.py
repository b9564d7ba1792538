"""The page of a Run, as a file, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import trueline
from tests.report.browser import CHROMIUM, Browser
from trueline.cli.main import main
from trueline.report.run_page import run_page_data

torch = pytest.importorskip("torch")
HOSTILE = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of a float16 program whose numbers grow until they are infinite, in a folder with a hostile name."""
    path = tmp_path_factory.mktemp("runs") / HOSTILE
    with trueline.capture(path) as cap:
        for step in range(3):
            x = torch.full((2, 4), 10.0 * 10**step, dtype=torch.float16, requires_grad=True)
            (x * x * x).sum().backward()
            cap.step()
    return path


def test_the_columns_say_how_much_room_is_left(run: Path) -> None:
    with trueline.open_run(run) as opened:
        traces = [opened.rank(0).trace()]
        data = run_page_data(opened, traces)
        assert data["count"] == len(traces[0]) == len(data["details"])
        assert data["head"]["bad"] > 0 and "float16" in data["names"]["dtype"]
        first = data["details"]["0"]
        assert first["tensors"] and first["stack"]


def test_a_run_of_structure_alone_has_a_page(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", data="structure"):
        torch.relu(torch.ones(2))
    assert main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "run.html")]) == 0
    assert "torch.relu" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_without_a_file_to_write_it_says_what_to_do(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 2
    assert "--html FILE" in capsys.readouterr().err


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_the_page_opens_from_disk_and_shows_names_as_text(run: Path, tmp_path: Path, shared: Browser) -> None:
    file = tmp_path / "run.html"
    assert main(["report", str(run), "--html", str(file)]) == 0
    shared.requests.clear()
    shared.complaints.clear()
    shared.open(file)
    assert HOSTILE in shared.run("document.getElementById('runs').textContent")
    assert shared.run("document.querySelectorAll('img').length") == 0
    shared.run("document.getElementById('kind').value = 'infinite';"
               "document.getElementById('kind').dispatchEvent(new Event('change'))")  # fmt: skip
    assert "mul" in shared.run("document.querySelector('.body .row:not([hidden]) .name').textContent")
    shared.run("document.querySelector('.body .row:not([hidden])').click()")
    text = shared.run("document.getElementById('drawer').textContent")
    assert "infinite" in text and "trueline show" in text
    assert "call=" in shared.run("location.hash")
    assert shared.complaints == [] and all(one.startswith("file://") for one in shared.requests)
