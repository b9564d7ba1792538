"""The project's own corpus of config lines: the examples of the mapping's rows, and steps of models, exported.

    python -m benchmarks.corpus FILE

Each line is there once; the order is that of a seeded shuffle, so that any slice of it is a sample of the whole.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from pathlib import Path

from trueline.formats.configs import config_line, config_to_case, parse_config

MODELS = ("net", "resnet", "transformer", "mixed")
SMALL_ELEMENTS = 200_000
_SEED = 5


def own_lines() -> list[str]:
    """All lines of the corpus."""
    from trueline.ops.mapping import rows

    lines = [line for row in rows().values() for line in row.examples]
    lines += exported_lines()
    return list(dict.fromkeys(normal(line) for line in lines))


def normal(line: str) -> str:
    """A line as it is written when it is exported: readers less forgiving than ours read that too."""
    return config_line(config_to_case(parse_config(line)))


def exported_lines() -> list[str]:
    """The calls of one training step of each model, under their public names."""
    from tests.helpers.paddle_models import train

    import trueline
    from trueline.campaign.export import export_configs

    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in MODELS]
        for name, run in zip(MODELS, runs, strict=True):
            train(name, trueline.capture(run, data="stats", framework="paddle"), steps=1, keep=False)
        lines = export_configs(runs).lines
    return [line for line in lines if not line.startswith("paddle._C_ops.")]


def read(path: Path | None) -> list[str]:
    """The lines of a file, or of the project's own corpus, shuffled."""
    found = own_lines() if path is None else path.read_text(encoding="utf-8").splitlines()
    lines = list(dict.fromkeys(line.strip() for line in found if line.strip() and not line.startswith("#")))
    random.Random(_SEED).shuffle(lines)
    return lines


def small(lines: list[str]) -> list[str]:
    """Those whose largest tensor has at most 200,000 elements."""
    return [
        line
        for line in lines
        if max((math.prod(tensor.shape) for tensor in parse_config(line).tensors), default=0) <= SMALL_ELEMENTS
    ]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in read(None)), encoding="utf-8")
