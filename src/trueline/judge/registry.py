"""Standards by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from trueline.errors import UsageError
from trueline.judge.evidence import Standard
from trueline.judge.honest import Honest
from trueline.judge.ptdbg import Ptdbg

STANDARDS: dict[str, Callable[[], Standard]] = {"honest": Honest, "ptdbg": Ptdbg}
"""What ships for two Runs and needs statistics only; users add theirs."""

BY_ELEMENT = ("allclose", "apex", "assert-close", "bitwise", "precheck", "precheck-2023", "ptdbg-2023")
"""Standards of checks that can be asked about two Runs whose tensors were kept."""

DEFAULT_WITH_BASELINE = "peer"
WITH_BASELINE = ("peer", "apex-multi", "calibrated", "msprobe-benchmark", "msprobe", "msprobe-ulp")
"""Standards that hold the candidate's error against that of a peer."""


def standard_named(standard: str | Standard, *, baseline: bool = False) -> Standard:
    """A standard by its name, or the one that was given. With a ``baseline`` it may be one that asks for a peer."""
    if not isinstance(standard, str):
        return standard
    if baseline:
        return _with_baseline(standard)
    if standard in STANDARDS:
        return STANDARDS[standard]()
    if standard.partition("(")[0] in BY_ELEMENT:
        return _by_element(standard, peers=False)
    if standard in WITH_BASELINE:
        raise UsageError(f"the standard {standard} holds one error against another: give --baseline, a third Run")
    raise UsageError(f"unknown standard {standard!r}; known: {', '.join((*STANDARDS, *BY_ELEMENT))}")


def _with_baseline(standard: str) -> Standard:
    known = (*WITH_BASELINE, *BY_ELEMENT)
    if standard == "honest":  # what is asked for where nothing is
        standard = DEFAULT_WITH_BASELINE
    if standard.partition("(")[0] not in known:
        raise UsageError(f"unknown standard {standard!r} for three Runs; known: {', '.join(sorted(known))}")
    return _by_element(standard, peers=True)


def _by_element(standard: str, *, peers: bool) -> Standard:
    # Imported here: most comparisons look at statistics, and start sooner without these rooms.
    adapters: Any = import_module("trueline.judge.by_element")
    if standard == DEFAULT_WITH_BASELINE:
        peer: Any = import_module("trueline.judge.peer")
        return adapters.ByElement(peer.Peer(), peers)
    checks: Any = import_module("trueline.judge.checks")
    return adapters.ByElement(checks.check_standard_named(standard), peers)
