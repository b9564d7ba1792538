"""``python run_torch.py``, as it is called in its document."""

from __future__ import annotations

import sys

from trueline.compat.paddleapex.replay import main_torch

if __name__ == "__main__":
    sys.exit(main_torch())
