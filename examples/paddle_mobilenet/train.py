"""Trains and evaluates the network, in single precision or with automatic mixed precision.

python train.py --output-dir=output --epochs=4 --batch-size=16
python train.py --amp_level=O1 …
python train.py --test-only --pretrained=output/latest.pdparams
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import paddle
from data import CLASSES, loaded, normalised
from model import Answering, MobileNetV3Small

import trueline

CHECKPOINT = "latest.pdparams"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output-dir", type=Path, default=Path("output"))
    parser.add_argument("--data-path", default="lite_data")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--pretrained", default="", help="the checkpoint to begin with, or to evaluate")
    parser.add_argument("--amp_level", choices=["O0", "O1", "O2"], default="O0")
    parser.add_argument("--amp_dtype", choices=["float16", "bfloat16"], default="float16")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TRUELINE_PROBE_SEED", "0")))
    parser.add_argument("--test-only", action="store_true")
    return parser.parse_args()


def batches(folder: str, size: int, seed: int) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """The training data once, in an order that the seed decides."""
    pictures, labels = loaded(folder, "train")
    order = np.random.default_rng(seed).permutation(len(labels))
    for begin in range(0, len(order) - size + 1, size):
        chosen = order[begin : begin + size]
        yield paddle.to_tensor(normalised(pictures[chosen])), paddle.to_tensor(labels[chosen])


def train(network: MobileNetV3Small, options: argparse.Namespace) -> None:
    steps = options.epochs * (len(loaded(options.data_path, "train")[1]) // options.batch_size)
    rate = paddle.optimizer.lr.CosineAnnealingDecay(options.learning_rate, T_max=max(steps, 1))
    optimizer = paddle.optimizer.Momentum(rate, 0.9, parameters=network.parameters(), weight_decay=1e-4)
    lowered = options.amp_level != "O0"
    scaler = paddle.amp.GradScaler(enable=lowered, init_loss_scaling=1024.0)
    if options.amp_level == "O2":
        network, optimizer = paddle.amp.decorate(network, optimizer, level="O2", dtype=options.amp_dtype)
    trueline.probe.start(network, optimizer)
    network.train()
    for epoch in range(options.epochs):
        for pictures, labels in batches(options.data_path, options.batch_size, options.seed * 1000 + epoch):
            with paddle.amp.auto_cast(enable=lowered, level=options.amp_level, dtype=options.amp_dtype):
                loss = paddle.nn.functional.cross_entropy(network(pictures), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            trueline.probe.step(loss=loss, model=network, optimizer=optimizer, scaler=scaler)
            optimizer.clear_grad()
            rate.step()
        print(f"epoch {epoch}: loss {float(loss):.4f}")


def evaluate(network: MobileNetV3Small, options: argparse.Namespace) -> float:
    """The share of pictures that it names rightly."""
    network.eval()
    pictures, labels = loaded(options.data_path, "evaluate")
    with paddle.no_grad():
        named = network(paddle.to_tensor(normalised(pictures))).argmax(axis=1)
    right = float((named.numpy() == labels).mean())
    print(f"accuracy {right:.4f}")
    return right


def main() -> None:
    options = parsed()
    random.seed(options.seed)
    np.random.seed(options.seed)
    paddle.seed(options.seed)
    network = MobileNetV3Small(len(CLASSES))
    if options.pretrained:
        trueline.probe.checkpoint(options.pretrained)
        network.set_state_dict(paddle.load(options.pretrained))
    if not options.test_only:
        train(network, options)
        options.output_dir.mkdir(parents=True, exist_ok=True)
        paddle.save(network.state_dict(), str(options.output_dir / CHECKPOINT))
        trueline.probe.checkpoint(options.output_dir / CHECKPOINT)
    accuracy = evaluate(network, options)
    pictures, labels = loaded(options.data_path, "probe")
    trueline.probe(
        "eval",
        Answering(network).eval(),
        [paddle.to_tensor(normalised(pictures))],
        labels=labels,
        metrics={"accuracy": accuracy},
    )


if __name__ == "__main__":
    main()
