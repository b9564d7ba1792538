"""The overflow report as a page, as JSON and as text: what it says, and that a name cannot become a program."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from trueline.overflows import (
    Birth,
    Counts,
    EventKind,
    Forecast,
    Nature,
    OverflowKind,
    OverflowReport,
    Watched,
    WatchEvent,
)
from trueline.records import Call, Frame, Level, Phase
from trueline.report.overflow_files import write_overflow_json
from trueline.report.overflow_html import write_overflow_html
from trueline.report.overflow_text import event_blocks, forecast_sentence, overflow_blocks, sentence
from trueline.report.terminal import plain

CALL = Call(7, "torch.log", 2, 31, 0, Phase.FORWARD, Level.API, "model.<script>alert(1)</script>", "Head",
            stack=(Frame("train.py", 5, "step"), Frame("main.py", 9, "main")))  # fmt: skip
BIRTH = Birth(
    CALL, "out", "float16", (4,), Counts(nan=1, of=4), OverflowKind.OUTSIDE_DOMAIN, Nature.EXPECTED, "it was negative",
    True, (2,), {"args.0": -1.0}, ("torch.log.2.forward", "torch.sum.0.forward"), 3, "the loss", "clamp it",
)  # fmt: skip
FORECAST = Forecast(CALL, "out", "float16", 20, 3.5, -0.1, 66, 60, 80)
REPORT = OverflowReport("runs/a", (BIRTH,), (FORECAST,), (), 10, 20, (0,), ("a note",), (Watched(0, 32, 500, (31,)),))


def page(report: OverflowReport) -> str:
    stream = io.StringIO()
    write_overflow_html(report, stream)
    return stream.getvalue()


def test_the_page_holds_the_report_as_data_and_no_name_can_leave_it() -> None:
    text = page(REPORT)
    for words in (
        "torch.log.2.forward",
        "train.py:5 in step",
        "it was negative",
        "clamp it",
        "a note",
        "Overflow: torch.log.2.forward in model.",
    ):
        assert words in text, words
    assert "<script>alert" not in text and "\\u003cscript\\u003ealert" in text and "&lt;script&gt;alert" in text
    assert "default-src 'none'" in text


def test_a_clean_report_is_a_clean_page() -> None:
    text = page(replace(REPORT, births=(), forecasts=(), watched=()))
    assert "<title>Clean: nothing but numbers</title>" in text


def test_a_watch_that_could_not_name_the_call_is_not_clean() -> None:
    watched = replace(REPORT.watched[0], overflows=(7, 8), first="step 7: head.weight holds 8 NaN")
    report = replace(REPORT, births=(), watched=(watched,))
    assert report.wrong
    assert "did not hold the call" in sentence(report) and sentence(report).endswith("head.weight holds 8 NaN")
    text = plain(overflow_blocks(report))
    assert text.startswith("OVERFLOW")
    run = f"{report.path}-step7"
    assert f"trueline capture --out {run} --steps 7 -- python train.py" in text and f"trueline overflow {run}" in text
    assert f"trueline overflow {run}" in page(report)


def test_events_are_listed_and_bounded() -> None:
    events = [WatchEvent(EventKind.OVERFLOW, step, 0, f"step {step}: bad") for step in range(500)]
    text = plain(event_blocks(events, rows=10))
    assert "step 0: bad" in text and "step 499: bad" in text and "and 490 more" in text
    assert len(text.splitlines()) == 12


def test_the_json_holds_what_the_watch_saw() -> None:
    stream = io.StringIO()
    write_overflow_json(REPORT, stream, [WatchEvent(EventKind.OVERFLOW, 31, 0, "m", call="torch.log.2.forward")])
    content = json.loads(stream.getvalue())
    assert content["watched"][0]["overflows"] == [31]
    assert content["events"][0] | {"kind": "overflow", "call": "torch.log.2.forward"} == content["events"][0]
    assert content["forecasts"][0]["step"] == 66


def test_a_forecast_is_one_sentence() -> None:
    assert forecast_sentence(FORECAST).startswith("torch.log.2.forward of model.")
