"""Both frameworks exchange the code of functions; see ``trueline.frameworks.splice``."""

from trueline.frameworks.splice import Handler, Splice

__all__ = ["Handler", "Splice"]
