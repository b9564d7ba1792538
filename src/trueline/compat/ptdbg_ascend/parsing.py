"""``parse``: what a dump says of one API: its stack, and the statistics of its tensors."""

from __future__ import annotations

from pathlib import Path

from trueline.errors import UsageError
from trueline.formats.ptdbg import Line, read_lines
from trueline.report.terminal import visible

_WORDS = ("max", "min", "mean", "l2norm")


def parse(pkl_file: str, module_name_prefix: str) -> None:
    """Prints the stack and the statistics of the calls whose names begin so: ``Torch_norm_1_forward``."""
    path = Path(pkl_file)
    if not path.is_file():
        raise UsageError(f"parse: there is no file {pkl_file}")
    found = [line for line in read_lines(path) if line.name.startswith(module_name_prefix)]
    if not found:
        raise UsageError(f"parse: {pkl_file} has no call {module_name_prefix!r}")
    for line in found:
        print(visible(_said(line)))


def _said(line: Line) -> str:
    if line.stack:
        return "\n".join((f"{line.name}:", *(f"  {frame}" for frame in line.stack)))
    numbers = [f", {word} {value}" for word, value in zip(_WORDS, line.values, strict=False) if value is not None]
    return f"{line.name}: dtype {line.dtype}, shape {list(line.shape)}{''.join(numbers)}"
