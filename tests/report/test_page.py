"""The HTML page in a real browser: what is seen, what clicks and keys do, how fast it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from trueline.report.comparison_html import write_html

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

FAULT = 437
NAME = "torch.nn.functional.gelu.54.forward"
DRAWER = "document.getElementById('drawer')"


def write_page(file: Path, comparison: FakeComparison) -> Path:
    with open(file, "w", encoding="utf-8") as stream:
        write_html(comparison, stream)
    return file


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    """The browser; at the end nothing was complained about and nothing was asked of anybody else."""
    shared.requests.clear()
    shared.complaints.clear()
    yield shared
    assert shared.complaints == []
    assert all(address.startswith("file://") for address in shared.requests)


@pytest.fixture
def opened(browser: Browser, folder: Path) -> Browser:
    """A comparison of 1,200 calls with a fault, freshly opened."""
    file = folder / "fault.html"
    if not file.exists():
        write_page(file, FakeComparison(size=1200, fault=FAULT))
    browser.send("Page.navigate", url="about:blank")
    browser.open(file)
    return browser


def names(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "[...document.querySelectorAll('.body .row:not([hidden]) .name')].map(e => e.textContent)"
    )
    return found


def test_verdict_origin_and_source_are_seen_without_a_click(opened: Browser) -> None:
    assert opened.run("document.querySelector('h1').textContent") == f"{NAME} in encoder.layers.2.mlp went wrong first"
    assert "model.py:41 in forward" in opened.run("document.querySelector('.where').innerText")
    assert NAME in names(opened), "the table begins at the origin"
    assert opened.run("document.querySelectorAll('.body .row').length") < 60, "only rows that can be seen are made"


def test_one_click_on_the_origin_in_the_plot_opens_it(opened: Browser) -> None:
    x, y = opened.run("(() => { const r = canvas.getBoundingClientRect(); return [r.x, r.y]; })()")
    # the pin is a line in the colour of faults that stands above the plot; the origin lies on it
    pin = opened.run(
        "(() => { const p = canvas.getContext('2d').getImageData(0, 29, canvas.width, 1).data;"
        " for (let i = 0; i < canvas.width; i++)"
        " if (p[4 * i + 3] > 120 && p[4 * i] > 130 && p[4 * i + 1] < 110) return i; })()"
    )
    height = opened.run(
        f"(() => {{ const p = canvas.getContext('2d').getImageData({pin} - 3, 0, 1, canvas.height).data;"
        " for (let i = 34; i < canvas.height; i++) if (p[4 * i + 3] > 200 && p[4 * i] > 130 && p[4 * i + 1] < 110)"
        " return i; })()"
    )
    opened.click(x + pin, y + height + 4)
    assert "distance 1.3e-4, limit 8.7e-7" in opened.run(f"{DRAWER}.innerText")
    opened.click_on("[data-panel='stack']")
    assert "train.py:12 in main" in opened.run(f"{DRAWER}.innerText")


def test_click_on_a_row_opens_the_call_and_escape_closes_it(opened: Browser) -> None:
    opened.click_on(f".body .row[data-call='{FAULT + 1}'] .name")
    assert not opened.run(f"{DRAWER}.hidden")
    assert "torch.nn.functional.dropout.54.forward" in opened.run(f"{DRAWER}.innerText")
    assert f"call={FAULT + 1}" in opened.run("location.hash")
    opened.press("Escape")
    assert opened.run(f"{DRAWER}.hidden")


def test_keys_walk_over_the_calls_that_differ(opened: Browser) -> None:
    opened.press("j")
    assert NAME in opened.run(f"{DRAWER}.innerText")
    opened.press("j")
    assert "dropout.54" in opened.run(f"{DRAWER}.innerText")
    opened.press("k")
    opened.press("Escape")
    opened.press("o")
    assert NAME in opened.run(f"{DRAWER}.innerText")
    opened.press("/")
    assert opened.run("document.activeElement.id") == "search"


def test_search_filters_table_and_address(opened: Browser) -> None:
    opened.run("document.getElementById('search').focus()")
    for key in "softmax.54":
        opened.press(key)
    opened.wait("document.getElementById('shown').textContent === '1 of 1,200'")
    assert names(opened) == ["torch.Tensor.softmax.54.forward"]
    assert "text=softmax.54" in opened.run("location.hash")
    opened.click_on("#clear")
    opened.wait("document.getElementById('shown').textContent === '1,200'")


def test_address_brings_the_state_back(browser: Browser, opened: Browser, folder: Path) -> None:
    browser.send("Page.navigate", url="about:blank")
    browser.open(folder / "fault.html", f"kind=2&phase=1&call={FAULT}")
    assert NAME in browser.run(f"{DRAWER}.innerText")
    assert all(name.endswith("backward") for name in names(browser))
    assert browser.run("document.getElementById('kind').value") == "2"


def test_headers_sort_the_calls_and_the_address_holds_it(opened: Browser) -> None:
    opened.click_on("#grid-head .output button")
    shown = "[...document.querySelectorAll('.body .row:not([hidden]) .output')]"
    values = f"{shown}.map(e => Number(e.textContent)).slice(0, 8)"
    opened.wait(f"{values}.length > 1 && {values}.every((value, i, all) => i === 0 || all[i - 1] >= value)")
    assert "sort=-output" in opened.run("location.hash")


def test_theme_can_be_switched(opened: Browser) -> None:
    before = opened.run("getComputedStyle(document.body).backgroundColor")
    opened.click_on("#theme")
    assert opened.run("getComputedStyle(document.body).backgroundColor") != before
    opened.click_on("#theme")


def test_hostile_names_are_text(browser: Browser, folder: Path) -> None:
    hostile = "torch.<img src=x onerror=document.title='owned'>"
    browser.open(
        write_page(folder / "hostile.html", FakeComparison(size=50, fault=9, api=hostile, module=hostile)), "call=9"
    )
    assert hostile in browser.run("document.querySelector('h1').textContent")
    assert hostile in browser.run(f"{DRAWER}.textContent")
    assert browser.run("document.images.length") == 0
    assert browser.run("document.title") != "owned"


def test_clean_and_empty_comparisons_open(browser: Browser, folder: Path) -> None:
    browser.open(write_page(folder / "clean.html", FakeComparison(size=300, fault=None)))
    assert "none wrong" in browser.run("document.querySelector('h1').textContent")
    browser.open(write_page(folder / "empty.html", FakeComparison(size=0, fault=None)))
    assert "No call matches." in browser.run("document.body.innerText")


def test_nothing_sticks_out_at_phone_width(folder: Path) -> None:
    file = write_page(folder / "phone.html", FakeComparison(size=300, fault=50))
    with Browser(folder / "phone", width=390, height=844) as browser:
        browser.open(file)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        browser.click_on(".body .row.origin .name")
        assert browser.run(f"{DRAWER}.getBoundingClientRect().width") <= 390
        assert browser.complaints == []


def test_200_000_calls_open_filter_and_scroll_quickly(browser: Browser, folder: Path) -> None:
    file = write_page(folder / "big.html", FakeComparison(size=200_000, fault=73_021))
    times: list[int] = []
    while len(times) < 3 and min(times, default=3_000) >= 3_000:
        browser.send("Page.navigate", url="about:blank")
        browser.open(file)
        times.append(int(browser.run("document.documentElement.dataset.ready")))
    assert min(times) < 10_000  # others may use this machine too; benchmarks/view.py measures it on a quiet one
    usual = browser.run(
        "(async () => { const body = document.getElementById('grid-body'), times = [];"
        " for (let i = 0; i < 40; i++) { const start = performance.now();"
        " body.scrollTop = (body.scrollHeight * i) / 40;"
        " body.dispatchEvent(new Event('scroll')); times.push(performance.now() - start);"
        " await new Promise(requestAnimationFrame); } return times.sort((a, b) => a - b)[20]; })()"
    )  # the median: others may use this machine too
    assert usual < 50, "milliseconds for one step of scrolling"
    filtering = browser.run(
        "(() => { const kind = document.getElementById('kind'), start = performance.now(); kind.value = 'differ';"
        " kind.dispatchEvent(new Event('change')); return performance.now() - start; })()"
    )
    assert filtering < 1_000


def test_the_rows_in_view_are_copied_as_csv(opened: Browser) -> None:
    opened.run("(() => { window.taken = ''; Object.defineProperty(navigator, 'clipboard', {configurable: true, value:"
               " {writeText: async (text) => { window.taken = text; }}}); })()")  # fmt: skip
    opened.run("document.getElementById('kind').value = 'bad';"
               "document.getElementById('kind').dispatchEvent(new Event('change'))")  # fmt: skip
    opened.click_on("#copy-table")
    opened.wait("window.taken")
    head, first, *_ = opened.run("window.taken").splitlines()
    assert head.startswith("#,call,module,step") and NAME in first and first.endswith("model.py:41 in forward")
