"""Records one iteration of the training that imports this; see ``trueline.compat.api_accuracy_checker.dump``."""

from trueline.compat.api_accuracy_checker.dump import dump, msCheckerConfig

__all__ = ["dump", "msCheckerConfig"]
