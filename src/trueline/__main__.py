"""``python -m trueline`` is the command ``trueline``."""

from __future__ import annotations

import sys

from trueline.cli import main

if __name__ == "__main__":
    sys.exit(main())
