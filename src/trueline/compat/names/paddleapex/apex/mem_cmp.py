"""``python mem_cmp.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapex.timed import main_memory

if __name__ == "__main__":
    sys.exit(main_memory())
