"""The page of a comparison in a browser: regions, values that differ, what the programs give away, in two languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_comparison import FakeComparison
from tests.report.looking import opened, text
from tests.report.test_origin import Parted, region
from trueline.report.comparison_html import write_html
from trueline.report.given_away import given_away

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

NAMES = tuple(f"layers.{n}.weight" for n in range(12))


def shown(browser: Browser, folder: Path, comparison: FakeComparison, fragment: str = "lang=en") -> None:
    file = folder / f"{type(comparison).__name__}-{id(comparison)}.html"
    with open(file, "w", encoding="utf-8") as stream:
        write_html(comparison, stream)
    opened(browser, file, fragment)


def test_a_region_is_two_lists_with_source_lines(shared: Browser, folder: Path) -> None:
    shown(shared, folder, region(2, 12))
    assert text(shared, "h1") == "the reference computes mul, the candidate add, in layers.0.mlp"
    lists = shared.run("[...document.querySelectorAll('.region ol')].map(e => e.children.length)")
    assert lists == [2, 8]
    told = text(shared, ".region")
    assert "torch.mul.1.forward /home/me/model.py:41 in forward" in told and "and 4 more" in told
    commands = shared.run("[...document.querySelectorAll('.verdict .command code')].map(e => e.textContent)")
    assert [command.split()[2] for command in commands] == ["runs/good", "runs/bad"]
    assert shared.complaints == []


def test_values_stand_by_name_and_nothing_is_pinned(shared: Browser, folder: Path) -> None:
    shown(shared, folder, Parted("state", "layers.0.weight differs from the start", names=NAMES))
    assert text(shared, "h1") == "layers.0.weight and 11 more differ from the start"
    names = shared.run("[...document.querySelectorAll('.names li')].map(e => e.textContent)")
    assert names == [*NAMES[:8], "and 4 more"]
    assert not shared.run("document.querySelector('.body .row.origin')")
    assert not shared.run("document.querySelector('.verdict .command')")
    assert shared.complaints == []


def test_what_is_given_away_is_a_line_and_a_table(shared: Browser, folder: Path) -> None:
    comparison = FakeComparison(fault=150)
    shown(shared, folder, comparison)
    assert text(shared, ".given") == given_away(comparison).sentence()
    rows = shared.run("[...document.querySelectorAll('#given tbody tr')].map(e => e.children[1].textContent)")
    assert rows[:3] == ["layers.0.weight", "layers.1.weight", "loss"] and len(rows) == 6
    assert "follows from the origin" in text(shared, "#given tbody tr")
    comparison.observables = []
    shown(shared, folder, comparison)
    assert shared.run("document.getElementById('given').hidden") and not shared.run("document.querySelector('.given')")


def test_counts_are_those_of_all_reports(shared: Browser, folder: Path) -> None:
    comparison = FakeComparison(fault=150)
    shown(shared, folder, comparison)
    told = text(shared, ".verdict .counts")
    for name, word in (("PASS", "passed"), ("FAIL", "failed"), ("NOT_COMPARED", "not compared")):
        assert f"{comparison.counts[name]} {word}" in told
    shared.click_on(".verdict .counts button")
    shared.wait(f"document.getElementById('shown').textContent.startsWith('{comparison.counts['PASS']} of')")


def test_a_chinese_page_tells_the_cause_in_chinese(shared: Browser, folder: Path) -> None:
    shown(shared, folder, region(2, 2), "lang=zh")
    told = text(shared, "h1")
    assert told.startswith("标杆一侧计算 mul") and "待测一侧计算 add" in told and told.endswith("位于 layers.0.mlp")
    shown(shared, folder, Parted("randomness"), "lang=zh")
    assert "随机数不同" in text(shared, "h1") and "torch.manual_seed(0)" in text(shared, ".verdict")
    assert "程序给出的 6 个值中有 3 个不同" in text(shared, ".given")
