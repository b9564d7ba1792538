"""The page of an overflow report in a real browser: who was the first, the way it took, what comes next, per rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.growing_run import HOSTILE, record
from tests.report.looking import WIDTHS, asks_only, choose, fits, opened, rows, shown, text
from tests.report.test_overflow_report import BIRTH, FORECAST, REPORT
from trueline.cli.main import main
from trueline.overflows import Nature, Skipped, Watched
from trueline.report.overflow_html import overflow_page_data, write_overflow_page

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
pytestmark = needs_browser


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    """The page that the command writes, of a Run in a folder with a hostile name."""
    pytest.importorskip("torch")
    run, path = folder / HOSTILE, folder / "overflow.html"
    record(run)
    assert main(["overflow", str(run), "--html", str(path), "--no-replay"]) == 1
    return path


@pytest.fixture(scope="module")
def alone(folder: Path) -> Path:
    """The page of a report whose Run is not at hand, of two ranks, with a watch and a loss scaler."""
    meant = replace(BIRTH, nature=Nature.MEANT, alarm=False, call=replace(BIRTH.call, rank=1, index=5), ends="nothing")
    watched = (Watched(0, 32, 500, (31,), (3,), ("step 31: bad",)), Watched(1, 32, 480))
    report = replace(
        REPORT, births=(BIRTH, meant), watched=watched, skipped=(Skipped(1, 3, 65536.0),), ranks=(0, 1)
    )  # fmt: skip
    path = folder / "alone.html"
    with path.open("w", encoding="utf-8") as stream:
        write_overflow_page(overflow_page_data(report), stream)
    return path


def test_the_origin_is_told_with_its_way_its_reason_and_what_helps(file: Path, shared: Browser) -> None:
    opened(shared, file)
    told = text(shared, "#verdict")
    assert "Overflow" in told and "torch.Tensor.mul.3.forward in blocks.1 is the first to give infinity" in told
    assert "growing_run.py" in told and "product overflow" in told and "What helps: scale the factors down" in told
    assert "not known: the call was not executed again" in told and "ends in the loss" in told
    assert HOSTILE in text(shared, "#runs") and shared.run("document.querySelectorAll('img').length") == 0
    boxes = shared.run("[...document.querySelectorAll('#way-picture .way-box')].map((one) => one.innerText)")
    assert "born here" in boxes[0] and "∞ of 32" in boxes[0] and "blocks.1" in boxes[0]
    assert "the loss (torch.Tensor.sum.0.forward)" in boxes[-1]
    asks_only(shared, "file://")


def test_a_call_of_the_way_opens_and_the_address_names_it(file: Path, shared: Browser) -> None:
    opened(shared, file)
    shared.run("document.querySelectorAll('#way-picture .way-box')[1].click()")
    name = text(shared, "#drawer h2")
    assert name == "torch.nn.functional.linear.2.forward" and "head" in text(shared, "#drawer")
    address = shared.run("location.hash")
    assert "look=way+1" in address
    opened(shared, file, address.removeprefix("#"))
    assert text(shared, "#drawer h2") == name
    shared.run("document.querySelector('.body .row:not([hidden])').click()")
    assert "look" not in shared.run("location.hash") and "birth=0" in shared.run("location.hash")
    shared.press("Escape")
    assert not shown(shared, "#drawer")


def test_the_room_over_the_steps_and_the_calls_before_are_shown(file: Path, shared: Browser) -> None:
    opened(shared, file)
    assert shared.run("document.querySelectorAll('#course-chart canvas').length") == 1
    assert "✕ 2 steps not finite" in text(shared, "#course-chart .legend")
    if shown(shared, "#course-values"):
        shared.run("document.querySelector('#course-values [data-value=next]').click()")
        assert "course=next" in shared.run("location.hash")
    before = shared.run("[...document.querySelectorAll('#before tbody tr')].map((row) => row.innerText)")
    assert (
        "torch.Tensor.mul.2.forward" in before[-2] and "✕" in before[-1] and "torch.Tensor.mul.3.forward" in before[-1]
    )
    asks_only(shared, "file://")


def test_a_report_alone_still_tells_everything_it_knows(alone: Path, shared: Browser) -> None:
    opened(shared, alone)
    assert "<script>alert(1)</script>" in text(shared, "#verdict"), "shown as text"
    way = text(shared, "#way-picture")
    assert "log.2" in way and "sum.0" in way and "the loss" in way
    assert "torch.log.2.forward" in text(shared, "#forecasts") and "66 (60-80)" in text(shared, "#forecasts")
    watch = text(shared, "#watched")
    assert "✕ 31" in watch and "step 31: bad" in watch and "480" in watch
    assert "65,536" in text(shared, "#skipped") and "a note" in text(shared, "#about")
    assert not shown(shared, "#before") and not shown(shared, "#course-chart canvas")
    shared.run("document.querySelector('#forecasts tr.pick').click()")
    assert "forecast" in text(shared, "#drawer") and "look=next+0" in shared.run("location.hash")
    assert str(FORECAST.step) in text(shared, "#drawer")
    asks_only(shared, "file://")


def test_births_are_filtered_by_nature_rank_and_words(alone: Path, shared: Browser) -> None:
    opened(shared, alone)
    assert rows(shared) == ["torch.log.2.forward", "torch.log.5.forward"]
    choose(shared, "nature", "meant")
    assert rows(shared) == ["torch.log.5.forward"] and "nature=meant" in shared.run("location.hash")
    choose(shared, "nature", "")
    choose(shared, "rank", "0")
    assert rows(shared) == ["torch.log.2.forward"]
    shared.press("j")
    assert "it was negative" in text(shared, "#drawer") and "args.0 = -1" in text(shared, "#drawer")
    choose(shared, "rank", "")
    choose(shared, "search", "no such thing")
    assert "Nothing was born" in text(shared, "#grid-body")


def test_a_clean_report_says_so(folder: Path, shared: Browser) -> None:
    path = folder / "clean.html"
    with path.open("w", encoding="utf-8") as stream:
        write_overflow_page(overflow_page_data(replace(REPORT, births=(), forecasts=(), watched=(), notes=())), stream)
    opened(shared, path)
    assert "Clean" in text(shared, "#verdict") and "nothing but numbers" in text(shared, "#verdict")
    assert not any(shown(shared, f"#{name}") for name in ("way", "course", "before", "watched", "skipped"))
    asks_only(shared, "file://")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_a_wall(file: Path, alone: Path, shared: Browser, theme: str) -> None:
    for width in WIDTHS:
        shared.resize(width, 900)
        for page in (file, alone):
            opened(shared, page)
            shared.run(
                f"document.documentElement.dataset.theme !== '{theme}' && document.getElementById('theme').click()"
            )
            shared.run("document.querySelector('.body .row:not([hidden])').click()")
            assert fits(shared), (width, page.name)
            asks_only(shared, "file://")
    shared.resize(1300, 900)
