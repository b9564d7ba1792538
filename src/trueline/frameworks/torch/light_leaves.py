"""The tensors in arguments and results, and what of them is known without reading."""

from __future__ import annotations

from array import array
from typing import Any

import torch

from trueline.frameworks.torch.flatten import flatten
from trueline.frameworks.torch.names import hidden_leaves
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import storage_of

WRITTEN = {
    **dict.fromkeys(("all_gather", "all_gather_coalesced"), (0, "tensor_list")),
    **dict.fromkeys(("all_gather_into_tensor", "all_to_all_single"), (0, "output_tensor")),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_tensor"), (0, "output")),
    **dict.fromkeys(("scatter", "recv", "irecv"), (0, "tensor")),
    "all_to_all": (0, "output_tensor_list"),
    "gather": (1, "gather_list"),
    "send": (1 << 30, ""),
    "isend": (1 << 30, ""),
}
"""Which argument a collective writes to, by position and name; of those that are not here, all."""


def leaves_of(args: Any, kwargs: dict[str, Any] | None) -> list[torch.Tensor]:
    """The tensors in arguments, or in a result, in the order of ``flatten``."""
    leaves: list[torch.Tensor] = []
    for value in args:
        flatten(value, leaves)
    for value in (kwargs or {}).values():
        flatten(value, leaves)
    return leaves


def written_unseen(trait: Any, args: Any, kwargs: Any, leaves: list[torch.Tensor]) -> frozenset[int]:
    """Which tensors a call changed without a trace in their version counters: positions among its leaves."""
    written = WRITTEN.get(trait.name.rpartition(".")[2]) if trait.hides_all else None
    if written is None:
        return hidden_leaves(trait, args, kwargs, leaves)
    position, name = written
    changed = leaves_of([args[position] if position < len(args) else (kwargs or {}).get(name)], None)
    return frozenset(at for at, tensor in enumerate(leaves) if any(tensor is one for one in changed))


def versions_of(tensors: list[torch.Tensor]) -> bytes:
    return array("q", [_version(tensor) for tensor in tensors]).tobytes()


def place_of(tensor: torch.Tensor) -> int:
    try:
        return int(storage_of(tensor)._cdata)
    except Exception:  # sparse, meta, …
        return 0
