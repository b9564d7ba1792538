"""Fixes every random generator, so that two runs draw the same numbers."""

from __future__ import annotations

import os
import random
import sys

from trueline.frameworks import machine


def seed_all(seed: int = 1234, deterministic: bool = False) -> None:
    """Seeds Python, numpy and every framework that is loaded; with ``deterministic`` also asks the frameworks for
    algorithms that give the same bits each time."""
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    for name in machine.loaded() or machine.installed()[:1]:
        machine.adapter(name).seed_all(seed, deterministic)
