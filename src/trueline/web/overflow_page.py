"""The page of an overflow report, made of the Run when it is opened."""

from __future__ import annotations

import os

from trueline.diagnose.overflow import overflow
from trueline.report.overflow_html import birth_story, overflow_page_data, write_overflow_page
from trueline.report.run_story import RunStory
from trueline.store import open_run
from trueline.web.pages import Page, detail_of


def overflow_page(path: str | os.PathLike[str], *, replay: bool = True) -> Page:
    """Where the NaN and infinities of a Run were born; ``replay`` executes these calls again to say whether they had
    to be. Every birth can be asked for in full."""
    report = overflow(path, replay=replay)
    run = open_run(path)  # read as long as the page is served
    story = RunStory(run)
    data = overflow_page_data(report, story) | {"served": True}
    births = report.births
    return Page(
        lambda stream: write_overflow_page(data, stream),
        {"data/detail": detail_of(len(births), lambda position: birth_story(births[position], story))},
    )
