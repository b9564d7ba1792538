"""What a Paddle call raised, as an Outcome with one line that says what.

Paddle's messages are long: a traceback of C++, a summary, a hint that repeats the condition, the place in its source.
The sentence that says what is wrong is taken out of them.
"""

from __future__ import annotations

import re

from trueline.cases import Outcome, Status

_NO_KERNEL = re.compile(
    r"The kernel with key \((?P<device>\w+), [^)]*\)?, (?P<dtype>\w+)\) of kernel `(?P<kernel>\w+)` is not registered"
    r"(?:.*?support following DataTypes: (?P<known>[\w, ]+))?",
    re.DOTALL,
)
_NO_KERNEL_AT_ALL = re.compile(r"The kernel `(?P<kernel>\w+)` is not registered")
_UNSUPPORTED = re.compile(
    "|".join(
        (
            r"is not registered",
            r"\(Unimplemented\)",
            r"not (?:yet |currently )?(?:implemented|supported) (?:for|on|by|in)",
            r"does(?: not|n't) support (?:the )?(?:data ?type|dtype|input)",
            r"[Uu]nsupported (?:data ?)?d?type",
            r"[Dd]ata ?type .{0,80}(?:must be|should be) (?:one of |in )?\[",
            r"[Nn]ot compiled with",
            r"only supported? (?:on|in) (?:GPU|CUDA|XPU)",
            r"only works? (?:on|in|with) (?:GPU|CUDA|XPU)",
            r"only supports? (?:GPU|CUDA|XPU)",
            r"[Dd]o(?:es)? not support .{0,60}for cpu kernel",
            r"module 'paddle\.base\.libpaddle\.eager\.ops[.\w]*' has no attribute",
        )
    )
)
"""How Paddle says, in its many ways, that it has no kernel for a dtype or a device."""
_OUT_OF_MEMORY = re.compile(r"ResourceExhausted|[Oo]ut of memory|[Ff]ail to alloc memory")
_DEVICE_IS_GONE = re.compile(r"device-side assert|illegal memory access|unspecified launch failure|CUDA error\(7\d\d\)")
"""After one of these no call on the device in this process can succeed."""
_NOISE = (
    re.compile(r"\[Hint: .*?\](?= \(at |\s*$)", re.DOTALL),
    re.compile(r"\(at [^()]*:\d+\)"),
    re.compile(r"\[operator < .* > error\]"),
    re.compile(r"^\(\w+\) "),
)
_SUMMARY = re.compile(r"Error Message Summary:\s*-*\s*(?:\w+Error: )?", re.DOTALL)
_LONGEST = 300


def outcome_of(error: BaseException, seconds: float = 0.0) -> Outcome:
    """How an execution ended that raised this."""
    text = str(error)
    reason = f"{type(error).__name__}: {sentence_of(text)}"[:_LONGEST].rstrip(": ")
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(text):
        return Outcome(Status.OUT_OF_MEMORY, reason, seconds)
    if _DEVICE_IS_GONE.search(text):
        return Outcome(Status.CRASHED, reason, seconds)
    if isinstance(error, NotImplementedError) or _UNSUPPORTED.search(text):
        return Outcome(Status.UNSUPPORTED, no_kernel(text) or reason, seconds)
    return Outcome(Status.RAISED, reason, seconds)


def no_kernel(text: str) -> str:
    """Which kernel is missing, for which dtype and device, and for which it is there; empty where none is."""
    found = _NO_KERNEL.search(text)
    if found is None:
        bare = _NO_KERNEL_AT_ALL.search(text)
        return f"no kernel {bare['kernel']} at all" if bare else ""
    missing = f"no kernel {found['kernel']} for {found['dtype']} on {found['device']}"
    known = found["known"]
    return f"{missing}; there is one for {', '.join(sorted(known.replace(',', ' ').split()))}" if known else missing


def sentence_of(text: str) -> str:
    """A message of Paddle's without its traceback, hint and place."""
    *_, text = _SUMMARY.split(text)
    for noise in _NOISE:
        text = noise.sub("", text.strip())
    return " ".join(text.split())
