"""What the frame gives to every page: all widths, keys, names, two languages, a state in the address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.web.every_page import FILES, IMAGE, Kind, look_around, texts_of, visit

WIDTHS = (390, 820, 1300, 2560)
NAMES = "NaN Inf RMSE ULP API Python Run trueline "
"""Words that Chinese people use as they are."""
every_file = pytest.mark.parametrize("name", FILES)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory, kinds: dict[str, Kind]) -> Iterator[tuple[Browser, Path]]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    folder = tmp_path_factory.mktemp("wide")
    for name in FILES:
        kinds[name].file(folder)
    with Browser(folder / "profile") as browser:
        yield browser, folder


@every_file
def test_nothing_sticks_out_at_any_width(wide: tuple[Browser, Path], name: str) -> None:
    browser, folder = wide
    visit(browser, f"file://{folder}/{name}.html")
    for width in WIDTHS:
        browser.resize(width, 900)
        browser.run("new Promise((done) => setTimeout(done, 160))")
        for state in ("closed", "opened"):
            sideways = browser.run("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
            assert sideways <= 0, f"{name} scrolls sideways at {width} px, {state}"
            browser.run("(document.querySelector('.body .row:not([hidden])') || document.body).click()")
        browser.press("Escape")
    browser.resize(1300, 900)


@every_file
def test_keys_help_and_focus(wide: tuple[Browser, Path], name: str) -> None:
    browser, folder = wide
    visit(browser, f"file://{folder}/{name}.html")
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    assert browser.run("document.querySelectorAll('#help kbd').length") >= 2
    browser.press("Escape")
    assert not browser.run("document.getElementById('help').open")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip", "the first stop jumps over the head"
    browser.press("Enter")
    assert browser.run("document.activeElement !== document.body && document.activeElement.className !== 'skip'")
    unnamed = browser.run(
        "[...document.querySelectorAll('button, select, input, [tabindex], a')]"
        ".filter((node) => !node.hidden && !node.disabled && node.offsetParent && !(node.getAttribute('aria-label')"
        " || node.labels?.length || node.getAttribute('aria-labelledby') || node.title || node.textContent.trim()))"
        ".map((node) => node.outerHTML)"
    )
    assert not unnamed, f"what can be reached has no name: {unnamed}"
    assert browser.run("document.querySelectorAll('h1').length") == 1 and browser.run("document.title")


@every_file
def test_both_languages_say_the_whole_page(wide: tuple[Browser, Path], name: str) -> None:
    """A text that is the same in both languages must come from the data, or be a number or a sign."""
    browser, folder = wide
    page = f"file://{folder}/{name}.html"
    texts = []
    for language in ("en", "zh"):
        visit(browser, f"{page}#lang={language}")
        look_around(browser)
        texts.append(set(texts_of(browser)))
        assert browser.run("document.documentElement.lang") == {"en": "en", "zh": "zh-CN"}[language]
    assert re.search("[\u4e00-\u9fff]", browser.run("document.querySelector('h1').textContent")), "the first sentence"
    same = [text for text in texts[0] & texts[1] if re.search(r"[A-Za-z]{3}", text)]
    known = NAMES + browser.run("document.getElementById('data').textContent")
    left = [text for text in same if not all(word in known for word in re.findall(r"[A-Za-z]{3,}", text))]
    assert not left, f"not in Chinese: {left}"


def test_the_language_is_kept_and_the_state_with_it(wide: tuple[Browser, Path]) -> None:
    browser, folder = wide
    visit(browser, f"file://{folder}/comparison.html#kind=differ&sort=-output&call=1")
    browser.run("document.getElementById('language').click()")
    browser.wait("document.documentElement?.lang === 'zh-CN' && document.documentElement.dataset.ready !== undefined")
    words = dict(part.split("=") for part in browser.run("location.hash.slice(1)").split("&"))
    assert words["lang"] == "zh" and words["kind"] == "differ" and words["sort"] == "-output" and words["call"] == "1"
    assert browser.run("document.getElementById('drawer').hidden") is False
    browser.run("document.getElementById('language').click()")
    browser.wait("document.documentElement?.lang === 'en' && document.documentElement.dataset.ready !== undefined")
    assert "lang=en" in browser.run("location.hash")


def test_a_new_address_in_the_same_page_is_a_new_state(wide: tuple[Browser, Path]) -> None:
    browser, folder = wide
    visit(browser, f"file://{folder}/comparison.html#call=1")
    browser.run("location.hash = 'kind=differ'")
    browser.wait("document.getElementById('drawer').hidden && document.getElementById('kind').value === 'differ'")
    assert browser.complaints == [] and IMAGE in browser.run("document.body.textContent")
