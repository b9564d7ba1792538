"""``from paddleapex import Tracer``, as it is written in its document."""

from trueline.compat.paddleapex import Tracer

__all__ = ["Tracer"]
