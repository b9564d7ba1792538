"""Executing calls in the process of the program itself, whose random numbers and threads stay what they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def untouched() -> Iterator[None]:
    """Keeps the generators of the CPU and of the accelerator that the program uses, and the number of threads."""
    threads = torch.get_num_threads()
    kind = _accelerator()
    devices = [] if kind is None else list(range(getattr(torch, kind).device_count()))
    try:
        with torch.random.fork_rng(devices, device_type=kind or "cuda"):
            yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def _accelerator() -> str | None:
    """The accelerator that the program has woken; None where there is none, or it sleeps."""
    known = getattr(torch, "accelerator", None)
    found = known.current_accelerator() if known is not None and known.is_available() else None
    if found is None:
        return None
    awake = getattr(getattr(torch, found.type), "is_initialized", lambda: True)
    return str(found.type) if awake() else None
