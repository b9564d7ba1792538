"""Both frameworks exchange the code of functions; see ``trueline.frameworks.splice``."""

from trueline.frameworks.splice import FRAMES, Handler, Splice

__all__ = ["FRAMES", "Handler", "Splice"]
