"""Says the states of machines with the exported transformer.

    python infer.py --model-dir=output --batch-size=4 --input=recordings.npz

The recordings are prepared here, as a program would that knows nothing of the training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import trueline

STATES = ("idle", "steady", "worn bearing", "loose belt")


def switch(text: str) -> bool:
    return text.lower() in ("true", "1", "yes")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", "--model_dir", type=Path, default=Path("output"))
    parser.add_argument("--input", "--image_dir", default="lite_data/probe.npz")
    parser.add_argument("--batch-size", "--batch_size", type=int, default=1)
    parser.add_argument("--use-gpu", "--use_gpu", type=switch, default=False)
    parser.add_argument("--enable_mkldnn", type=switch, default=True)
    parser.add_argument("--cpu_threads", type=int, default=1)
    parser.add_argument("--use_tensorrt", type=switch, default=False)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--benchmark", type=switch, default=False)
    return parser.parse_args()


def prepared(recordings: np.ndarray) -> np.ndarray:
    """Readings of the sensors as the network was trained to see them."""
    mean = np.array([20.0, 1.0, -3.0, 50.0, 0.0, 7.0], dtype=np.float32)
    scale = np.array([4.0, 0.5, 2.0, 12.0, 1.0, 3.0], dtype=np.float32)
    return np.ascontiguousarray((recordings - mean) / scale, dtype=np.float32)


def opened(folder: Path, device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """The exported network, from whichever file there is."""
    if (folder / "model.pt2").exists():
        program = torch.export.load(folder / "model.pt2")
        return program.module().to(device)
    return torch.jit.load(folder / "model.pt", map_location=device)


class Predictor:
    """Asks the exported network, ``batch_size`` recordings at a time."""

    def __init__(self, options: argparse.Namespace):
        self._device, self._batch = ("cuda" if options.use_gpu else "cpu"), options.batch_size
        torch.set_num_threads(options.cpu_threads)
        torch.backends.mkldnn.enabled = options.enable_mkldnn
        self._network = opened(options.model_dir, self._device)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([self._ask(values[i : i + self._batch]) for i in range(0, len(values), self._batch)])

    @torch.no_grad()
    def _ask(self, values: np.ndarray) -> np.ndarray:
        return self._network(torch.from_numpy(values).to(self._device)).cpu().numpy()


def main() -> None:
    options = parsed()
    with np.load(options.input) as content:
        recordings, labels = content["recordings"], content["labels"]
    predictor = Predictor(options)
    values = prepared(recordings)
    begin = time.perf_counter()
    answers = predictor(values)
    seconds = time.perf_counter() - begin
    for number, answer in enumerate(answers):
        print(f"recording {number}: {STATES[answer.argmax()]}, prob: {answer.max():.6f}")
    if options.benchmark:
        print(f"total time spent: {seconds:.4f} s, {len(values) / seconds:.1f} recordings a second")
    trueline.probe("infer", predictor, [values], outputs=[answers], labels=labels)


if __name__ == "__main__":
    main()
