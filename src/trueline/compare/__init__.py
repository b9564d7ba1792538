"""Aligns two Runs call by call and measures them tensor by tensor. No opinions: those are for ``judge``.

    carried     values that a program holds from one step to the next
    sequences   two sequences of integers -> which items are the same
    align       two traces -> pairs of calls, extra and missing ones
    leaves      pairs of calls -> pairs of tensors
    measure     pairs of tensors -> columns of numbers, from bytes, digests or sketches
    elements    pairs and threes of tensors -> evidence for standards that look at elements
    apex        the numbers of PaddleAPEX's comparison

Across frameworks besides:

    parameters  arguments of calls under one name
    turning     tensors whose axes lie in another order
    updates     calls of optimizers that change the same parameter
"""

from trueline.compare.align import Alignment, Match, align_calls
from trueline.compare.carried import carry_over
from trueline.compare.leaves import LeafPairs, pair_leaves
from trueline.compare.measure import MEASURED, Measurer

__all__ = ["MEASURED", "Alignment", "LeafPairs", "Match", "Measurer", "align_calls", "carry_over", "pair_leaves"]
