"""What the log of a watch tells besides trends: how much was seen, what happened, what lies at the limits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trueline.overflows import EventKind, Watched
from trueline.store.watch_log import Series, WatchHistory

_MOST_TOLD = 5
_SHARE = 0.01
"""A share of elements that is worth a word."""
_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def watched_of(rank: int, log: WatchHistory) -> Watched:
    """The log of one rank in a few numbers."""
    ends = [event["counts"] for event in log.events if event.get("kind") == "end"]
    counts: Mapping[str, int] = ends[-1] if ends else {}
    points = log.points
    steps = counts.get("steps", len(np.unique(points["step"])))
    return Watched(
        rank,
        int(steps),
        int(counts.get("looks", len(points))),
        _steps(log, EventKind.OVERFLOW),
        _steps(log, EventKind.MEANT),
        tuple(event["message"] for event in log.events if event.get("kind") != "end" and "message" in event),
        next((event["message"] for event in log.events if event.get("kind") == EventKind.OVERFLOW.value), ""),
    )


def _steps(log: WatchHistory, kind: EventKind) -> tuple[int, ...]:
    return tuple(sorted({int(event["step"]) for event in log.events if event.get("kind") == kind.value}))


def saturation_notes(logs: Mapping[int, WatchHistory]) -> list[str]:
    """Tensors of narrow dtypes of which many elements lie at the largest number, or have become zero or subnormal."""
    notes = []
    for rank, log in logs.items():
        notes += _worst(log, rank, "saturated", "lie at the largest number of", _SHARE)
        notes += _worst(log, rank, "subnormals", "are too small for the full precision of", 0.5)
    return notes


def _worst(log: WatchHistory, rank: int, field: str, words: str, least: float) -> list[str]:
    points = log.points
    shares: dict[int, list[float]] = {}
    for number, share in zip(
        *(points[name][points[field] >= least].tolist() for name in ("series", field)), strict=True
    ):
        if log.series[number].dtype in _NARROW:
            shares.setdefault(number, []).append(share)
    chosen = sorted(shares, key=lambda number: -max(shares[number]))[:_MOST_TOLD]
    return [
        f"rank {rank}: {_name(log.series[number])}: up to {max(shares[number]):.1%} of the elements {words} "
        f"{log.series[number].dtype}"
        for number in chosen
    ]


def _name(series: Series) -> str:
    where = f" of {series.module}" if series.module else ""
    return f"{series.path} of {series.api}.{series.nth}.{series.phase}{where}"
