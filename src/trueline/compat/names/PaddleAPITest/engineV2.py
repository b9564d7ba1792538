"""``python engineV2.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapitest.engine import main

if __name__ == "__main__":
    sys.exit(main())
