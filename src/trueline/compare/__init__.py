"""Aligns two Runs call by call and measures them tensor by tensor. No opinions: those are for ``judge``.

    sequences   two sequences of integers -> which items are the same
    align       two traces -> pairs of calls, extra and missing ones
    leaves      pairs of calls -> pairs of tensors
    measure     pairs of tensors -> columns of numbers, from bytes, digests or sketches
"""

from trueline.compare.align import Alignment, Match, align_calls
from trueline.compare.leaves import LeafPairs, pair_leaves
from trueline.compare.measure import MEASURED, Measurer

__all__ = ["MEASURED", "Alignment", "LeafPairs", "Match", "Measurer", "align_calls", "pair_leaves"]
