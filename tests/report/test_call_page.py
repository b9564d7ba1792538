"""One call of a comparison in a real browser: both sides, where the error is, its gold, and the commands to go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from tests.report.test_page import DRAWER, write_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

FAULT = 437


@pytest.fixture
def page(folder: Path) -> Path:
    file = folder / "call.html"
    return file if file.exists() else write_page(file, FakeComparison(size=1200, fault=FAULT))


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    shared.complaints.clear()
    shared.send("Page.navigate", url="about:blank")
    yield shared
    assert shared.complaints == []


def text(browser: Browser) -> str:
    found: str = browser.run(f"{DRAWER}.innerText")
    return found


def test_both_sides_lie_side_by_side(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT}")
    rows = browser.run("[...document.querySelectorAll('table.arguments tr')].map(e => e.innerText.split('\\t'))")
    assert rows[0][1:] == ["reference", "candidate"] and rows[1] == ["0", *["<float32[8, 16, 32]>"] * 2]
    assert rows[2][0] == "approximate" and rows[2][1] == "'tanh'"
    told = text(browser)
    assert "TENSORS" in told and "64.2" in told and "max ULP" in told and "distance 1.3e-4, limit 8.7e-7" in told


def test_the_address_holds_tab_tensor_and_slice(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT}")
    browser.click_on("[data-panel='error']")
    browser.wait("document.querySelector('.heatmap')")
    assert "tab=error" in browser.run("location.hash")
    assert "slice [3, :, :] of [8, 16, 32]" in text(browser), "the slice with the worst element"
    browser.run(
        "(() => { const c = document.querySelector('.picture select[aria-label=Slice]'); c.value = '5';"
        " c.dispatchEvent(new Event('change')); })()"
    )
    browser.wait(f"{DRAWER}.innerText.includes('slice [5, :, :]')")
    address = browser.run("location.hash")
    assert "at=5" in address
    browser.send("Page.navigate", url="about:blank")
    browser.open(page, address.removeprefix("#"))
    browser.wait(f"{DRAWER}.innerText.includes('slice [5, :, :]')")
    assert browser.run("document.querySelector('[role=tab][aria-selected=true]').dataset.panel") == "error"


def test_where_the_error_is_and_how_large(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT}&tab=error")
    browser.wait("document.querySelector('.heatmap')")
    told = text(browser)
    assert "OFF BY SO MUCH" in told and "UNITS IN THE LAST PLACE" in told and "0 of 4,096 elements are equal" in told
    # the wrong tile is dark, its surroundings pale
    dark = (
        "(() => { const c = document.querySelector('.heatmap'), p = c.getContext('2d').getImageData(0, 0, 32, 16).data;"
        " const sum = (x, y) => p[4 * (32 * y + x)] + p[4 * (32 * y + x) + 1] + p[4 * (32 * y + x) + 2];"
        " return [sum(12, 5), sum(15, 6), sum(1, 1)]; })()"
    )
    worst, wrong, right = browser.run(dark)
    assert worst < wrong < right
    assert "8 of 8 differ" in told and "dimension 0 (8)" in told


def test_the_worst_elements_stand_beside_their_gold(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT}&tab=error")
    browser.wait("document.querySelector('.worst table')")
    rows = browser.run("[...document.querySelectorAll('.worst tr')].map(e => [...e.children].map(c => c.textContent))")
    assert rows[0] == ["element", "reference", "candidate", "gold", "off by"] and rows[1][0] == "[3, 5, 12]"
    reference, candidate, gold = (float(cell) for cell in rows[1][1:4])
    assert abs(reference - gold) < 1e-7 < 0.5 < abs(candidate - gold) < 0.52
    told = browser.run("document.querySelector('.gold-words').innerText")
    assert "the candidate is" in told and browser.run("document.querySelector('.gold-words .bad').dataset.mark") == "✕"
    browser.run("(() => { window.taken = ''; Object.defineProperty(navigator, 'clipboard', {configurable: true, value:"
                " {writeText: async (text) => { window.taken = text; }}}); })()")  # fmt: skip
    browser.click_on(".worst button")
    browser.wait("window.taken")
    assert browser.run("window.taken").splitlines()[0] == "element,reference,candidate,gold,off by"


def test_a_page_from_disk_says_how_to_see_the_pictures_of_other_calls(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT + 1}&tab=error")
    browser.wait(f"{DRAWER}.innerText.includes('trueline view runs/good runs/bad')")


def test_commands_to_go_on(browser: Browser, page: Path) -> None:
    browser.open(page, f"call={FAULT}&tab=next")
    commands = browser.run("[...document.querySelectorAll('.panel code')].map(e => e.textContent)")
    call, place = "torch.nn.functional.gelu.54.forward", "gelu.54.forward-step1"
    assert commands == [
        f"trueline show runs/bad {call} --step 1 --stack",
        f"trueline check runs/bad::{call}@step=1,rank=0 --target torch:cpu",
        f"trueline show runs/bad {call} --step 1 --save {place}",
        f"trueline show runs/bad {call} --step 1 --save {place} && python {place}/repro.py",
    ]


def test_tabs_and_pictures_by_keys(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("o")
    browser.press("e")
    browser.wait("document.querySelector('.heatmap')")
    browser.run("document.querySelector('[role=tab][aria-selected=true]').focus()")
    browser.press("ArrowRight")
    assert "train.py:12 in main" in text(browser) and "tab=stack" in browser.run("location.hash")
    browser.press("Escape")
    assert browser.run(f"{DRAWER}.hidden")
