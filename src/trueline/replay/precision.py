"""Whether autocast cast the inputs of a recorded call, and to which dtype: its dtypes tell."""

from __future__ import annotations

from trueline.dtypes import DType, dtype_named
from trueline.frameworks.rounding import names_a_dtype
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical
from trueline.records import Call, TensorRecord

_DIGITS_OF_SINGLE = 24


def autocast_of(call: Call) -> str:
    """The dtype to which autocast cast the floating inputs of a call; empty where it did nothing. Lower than they
    are for products of matrices and the like, ``float32`` for what it runs in single precision."""
    facts = facts_of(call.api)
    if facts.in_place or canonical(call.api) == "to" or names_a_dtype(call.arguments):
        return ""
    given = _floats([record for record in call.inputs if record.shape] or list(call.inputs))
    returned = _floats([record for record in call.outputs if record.path.partition(".")[0] == "out"])
    if not given or not returned:
        return ""
    coarsest = min(returned, key=lambda dtype: dtype.digits)
    if facts.kind is Kind.NORMALIZATION:  # takes its weights in another dtype; the first input says how it works
        expected = given[0]
    else:
        expected = max(given, key=lambda dtype: dtype.digits)
    if expected.digits > _DIGITS_OF_SINGLE or coarsest.digits > _DIGITS_OF_SINGLE or coarsest.digits == expected.digits:
        return ""
    return coarsest.name


def _floats(records: list[TensorRecord]) -> list[DType]:
    kinds = [dtype_named(record.dtype) for record in records]
    return [kind for kind in kinds if kind.is_float and kind.itemsize > 1]
