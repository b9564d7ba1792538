"""``from paddleapex import Tracer``, as it is written in its document; its two configs lie below this folder."""

from pathlib import Path

from trueline.compat.paddleapex import Tracer
from trueline.compat.paddleapex.config import configs_are_in

configs_are_in(Path(__file__).resolve().parent / "api_tracer" / "configs")

__all__ = ["Tracer"]
