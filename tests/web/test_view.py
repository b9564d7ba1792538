"""The served pages in a real browser: the same page as the file, with details of every row."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers.synthetic import Spec, array, write_run
from tests.report.browser import Browser
from tests.report.fake_comparison import FakeComparison
from trueline.report import page_data
from trueline.web.comparison_page import comparison_page
from trueline.web.server import ViewServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[ViewServer]:
    """A comparison of 1,200 calls whose page holds the details of five."""
    monkeypatch.setattr(page_data, "DETAILED_CALLS", 5)
    server = ViewServer(comparison_page(FakeComparison(size=1200, fault=437)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def visit(browser: Browser, url: str) -> None:
    browser.requests.clear()
    browser.complaints.clear()
    browser.send("Page.navigate", url=url)
    browser.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")


def test_details_of_any_call_are_loaded_when_it_is_selected(browser: Browser, served: ViewServer) -> None:
    visit(browser, f"{served.url}#call=1100")
    browser.wait("document.getElementById('drawer').textContent.includes('Tensors')")
    assert "trueline show" not in browser.run("document.getElementById('drawer').textContent")
    assert browser.complaints == []
    assert all(address.startswith(served.url) for address in browser.requests)


def test_where_the_server_has_no_answer_the_next_command_is_shown(browser: Browser, served: ViewServer) -> None:
    served.view.answer = lambda name, words: None  # type: ignore[method-assign]
    visit(browser, f"{served.url}#call=1100")
    browser.wait("document.getElementById('drawer').textContent.includes('trueline show')")


def test_the_command_serves_two_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "record.py"
    program.write_text(
        "import sys, torch, trueline\n"
        "with trueline.capture(sys.argv[1]):\n"
        "    torch.relu(torch.full((4,), float(sys.argv[2])))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for name, value in (("a", "1"), ("b", "2")):
        subprocess.run([sys.executable, str(program), str(tmp_path / name), value], env=environment, check=True)
    words = [sys.executable, "-m", "trueline", "view", "a", "b", "--no-browser", "--json"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        from urllib.request import ProxyHandler, build_opener

        opener = build_opener(ProxyHandler({}))
        assert b"went wrong" in opener.open(url, timeout=10).read()
        assert "tensors" in json.loads(opener.open(f"{url}data/detail?position=0", timeout=10).read())
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


_BROWSER = """\
import pathlib, sys, time, urllib.parse
pathlib.Path("argv.txt").write_text("\\n".join(sys.argv[1:]))
pathlib.Path("told").touch()
time.sleep(20)
"""


def _arguments_of_all_processes() -> str:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(place.read_bytes().decode("utf-8", "replace"))
    return "\n".join(found)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc on this system")
def test_no_process_has_the_token_among_its_arguments(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [Spec("torch.sin", [array(4)], [array(4)])])
    (tmp_path / "browser.py").write_text(_BROWSER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}
    environment["BROWSER"] = f"{sys.executable} {tmp_path / 'browser.py'} %s &"
    words = [sys.executable, "-m", "trueline", "view", "run", "--json"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        token = url.rstrip("/").rpartition("/")[2]
        try:
            wait_for(tmp_path / "told")
            assert len(token) > 20 and token not in _arguments_of_all_processes()
            (given,) = (tmp_path / "argv.txt").read_text().splitlines()
            file = Path(unquote(urlsplit(given).path))
            assert url in file.read_text(encoding="utf-8")
            assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(20) == 0
            assert not file.parent.exists()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} was never written"
        time.sleep(0.05)


def test_a_run_is_shown_with_its_course_and_every_call(browser: Browser, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import trueline
    from trueline.web.run_page import run_page

    model = torch.nn.Linear(4, 4).half()
    with trueline.capture(tmp_path / "run") as cap:
        for step in range(3):
            x = torch.full((2, 4), 100.0 * 10**step, dtype=torch.float16)
            (model(x) * x).sum()
            cap.step()
    with trueline.open_run(tmp_path / "run") as run, ViewServer(run_page(run)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        visit(browser, server.url)
        assert "NaN or infinity" in browser.run("document.getElementById('verdict').textContent")
        assert browser.run("document.querySelectorAll('#chart canvas').length") == 1
        browser.run(
            "document.getElementById('kind').value = 'odd';"
            "document.getElementById('kind').dispatchEvent(new Event('change'))"
        )
        browser.run("document.querySelector('.body .row:not([hidden])').click()")
        browser.wait("document.getElementById('drawer').textContent.includes('Tensors')")
        assert "Bits left, over the steps" in browser.run("document.getElementById('drawer').textContent")
        assert browser.complaints == [] and all(one.startswith(server.url) for one in browser.requests)
        server.shutdown()


def test_what_cannot_be_viewed_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from trueline.cli.main import main

    assert main(["view", str(tmp_path / "none"), "--no-browser"]) == 2
    (tmp_path / "run.json").write_text("{}")
    assert main(["view", str(tmp_path), "--no-browser"]) == 2
    assert "Traceback" not in capsys.readouterr().err
