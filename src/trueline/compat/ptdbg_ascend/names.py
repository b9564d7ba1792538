"""Names as ptdbg_ascend writes them, read: ``Tensor_permute_1_forward`` is ``torch.Tensor.permute.1.forward``."""

from __future__ import annotations

import re
from pathlib import Path

from trueline.errors import UsageError
from trueline.store import open_run

PREFIXES = {
    "Tensor": "torch.Tensor.",
    "Torch": "torch.",
    "Functional": "torch.nn.functional.",
    "VF": "torch._VF.",
    "NPU": "torch.ops.npu.",
    "Aten": "torch.ops.aten.",
    "Distributed": "torch.distributed.",
}
"""ptdbg's prefix -> where the API lives."""

_NAME = re.compile(rf"({'|'.join(PREFIXES)})_(.+)_(\d+)_(forward|backward)")


def call_named(name: str) -> str:
    """The call that ptdbg calls so."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} is not the name of a call; it looks like Tensor_permute_1_forward, with one of the "
                         f"prefixes {', '.join(PREFIXES)}")  # fmt: skip
    prefix, api, number, phase = match.groups()
    return f"{PREFIXES[prefix]}{api}.{number}.{phase}"


def calls_between(run: Path, first: str, last: str) -> list[str]:
    """The names of the calls of a Run from one to another in the order of time, both included; to the end where the
    last was not called."""
    with open_run(run) as opened:
        names = [call.name for rank in opened.ranks for call in opened.rank(rank).trace()]
    if first not in names:
        return []
    start = names.index(first)
    return names[start : names.index(last, start) + 1] if last in names[start:] else names[start:]
