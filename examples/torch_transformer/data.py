"""The recordings of this project, made and not downloaded: six sensors of a machine in four states.

python data.py --out lite_data        the ``prepare`` step: recordings to train on, to evaluate with, and the probe
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

STATES = ("idle", "steady", "worn bearing", "loose belt")
LENGTH = 24
SENSORS = 6
MEAN = np.array([20.0, 1.0, -3.0, 50.0, 0.0, 7.0], dtype=np.float32)
SCALE = np.array([4.0, 0.5, 2.0, 12.0, 1.0, 3.0], dtype=np.float32)
COUNTS = {"train": 256, "evaluate": 64, "probe": 16}
SEEDS = {"train": 21, "evaluate": 22, "probe": 23}

Recordings = tuple[np.ndarray, np.ndarray]
"""float32 of shape (count, LENGTH, SENSORS) in the units of the sensors, and the number of the state of each."""


def drawn(count: int, seed: int) -> Recordings:
    """The same recordings for the same seed."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int64) % len(STATES)
    time = np.arange(LENGTH)[None, :, None] / LENGTH
    phases = generator.uniform(0, 2 * np.pi, (count, 1, SENSORS))
    speed = np.array([0.5, 2.0, 2.0, 2.0])[labels][:, None, None]
    waves = np.sin(2 * np.pi * speed * time + phases)
    waves[labels == 2, :, 1] += 1.5 * np.sin(2 * np.pi * 8 * time[0, :, 0])  # a worn bearing hums in the second sensor
    waves[labels == 3, :, 4] += 1.5 * (time[0, :, 0] > 0.5)  # a loose belt jumps in the fifth
    waves += generator.normal(0, 0.3, waves.shape)
    return (MEAN + SCALE * waves).astype(np.float32), labels


def normalised(recordings: np.ndarray) -> np.ndarray:
    """What the network is given."""
    return np.ascontiguousarray((recordings - MEAN) / SCALE, dtype=np.float32)


def loaded(folder: str | Path, part: str) -> Recordings:
    """A part of the prepared data; without a ``prepare`` step it is drawn at once."""
    file = Path(folder) / f"{part}.npz"
    if not file.exists():
        return drawn(COUNTS[part], SEEDS[part])
    with np.load(file) as content:
        return content["recordings"], content["labels"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("lite_data"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for part, count in COUNTS.items():
        recordings, labels = drawn(count, SEEDS[part])
        np.savez(out / f"{part}.npz", recordings=recordings, labels=labels)
        print(f"{out / part}.npz: {count} recordings")
    recordings, labels = loaded(out, "probe")
    np.savez(out / "prepared.npz", values=normalised(recordings), labels=labels)


if __name__ == "__main__":
    main()
