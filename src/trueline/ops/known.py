"""The names of all operators that are known here: the catalogue has cases for them, or the mapping a row."""

from __future__ import annotations

from functools import cache

from trueline.ops.catalogue import catalogue_apis
from trueline.ops.mapping.rows import rows, rows_from_torch


@cache
def known_apis(framework: str) -> frozenset[str]:
    """The API names of a framework, such as ``torch.nn.functional.gelu``."""
    found = set(catalogue_apis())
    for row in (*rows().values(), *rows_from_torch()):
        found |= {row.torch, row.paddle}
    return frozenset(name for name in found if name.startswith(f"{framework}."))
