"""What changed since an earlier check, as a page shows it: new failures, what is fixed, what ends otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from trueline.report.diff_text import Difference

MOST_OF_A_KIND = 200


class Changes(Protocol):
    """Two checks held against each other."""

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def known(self) -> int: ...

    @property
    def same(self) -> int: ...

    def differences(self, *, most: int | None = None) -> Iterable[Difference]: ...


def changes_data(name: str, changes: Changes) -> dict[str, Any]:
    """``name`` is that of the earlier check; of each kind of difference some cases are told."""
    return {
        "old": name,
        "counts": dict(changes.counts),
        "known": changes.known,
        "same": changes.same,
        "cases": [
            {"kind": one.kind, "key": one.key, "api": one.api, "line": one.line, "old": one.old_ending,
             "new": one.new_ending, "old_reason": one.old_reason, "new_reason": one.new_reason}
            for one in changes.differences(most=MOST_OF_A_KIND)
        ],
    }  # fmt: skip
