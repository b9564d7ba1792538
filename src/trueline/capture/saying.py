"""Says once what went wrong with us. The program goes on, also where it has turned warnings into errors."""

from __future__ import annotations

import sys
import warnings


def say(text: str, stacklevel: int = 3) -> None:
    """A warning for the program's user that cannot become an error of the program's."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)
    except Exception:
        print(text, file=sys.stderr)


def said(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"
