"""The pictures of this project, made and not downloaded: discs and squares in warm and in cold colours.

python data.py --out lite_data        the ``prepare`` step: pictures to train on, to evaluate with, and the probe
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

CLASSES = ("warm disc", "warm square", "cold disc", "cold square")
SIZE = 32
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
COUNTS = {"train": 128, "evaluate": 32, "probe": 16}
SEEDS = {"train": 11, "evaluate": 12, "probe": 13}

Pictures = tuple[np.ndarray, np.ndarray]
"""Bytes of shape (count, SIZE, SIZE, 3) in the order red, green, blue, and the number of the class of each."""


def drawn(count: int, seed: int) -> Pictures:
    """The same pictures for the same seed."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.int64) % len(CLASSES)
    pictures = generator.integers(0, 70, (count, SIZE, SIZE, 3))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for picture, label in zip(pictures, labels, strict=True):
        row, column = generator.integers(11, SIZE - 11, 2)
        radius = generator.integers(6, 10)
        if label % 2 == 0:
            inside = (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
        else:
            inside = np.maximum(abs(rows - row), abs(columns - column)) <= radius * 0.85
        bright, dark = generator.integers(150, 256), generator.integers(0, 80)
        colour = (bright, dark + 40, dark) if label < 2 else (dark, dark + 40, bright)
        picture[inside] = np.array(colour) + generator.integers(-20, 20, (int(inside.sum()), 3))
    return np.clip(pictures, 0, 255).astype(np.uint8), labels


def normalised(pictures: np.ndarray) -> np.ndarray:
    """What the network is given: float32 of shape (count, 3, SIZE, SIZE)."""
    values = (pictures.astype(np.float32) / 255.0 - MEAN) / STD
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2), dtype=np.float32)


def loaded(folder: str | Path, part: str) -> Pictures:
    """A part of the prepared data; without a ``prepare`` step it is drawn at once."""
    file = Path(folder) / f"{part}.npz"
    if not file.exists():
        return drawn(COUNTS[part], SEEDS[part])
    with np.load(file) as content:
        return content["pictures"], content["labels"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("lite_data"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for part, count in COUNTS.items():
        pictures, labels = drawn(count, SEEDS[part])
        np.savez(out / f"{part}.npz", pictures=pictures, labels=labels)
        print(f"{out / part}.npz: {count} pictures")
    pictures, labels = loaded(out, "probe")
    np.savez(out / "prepared.npz", values=normalised(pictures), labels=labels)


if __name__ == "__main__":
    main()
