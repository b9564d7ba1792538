"""Every call of a captured step, executed alone on a GPU and held against the CPU's float64.

    python benchmarks/gpu_check.py [--json FILE]

1. A step of a small transformer and of a small conv net, captured on the GPU in bfloat16 and in float16; every call is
   checked, forward and backward, on ``torch:cuda``.
2. The same with a faulty kernel in place of one operator (see ``gpu_check_kernels.py``): it must be named, and nothing
   else.
3. float32 with and without TF32: a matrix product with TF32 keeps ten bits of its inputs and must not pass as float32.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "src"))
# Workers are processes of their own and must find the kernels too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import trueline
from benchmarks.workloads import Decoder

FAULTY = {
    "torch.nn.functional.gelu": "benchmarks.gpu_check_kernels:gelu_with_short_constant",
    "torch.nn.functional.layer_norm": "benchmarks.gpu_check_kernels:layer_norm_with_large_epsilon",
    "torch.nn.functional.linear": "benchmarks.gpu_check_kernels:linear_that_drops_its_tail",
}


class ConvNet(nn.Module):
    """Three convolutions with batch norm, pooling, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 32), (32, 64), (64, 64)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in (32, 64, 64))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.max_pool2d(F.relu(norm(convolution(x))), 2)
        return self.head(x.mean((2, 3)))


def transformer_step(dtype: torch.dtype) -> None:
    model = Decoder(vocabulary=512, length=64, width=256, layers=4).to("cuda", dtype)
    tokens = torch.randint(512, (4, 65), device="cuda")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 512).float(), tokens[:, 1:].reshape(-1))
    _update(model, loss)


def conv_step(dtype: torch.dtype) -> None:
    model = ConvNet().to("cuda", dtype)
    images = torch.randn(8, 3, 32, 32, device="cuda", dtype=dtype)
    _update(model, F.cross_entropy(model(images).float(), torch.arange(8, device="cuda")))


def _update(model: nn.Module, loss: Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    loss.backward()
    optimizer.step()


STEPS = {"transformer": transformer_step, "conv net": conv_step}


def captured(name: str, dtype: torch.dtype, folder: Path) -> Path:
    torch.manual_seed(0)
    run = folder / f"{name}-{dtype}".replace(" ", "-")
    with trueline.capture(run):
        STEPS[name](dtype)
    return run


def checked(run: Path | None, target: str, workers: int, **options: Any) -> dict[str, Any]:
    start = time.perf_counter()
    report = trueline.check(() if run is None else run, target=target, workers=workers, **options)
    wrong = collections.Counter(result.case.api for result in report.failures)
    merged = sum(result.case.count for result in report.results) - len(report.results)
    return {
        "target": target,
        "overrides": options.get("overrides"),
        "seconds": round(time.perf_counter() - start, 1),
        "calls": report.info.calls,
        "cases": len(report.results),
        "merged": merged,
        "skipped": dict(report.info.skipped),
        "verdict": str(report.verdict),
        "counts": dict(report.counts),
        "wrong": dict(wrong),
        "reasons": sorted({f"{result.case.api}: {result.reason}" for result in report.failures})[:12],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return 0
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in STEPS:
            for dtype in (torch.bfloat16, torch.float16):
                run = captured(name, dtype, folder)
                head = {"step": name, "dtype": str(dtype)}
                rows.append({"part": "clean", **head, **checked(run, "torch:cuda", options.workers)})
                print(json.dumps(rows[-1]), flush=True)
                if name == "transformer":
                    row = checked(run, "torch:cuda", options.workers, overrides=FAULTY)
                    rows.append({"part": "faulty", **head, **row})
                    print(json.dumps(rows[-1]), flush=True)
        for kind in ("without", "with"):
            overrides = {"torch.matmul": f"benchmarks.gpu_check_kernels:matmul_{kind}_tf32"}
            row = checked(None, "torch:cuda/float32", options.workers, ops="torch.matmul", overrides=overrides)
            rows.append({"part": f"{kind} TF32", **row})
            print(json.dumps(rows[-1]), flush=True)
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
