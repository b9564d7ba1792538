"""Names pictures with the exported network, by Paddle Inference.

    python infer.py --model-dir=output --batch-size=4 --img-path=pictures.npz

The pictures are prepared here, as a program would that knows nothing of the training.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from paddle import inference

import trueline

NAMES = ("warm disc", "warm square", "cold disc", "cold square")


def switch(text: str) -> bool:
    return text.lower() in ("true", "1", "yes")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", "--model_dir", type=Path, default=Path("output"))
    parser.add_argument("--img-path", "--image_dir", default="lite_data/probe.npz")
    parser.add_argument("--batch-size", "--batch_size", type=int, default=1)
    parser.add_argument("--use-gpu", "--use_gpu", type=switch, default=False)
    parser.add_argument("--enable_mkldnn", type=switch, default=False)
    parser.add_argument("--cpu_threads", type=int, default=1)
    parser.add_argument("--use_tensorrt", type=switch, default=False)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--benchmark", type=switch, default=False)
    return parser.parse_args()


def prepared(pictures: np.ndarray) -> np.ndarray:
    """Bytes of shape (count, height, width, red green blue) as the network was trained to see them."""
    mean = np.array([0.485, 0.456, 0.406], dtype=np.float32)
    deviation = np.array([0.229, 0.224, 0.225], dtype=np.float32)
    values = (pictures.astype(np.float32) / 255.0 - mean) / deviation
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2), dtype=np.float32)


class Predictor:
    """Asks the exported network, ``batch_size`` pictures at a time."""

    def __init__(self, options: argparse.Namespace):
        folder, self._batch = options.model_dir, options.batch_size
        graph = next(file for file in (folder / "inference.json", folder / "inference.pdmodel") if file.exists())
        config = inference.Config(str(graph), str(folder / "inference.pdiparams"))
        if options.use_gpu:
            config.enable_use_gpu(500, 0)
        else:
            config.disable_gpu()
            config.set_cpu_math_library_num_threads(options.cpu_threads)
            config.enable_mkldnn() if options.enable_mkldnn else config.disable_mkldnn()
        config.disable_glog_info()
        self._predictor = inference.create_predictor(config)
        self._pictures = self._predictor.get_input_handle(self._predictor.get_input_names()[0])
        self._answers = self._predictor.get_output_handle(self._predictor.get_output_names()[0])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([self._ask(values[i : i + self._batch]) for i in range(0, len(values), self._batch)])

    def _ask(self, values: np.ndarray) -> np.ndarray:
        self._pictures.copy_from_cpu(np.ascontiguousarray(values))
        self._predictor.run()
        return self._answers.copy_to_cpu()


def main() -> None:
    options = parsed()
    with np.load(options.img_path) as content:
        pictures, labels = content["pictures"], content["labels"]
    predictor = Predictor(options)
    values = prepared(pictures)
    begin = time.perf_counter()
    answers = predictor(values)
    seconds = time.perf_counter() - begin
    for number, answer in enumerate(answers):
        print(f"picture {number}: {NAMES[answer.argmax()]}, prob: {answer.max():.6f}")
    if options.benchmark:
        print(f"total time spent: {seconds:.4f} s, {len(values) / seconds:.1f} pictures a second")
    trueline.probe("infer", predictor, [values], outputs=[answers], labels=labels)


if __name__ == "__main__":
    main()
