"""The outcome of an observed run against the bare one."""

from __future__ import annotations

from typing import Any

from benchmarks.odd_programs.describe import first_difference
from benchmarks.odd_programs.left_behind import changed_state

SAME = "same"


def _warnings(bare: Any, observed: Any) -> str:
    new = [item for item in observed if item not in bare]
    gone = [item for item in bare if item not in observed]
    if new or gone:
        return f"warnings: new {new[:2]}, gone {gone[:2]}"
    return f"warnings: {len(bare)} became {len(observed)}" if len(bare) != len(observed) else ""


def _behind(bare: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    lines = [line for line in observed["attributes"] if line not in bare["attributes"]]
    return lines + changed_state(bare["state"], observed["state"])


def differences(bare: dict[str, Any], observed: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs of an outcome and its detail, the worst first; none where everything is the same."""
    found: list[tuple[str, str]] = []
    if observed["error"] and not bare["error"]:
        kind, text, frames = observed["error"]
        found.append(("raised", f"{kind}: {text[:300]} (at {'; '.join(frames[-3:])})"))
    elif (bare["error"] or [None])[:2] != (observed["error"] or [None])[:2]:
        found.append(("differs", f"error: {bare['error']} became {observed['error']}"))
    elif bare["skip"] != observed["skip"]:
        found.append(("differs", f"skipped: {bare['skip']!r} became {observed['skip']!r}"))
    elif difference := first_difference(bare["result"], observed["result"]):
        found.append(("differs", f"result {difference}"))
    if not found or found[0][0] != "raised":
        if bare["random"] != observed["random"]:
            found.append(("differs", "state of the random generators"))
        if text := _warnings(bare["warnings"], observed["warnings"]):
            found.append(("differs", text))
    found += [("left behind", line) for line in _behind(bare, observed)[:6]]
    return found


def outcome_of(found: list[tuple[str, str]]) -> str:
    return found[0][0] if found else SAME
