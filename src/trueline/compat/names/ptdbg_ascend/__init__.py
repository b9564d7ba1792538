"""``from ptdbg_ascend import *``, as it is written in its document."""

from trueline.compat.ptdbg_ascend import *  # noqa: F403
from trueline.compat.ptdbg_ascend import __all__ as __all__
