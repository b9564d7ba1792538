"""Both frameworks ask which calls are wanted; see ``trueline.frameworks.selection``."""

from trueline.frameworks.selection import Selection

__all__ = ["Selection"]
