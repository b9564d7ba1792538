"""Edits that several cases of the encoders, experts and state-space models share."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built


def modeling(name: str) -> Any:
    """The modelling file of that model in transformers."""
    return imported(f"transformers.models.{name}.modeling_{name}")


def edit_one(module: Any, name: str, *changes: tuple[str, str], count: int = 1) -> None:
    """Edits a method of one module only: its class is replaced by a copy with the edited method."""
    kind = type(module)
    own = type(kind.__name__, (kind,), {"__module__": kind.__module__, name: inspect.getattr_static(kind, name)})
    edit_function(own, name, *changes, count=count)
    module.__class__ = own


def edit_static(owner: Any, name: str, *changes: tuple[str, str]) -> None:
    """Edits a static method."""
    edit_function(owner, name, *changes)
    setattr(owner, name, staticmethod(vars(owner)[name]))


def of_type(built: Built, *names: str) -> Iterator[Any]:
    """The modules of the model whose class has one of these names."""
    for module in built.model.modules():
        if type(module).__name__ in names:
            yield module


def at(built: Built, path: str) -> Any:
    return built.model.get_submodule(path)


def replace(built: Built, path: str, module: Any) -> None:
    """Puts a module in the place of another."""
    parent, _, name = path.rpartition(".")
    setattr(built.model.get_submodule(parent), name, module)


def without(batches: list[Any], *names: str) -> list[Any]:
    """The batches without some of their inputs."""
    return [{name: value for name, value in batch.items() if name not in names} for batch in batches]


def adam_without_correction(groups: list[dict[str, Any]], rate: float, eps: float) -> Any:
    """AdamW as BERT's own: the averages are not corrected for their start at zero."""
    import torch

    class BertAdam(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for value in group["params"]:
                    state = self.state[value]
                    if not state:
                        state["exp_avg"] = torch.zeros_like(value)
                        state["exp_avg_sq"] = torch.zeros_like(value)
                    state["exp_avg"].lerp_(value.grad, 0.1)
                    state["exp_avg_sq"].mul_(0.999).addcmul_(value.grad, value.grad, value=0.001)
                    value.mul_(1 - group["lr"] * group["weight_decay"])
                    value.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt().add_(eps), value=-group["lr"])

    return BertAdam(groups, {"lr": rate, "weight_decay": 0.0})
