"""A table of a predecessor with our verdicts beside its own, a row for each key that a call stands for.

Its first column names a call (``paddle.add*0``) or one of its tensors (``paddle.add*0.forward.output.1``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trueline.records import Verdict
from trueline.report.csv import safe

VERDICT_COLUMNS = ("Verdict", "Reason")

Said = Mapping[str, tuple[Verdict, str]]
"""What trueline says of a call, or of a tensor, by what the first column calls it."""
Keys = Mapping[str, Sequence[str]]
"""What the first column calls a call -> the names that the user knows it by."""

_TENSOR = re.compile(r"(?P<call>.+)\.(?:forward|backward)\.output\.\d+")


def with_verdicts(rows: Iterator[list[str]], said: Said, keys: Keys) -> Iterator[list[str]]:
    """The rows of a table, head first, with two columns more."""
    yield [*next(rows), *VERDICT_COLUMNS]
    for name, *cells in rows:
        match = _TENSOR.fullmatch(name)
        call = name if match is None else match["call"]
        verdict, reason = said.get(name) or said.get(call) or (Verdict.NOT_COMPARED, "")
        for key in keys.get(call, [call]):
            yield [safe(key + name[len(call) :]), *cells, verdict.name, safe(reason)]
