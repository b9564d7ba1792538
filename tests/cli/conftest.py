from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runs import write_net


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``good``, ``same``, ``bad`` (tensors kept) and ``bare`` (structure only)."""
    folder = tmp_path_factory.mktemp("runs")
    write_net(folder / "good")
    write_net(folder / "same")
    write_net(folder / "bad", fault=True)
    write_net(folder / "bare", data="structure")
    return folder
