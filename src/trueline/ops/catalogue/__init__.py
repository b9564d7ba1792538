"""A catalogue of operators with representative calls of each, so that a device can be checked without any capture.

Each module holds the rows of one family, in the language of ``language.py``. Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.ops.catalogue import (
    activations,
    attention,
    comparison,
    convolutions,
    corners,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    lists,
    losses,
    normalizations,
    random_numbers,
    reductions,
    shapes,
    sorting,
    special_functions,
)
from trueline.ops.catalogue.language import Row, cases_of

FAMILIES = {
    "activations": activations.ROWS,
    "attention": attention.ROWS,
    "comparison": comparison.ROWS,
    "convolutions": convolutions.ROWS,
    "elementwise": elementwise.ROWS,
    "fourier": fourier.ROWS,
    "indexing": indexing.ROWS,
    "linear_algebra": linear_algebra.ROWS,
    "lists": lists.ROWS,
    "losses": losses.ROWS,
    "normalizations": normalizations.ROWS,
    "random_numbers": random_numbers.ROWS,
    "reductions": reductions.ROWS,
    "shapes": shapes.ROWS,
    "sorting": sorting.ROWS,
    "special_functions": special_functions.ROWS,
    "corners": corners.ROWS,
}


def catalogue_cases(pattern: str = "*", dtype: str | None = None) -> list[Case]:
    """The cases of all operators whose API name matches a glob (``torch.nn.functional.*``), in a floating dtype
    (float32 where none is given). ``UsageError`` where nothing matches."""
    name = dtype_named(dtype or "float32")
    if not name.is_float:
        raise UsageError(f"the catalogue is written for floating dtypes, not {name.name}")
    rows = [row for row in _rows() if fnmatchcase(row.api, pattern)]
    if not rows:
        raise UsageError(f"no operator of the catalogue matches {pattern!r}; try 'torch.*' or 'torch.nn.functional.*'")
    return _distinct(cases_of(rows, name.name))


@lru_cache(maxsize=1)
def catalogue_apis() -> tuple[str, ...]:
    """The API names that the catalogue has cases for, sorted."""
    return tuple(sorted({row.api for row in _rows()}))


def _rows() -> Iterator[Row]:
    for rows in FAMILIES.values():
        yield from rows


def _distinct(cases: list[Case]) -> list[Case]:
    """Two helpers may ask for the same call; it is one case."""
    return list({case.key: case for case in cases}.values())


__all__ = ["FAMILIES", "catalogue_apis", "catalogue_cases"]
