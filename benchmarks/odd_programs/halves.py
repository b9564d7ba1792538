"""Which half a program is of.

The rule: the SHA-256 of its name decides, an even first byte is ``work``, an odd one ``counted``. Programs of the
working half are there to be opened, debugged and mended for. The counted half is only counted: while the tool is mended
nobody looks at what fails there or why, so that its figure says how the tool does on programs it was not mended for.
A new program falls into its half by its name alone; a program is not renamed to move it.
"""

from __future__ import annotations

import hashlib

HALVES = ("work", "counted")


def half_of(name: str) -> str:
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]
