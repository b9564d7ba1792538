"""Where in the user's code a call of torch was made."""

from __future__ import annotations

from typing import Any

import torch

from trueline.frameworks.base import Notebook
from trueline.frameworks.stacks import Stacks

_MODULE_CALL = torch.nn.Module._call_impl.__code__
"""As torch has it: a capture stands in its place."""


def torch_stacks(notebook: Notebook, fast: Any) -> Stacks:
    """Numbers the stacks of torch calls; ``fast`` is the C extension, or None."""
    return Stacks(notebook, torch, _MODULE_CALL, fast)
