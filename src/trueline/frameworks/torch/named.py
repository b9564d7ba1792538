"""What of a torch module can be named: see ``frameworks.named``."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from trueline.frameworks.named import Naming, Tensors
from trueline.frameworks.torch.flatten import PLAIN_TENSORS

_INNER = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_PARALLEL = frozenset({"DistributedDataParallel", "DataParallel", "DeepSpeedEngine"})
_is_meta = torch._C.TensorBase.is_meta.__get__  # type: ignore[attr-defined]


def is_readable(tensor: Any) -> bool:
    """Whether it has content."""
    if type(tensor) in PLAIN_TENSORS:
        return not _is_meta(tensor)
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor) or is_lazy(tensor):
        return False
    return not _is_meta(tensor)


def kind_of(module: torch.nn.Module) -> str:
    """The name of a module's class; of one that torch.jit has made, that of what it was made of."""
    name = type(module).__name__
    return str(getattr(module, "original_name", name)) if isinstance(module, torch.jit.ScriptModule) else name


def _wrapped(module: torch.nn.Module) -> str:
    modules = module._modules
    for name in _INNER:
        if name in modules:
            return name
    if "module" in modules and any(kind.__name__ in _PARALLEL for kind in type(module).__mro__):
        return "module"
    return ""


def _own(module: torch.nn.Module) -> tuple[Tensors, Tensors]:
    return module._parameters, module._buffers


NAMING = Naming(_own, "_modules", is_readable, is_lazy, _wrapped)
"""To be asked unseen."""
