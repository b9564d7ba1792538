"""Where the old commands execute: the device that they were written for, or the CPU where this machine has none."""

from __future__ import annotations

import sys
from glob import glob
from importlib.util import find_spec

_GPUS = "/dev/nvidia[0-9]*"


def gpus() -> int:
    """How many NVIDIA GPUs this machine shows."""
    return len(glob(_GPUS))


def has_npu() -> bool:
    """Whether torch_npu is installed: with it the old dump and the old device are there."""
    return "torch_npu" in sys.modules or find_spec("torch_npu") is not None


def torch_place() -> tuple[str, str]:
    """The torch device on which an API is tested, and what to say where it is not an NPU."""
    if has_npu():
        return "torch:npu:0", ""
    if gpus():
        return "torch:cuda:0", "no Ascend NPU here: the APIs run on the GPU, torch:cuda:0"
    return "torch:cpu", "no Ascend NPU here: the APIs run on the CPU, torch:cpu"


def paddle_place(backend: str) -> tuple[str, str]:
    """The Paddle device of ``-backend gpu|npu|cpu``, and what to say where the machine has none of the kind."""
    if backend == "gpu" and not gpus():
        return "paddle:cpu", "no GPU here: the APIs run on the CPU, paddle:cpu"
    if backend == "npu" and not glob("/dev/davinci[0-9]*"):
        return "paddle:cpu", "no Ascend NPU here: the APIs run on the CPU, paddle:cpu"
    return f"paddle:{backend}", ""


def say(message: str) -> None:
    """A line for the user, beside what the command prints."""
    if message:
        print(f"trueline: {message}", file=sys.stderr)
