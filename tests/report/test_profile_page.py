"""The page of a profile in a real browser: what is slower or larger, where the time goes, both sides of a case."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.profiles import info, side, timed
from tests.report.browser import CHROMIUM, Browser
from tests.report.looking import WIDTHS, asks_only, choose, fits, opened, plain, rows, shown, text
from tests.report.test_profile_reports import EQUAL, TWICE, judged
from trueline.errors import UsageError
from trueline.profiles import CaseProfile
from trueline.records import Verdict
from trueline.report.profile_html import profile_page_data, write_profile_html
from trueline.report.profile_json import profile_dict, read_profile_json, write_profile_json
from trueline.web.profile_page import write_profile_file

HOSTILE = "torch.</script><img src=x onerror=document.title='taken'>"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


def cases() -> list[CaseProfile]:
    """One that is slow and large, one that is equal, one that did not return; the names of the last are hostile."""
    slow = timed(side(2e-3, 1e-3, peak=8192), side(1e-3, 1e-3), TWICE, EQUAL)
    equal = timed(side(4e-4, peak=10), side(4e-4, peak=10), EQUAL, api="torch.relu")
    broken = timed(side(None), side(1e-3), api=HOSTILE)
    return [judged(slow, Verdict.FAIL), judged(equal, Verdict.PASS), judged(broken)]


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    path = folder / "profile.html"
    about = info(step_seconds=1.2e-2, check="checks/a", calls=9, skipped={"a module": 1})
    with path.open("w", encoding="utf-8") as stream:
        write_profile_html(about, cases(), Verdict.FAIL, stream)
    return path


def kept(folder: Path, **more: Any) -> Path:
    with (folder / "profile.json").open("w", encoding="utf-8") as stream:
        write_profile_json(info(**more), cases(), Verdict.FAIL, stream)
    return folder


def test_a_profile_that_was_kept_gives_the_same_page(tmp_path: Path) -> None:
    fresh = profile_page_data(profile_dict(info(), cases(), Verdict.FAIL))
    read = profile_page_data(read_profile_json(kept(tmp_path)))
    assert json.loads(json.dumps(fresh)) == json.loads(json.dumps(read))
    assert fresh["columns"]["ratio"]["type"] == "Float32Array" and fresh["details"]["0"]["api"].endswith("gelu")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not JSON"),
        ("[]", "is no profile"),
        ('{"format": "trueline-profile", "version": 1, "cases": 3}', "is no profile"),
        ('{"format": "trueline-profile", "version": 99, "cases": []}', "newer trueline"),
        ('{"format": "trueline-profile", "version": 1, "cases": []}', "no profile that can be read"),
        ('{"format": "trueline-profile", "version": 1, "cases": [{"api": 1}]}', "no profile that can be read"),
    ],
)
def test_what_is_no_profile_is_a_clear_error(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "profile.json").write_text(content)
    with pytest.raises(UsageError, match=words):
        write_profile_file(tmp_path, io.StringIO())


def test_a_folder_without_a_profile_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        write_profile_file(tmp_path, io.StringIO())


@needs_browser
def test_the_verdict_the_sums_and_the_reasons_are_told(file: Path, shared: Browser) -> None:
    opened(shared, file)
    told = text(shared, "#verdict")
    assert "FAIL" in told and "1 of 2 cases is beyond the limits: torch.nn.functional.gelu" in told
    assert "10.2 ms" in told and "3 ms lost in a step" in told and "85 % of the step explained" in told
    reasons = text(shared, "#reasons")
    assert "raised: RuntimeError: no kernel" in reasons and "a module" in reasons and HOSTILE in reasons
    assert shared.run("document.querySelectorAll('img').length") == 0
    about = text(shared, "#about")
    assert "7.2 ms forward + 3 ms backward" in about and "1.20 x the time, 1.10 x the memory" in about
    asks_only(shared, "file://")


@needs_browser
def test_bars_show_both_sides_and_lead_to_the_cases(file: Path, shared: Browser) -> None:
    opened(shared, file)
    bars = shared.run("[...document.querySelectorAll('.bar-row')].map((one) => one.innerText)")
    assert "torch.nn.functional.gelu ✕" in bars[0] and "9 ms" in bars[0] and "1.50 x" in plain(bars[0])
    assert "torch.relu" in bars[1] and "✕" not in bars[1]
    widths = shared.run("[...document.querySelectorAll('.bar-row .track i')].map((one) => one.offsetWidth)")
    assert widths[0] == pytest.approx(1.5 * widths[1], abs=2), "as wide as it is long"
    shared.run("document.querySelector('#bars-values [data-value=memory]').click()")
    assert "8.19 kB" in text(shared, ".bar-row") and "bars=memory" in shared.run("location.hash")
    shared.run("document.querySelectorAll('.bar-row')[1].click()")
    assert rows(shared) == ["torch.relu"] and "text=torch.relu" in shared.run("location.hash")
    shared.run("document.getElementById('clear').click()")
    shared.run("document.querySelector('#bars-groups [data-value=case]').click()")
    shared.click_on(".bar-row")
    assert text(shared, "#drawer h2") == "torch.nn.functional.gelu"


@needs_browser
def test_a_case_shows_both_sides_the_spread_and_the_findings(file: Path, shared: Browser) -> None:
    opened(shared, file, "case=0")
    details = text(shared, "#drawer")
    assert "✕ forward takes 2.00 times as long (spread 1.95 to 2.05, limit 1.2)" in details
    assert "2.00 x (spread 1.95 x to 2.05 x, limit 1.20 x)" in details
    assert "median 2 ms 1 ms" in details and "peak memory 8.19 kB 4.1 kB" in details
    assert "trueline show runs/a" in details and "trueline check runs/a --target torch:cuda" in details
    left = shared.run(
        "['.range', '.limit'].map((one) => document.querySelector(`#drawer .ratio-scale ${one}`).offsetLeft)"
    )
    assert left[0] > left[1], "all of the spread lies beyond the limit"
    shared.press("Escape")
    shared.press("w")
    assert text(shared, "#drawer h2") == "torch.nn.functional.gelu"
    asks_only(shared, "file://")


@needs_browser
def test_cases_are_sorted_filtered_and_copied(file: Path, shared: Browser) -> None:
    opened(shared, file)
    shared.run("[...document.querySelectorAll('#grid-head button')].find((b) => b.textContent === 'calls').click()")
    assert "sort=-calls" in shared.run("location.hash")
    choose(shared, "kind", "large")
    assert rows(shared) == ["torch.nn.functional.gelu"]
    choose(shared, "kind", "wrong")
    assert rows(shared, ".accuracy") == ["✕ fail"]
    choose(shared, "kind", "missing")
    assert rows(shared) == [HOSTILE]
    choose(shared, "kind", "")
    shared.run("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }")
    shared.run("document.getElementById('copy-table').click()")
    lines = plain(shared.run("globalThis.copied")).splitlines()
    assert len(lines) == 4 and lines[0].startswith("#,API,call,calls,forward,backward")
    assert any("2.00 x" in line and "torch.nn.functional.gelu" in line for line in lines)


@needs_browser
def test_without_another_side_there_are_times_and_no_verdicts(folder: Path, shared: Browser) -> None:
    path = folder / "alone.html"
    with path.open("w", encoding="utf-8") as stream:
        write_profile_html(info(against=""), [judged(timed(side(1e-3), None))], Verdict.NOT_COMPARED, stream)
    opened(shared, path)
    assert "timed" in text(shared, "#verdict") and "ratio" not in text(shared, "#grid-head")
    assert not shown(shared, "#reasons") and "✕" not in text(shared, "main")
    asks_only(shared, "file://")


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_a_wall(file: Path, shared: Browser, theme: str) -> None:
    for width in WIDTHS:
        shared.resize(width, 900)
        opened(shared, file, "case=0")
        shared.run(f"document.documentElement.dataset.theme !== '{theme}' && document.getElementById('theme').click()")
        assert fits(shared), width
        edge = "document.getElementById('cases').getBoundingClientRect().right"
        tags = shared.run(
            "[...document.querySelectorAll('.body .row:not([hidden]) .tag')]"
            f".map((one) => one.getBoundingClientRect().right <= {edge})"
        )
        assert all(tags), "the verdict of every row is in sight"
        asks_only(shared, "file://")
    shared.resize(1300, 900)
