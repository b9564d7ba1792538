"""Every text of the pages has Chinese words, and every file that the pages are made of ships with the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web import words
from trueline.overflows import Nature, OverflowKind
from trueline.report import html
from trueline.report.html import Layout

LAYOUTS = words.layouts()
FOLDER = Path(html.__file__).parent / "assets"
CHINESE_FILES = sorted(file.name for file in FOLDER.glob("chinese*.js"))
every_page = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def test_there_is_a_page_for_everything() -> None:
    assert {"page", "check", "run", "overflow", "profile", "pipeline"} <= set(LAYOUTS)


def test_every_asset_ships_and_none_is_left_over() -> None:
    used = {name for layout in LAYOUTS.values() for name in layout.files}
    assert used == {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if file.is_file()} - {
        "vendor/uPlot.LICENSE"
    }


@every_page
def test_every_text_has_chinese_words(layout: Layout) -> None:
    assert not words.missing(layout)


@every_page
def test_no_script_shows_a_text_without_saying_it(layout: Layout) -> None:
    assert not [(name, text) for name in words.own_scripts(layout) for text in words.unsaid(name)]


def test_sentences_that_python_writes_have_chinese_words() -> None:
    known = {english for name in CHINESE_FILES for english, _ in words.entries(name)}
    templates = dict(words.phrases())
    assert len(templates) > 40
    templates |= {one.value: "overflows.py" for one in [*OverflowKind, *Nature]}
    assert not {text: module for text, module in templates.items() if text not in known}


@pytest.mark.parametrize("name", CHINESE_FILES)
def test_words_are_in_order_and_keep_their_places(name: str) -> None:
    found = words.entries(name)
    lines = [line for line in html.asset(name).splitlines() if line.startswith("  ")]
    assert len(lines) == len(found), "one entry a line"
    assert [english for english, _ in found] == sorted({english for english, _ in found})
    for english, chinese in found:
        assert chinese and sorted(set(re.findall(r"\{\w+\}", english))) == sorted(set(re.findall(r"\{\w+\}", chinese)))


@every_page
def test_no_word_is_translated_twice(layout: Layout) -> None:
    assert not words.repeated([name for name in layout.all_scripts if name.startswith("chinese")])


def test_these_tests_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'const a = say("no such words"); element("p", "", "never said"); node.title = `worst: ${x}`;'
    monkeypatch.setattr(words, "asset", lambda name: text)
    assert list(words.said("x.js")) == ["no such words"]
    assert list(words.unsaid("x.js")) == ['"never said"', "`worst: ${x}`"]
    monkeypatch.setattr(words, "asset", lambda name: "say(name)")
    with pytest.raises(AssertionError, match="must stand there itself"):
        list(words.said("x.js"))
