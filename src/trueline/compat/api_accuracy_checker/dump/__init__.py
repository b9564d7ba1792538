"""Importing this records one iteration of a training that takes its batches from a DataLoader, and ends it then.

import trueline.compat.api_accuracy_checker.dump as DP
DP.dump.set_dump_switch("ON")        # where there is no DataLoader: at the beginning of every iteration
"""

from trueline.compat.api_accuracy_checker.config import msCheckerConfig
from trueline.compat.api_accuracy_checker.dump import dump

dump.arm()

__all__ = ["dump", "msCheckerConfig"]
