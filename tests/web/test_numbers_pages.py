"""The pages of a Run, an overflow report, a profile and a pipeline as they are served: the same as the files, with what
is too large for a file at hand."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

import trueline
from tests.report.browser import Browser
from tests.report.growing_run import record
from tests.report.looking import asks_only, rows, text
from tests.report.test_pipeline_page import HOSTILE, made
from tests.report.test_profile_page import kept
from tests.web.every_page import visit
from trueline.report import overflow_html, profile_html, run_page
from trueline.web.overflow_page import overflow_page
from trueline.web.pages import Page
from trueline.web.pipeline_page import pipeline_page
from trueline.web.profile_page import profile_page
from trueline.web.run_page import run_page as served_run_page
from trueline.web.server import ViewServer


@contextlib.contextmanager
def serving(page: Page) -> Iterator[str]:
    with ViewServer(page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join(5)


def asked(url: str) -> tuple[int, object]:
    opener = build_opener(ProxyHandler({}))
    try:
        return 200, json.loads(opener.open(url, timeout=10).read())
    except HTTPError as error:
        return error.code, None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("runs") / "growing"
    record(path)
    return path


def test_a_run_is_served_with_its_way_its_times_and_every_call(
    run: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_page, "DETAILED_CALLS", 3)
    with trueline.open_run(run) as opened, serving(served_run_page(opened, profile=kept(tmp_path))) as url:
        visit(browser, url)
        assert "is the first to give infinity" in text(browser, "#way")
        assert rows(browser, ".seconds"), "the columns of the profile are there"
        browser.run("document.querySelectorAll('#way .way-box')[1].click()")
        browser.wait("document.getElementById('drawer').textContent.includes('args.0')")
        assert "torch.nn.functional.linear.2.forward" in text(browser, "#drawer h2")
        assert any("data/detail" in address for address in browser.requests)
        asks_only(browser, url)


def test_an_overflow_report_is_served_with_the_story_of_every_birth(
    run: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow_html, "_MOST_STORIES", 1)
    with serving(overflow_page(run, replay=False)) as url:
        visit(browser, url)
        names = rows(browser)
        assert names[0] == "torch.Tensor.mul.3.forward" and len(names) > 1
        browser.run("document.querySelectorAll('.body .row:not([hidden])')[1].click()")
        browser.wait("document.getElementById('drawer').textContent.includes('Stack')")
        assert "data/detail?position=1" in browser.requests[-1]
        asks_only(browser, url)


def test_a_profile_is_served_with_every_case(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_html, "DETAILED_BYTES", 10)
    with serving(profile_page(kept(tmp_path))) as url:
        visit(browser, f"{url}#case=0")
        browser.wait("document.getElementById('drawer').textContent.includes('forward takes 2.00 times as long')")
        assert "trueline view runs/a --profile" in text(browser, "#verdict")
        asks_only(browser, url)


def test_the_end_of_a_log_is_served_and_no_other_file(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    report = made(tmp_path / "out")
    leaking = replace(report.results[0], log=str(tmp_path / "secret.txt"))
    with serving(pipeline_page(replace(report, results=(leaking, *report.results[1:])), tmp_path / "out")) as url:
        visit(browser, f"{url}#stage=2")
        browser.run(
            "[...document.querySelectorAll('#drawer button')].find((b) => /output/.test(b.textContent)).click()"
        )
        browser.wait("document.querySelector('#drawer .log') !== null")
        browser.wait("document.querySelector('#drawer .log').textContent.length > 10000")
        assert f"RuntimeError: {HOSTILE}" in browser.run("document.querySelector('#drawer .log').textContent")
        assert browser.run("document.querySelectorAll('img').length") == 0
        asks_only(browser, url)
        status, answer = asked(f"{url}data/log?position=2")
        assert status == 200 and isinstance(answer, dict) and answer["before"] == 0
        for position in ("0", "1", "3", "99", "-1", "../../secret.txt", ""):
            assert asked(f"{url}data/log?position={position}")[0] == 404, position


def test_a_report_may_be_named_by_its_file(tmp_path: Path) -> None:
    report = made(tmp_path / "out")
    page = pipeline_page(report, tmp_path / "out" / "pipeline.json")
    answer = page.answer("data/log", {"position": "2"})
    assert answer is not None and HOSTILE in json.loads(answer.content)["text"]
