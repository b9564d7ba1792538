"""Names as ptdbg_ascend writes them, read: ``Tensor_permute_1_forward`` is ``torch.Tensor.permute.1.forward``."""

from __future__ import annotations

import re

from trueline.errors import UsageError

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
