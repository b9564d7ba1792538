"""Trains and evaluates the transformer, in single precision or with mixed precision.

python train.py --output-dir=output --epochs=4 --batch-size=16
python train.py --amp_level=O1 …
python train.py --test-only --pretrained=output/latest.pt
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from data import loaded, normalised
from model import Answering, Transformer
from precision import DTYPES, Training

import trueline

CHECKPOINT = "latest.pt"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("output"))
    parser.add_argument("--data-path", default="lite_data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--pretrained", default="", help="the checkpoint to begin with, or to evaluate")
    parser.add_argument("--amp_level", choices=["O0", "O1", "O2"], default="O0")
    parser.add_argument("--amp_dtype", choices=sorted(DTYPES), default="bfloat16")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TRUELINE_PROBE_SEED", "0")))
    parser.add_argument("--test-only", action="store_true")
    return parser.parse_args()


def batches(options: argparse.Namespace, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The training data once, in an order that the seed decides."""
    recordings, labels = loaded(options.data_path, "train")
    order = np.random.default_rng(seed).permutation(len(labels))
    size = options.batch_size
    for begin in range(0, len(order) - size + 1, size):
        chosen = order[begin : begin + size]
        given, wanted = torch.from_numpy(normalised(recordings[chosen])), torch.from_numpy(labels[chosen])
        yield given.to(options.device), wanted.to(options.device)


def train(network: Transformer, options: argparse.Namespace) -> None:
    steps = options.epochs * (len(loaded(options.data_path, "train")[1]) // options.batch_size)
    training = Training(network, options.amp_level, options.amp_dtype, options.learning_rate, steps)
    trueline.probe.start(network, training.optimizer)
    network.train()
    for epoch in range(options.epochs):
        for recordings, labels in batches(options, options.seed * 1000 + epoch):
            loss = training.step(recordings, labels)
            trueline.probe.step(loss=loss, model=network, optimizer=training.optimizer, scaler=training.scaler)
        print(f"epoch {epoch}: loss {float(loss):.4f}")
    training.finish()


def evaluate(network: Transformer, options: argparse.Namespace) -> float:
    """The share of recordings whose state it names rightly."""
    network.eval()
    recordings, labels = loaded(options.data_path, "evaluate")
    with torch.no_grad():
        named = network(torch.from_numpy(normalised(recordings)).to(options.device)).argmax(dim=1)
    right = float((named.cpu().numpy() == labels).mean())
    print(f"accuracy {right:.4f}")
    return right


def main() -> None:
    options = parsed()
    random.seed(options.seed)
    np.random.seed(options.seed)
    torch.manual_seed(options.seed)
    network = Transformer().to(options.device)
    if options.pretrained:
        trueline.probe.checkpoint(options.pretrained)
        network.load_state_dict(torch.load(options.pretrained, map_location=options.device, weights_only=True))
    if not options.test_only:
        train(network, options)
        options.output_dir.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), options.output_dir / CHECKPOINT)
        trueline.probe.checkpoint(options.output_dir / CHECKPOINT)
    accuracy = evaluate(network, options)
    recordings, labels = loaded(options.data_path, "probe")
    trueline.probe(
        "eval",
        Answering(network).eval(),
        [torch.from_numpy(normalised(recordings)).to(options.device)],
        labels=labels,
        metrics={"accuracy": accuracy},
    )


if __name__ == "__main__":
    main()
