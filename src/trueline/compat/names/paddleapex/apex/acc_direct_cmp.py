"""``python acc_direct_cmp.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapex.compare import main_direct

if __name__ == "__main__":
    sys.exit(main_direct())
