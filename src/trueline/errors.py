"""Every error that trueline raises on purpose.

    TruelineError
    ├── UsageError            the caller asked for something that cannot be done
    ├── RunError              a Run cannot be read
    │   ├── NotARunError      the path holds something else, or nothing
    │   ├── RunVersionError   written by a newer trueline
    │   └── CorruptRunError   damaged, truncated
    └── MissingFrameworkError a framework that is needed is not installed

A message says what is wrong, where, and what to do next. The command line turns any of these into one line
and exit code 2.
"""

from __future__ import annotations


class TruelineError(Exception):
    """The root of all errors that trueline raises on purpose."""


class UsageError(TruelineError):
    """The caller asked for something that cannot be done."""


class RunError(TruelineError):
    """A Run cannot be read."""


class NotARunError(RunError):
    """The path holds something other than a Run, or nothing."""


class RunVersionError(RunError):
    """The Run was written in a format that this version does not know."""


class CorruptRunError(RunError):
    """The Run is damaged."""


class MissingFrameworkError(TruelineError):
    """A framework that is needed for this is not installed."""
