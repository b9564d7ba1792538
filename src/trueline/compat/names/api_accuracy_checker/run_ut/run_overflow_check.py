"""``python run_overflow_check.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.api_accuracy_checker.run_overflow_check import main

if __name__ == "__main__":
    sys.exit(main())
