"""One browser for all tests of a module that look at a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Browser]:
    with Browser(folder / "profile") as browser:
        yield browser
