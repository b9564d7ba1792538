"""Arguments of calls of different frameworks under one name: ``args.1`` of ``paddle.nn.functional.linear`` and
``kwargs.weight`` of ``torch.nn.functional.linear`` are both ``weight``.

The names are torch's, as the mapping (``ops.mapping``) and the signatures (``ops.binding``) know them.
"""

from __future__ import annotations

from functools import lru_cache

from trueline.ops.binding import parameter, signature
from trueline.ops.mapping.rows import row_for
from trueline.ops.mapping.translate import NoCounterpart, torch_arguments
from trueline.tree import Tree

_COMMON = {"x": "input", "self": "input", "y": "other", "label": "target", "epsilon": "eps", "axis": "dim"}
"""What the two frameworks call the same thing where no row of the mapping says it (composites)."""


@lru_cache(maxsize=65536)
def common_name(api: str, path: str) -> str:
    """The name of the parameter to which a path (``args.1``, ``kwargs.x.0``) belongs; the path itself where nothing is
    known, so that the same path still means the same."""
    parts = path.split(".")
    if parts[0] not in ("args", "kwargs") or len(parts) < 2:
        return path
    name = _paddle_name(api, parts) if api.startswith("paddle.") else parameter(api, path)
    if name is None and parts[0] == "kwargs":
        name = parts[1]
    if name is None:
        return path
    return ".".join([_COMMON.get(name, name), *parts[2:]])


def _paddle_name(api: str, parts: list[str]) -> str | None:
    row = row_for(api)
    if row is None:
        return parameter(api, ".".join(parts))
    names = list(row.names)
    if parts[0] == "kwargs":
        ours = parts[1]
    elif parts[1].isdigit() and int(parts[1]) < len(names):
        ours = names[int(parts[1])]
    else:
        return None
    theirs = row.names.get(ours, "")
    return ours if not theirs or theirs.isdigit() else theirs


def in_torch(api: str, arguments: Tree) -> tuple[str, Tree]:
    """A call as torch would be given it, as far as the mapping knows: values that are written differently are then
    written alike. Calls that need a function of ours, and those of torch, are as they are."""
    row = row_for(api) if api.startswith("paddle.") else None
    if row is None or row.composite:
        return api, arguments
    try:
        return row.torch, torch_arguments(row, arguments)
    except (NoCounterpart, KeyError, TypeError, ValueError):
        return api, arguments


def default_of(api: str, name: str) -> Tree:
    """The default of a parameter by its common name; None where none is known."""
    row = row_for(api) if api.startswith("paddle.") else None
    known = signature(row.operator if row is not None and row.operator else api)
    return next((default for one, default in known if _COMMON.get(one, one) == name), None)
