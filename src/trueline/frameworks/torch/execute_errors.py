"""What a call raised, as an Outcome."""

from __future__ import annotations

import re

import torch

from trueline.cases import Outcome, Status

_UNSUPPORTED = re.compile(
    "|".join(
        (
            r"not (?:yet |currently )?implemented (?:for|on)",
            r"not supported for",
            r"Could not run 'aten::",
            r"no kernel image",
            r"unsupported (?:data ?)?d?type",
            r"dtypes? (?:is |are )?not supported",
            r"Tensor is not supported",
            r"n't support tensors? of type",
            r"does not support (?:the )?(?:automatic|input|dtype|type)",
        )
    ),
    re.IGNORECASE,
)
"""How torch says, in its many ways, that it has no kernel for a dtype or a device."""
_OUT_OF_MEMORY = re.compile(r"out of memory|can(?:'|no)t allocate memory|not enough memory", re.IGNORECASE)
_DEVICE_IS_GONE = re.compile(r"device-side assert|illegal memory access|unspecified launch failure|misaligned address")
"""After one of these no call on the device in this process can succeed."""
_LONGEST = 300


def outcome_of(error: BaseException, seconds: float = 0.0) -> Outcome:
    """How an execution ended that raised this."""
    text = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {text}"[:_LONGEST] if text else type(error).__name__
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or _OUT_OF_MEMORY.search(text):
        return Outcome(Status.OUT_OF_MEMORY, reason, seconds)
    if _DEVICE_IS_GONE.search(text):
        return Outcome(Status.CRASHED, reason, seconds)
    if isinstance(error, NotImplementedError) or _UNSUPPORTED.search(text):
        return Outcome(Status.UNSUPPORTED, reason, seconds)
    return Outcome(Status.RAISED, reason, seconds)
