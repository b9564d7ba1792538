"""Runs one side of a case in this process, without any tool, and collects what it gives away."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.zoo.spec import CASES, PROGRAMS, Built, Case, Clean, Setting

PACKAGES = ("programs", "work", "counted")
SEED = 20261118


def load(packages: tuple[str, ...] = PACKAGES) -> None:
    """Imports all programs and cases. The files import their libraries inside of functions, so this is quick."""
    for package in packages:
        found = importlib.import_module(f"benchmarks.zoo.{package}")
        for module in pkgutil.iter_modules(found.__path__):
            importlib.import_module(f"{found.__name__}.{module.name}")


def seed(framework: str) -> None:
    import random

    random.seed(SEED)
    np.random.seed(SEED)
    if framework == "torch":
        import torch

        torch.manual_seed(SEED)
    else:
        import paddle

        paddle.seed(SEED)


def build(case: Case, side: str, setting: Setting) -> Built:
    """That side of a case, edited and ready for its first step."""
    program = PROGRAMS[getattr(case, side)]
    changes = [case.both]
    if side == "candidate":
        changes.append(case.change)
    elif isinstance(case, Clean):
        changes.append(case.reference_change)
    if program.framework == "torch":
        import torch

        torch.set_num_threads(case.threads if isinstance(case, Clean) and side == "candidate" else 1)
    for change in changes:
        if change.before is not None:
            change.before(setting)
    seed(program.framework)
    built = program.build(setting)
    for change in changes:
        if change.after is not None:
            change.after(built)
    seed(program.framework)
    return built


def run(
    case: Case, side: str, setting: Setting, after_step: Callable[[], None] = lambda: None
) -> dict[str, np.ndarray]:
    """What that side gives away: losses and outputs of each step, and the parameters and buffers at the end, where both
    sides are of one framework (names and layouts of two differ: such programs give some of them away by themselves)."""
    built = build(case, side, setting)
    given: dict[str, np.ndarray] = {}
    for index in range(PROGRAMS[getattr(case, side)].steps):
        for name, value in built.step(built, index).items():
            given[f"step {index} {name}"] = as_float64(value)
        after_step()
    if PROGRAMS[case.reference].framework == PROGRAMS[case.candidate].framework:
        given.update({f"state {name}": as_float64(value) for name, value in _state(built.model).items()})
    return given


def _state(model: Any) -> Mapping[str, Any]:
    return model.state_dict() if hasattr(model, "state_dict") else {}


def as_float64(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach()
    if "torch" in type(value).__module__:
        import torch

        value = value.cpu()
        return (value.to(torch.complex128) if value.is_complex() else value.to(torch.float64)).numpy()
    if hasattr(value, "astype") and hasattr(value, "numpy"):
        value = value.astype("float64").numpy()
    return np.array(value, dtype=np.float64)


def distance(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The relative distance of each value that both sides give away; infinity where shapes or names differ."""
    result = {}
    for name in {**one, **other}:
        if name not in one or name not in other or one[name].shape != other[name].shape:
            result[name] = float("inf")
            continue
        known, given = one[name], other[name]
        both_bad = ~np.isfinite(known) & ~np.isfinite(given)
        known, given = np.where(both_bad, 0, known), np.where(both_bad, 0, given)
        size = float(np.linalg.norm(known.ravel()))
        apart = float(np.linalg.norm((given - known).ravel()))
        result[name] = apart / size if size else apart
    return result


def cases(names: list[str]) -> list[Case]:
    return [case for name, case in CASES.items() if not names or any(part in name for part in names)]
