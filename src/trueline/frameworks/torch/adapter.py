"""PyTorch as an Adapter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from trueline.cases import Target
from trueline.frameworks.base import Executor, Notebook, Scope, Watcher
from trueline.frameworks.light import LightOptions, LightWatcher
from trueline.frameworks.torch.unseen import alone

_seed: list[int] = []


class TorchAdapter:
    """Answers what a capture asks of PyTorch."""

    name = "torch"

    def __init__(self) -> None:
        self._hooks: Any = None

    def version(self) -> str:
        return str(torch.__version__)

    @alone
    def way(self) -> str:
        from trueline.frameworks.torch.calls import way_taken

        return str(way_taken())

    def devices(self) -> Iterable[str]:
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is None or not accelerator.is_available():
            return [f"cpu ({torch.get_num_threads()} threads)"]
        kind = accelerator.current_accelerator().type
        backend = getattr(torch, kind)
        names = [getattr(backend, "get_device_name", lambda number: kind)(n) for n in range(backend.device_count())]
        return [f"{kind}:{number} {name}" for number, name in enumerate(names)]

    def rank(self) -> tuple[int, int]:
        """(rank, world size), from the process group if there is one, else from torchrun's environment."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))

    def seed(self) -> int | None:
        """The seed that ``seed_all`` set; what a program does by itself later is not known when the Run begins."""
        return _seed[-1] if _seed else None

    def seed_all(self, seed: int, deterministic: bool) -> None:
        torch.manual_seed(seed)
        _seed.append(seed)
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False

    @alone
    def watcher(self, notebook: Notebook, scope: Scope) -> Watcher:
        from trueline.frameworks.torch.doors import TorchWatcher

        return TorchWatcher(notebook, scope)

    @alone
    def light_watcher(self, options: LightOptions) -> LightWatcher:
        from trueline.frameworks.torch.light import TorchLightWatcher

        return TorchLightWatcher(options)

    def executor(self, target: Target, reference: Target | None) -> Executor:
        from trueline.frameworks.torch.execute import TorchExecutor

        return TorchExecutor(target, reference)

    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        """Has ``begins`` and ``ends`` called with each optimizer, before and after its step."""
        from trueline.frameworks.torch.optimizers import OptimizerHooks

        self._hooks = OptimizerHooks(begins, ends)
        self._hooks.on()

    def off_optimizer(self) -> None:
        """Takes the hooks away; must not be called from inside one of them, while torch walks their list."""
        if self._hooks is not None:
            self._hooks.off()
        self._hooks = None


def make() -> TorchAdapter:
    return TorchAdapter()
