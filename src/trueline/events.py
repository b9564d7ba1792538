"""What long work says while it runs."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being done, how much is done and how much there is (0 where that is not known)."""
