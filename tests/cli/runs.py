"""Two small Runs of a six-layer net, one of them with a planted fault, and Runs that are broken in every way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.helpers.synthetic import Spec, array, write_run
from trueline.records import Phase

FAULTY = "torch.tanh.2.forward"
LAYERS = 6


def net(*, fault: bool) -> list[Spec]:
    """Two steps; in the second one tanh of layer 2 is 0.2 % too large where ``fault`` is asked for."""
    specs = []
    for step in range(2):
        hidden = array(16, 32, seed=1)
        for layer in range(LAYERS):
            weight = array(32, 32, seed=layer + 2, scale=0.2)
            product = hidden @ weight
            where = {"module": f"layers.{layer}", "step": step, "source": ("model.py", 40 + layer, "forward")}
            specs.append(Spec("torch.matmul", [hidden, weight], [product], **where))  # type: ignore[arg-type]
            hidden = np.tanh(product)
            if fault and step == 1 and layer == 2:
                hidden = hidden * np.float32(1.002)
            specs.append(Spec("torch.tanh", [product], [hidden], **where))  # type: ignore[arg-type]
        gradient = np.ones_like(hidden)
        specs.append(Spec("torch.tanh", [gradient], [gradient * 2], phase=Phase.BACKWARD, step=step, forward=specs[-1]))
    return specs


def write_net(path: Path, *, fault: bool = False, data: str = "tensors") -> Path:
    return write_run(path, net(fault=fault), data=data, command=("python", "train.py"))


def break_run(path: Path, how: str) -> Path:
    """Spoils a Run (or makes something that is none) in the named way."""
    if how == "missing":
        return path / "nowhere"
    if how == "a file":
        file = path.with_suffix(".txt")
        file.write_text("no Run\n")
        return file
    if how == "a folder":
        folder = path.with_suffix(".folder")
        folder.mkdir()
        return folder
    write_net(path)
    database, head = path / "rank0" / "calls.db", path / "run.json"
    if how == "garbage in the database":
        database.write_bytes(b"SQLite format 3\0" + b"garbage" * 1000)
    elif how == "truncated database":
        database.write_bytes(database.read_bytes()[:5000])
    elif how == "empty database":
        database.write_bytes(b"")
    elif how == "database removed":
        database.unlink()
    elif how == "newer version":
        head.write_text(json.dumps({**json.loads(head.read_text()), "format_version": 99}))
    elif how == "broken run.json":
        head.write_text("{")
    elif how == "foreign run.json":
        head.write_text('{"format_version": 1, "name": "other"}')
    else:
        raise ValueError(how)
    return path


WAYS = (
    "missing", "a file", "a folder", "garbage in the database", "truncated database", "empty database",
    "database removed", "newer version", "broken run.json", "foreign run.json",
)  # fmt: skip
