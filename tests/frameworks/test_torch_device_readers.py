"""What a reader of device memory takes for the program's own peak, when captures follow one another."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trueline.frameworks.torch import device_readers  # noqa: E402

DEVICE = torch.device("cuda", 7)


class _Told(device_readers.DeviceReader):
    """A reader that is told what the device would answer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._device = DEVICE
        self._peak = self._own_peak()

    def _most_used(self) -> int:
        return self.most

    def ends(self, most: int) -> None:
        device_readers._peaks[self._device] = self._peak, most


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(device_readers, "_peaks", {})


def test_what_captures_held_does_not_add_up() -> None:
    most = 1000
    for _ in range(9):
        reader = _Told(most)
        assert reader._peak == 1000
        most = most + 50
        reader.ends(most)


def test_a_program_that_grew_between_captures_is_believed() -> None:
    _Told(1000).ends(1080)
    assert _Told(5000)._peak == 5000


def test_a_peak_that_was_reset_is_believed() -> None:
    _Told(1000).ends(1080)
    assert _Told(300)._peak == 300
