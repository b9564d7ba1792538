"""Versions with which the C extensions passed all tests (``python -m benchmarks.versions --table`` writes them down),
and versions that lack what the extensions need. With any other they are tried out first; see ``gate``.
"""

from __future__ import annotations

MACHINE = "Linux x86_64"
"""What the table holds for."""

VERIFIED: dict[str, tuple[str, ...]] = {
    "2.13.0": ("3.11",),
    "2.15.0": ("3.12",),
}
"""Release of torch -> versions of Python."""

LACKING: dict[str, str] = {
    "2.4": "it does not tell the bits of a DispatchKeySet (raw_repr)",
}
"""Line of releases of torch -> why the extensions cannot work with it."""
