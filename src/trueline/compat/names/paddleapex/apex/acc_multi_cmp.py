"""``python acc_multi_cmp.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapex.compare import main_multi

if __name__ == "__main__":
    sys.exit(main_multi())
