"""What the Ascend tools call an API: a prefix for where it lives, and its short name.

torch.nn.functional.linear   Functional, linear     Functional_linear_0_forward (ptdbg_ascend)
torch.Tensor.add             Tensor, add            Functional*linear*0         (api_accuracy_checker)
torch.matmul                 Torch, matmul          Functional.linear.0.forward (msprobe)
"""

from __future__ import annotations

import re

PREFIXES = (
    ("torch.nn.functional.", "Functional"),
    ("torch.Tensor.", "Tensor"),
    ("torch._VF.", "VF"),
    ("torch.distributed.", "Distributed"),
    ("torch.ops.aten.", "Aten"),
    ("aten.", "Aten"),
    ("aten::", "Aten"),
    ("torch_npu.", "NPU"),
    ("torch.ops.npu.", "NPU"),
    ("torch.", "Torch"),
    ("paddle.", "Paddle"),
)
"""Where an API lives -> the prefix; the first that fits counts. Paddle's is ours: those tools know torch alone."""

_HOMES = {"Aten": "aten.", "NPU": "torch_npu."} | {
    prefix: start for start, prefix in reversed(PREFIXES) if prefix not in ("Aten", "NPU")
}
CUSTOM = "Custom"
_PTDBG = re.compile(r"(?P<prefix>[A-Za-z]+)_(?P<api>.+)_(?P<index>\d+)_(?P<phase>forward|backward)")
_FILE_CHARACTERS = re.compile(r"[^A-Za-z0-9._*\-]")


def stem_of(api: str) -> tuple[str, str]:
    """The prefix and the short name of an API."""
    for start, prefix in PREFIXES:
        if api.startswith(start) and len(api) > len(start):
            return prefix, api[len(start) :]
    return CUSTOM, api


def api_of(prefix: str, short: str) -> str:
    """The API behind a prefix and a short name; the two as they are where the prefix is not known."""
    if prefix == CUSTOM:
        return short
    home = _HOMES.get(prefix)
    return f"{home}{short}" if home is not None else f"{prefix}.{short}"


def split_ptdbg(name: str) -> tuple[str, int, str] | None:
    """``Functional_linear_0_forward`` -> API, number of the call, direction; None where it is no such name."""
    found = _PTDBG.fullmatch(name)
    if found is None:
        return None
    return api_of(found["prefix"], found["api"]), int(found["index"][:18]), found["phase"]


def file_name(text: str) -> str:
    """A name that is a plain file name on any system that these tools know: no separators, not too long."""
    plain = _FILE_CHARACTERS.sub("_", text).lstrip(".") or "_"
    return plain[:200]
