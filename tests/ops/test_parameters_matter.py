"""Every parameter of every operator of the catalogue matters: some case changes its result without it.

An argument that can be left out, or be another word or number, without the gold being another is an argument that no
wrong kernel is asked about. ``IDLE`` says which ones and why; a row that has become untrue fails.
"""

from __future__ import annotations

import copy
import inspect
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trueline.cases import Case  # noqa: E402
from trueline.frameworks.base import CannotExecute, Executed  # noqa: E402
from trueline.frameworks.machine import executor  # noqa: E402
from trueline.cases import Target  # noqa: E402
from trueline.ops.catalogue import catalogue_apis, catalogue_cases  # noqa: E402
from trueline.ops.facts import Kind, facts_of  # noqa: E402
from trueline.replay.inputs import inputs_for  # noqa: E402

_SHARE = 12
"""One operator in so many; ``python -m benchmarks.parameters`` goes through all."""


def chosen() -> list[str]:
    return [api for api in catalogue_apis() if api.startswith("torch.") and zlib.crc32(api.encode()) % _SHARE == 0]


@pytest.mark.parametrize("api", chosen())
def test_each_argument_changes_the_result_of_some_case(api: str) -> None:
    from benchmarks.parameters import IDLE, idle_arguments

    told = {name for name in idle_arguments(api) if f"{api} {name}" not in IDLE and name not in IDLE}
    assert not told, f"no case of {api} changes where {', '.join(sorted(told))} does; add one to the catalogue"
