"""The HTML page of a check: its data, and in a real browser what is seen and what clicks and keys do."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.checks import case_of, finding_of, info_of, result_of
from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_check import fake_check
from trueline.cases import CaseResult, CheckInfo
from trueline.records import Verdict
from trueline.report import check_html
from trueline.report.check_html import check_page_data, write_check_html
from trueline.report.check_wording import failures_of

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
DRAWER = "document.getElementById('drawer')"
HOSTILE = "</script><img src=x onerror=document.title='owned'>\u2028"


def page_of(info: CheckInfo, results: list[CaseResult], **options: object) -> str:
    stream = io.StringIO()
    write_check_html(info, results, stream, **options)  # type: ignore[arg-type]
    return stream.getvalue()


# the file


def test_the_page_asks_nothing_of_the_network_and_allows_its_own_program_only() -> None:
    page = page_of(*fake_check())
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    program = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page and "default-src 'none'" in page


def test_hostile_content_stays_inside_the_data() -> None:
    case = case_of(HOSTILE, module=HOSTILE, source=HOSTILE)
    finding = finding_of(Verdict.FAIL, path=HOSTILE, reason=HOSTILE, score=2.0)
    page = page_of(
        info_of(calls=1, target=HOSTILE), [result_of(Verdict.FAIL, case, findings=[finding], reason=HOSTILE)]
    )
    assert page.count("</script>") == 2 and "<img" not in page
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert text
    data = json.loads(text[1])
    assert data["names"]["api"] == [HOSTILE] and data["details"]["0"]["tensors"][0]["reason"] == HOSTILE


def test_details_are_kept_of_what_is_wrong_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_html, "DETAILED_CASES", 8)
    info, results = fake_check()
    kept = {int(position) for position in check_page_data(info, results)["details"]}
    assert len(kept) == 8
    assert {results.index(result) for result in failures_of(results)} <= kept


def test_scores_that_cannot_be_said_are_kept_apart() -> None:
    scores = [None, float("nan"), float("inf"), 0.0, 1e300]
    results = [
        result_of(Verdict.FAIL, case_of(seed=n), findings=[finding_of(Verdict.FAIL, score=score)])
        for n, score in enumerate(scores)
    ]
    column = check_page_data(info_of(calls=5), results)["columns"]["forward"]
    values = np.frombuffer(base64.b64decode(column["data"]), "<f4")
    assert np.isnan(values[0]) and list(values[1:]) == [np.inf, np.inf, 0.0, np.inf]


def test_a_kept_script_is_offered(tmp_path: Path) -> None:
    info, results = fake_check()
    script = tmp_path / "failures" / results[9].case.key / "repro.py"
    script.parent.mkdir(parents=True)
    script.write_text("print()\n", encoding="utf-8")
    data = check_page_data(info, results, folder=tmp_path)
    assert data["details"]["9"]["repro"] == f"python {script}"
    assert data["details"]["0"]["repro"] == ""


# in the browser


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    """The browser; at the end nothing was complained about and nothing was asked of anybody else."""
    shared.requests.clear()
    shared.complaints.clear()
    shared.send("Page.navigate", url="about:blank")
    yield shared
    assert shared.complaints == []
    assert all(address.startswith(("file://", "about:")) for address in shared.requests)


def write(file: Path, info: CheckInfo, results: list[CaseResult]) -> Path:
    file.write_text(page_of(info, results), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Browser, folder: Path) -> Browser:
    file = folder / "check.html"
    if not file.exists():
        write(file, *fake_check())
    browser.open(file)
    return browser


def names(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "[...document.querySelectorAll('.body .row:not([hidden]) .name')].map(e => e.textContent)"
    )
    return found


def choose(browser: Browser, control: str, value: str, event: str) -> None:
    browser.run(
        f"(() => {{ const c = document.getElementById('{control}'); c.value = '{value}';"
        f" c.dispatchEvent(new Event('{event}')); }})()"
    )


@needs_browser
def test_verdict_counts_and_worst_are_seen_without_a_click(opened: Browser) -> None:
    assert opened.run("document.querySelector('h1').textContent").startswith("7 of 106 cases are wrong")
    text = opened.run("document.getElementById('verdict').innerText")
    assert "439 = 103 checked + 3 not compared + 315 the same as these + 18 skipped" in text
    statuses = opened.run("[...document.querySelectorAll('.status')].map(e => e.textContent.trim())")
    assert statuses == [
        "✓96 pass",
        "✕4 mismatch",
        "✕1 target raises",
        "✕1 crashed",
        "✕1 timed out",
        "\u20131 unsupported here",
        "\u20132 skipped",
    ], "each case has one status, and a mark besides its colour"
    assert "1 of those that pass are to look at" in text
    assert names(opened)[:3] == ["torch.matmul", "torch.Tensor.softmax", "torch.nn.functional.gelu"], "the worst first"
    reasons = opened.run("document.getElementById('reasons').innerText")
    assert "returned nothing that could be compared" in reasons and "optimizer step" in reasons


@needs_browser
def test_a_click_on_a_row_tells_the_case(opened: Browser) -> None:
    opened.click_on(".body .row[data-call='9'] .name")
    text = opened.run(f"{DRAWER}.innerText")
    assert "forward 41.2, backward 3.4" in text
    assert "worst element [7, 26]: -3.28395 instead of -3.25144" in text
    assert "model.py:49 in forward" in text and "gradient of args.1" in text
    assert "case=9" in opened.run("location.hash")
    opened.press("Escape")
    assert opened.run(f"{DRAWER}.hidden")


@needs_browser
def test_a_click_in_the_plot_opens_the_case_under_it(opened: Browser) -> None:
    x, y, width = opened.run("(() => { canvas.scrollIntoView({ block: 'center', behavior: 'instant' });"
                             " const r = canvas.getBoundingClientRect(); return [r.x, r.y, r.width]; })()")  # fmt: skip
    column = 62 + (9 + 0.5) / 106 * (width - 62 - 16)
    found = opened.run(
        f"(() => {{ const p = canvas.getContext('2d').getImageData(Math.round({column}), 0, 1, canvas.height).data;"
        " for (let i = 20; i < canvas.height; i++) if (p[4 * i + 3] > 200 && p[4 * i] > 150 && p[4 * i + 1] < 90)"
        " return i; })()"
    )
    opened.click(x + column, y + found + 3)
    assert "forward 41.2" in opened.run(f"{DRAWER}.innerText")


@needs_browser
def test_filters_by_api_verdict_and_text(opened: Browser) -> None:
    opened.click_on(".matrix button[title='torch.nn.functional.gelu']")
    assert set(names(opened)) == {"torch.nn.functional.gelu"} and "api=torch.nn" in opened.run("location.hash")
    choose(opened, "kind", "wrong", "change")
    assert names(opened) == ["torch.nn.functional.gelu"] * 3
    choose(opened, "part", "backward", "change")
    assert len(names(opened)) == 2
    opened.run("document.getElementById('clear').click()")
    assert opened.run("document.getElementById('shown').textContent") == "106"
    choose(opened, "search", "sigsegv", "input")
    opened.wait("document.getElementById('shown').textContent === '1 of 106'")


@needs_browser
def test_keys_walk_over_what_is_not_right(opened: Browser) -> None:
    opened.press("j")
    assert "SIGSEGV" in opened.run(f"{DRAWER}.innerText")
    opened.press("j")
    assert "timed out" in opened.run(f"{DRAWER}.innerText")
    opened.press("k")
    opened.press("Escape")
    opened.press("w")
    assert "torch.matmul" in opened.run(f"{DRAWER}.innerText")


@needs_browser
def test_the_address_holds_filter_and_case(browser: Browser, folder: Path) -> None:
    browser.open(write(folder / "address.html", *fake_check()), "kind=warn&case=40")
    assert names(browser) == ["torch.nn.functional.linear"]
    assert "2 of 256 elements are off by 9 ULP" in browser.run(f"{DRAWER}.innerText")


@needs_browser
def test_hostile_names_are_text(browser: Browser, folder: Path) -> None:
    info, results = fake_check(40)
    case = replace(results[9].case, api=HOSTILE, module=HOSTILE, source=HOSTILE)
    finding = finding_of(Verdict.FAIL, path=HOSTILE, reason=HOSTILE, score=9.0)
    results[9] = result_of(Verdict.FAIL, case, findings=[finding], reason=HOSTILE)
    browser.open(write(folder / "hostile.html", replace(info, sources=(HOSTILE,)), results), "case=9")
    assert browser.run("document.title") != "owned"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert "<img src=x" in browser.run(f"{DRAWER}.innerText")


@needs_browser
def test_a_check_of_nothing_and_a_clean_one(browser: Browser, folder: Path) -> None:
    browser.open(write(folder / "nothing.html", info_of(calls=2, skipped={"why": 2}), []))
    assert browser.run("document.querySelector('h1').textContent") == "No case was executed"
    browser.open(write(folder / "clean.html", *fake_check(20, faults=False)))
    assert browser.run("document.querySelector('.pill').textContent") == "PASS"


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone(folder: Path, theme: str) -> None:
    file = write(folder / "phone.html", *fake_check())
    with Browser(folder / f"phone-{theme}", 390, 844) as phone:
        phone.open(file, "case=9")
        if phone.run("document.documentElement.dataset.theme") != theme:
            phone.run("document.getElementById('theme').click()")
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert phone.run(f"{DRAWER}.scrollWidth <= {DRAWER}.clientWidth")
        style = "getComputedStyle(document.body)"
        assert phone.run(f"{style}.color !== {style}.backgroundColor")
        assert phone.complaints == []


@needs_browser
def test_many_cases_are_quick(browser: Browser, folder: Path) -> None:
    info, results = fake_check(106)
    many = [replace(result, case=replace(result.case, seed=n)) for n, result in enumerate(results * 190)]
    file = write(folder / "many.html", replace(info, calls=100_000), many)
    assert file.stat().st_size < 25_000_000
    browser.open(file)
    assert browser.run("Number(document.documentElement.dataset.ready)") < 5_000
    assert browser.run("document.querySelectorAll('.body .row').length") < 60
    drawn = browser.run("(() => { const t = performance.now(); document.getElementById('by-score').click();"
                        " return new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() =>"
                        " d(performance.now() - t)))); })()")  # fmt: skip
    assert drawn < 2_000
