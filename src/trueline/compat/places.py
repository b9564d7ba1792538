"""Where the old commands execute: the device that they were written for, or the CPU where this machine has none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from glob import glob
from importlib.util import find_spec

from trueline.errors import UsageError

_GPUS = "/dev/nvidia[0-9]*"


def gpus() -> int:
    """How many NVIDIA GPUs this machine shows."""
    return len(glob(_GPUS))


def free_memory() -> Mapping[int, float]:
    """The number of each NVIDIA GPU -> GB that nobody uses; nothing where the driver's own program does not say."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    words = [program, "--query-gpu=index,memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
        rows = (line.split(",") for line in said.splitlines() if line.strip())
        return {int(card): float(free) * 2**20 / 1e9 for card, free in rows}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def seats(cards: Sequence[int], required: float, free: Mapping[int, float], *, each: int, most: int) -> list[int]:
    """The card of each process: as many on each card as its free memory has room for, ``required`` GB each, no more
    than ``each`` there and ``most`` in all. Of a card whose memory is not known ``each`` are expected to fit."""
    rooms = {card: min(each, int(free[card] // required)) if card in free else each for card in cards}
    if not any(rooms.values()):
        said = ", ".join(f"GPU {card} has {free[card]:.1f} GB free" for card in cards)
        raise UsageError(f"no GPU has room for a process: {said}; --required_memory is {required:g} GB")
    turns = [card for turn in range(max(rooms.values())) for card in cards if rooms[card] > turn]
    return turns[: max(most, 1)]


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


def paddle_place(backend: str, fallback: str = "") -> tuple[str, str]:
    """The Paddle device of ``-backend gpu|npu|cpu``. Where the machine has none of the kind that is an error: a
    comparison of two backends must not become one of the CPU with itself. ``fallback`` is what to use instead, and then
    it is said."""
    missing = _missing(backend)
    if missing and not fallback:
        raise UsageError(f"-backend {backend}: {missing}; run it on a machine that has one, write -backend cpu, or "
                         "--fallback cpu to go on without")  # fmt: skip
    if missing:
        return f"paddle:{fallback}", f"{missing}: the APIs run on the CPU, paddle:{fallback}"
    return f"paddle:{backend}", ""


def torch_gpu_place(backend: str, fallback: str = "") -> tuple[str, str]:
    """The same for torch, which has GPUs and the CPU here."""
    place, notice = paddle_place(backend, fallback)
    device = place.partition(":")[2]
    return f"torch:{'cuda:0' if device == 'gpu' else device}", notice.replace("paddle:", "torch:")


def _missing(backend: str) -> str:
    if backend == "gpu" and not gpus():
        return "no GPU here"
    return "no Ascend NPU here" if backend == "npu" and not glob("/dev/davinci[0-9]*") else ""


def say(message: str) -> None:
    """A line for the user, beside what the command prints."""
    if message:
        print(f"trueline: {message}", file=sys.stderr)
