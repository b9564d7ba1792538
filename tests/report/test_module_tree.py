"""The module trees of both sides in a real browser: aligned, marked, with what only one side has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from tests.report.test_page import write_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

FAULT = 437
ROW = "document.querySelector('.branch[data-key=\"{}\"]')"


@pytest.fixture
def opened(shared: Browser, folder: Path) -> Iterator[Browser]:
    """The reference has its modules inside another one; each side has a module that the other lacks."""
    file = folder / "renamed.html"
    if not file.exists():
        write_page(file, FakeComparison(size=1200, fault=FAULT, renamed=True))
    shared.complaints.clear()
    shared.send("Page.navigate", url="about:blank")
    shared.open(file)
    yield shared
    assert shared.complaints == []


def side(browser: Browser, key: str, name: str) -> str:
    text: str = browser.run(ROW.format(key) + f".querySelector('.side.{name} .label').innerText")
    return text.strip("▾▸ \n")


def unfold(browser: Browser, key: str) -> None:
    browser.click_on(f".branch[data-key='{key}'] .fold")


def test_modules_of_other_names_lie_side_by_side_and_the_way_to_the_origin_is_open(opened: Browser) -> None:
    assert side(opened, "encoder", "reference") == "wrapped.encoder"
    assert side(opened, "encoder", "candidate") == "encoder"
    assert side(opened, "encoder.layers.2.mlp", "reference") == "mlp"
    mark = ROW.format("encoder.layers.2.mlp") + ".querySelector('.mark')"
    assert opened.run(f"{mark}.textContent") == "✕" and opened.run(f"{mark}.getAttribute('aria-label')") == "fail"
    assert opened.run(ROW.format("encoder.layers.2") + ".getAttribute('aria-expanded')") == "true"
    assert opened.run(ROW.format("encoder.layers.1") + ".getAttribute('aria-expanded')") == "false"


def test_what_one_side_has_alone_is_shown_on_that_side(opened: Browser) -> None:
    unfold(opened, "encoder.layers.3")
    unfold(opened, "encoder.layers.5")
    adapter, dropout = "encoder.layers.3.adapter", "-wrapped.encoder.layers.5.dropout"
    assert side(opened, adapter, "reference") == "not there" and side(opened, adapter, "candidate") == "adapter"
    assert side(opened, dropout, "reference") == "dropout" and side(opened, dropout, "candidate") == "not there"
    only = ".querySelector('.side.{} .only')?.textContent"
    assert opened.run(ROW.format(adapter) + only.format("candidate")) == "24 only here"
    assert opened.run(ROW.format(adapter) + only.format("reference")) is None
    assert opened.run(ROW.format(dropout) + only.format("reference")) == "24 only here"
    assert opened.run(ROW.format("encoder") + only.format("candidate")) == "24 only here"


def test_a_branch_filters_the_calls_of_both_sides(opened: Browser) -> None:
    unfold(opened, "encoder.layers.5")
    opened.click_on(".branch[data-key='-wrapped.encoder.layers.5.dropout'] .name")
    opened.wait("document.getElementById('shown').textContent === '24 of 1,200'")
    words = "[...document.querySelectorAll('.body .row:not([hidden]) .tag')].map(e => e.textContent)"
    assert set(opened.run(words)) == {"only reference"}
    assert "open=encoder.layers.5" in opened.run("location.hash"), "what was opened can be sent to somebody"
    opened.click_on(".branch[data-key='encoder.layers.2'] .side.candidate .name")
    paths = opened.run("[...document.querySelectorAll('.body .row:not([hidden]) .module')].map(e => e.textContent)")
    assert paths and all(path.startswith("encoder.layers.2.") for path in paths)


def test_calls_of_one_side_are_one_click_from_their_source(opened: Browser) -> None:
    assert opened.run("document.querySelector('[data-kind=extra]').textContent") == "24 calls only in the candidate"
    opened.click_on("[data-kind=missing]")
    opened.wait("document.getElementById('shown').textContent === '24 of 1,200'")
    text = opened.run("document.getElementById('drawer').innerText")
    assert "model.py:41 in forward" in text and "not there" in text


def test_the_tree_is_walked_with_arrows(opened: Browser) -> None:
    opened.run(ROW.format("encoder") + ".focus()")
    focused = "document.activeElement.dataset.key"
    opened.press("ArrowDown")
    assert opened.run(focused) == "encoder.layers"
    opened.press("ArrowLeft")
    assert opened.run(ROW.format("encoder.layers") + ".getAttribute('aria-expanded')") == "false"
    opened.press("ArrowRight")
    opened.press("ArrowRight")
    assert opened.run(focused) == "encoder.layers.0"
    opened.press("Enter")
    assert "module=encoder.layers.0" in opened.run("location.hash")


def test_branches_that_agree_can_be_left_out(shared: Browser, folder: Path) -> None:
    shared.send("Page.navigate", url="about:blank")
    shared.open(write_page(folder / "late.html", FakeComparison(size=1200, fault=1190)), "tree=differ")
    shown = "[...document.querySelectorAll('.branch[data-key]')].map(e => e.dataset.key)"
    assert "encoder.layers.2.mlp" in shared.run(shown) and "encoder.layers.0" not in shared.run(shown)
    shared.click_on("#only-differing")
    assert "encoder.layers.0" in shared.run(shown)


def test_without_an_origin_the_way_to_the_largest_error_is_open(shared: Browser, folder: Path) -> None:
    shared.send("Page.navigate", url="about:blank")
    shared.open(write_page(folder / "clean-tree.html", FakeComparison(size=400, fault=None)))
    deepest = shared.run("Math.max(...[...document.querySelectorAll('.branch[data-key]')].map(e => e.ariaLevel))")
    assert deepest == 4
    assert set(shared.run("[...document.querySelectorAll('.branch[data-key] .mark')].map(e => e.textContent)")) == {"✓"}
