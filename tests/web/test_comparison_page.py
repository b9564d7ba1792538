"""The served page of a comparison: any slice of any tensor, its gold on demand, details of every call."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from tests.web.test_view import visit
from trueline.web import comparison_page as served_page
from trueline.web.comparison_page import comparison_page
from trueline.web.pages import Page
from trueline.web.server import ViewServer

FAULT = 437
DRAWER = "document.getElementById('drawer')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """A comparison of 1,200 calls whose page holds the details of five."""
    monkeypatch.setattr(served_page, "DETAILED_CALLS", 5)
    return comparison_page(FakeComparison(size=1200, fault=FAULT))


@pytest.fixture
def served(page: Page, browser: Browser) -> Iterator[ViewServer]:
    server = ViewServer(page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)
    assert browser.complaints == [] and all(address.startswith(server.url) for address in browser.requests)


def test_any_slice_of_any_call_can_be_asked_for_and_sent_on(browser: Browser, served: ViewServer) -> None:
    visit(browser, f"{served.url}#call=1100&tab=error")
    browser.wait(f"{DRAWER}.innerText.includes('of [8, 16, 32]')")
    browser.run(
        "(() => { const c = document.querySelector('.picture input[type=number]'); c.value = '6';"
        " c.dispatchEvent(new Event('change')); })()"
    )
    browser.wait(f"{DRAWER}.innerText.includes('slice [6, :, :] of [8, 16, 32]')")
    browser.run(
        "(() => { const c = document.querySelector('.picture select[aria-label^=Rows]'); c.value = '0,2';"
        " c.dispatchEvent(new Event('change')); })()"
    )
    browser.wait(f"{DRAWER}.innerText.includes('slice [:, ') && document.querySelector('.heatmap').height === 8")
    address = browser.run("location.hash")
    assert "axes=0%2C2" in address
    visit(browser, f"{served.url}{address}")
    browser.wait("document.querySelector('.heatmap') && document.querySelector('.heatmap').height === 8")


def test_the_gold_comes_when_it_is_asked_for(browser: Browser, served: ViewServer) -> None:
    visit(browser, f"{served.url}#call=1100&tab=error")
    browser.wait("document.getElementById('ask-gold')")
    assert not any("data/gold" in address for address in browser.requests)
    browser.click_on("#ask-gold")
    browser.wait("document.querySelector('.worst th:nth-child(4)').textContent === 'gold'")
    assert "gold=1" in browser.run("location.hash")
    browser.press("k")
    browser.wait("document.querySelector('.worst th:nth-child(4)')?.textContent === 'gold'")


def test_the_origin_has_its_gold_at_once(browser: Browser, served: ViewServer) -> None:
    visit(browser, f"{served.url}#call={FAULT}&tab=error")
    browser.wait("document.querySelector('.gold-words')")
    assert not any("data/gold" in address for address in browser.requests)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"position": "1200", "place": "0"},
        {"position": "-1", "place": "0"},
        {"position": "3", "place": "2"},
        {"position": "3", "place": "x"},
    ],
)
def test_what_is_not_there_is_not_answered(page: Page, words: dict[str, str]) -> None:
    assert page.answer("data/tensor", words) is None and page.answer("data/gold", words) is None


def test_odd_slices_are_brought_into_the_tensor(page: Page) -> None:
    for at, axes in (("99999,,x", "7,9"), ("-1", "1,1"), ("", "0")):
        assert page.answer("data/tensor", {"position": "3", "place": "1", "at": at, "axes": axes}) is not None
