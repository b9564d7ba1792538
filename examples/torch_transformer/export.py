"""Writes the trained transformer as a graph with its weights, for ``infer.py``.

python export.py --pretrained=output/latest.pt --save-inference-dir=output
python export.py --format=script …
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from data import loaded, normalised
from model import Answering, Transformer

import trueline

NAMES = {"export": "model.pt2", "script": "model.pt"}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pretrained", required=True, help="the checkpoint")
    parser.add_argument("--save-inference-dir", type=Path, default=Path("output"))
    parser.add_argument("--data-path", default="lite_data")
    parser.add_argument("--format", choices=sorted(NAMES), default="export")
    return parser.parse_args()


def written(answering: Answering, example: torch.Tensor, kind: str, file: Path) -> torch.nn.Module:
    """Writes the graph; gives what is read back from the file."""
    if kind == "script":
        torch.jit.save(torch.jit.trace(answering, example), file)
        return torch.jit.load(file)
    count = torch.export.Dim("count", min=1)
    program = torch.export.export(answering, (example,), dynamic_shapes=({0: count},))
    torch.export.save(program, file)
    return torch.export.load(file).module()


def main() -> None:
    options = parsed()
    network = Transformer()
    trueline.probe.checkpoint(options.pretrained)
    network.load_state_dict(torch.load(options.pretrained, map_location="cpu", weights_only=True))
    answering = Answering(network)
    answering.eval()
    recordings, labels = loaded(options.data_path, "probe")
    example = torch.from_numpy(normalised(recordings))
    options.save_inference_dir.mkdir(parents=True, exist_ok=True)
    file = options.save_inference_dir / NAMES[options.format]
    with torch.no_grad():
        read = written(answering, example, options.format, file)
    print(f"written to {file}")
    trueline.probe("export", read, [example], labels=labels)


if __name__ == "__main__":
    main()
