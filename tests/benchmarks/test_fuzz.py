"""The fuzzer of the readers of other tools' files: a short run of each finds nothing, and it can find something."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from benchmarks import fuzz, fuzz_damage


@pytest.mark.parametrize("reader", sorted(fuzz.READERS))
def test_a_short_run_finds_nothing(reader: str, tmp_path: Path) -> None:
    tally = fuzz.fuzz(reader, 120, seed=11, keep=tmp_path / "findings", rounds=150)
    assert tally.findings == [] and tally.rounds == 150
    assert tally.read and tally.refused


def test_damage_damages() -> None:
    source = random.Random(3)
    content = b'{"a": [1, 2, {"b": "c"}], "d": null}' * 3
    changed = [fuzz_damage.damaged(content, source) for _ in range(200)]
    assert sum(one != content for one in changed) > 190


def test_it_can_find_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(folder: Path) -> None:
        for path in folder.glob("*.npy"):
            if path.read_bytes()[:6] != b"\x93NUMPY":
                raise KeyError("not ours")
        (folder / "made").write_text("outside")

    monkeypatch.setitem(fuzz.READERS, "npy", dataclasses.replace(fuzz.READERS["npy"], read=careless))
    fuzzer = fuzz.Fuzzer("npy", tmp_path / "scratch", 5, tmp_path / "findings")
    tally = fuzzer.run(range(60))
    assert any("KeyError" in one for one in tally.findings) and any("for writing" in one for one in tally.findings)
    assert list((tmp_path / "findings").iterdir())
