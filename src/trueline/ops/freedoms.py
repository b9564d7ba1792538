"""What an operator leaves open, apart from values that are not unique (``equivalence``): each with its reason."""

from __future__ import annotations

from collections.abc import Collection

from trueline.ops.binding import bind
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical
from trueline.tree import Tree

_SAVED = "is kept for the backward of the same device, which chooses its dtype and whether it is needed"
_KEEPS_STATISTICS = frozenset(
    """layer_norm batch_norm group_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    _batch_norm_with_update _batch_norm_no_update cudnn_batch_norm miopen_batch_norm _fused_rms_norm""".split()
)
"""Their native forms return the statistics besides the result."""

_PIECES = frozenset(
    """relu relu6 leaky_relu prelu rrelu elu celu selu hardtanh hardswish hardsigmoid hardshrink softshrink threshold
    clamp clamp_min clamp_max abs smooth_l1_loss huber_loss quantile nanquantile median nanmedian""".split()
)
"""Made of pieces: a comparison, or an order, says which one counts."""


def may_differ_in_form(api: str, path: str) -> str:
    """Why an output may have another floating dtype, or be left out, on another device; empty where it may not."""
    return _SAVED if canonical(api) in _KEEPS_STATISTICS and path.startswith("out.") and path != "out.0" else ""


_COMPUTES = frozenset(
    """leaky_relu median nanmedian arange scatter to isclose allclose floor_divide floordiv remainder mod fmod rmod
    rfloordiv histc histogram histogramdd histogram_bin_edges bincount matrix_rank nextafter frexp shard_index
    nan_to_num one_hot""".split()
)
"""Of kinds that move, choose or decide, but with arithmetic in between, or by the numbers of their dtype."""
_OF_PARTS = frozenset("abs sgn angle max min amax amin sort argsort".split())
"""Of complex numbers they compute a magnitude first."""


def is_decided_by_inputs(api: str, arguments: Tree, dtypes: Collection[str]) -> bool:
    """Whether the outputs follow from the bits of the inputs alone: elements are moved, chosen or compared, and nothing
    is computed before that could be rounded. Everybody is fed the same bits, so nothing hangs on a rounding."""
    name = canonical(api)
    if facts_of(api).kind not in (Kind.MOVE, Kind.SELECT, Kind.DISCRETE) or name in _COMPUTES:
        return False
    if name in _OF_PARTS and any(dtype.startswith("complex") for dtype in dtypes):
        return False
    return name != "round" or not bind(api, arguments).get("decimals")


def has_slope_at_nan(api: str) -> bool:
    """Whether the gradient at an input that is NaN is defined. An operator made of pieces compares to find the piece;
    every comparison with NaN is false, so the piece is that of whatever was not asked for, and it has a slope of its
    own."""
    return canonical(api) not in _PIECES
