"""``python run_paddle.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapex.replay import main

if __name__ == "__main__":
    sys.exit(main())
