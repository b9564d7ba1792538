"""The page of a profile that was kept, with the details of any case at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from trueline.report.profile_html import profile_page_data, write_profile_page
from trueline.report.profile_json import read_profile_json
from trueline.web.pages import Page, detail_of


def profile_page(path: str | Path) -> Page:
    """A profile: its folder, or its file."""
    profile = read_profile_json(Path(path))
    data = profile_page_data(profile, path=str(path)) | {"served": True}
    cases = profile["cases"]
    return Page(
        lambda stream: write_profile_page(data, stream),
        {"data/detail": detail_of(len(cases), lambda position: cases[position])},
    )


def write_profile_file(path: str | Path, stream: TextIO) -> None:
    """The same page as one file."""
    write_profile_page(profile_page_data(read_profile_json(Path(path)), path=str(path)), stream)
