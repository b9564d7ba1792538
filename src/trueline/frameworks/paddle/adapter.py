"""Paddle as an Adapter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import paddle

from trueline.cases import Target
from trueline.frameworks.base import Executor, Notebook, Scope, Watcher
from trueline.frameworks.light import LightOptions, LightWatcher

_seed: list[int] = []


class PaddleAdapter:
    """Answers what a capture asks of Paddle."""

    name = "paddle"

    def __init__(self) -> None:
        self._steps: Any = None

    def version(self) -> str:
        return str(paddle.__version__)

    def way(self) -> str:
        return "portable (there is no other for Paddle)"

    def devices(self) -> Iterable[str]:
        """What Paddle can compute on; accelerators of any vendor where it has some."""
        found = [str(name) for name in paddle.device.get_available_device() if name != "cpu"]
        found += [str(name) for name in paddle.device.get_available_custom_device()]
        return found or ["cpu"]

    def rank(self) -> tuple[int, int]:
        """(rank, world size), from the process group if there is one, else from the launcher's environment."""
        distributed = paddle.distributed
        if distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return int(os.environ.get("PADDLE_TRAINER_ID", "0")), int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))

    def seed(self) -> int | None:
        """The seed that ``seed_all`` set; what a program does by itself later is not known when the Run begins."""
        return _seed[-1] if _seed else None

    def seed_all(self, seed: int, deterministic: bool) -> None:
        paddle.seed(seed)
        _seed.append(seed)
        if deterministic:
            flags = ("FLAGS_cudnn_deterministic", "FLAGS_embedding_deterministic")
            known = paddle.get_flags(flags)
            paddle.set_flags({name: 1 if name == flags[1] else True for name in known})

    def watcher(self, notebook: Notebook, scope: Scope) -> Watcher:
        from trueline.frameworks.paddle.watch import PaddleWatcher

        return PaddleWatcher(notebook, scope)

    def light_watcher(self, options: LightOptions) -> LightWatcher:
        from trueline.frameworks.paddle.light import PaddleLight

        return PaddleLight(options)

    def executor(self, target: Target, reference: Target | None) -> Executor:
        from trueline.frameworks.paddle.execute import PaddleExecutor

        return PaddleExecutor(target, reference)

    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        """Has ``begins`` and ``ends`` called with each optimizer, before and after its step."""
        from trueline.frameworks.paddle.optimizers import OptimizerSteps

        self._steps = OptimizerSteps(begins, ends)
        self._steps.on()

    def off_optimizer(self) -> None:
        """Takes that back."""
        if self._steps is not None:
            self._steps.off()
            self._steps = None


def make() -> PaddleAdapter:
    return PaddleAdapter()
