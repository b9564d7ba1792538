"""The plot of a comparison in bands: phases, steps and ranks above each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from tests.report.test_page import DRAWER, write_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

BANDS = "document.getElementById('canvas').dataset.bands"
PIN = (
    "(() => {{ const c = document.getElementById('canvas'), r = c.getBoundingClientRect(),"
    " p = c.getContext('2d').getImageData(0, 29, c.width, 1).data;"
    " for (let i = 0; i < c.width; i++) if (p[4 * i + 3] > 120 && p[4 * i] > 130 && p[4 * i + 1] < 110)"
    " return [r.x + i, r.y]; }})()"
)


@pytest.fixture
def opened(shared: Browser, folder: Path) -> Iterator[Browser]:
    """Three ranks of four steps; the fault is in rank 1."""
    file = folder / "ranks.html"
    if not file.exists():
        write_page(file, FakeComparison(size=1200, fault=501, ranks=3))
    shared.complaints.clear()
    shared.send("Page.navigate", url="about:blank")
    shared.open(file)
    yield shared
    assert shared.complaints == []


def choose(browser: Browser, bands: str) -> None:
    browser.run(
        f"(() => {{ const c = document.getElementById('bands'); c.value = '{bands}';"
        " c.dispatchEvent(new Event('change')); })()"
    )


def test_ranks_lie_above_each_other_unless_told_otherwise(opened: Browser) -> None:
    assert opened.run(BANDS) == "rank 0, rank 1, rank 2"
    several = opened.run("document.getElementById('canvas').clientHeight")
    choose(opened, "")
    assert opened.run(BANDS) == "" and "bands=one" in opened.run("location.hash")
    assert opened.run("document.getElementById('canvas').clientHeight") < several


def test_phases_and_steps_have_bands_and_the_address_brings_them_back(opened: Browser, folder: Path) -> None:
    choose(opened, "phase")
    assert opened.run(BANDS) == "forward, backward"
    choose(opened, "step")
    assert opened.run(BANDS) == "step 0, step 1, step 2, step 3"
    address = opened.run("location.hash").removeprefix("#")
    opened.send("Page.navigate", url="about:blank")
    opened.open(folder / "ranks.html", address)
    assert opened.run(BANDS) == "step 0, step 1, step 2, step 3"


def test_the_origin_is_pinned_in_its_band_and_can_be_clicked(opened: Browser) -> None:
    opened.run("document.getElementById('canvas').scrollIntoView({block: 'start', behavior: 'instant'})")
    opened.run("new Promise((done) => setTimeout(done, 200))")
    x, top = opened.run(PIN.format())
    height = opened.run("document.getElementById('canvas').clientHeight")
    opened.click(x, top + height / 2)  # rank 1 is the one in the middle
    for _ in range(24):
        if not opened.run(f"{DRAWER}.hidden") and "origin" in opened.run(f"{DRAWER}.innerText"):
            break
        height -= 8
        opened.press("Escape")
        opened.click(x, top + height / 2)
    assert "origin" in opened.run(f"{DRAWER}.innerText") and "rank 1" in opened.run(f"{DRAWER}.innerText")


def test_arrows_walk_within_a_band(opened: Browser) -> None:
    opened.press("o")
    opened.run("document.getElementById('canvas').focus()")
    opened.press("ArrowRight")
    assert "call=502" in opened.run("location.hash")
    choose(opened, "phase")
    opened.run("document.getElementById('canvas').focus()")
    for _ in range(8):
        opened.press("ArrowRight")
    assert "forward" in opened.run(f"{DRAWER}.querySelector('h2').textContent"), "never into the other band"


def test_a_filter_and_a_zoom_narrow_the_bands(opened: Browser) -> None:
    opened.click_on("#zoom-origin")
    assert "zoom=" in opened.run("location.hash")
    opened.wait("document.getElementById('range').textContent.startsWith('60 of 400')")
    opened.run("document.getElementById('rank').value = '2';"
               "document.getElementById('rank').dispatchEvent(new Event('change'))")  # fmt: skip
    assert opened.run(BANDS) == "rank 2"


def test_of_many_ranks_those_with_the_largest_errors_are_shown(shared: Browser, folder: Path) -> None:
    shared.send("Page.navigate", url="about:blank")
    shared.open(write_page(folder / "many.html", FakeComparison(size=2000, fault=1991, ranks=40)))
    bands = shared.run(BANDS).split(", ")
    assert len(bands) == 16 and "rank 39" in bands
    shared.wait("document.getElementById('range').textContent.includes('24 bands')")
