"""What an operator leaves open, apart from values that are not unique (``equivalence``): each with its reason."""

from __future__ import annotations

from trueline.ops.names import canonical

_SAVED = "is kept for the backward of the same device, which chooses its dtype and whether it is needed"
_KEEPS_STATISTICS = frozenset(
    """layer_norm batch_norm group_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    _batch_norm_with_update _batch_norm_no_update cudnn_batch_norm miopen_batch_norm _fused_rms_norm""".split()
)
"""Their native forms return the statistics besides the result."""

_PIECES = frozenset(
    """relu relu6 leaky_relu prelu rrelu elu celu selu hardtanh hardswish hardsigmoid hardshrink softshrink threshold
    clamp clamp_min clamp_max abs smooth_l1_loss huber_loss""".split()
)
"""Made of pieces: a comparison says which one counts."""


def may_differ_in_form(api: str, path: str) -> str:
    """Why an output may have another floating dtype, or be left out, on another device; empty where it may not."""
    return _SAVED if canonical(api) in _KEEPS_STATISTICS and path.startswith("out.") and path != "out.0" else ""


def has_slope_at_nan(api: str) -> bool:
    """Whether the gradient at an input that is NaN is defined. An operator made of pieces compares to find the piece;
    every comparison with NaN is false, so the piece is that of whatever was not asked for, and it has a slope of its
    own."""
    return canonical(api) not in _PIECES
