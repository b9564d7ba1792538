"""Writes the trained network as a graph with its weights, for ``infer.py`` and for Paddle Inference.

python export.py --pretrained=output/latest.pdparams --save-inference-dir=output
"""

from __future__ import annotations

import argparse
from pathlib import Path

import paddle
from data import CLASSES, SIZE, loaded, normalised
from model import Answering, MobileNetV3Small
from paddle.static import InputSpec

import trueline


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pretrained", required=True, help="the checkpoint")
    parser.add_argument("--save-inference-dir", type=Path, default=Path("output"))
    parser.add_argument("--data-path", default="lite_data")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    network = MobileNetV3Small(len(CLASSES))
    trueline.probe.checkpoint(options.pretrained)
    network.set_state_dict(paddle.load(options.pretrained))
    answering = Answering(network)
    answering.eval()
    graph = paddle.jit.to_static(
        answering, input_spec=[InputSpec([None, 3, SIZE, SIZE], "float32", name="pictures")], full_graph=True
    )
    place = options.save_inference_dir / "inference"
    paddle.jit.save(graph, str(place))
    print(f"written to {place}")
    pictures, labels = loaded(options.data_path, "probe")
    saved = paddle.jit.load(str(place))
    trueline.probe("export", saved, [paddle.to_tensor(normalised(pictures))], labels=labels)


if __name__ == "__main__":
    main()
