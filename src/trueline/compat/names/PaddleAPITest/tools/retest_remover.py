"""``python tools/retest_remover.py``, as it is called in its document: change the two settings, run it."""

from __future__ import annotations

import sys
from pathlib import Path

from trueline.compat.paddleapitest.retest_remover import main

TEST_LOG_PATH = "tester/api_config/test_log"
LOG_PREFIXES = ["skip", "oom", "crash", "timeout"]

if __name__ == "__main__":
    sys.exit(main(test_log_path=TEST_LOG_PATH, log_prefixes=LOG_PREFIXES, project=Path(__file__).resolve().parents[1]))
