"""The two sides that the comparing commands take, old and new spellings: ``-gpu A -npu B``, ``-bench A -device B``."""

from __future__ import annotations

import argparse
from pathlib import Path

from trueline.compat.command import Parser
from trueline.errors import UsageError


def add_sides(options: Parser) -> None:
    options.add_argument("-gpu", "--gpu", "-bench", "--bench", dest="bench", action="append", default=[],
                         metavar="DIR", help="the side to trust; given twice, the second is the device")  # fmt: skip
    options.add_argument("-npu", "--npu", "-device", "--device", dest="device", action="append", default=[],
                         metavar="DIR", help="the side to judge")  # fmt: skip
    options.add_argument("-o", "--out_path", "-out", default="./result", metavar="DIR", help="where results go")


def sides_of(options: argparse.Namespace) -> tuple[Path, Path]:
    """The side to trust and the side to judge; both must be there."""
    given = [*options.bench, *options.device]
    if len(given) != 2:
        raise UsageError("give the two sides: -gpu DIR -npu DIR (or -bench DIR -device DIR)")
    bench, device = map(Path, given)
    for path in (bench, device):
        if not path.exists():
            raise UsageError(f"there is no {path}")
    return bench, device
