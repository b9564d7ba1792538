"""``python -m trueline.compat``: the predecessors' commands, and where their own names lie.

    python -m trueline.compat                       prints the folder of their modules and scripts
    python -m trueline.compat engineV2 --accuracy=True ...

With that folder on the path their imports (``from ptdbg_ascend import *``) work as they are written in their documents:
``export PYTHONPATH=$PYTHONPATH:$(python -m trueline.compat)``; and so do their scripts, from the folders in which they
have always been.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

COMMANDS = {
    "engineV2": "trueline.compat.paddleapitest.engine:main",
    "retest_remover": "trueline.compat.paddleapitest.retest_remover:main",
    "tol_csv_stat": "trueline.compat.paddleapitest.tol_csv_stat:main",
    "run_paddle": "trueline.compat.paddleapex.replay:main",
    "run_torch": "trueline.compat.paddleapex.replay:main_torch",
    "acc_direct_cmp": "trueline.compat.paddleapex.compare:main_direct",
    "acc_multi_cmp": "trueline.compat.paddleapex.compare:main_multi",
    "prof_cmp": "trueline.compat.paddleapex.timed:main_time",
    "mem_cmp": "trueline.compat.paddleapex.timed:main_memory",
    "run_ut": "trueline.compat.api_accuracy_checker.run_ut:main",
    "run_overflow_check": "trueline.compat.api_accuracy_checker.run_overflow_check:main",
}
"""Command -> the function that runs it."""

NAMES = Path(__file__).parent / "names"


def main(words: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if words is None else words)
    if not given:
        print(NAMES)
        return 0
    if given[0] in ("-h", "--help"):
        print(f"usage: python -m trueline.compat [COMMAND ...]\n\ncommands: {', '.join(COMMANDS)}\n\n"
              "Without a command it prints the folder of the old module names, for PYTHONPATH.")  # fmt: skip
        return 0
    if given[0] not in COMMANDS:
        print(f"trueline.compat: no command {given[0]!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module, _, name = COMMANDS[given[0]].partition(":")
    command: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), name)
    return command(given[1:])


if __name__ == "__main__":
    sys.exit(main())
