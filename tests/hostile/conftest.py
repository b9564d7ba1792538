"""Each way in is tried once; many tests look at what happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.hostile.names import Hostile, everything
from tests.hostile.victim import Result
from tests.hostile.ways import tried

EACH_ALONE = ("each call compared", "scripts of show --save")
SHARE, SHARE_ALONE = 12, 96
"""The tests try one call of so many, fewer where each takes a command; ``python -m benchmarks.hostile`` tries all."""


@pytest.fixture(scope="session")
def calls() -> tuple[Hostile, ...]:
    return everything()


@pytest.fixture(scope="session")
def way(tmp_path_factory: pytest.TempPathFactory, calls: tuple[Hostile, ...]) -> Callable[[str], Result]:
    for framework in ("torch", "paddle"):
        pytest.importorskip(framework)

    @cache
    def result(name: str) -> Result:
        chosen = calls[:: SHARE_ALONE if name in EACH_ALONE else SHARE]
        return tried(name, tmp_path_factory.mktemp("hostile"), chosen)

    return result
