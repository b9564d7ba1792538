"""What workers are told of the machine."""

from __future__ import annotations

import pytest

from trueline.campaign.machine import cores, worker_environment

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_told(workers: int) -> list[str | None]:
    told = worker_environment(workers)
    return [told.get(name) for name in THREADS]


def test_cores_are_shared_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    assert threads_told(1) == [str(cores())] * 2
    assert threads_told(10 * cores()) == ["1", "1"]


@pytest.mark.parametrize("said", THREADS)
def test_threads_that_somebody_chose_are_left_alone(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One library with the threads of the whole machine in each of many workers would make all of them slow."""
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(said, "3")
    assert threads_told(1) == [None, None]
