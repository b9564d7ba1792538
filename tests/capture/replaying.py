"""Runs the backward of a recorded call again, alone, from what was recorded of it and nothing else.

Everything is rebuilt from the Run: the function from its name, the arguments from the tree, the tensors from their
bits and strides. What comes out can be compared bit for bit with the gradients that were recorded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from trueline.dtypes import dtype_named
from trueline.records import Call, TensorRecord
from trueline.store import RankReader
from trueline.tree import Tree, tensor_paths


class NotReplayable(Exception):
    """The call draws random numbers, or was given objects that a Run does not hold."""


_RANDOM = ("dropout", "bernoulli", "rand")


def tensor_of(reader: RankReader, record: TensorRecord) -> torch.Tensor:
    """A recorded tensor, with its exact bits and strides."""
    raw = np.ascontiguousarray(reader.tensor(record)).tobytes()
    dtype = getattr(torch, dtype_named(record.dtype).name)
    if not raw:
        return torch.empty(record.shape, dtype=dtype)
    plain = torch.frombuffer(bytearray(raw), dtype=dtype).reshape(record.shape)
    if plain.stride() == record.strides:
        return plain
    spread = [0 if step == 0 else slice(None) for step in record.strides]  # expanded dimensions hold one element
    kept = [step for step in record.strides if step]
    source = plain[tuple(spread)]
    return torch.empty_strided(source.shape, kept, dtype=dtype).copy_(source).as_strided(record.shape, record.strides)


def function_of(api: str) -> Callable[..., Any]:
    """The function behind a name; of a class or a module, by importing it."""
    parts = api.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found if callable(found) else lambda tensor: getattr(tensor, parts[-1])
    raise NotReplayable(f"nothing is called {api}")


def gradients(reader: RankReader, forward: Call, backward: Call) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """For each gradient that left: what was recorded, and what ``torch.autograd.grad`` gives for this call alone."""
    short = forward.api.rpartition(".")[2]
    if short.startswith(_RANDOM):
        raise NotReplayable("random")
    wanted = {record.path: record for record in backward.outputs}
    leaves = _leaves(reader, forward, wanted.keys())
    paths = dict(tensor_paths(forward.arguments))
    # In-place calls must not change a leaf of autograd: each gets a copy with the same strides.
    arguments = _rebuild(forward.arguments, lambda number: _copy(leaves[paths[number]]))
    with torch.enable_grad():
        returned = function_of(forward.api)(*arguments["args"], **arguments["kwargs"])
    results = dict(_flatten({"out": returned, **arguments}))
    arrived = [record for record in backward.inputs if results[record.path].requires_grad]
    found = torch.autograd.grad(
        [results[record.path] for record in arrived],
        [leaves[path] for path in wanted],
        [tensor_of(reader, record) for record in arrived],
        allow_unused=True,
    )
    return {
        path: (tensor_of(reader, record), gradient)
        for (path, record), gradient in zip(wanted.items(), found, strict=True)
    }


def _leaves(reader: RankReader, forward: Call, wanted: Any) -> dict[str, torch.Tensor]:
    """The inputs by path. The same tensor given twice is one leaf, where one gradient was recorded for both."""
    leaves: dict[str, torch.Tensor] = {}
    shared: dict[int, str] = {}
    for record in sorted(forward.inputs, key=lambda one: one.path not in wanted):
        if record.requires_grad and record.path not in wanted and record.tensor_id in shared:
            leaves[record.path] = leaves[shared[record.tensor_id]]
            continue
        leaves[record.path] = tensor_of(reader, record).requires_grad_(record.requires_grad)
        shared.setdefault(record.tensor_id, record.path)
    return leaves


def _copy(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.clone() if leaf.requires_grad else leaf


def _rebuild(tree: Tree, leaf: Callable[[int], torch.Tensor]) -> Any:
    if isinstance(tree, list):
        return [_rebuild(item, leaf) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if not any(key.startswith("$") for key in tree):
        return {key: _rebuild(item, leaf) for key, item in tree.items()}
    kind, content = next(iter(tree.items()))
    if kind in ("$object", "$record"):
        raise NotReplayable(f"an argument is a {content}")
    makers: dict[str, Callable[[Any], Any]] = {
        "$t": leaf,
        "$tuple": lambda items: tuple(_rebuild(items, leaf)),
        "$size": torch.Size,
        "$slice": lambda parts: slice(*_rebuild(parts, leaf)),
        "$ellipsis": lambda _: ...,
        "$dtype": lambda name: getattr(torch, name),
        "$device": torch.device,
        "$float": float,
    }
    return makers[kind](content)


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flatten(item, f"{path}.{key}" if path else str(key))
