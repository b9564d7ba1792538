"""``python tools/tol_csv_stat.py``, as it is called in its document: change the setting, run it."""

from __future__ import annotations

import sys
from pathlib import Path

from trueline.compat.paddleapitest.tol_csv_stat import main

TEST_LOG_PATH = "tester/api_config/test_log"

if __name__ == "__main__":
    sys.exit(main(test_log_path=TEST_LOG_PATH, project=Path(__file__).resolve().parents[1]))
