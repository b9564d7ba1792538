"""``tools/tol_csv_stat.py``; TEST_LOG_PATH is an argument or a variable of the environment."""

from __future__ import annotations

import sys

from trueline.compat.paddleapitest.tol_csv_stat import main

if __name__ == "__main__":
    sys.exit(main())
