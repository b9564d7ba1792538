"""The gold of float64: torch's own operators, and its autograd on top of them, in numpy's long double.

``tensor`` holds the tensor subclass and the mode; the other modules are the table of operators, family by family.
"""

from trueline.frameworks.torch.wide.apart import vouching
from trueline.frameworks.torch.wide.tensor import NoWideGold, Wide, WideMode, WideRun, narrow, run_wide, widen

__all__ = ["NoWideGold", "Wide", "WideMode", "WideRun", "narrow", "run_wide", "vouching", "widen"]
