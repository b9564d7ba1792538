"""The elements of one tensor of a comparison, on both sides and as float64 would have them.

What was kept is read again; the gold is the reference's call replayed on what it was given. Where something is not
there, a sentence says why.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.diagnose.confirm import Court
from trueline.diagnose.table import RankTable
from trueline.dtypes import DType, dtype_named
from trueline.errors import RunError
from trueline.records import TensorRecord
from trueline.store.columns import NONE

Array = np.ndarray[Any, Any]

_NOT_KEPT = "the {side} did not keep this tensor: capture with --data tensors"


def both_sides(table: RankTable, row: int, place: int) -> tuple[Array, Array, DType] | str:
    """The tensor at ``place`` of a row as the reference and the candidate have it, in the candidate's shape and in
    float64 or complex128, and the coarser of their dtypes."""
    from trueline.diagnose.replaying import numbers_of

    leaf = int(table.first_leaf[row]) + place
    visits = int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf])
    if NONE in visits:
        return f"only the {'candidate' if visits[0] == NONE else 'reference'} has this tensor"
    records = table.record(0, visits[0]), table.record(1, visits[1])
    values = []
    for side, record in enumerate(records):
        if not record.stored:
            return _NOT_KEPT.format(side=("reference", "candidate")[side])
        values.append(numbers_of(table.readers[side].tensor(record), record.dtype).reshape(record.shape))
    reference = _turned(table, leaf, values[0])
    if reference is None or reference.shape != values[1].shape:
        shapes = " and ".join(str(list(record.shape)) for record in records)
        return f"the two sides have other shapes, {shapes}, and cannot be laid on each other"
    return reference, values[1], _coarser(*records)


def gold_of(table: RankTable, row: int, place: int) -> Array | str:
    """The same tensor as the reference's call gives it in float64 on its recorded inputs, in the candidate's shape."""
    from trueline.diagnose.replaying import Unreplayable, exact_and_honest

    leaf = int(table.first_leaf[row]) + place
    if not table.leaves.output[leaf]:
        return "it was given to the call: the call did not make it"
    visit = int(table.leaves.reference[leaf])
    if visit == NONE:
        return "only the candidate has this tensor"
    recorded = Court(table).recorded(row, 0)
    if isinstance(recorded, str):
        return recorded
    record = table.record(0, visit)
    try:
        exact, _ = exact_and_honest(recorded, record.path)
        found = _turned(table, leaf, exact.reshape(record.shape))
    except Unreplayable as error:
        return str(error)
    except RunError:  # the Run is damaged: nobody may take what is left for an answer
        raise
    except Exception as error:  # whatever a kernel raises on recorded data must not end the view
        return f"{type(error).__name__}: {str(error)[:120]}"
    return "the replay cannot be laid on what was recorded" if found is None else found


def _turned(table: RankTable, leaf: int, values: Array) -> Array | None:
    """The reference's tensor with its axes in the candidate's order; None where nobody knows that order."""
    turned = table.turned.get(int(table.pair[leaf]))
    if turned is None:
        return values
    return values.transpose(turned.axes) if turned.axes else None


def _coarser(one: TensorRecord, other: TensorRecord) -> DType:
    return max((dtype_named(one.dtype), dtype_named(other.dtype)), key=lambda dtype: dtype.epsilon)
