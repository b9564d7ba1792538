"""The command line. Each command parses its options, makes one library call and translates the error.

Exit codes: 0 clean, 1 findings, 2 the tool or its input failed.
"""

from trueline.cli.main import main

__all__ = ["main"]
