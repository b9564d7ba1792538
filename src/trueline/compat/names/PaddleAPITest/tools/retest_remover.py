"""``tools/retest_remover.py``; TEST_LOG_PATH is an argument or a variable of the environment."""

from __future__ import annotations

import sys

from trueline.compat.paddleapitest.retest_remover import main

if __name__ == "__main__":
    sys.exit(main())
