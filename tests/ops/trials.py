"""Executes a call with torch and gives it as a Trial, for the tests of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trueline.ops.equivalence import Trial
from trueline.tree import Tree


def function_named(api: str) -> Callable[..., Any]:
    value: Any = torch
    for part in api.split(".")[1:]:
        value = getattr(value, part)
    return value


def values_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.is_complex():
        return plain.to(torch.complex128).numpy().copy()
    if plain.is_floating_point():
        return plain.to(torch.float64).numpy().copy()
    return plain.numpy().copy() if plain.dtype is torch.bool else plain.to(torch.int64).numpy().copy()


def tree_and_leaves(value: Any, path: str, leaves: dict[str, torch.Tensor]) -> Tree:
    if isinstance(value, torch.Tensor):
        leaves[path] = value
        return {"$t": len(leaves) - 1}
    if isinstance(value, tuple | list):
        items = [tree_and_leaves(item, f"{path}.{place}", leaves) for place, item in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: tree_and_leaves(item, f"{path}.{key}", leaves) for key, item in value.items()}
    return value


def trial_of(
    api: str, *args: Any, function: Callable[..., Any] | None = None, backward: bool = False, **kwargs: Any
) -> Trial:
    """Runs the call; with ``backward`` random gradients arrive at all outputs that can have one."""
    leaves: dict[str, torch.Tensor] = {}
    arguments = {"args": tree_and_leaves(list(args), "args", leaves)}
    arguments["kwargs"] = tree_and_leaves(kwargs, "kwargs", leaves)
    inputs = {path: values_of(leaf) for path, leaf in leaves.items()}
    for leaf in leaves.values():
        leaf.requires_grad_(backward and (leaf.is_floating_point() or leaf.is_complex()))
    result = (function or function_named(api))(*args, **kwargs)
    outputs: dict[str, torch.Tensor] = {}
    tree_and_leaves(result, "out", outputs)
    arriving, gradients = {}, {}
    if backward:
        torch.manual_seed(7)
        live = {path: out for path, out in outputs.items() if out.requires_grad}
        given = {path: torch.randn_like(out) for path, out in live.items()}
        wanted = {path: leaf for path, leaf in leaves.items() if leaf.requires_grad}
        found = torch.autograd.grad(list(live.values()), list(wanted.values()), list(given.values()), allow_unused=True)
        arriving = {path: values_of(gradient) for path, gradient in given.items()}
        pairs = zip(wanted, found, strict=True)
        gradients = {path: values_of(gradient) for path, gradient in pairs if gradient is not None}
    return Trial(api, arguments, inputs, {path: values_of(out) for path, out in outputs.items()}, arriving, gradients)
