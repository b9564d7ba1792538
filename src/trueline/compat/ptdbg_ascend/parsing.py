"""``parse``: what a dump says of one API: its stack, and the statistics of its tensors, laid out as ptdbg prints them.

Statistic Info:
  [Torch_norm_1_forward_output][dtype: torch.float32][shape: [4]][max: 2.1][min: 0.3][mean: 1.0]

Trace back(Torch_norm_1_forward_stack_info):
  File "train.py", line 20, in <module>
    train()
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trueline.errors import UsageError
from trueline.formats.ptdbg import Line, read_lines
from trueline.report.terminal import visible

_NONE = "None"


def parse(pkl_file: str, module_name_prefix: str) -> None:
    """Prints the stack and the statistics of the calls whose names begin so: ``Torch_norm_1_forward``."""
    path = Path(pkl_file)
    if not path.is_file():
        raise UsageError(f"parse: there is no file {pkl_file}")
    found = [line for line in read_lines(path) if line.name.startswith(module_name_prefix)]
    if not found:
        raise UsageError(f"parse: {pkl_file} has no call {module_name_prefix!r}")
    titled = False
    for line in found:
        if line.stack:
            print(visible("\n".join(_traced(line))))
            continue
        if not titled:
            print("\nStatistic Info:")
            titled = True
        print(visible(_measured(line)))


def _traced(line: Line) -> Iterator[str]:
    """The outermost frame first, as Python prints a traceback."""
    yield f"\nTrace back({line.name}):"
    for frame, text in reversed(list(zip(line.stack, line.sources, strict=True))):
        yield f'  File "{frame.file}", line {frame.line}, in {frame.function}'
        if text:
            yield f"    {text}"


def _measured(line: Line) -> str:
    values = [_NONE if value is None else str(value) for value in (*line.values, None, None, None)]
    return (f"  [{line.name}][dtype: {line.dtype}][shape: {list(line.shape)}]"
            f"[max: {values[0]}][min: {values[1]}][mean: {values[2]}]")  # fmt: skip
