"""The browser and the pages that the tests of this folder look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.web.every_page import Kind, every_kind


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return every_kind(tmp_path_factory.mktemp("kinds"))
