"""``python -m trueline.compat.tipc FOLDER [--replace]``: puts the scripts into a folder, ``test_tipc`` by custom."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from trueline.compat.tipc import install
from trueline.errors import TruelineError


def main(words: Sequence[str] | None = None) -> int:
    """Gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trueline.compat.tipc", description="Puts TIPC's scripts, made of trueline, into a folder."
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where to, test_tipc by custom")
    parser.add_argument("--replace", action="store_true", help="write over scripts that are there")
    options = parser.parse_args(words)
    try:
        for path in install(options.folder, replace=options.replace):
            print(path)
    except (TruelineError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
