"""Python runs this first in every process of a captured program: it arms the capture, then lets the sitecustomize
that would have run otherwise run too."""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _run_the_other() -> None:
    import importlib.machinery
    import importlib.util

    folders = [folder for folder in sys.path if os.path.abspath(folder or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


try:
    from trueline.capture import launch

    launch.arm()
except Exception as error:  # the program must run whatever happens to us
    sys.stderr.write(f"trueline records nothing, the program goes on: {error}\n")
_run_the_other()
