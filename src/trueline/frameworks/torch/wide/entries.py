"""Fills the table of wide operators: importing this imports every module of entries."""

from __future__ import annotations

from trueline.frameworks.torch.wide import (  # noqa: F401
    activations,
    convolution,
    draws,
    elementwise,
    fourier,
    functions,
    indexing,
    linalg,
    linear,
    losses,
    more,
    norms,
    padding,
    pooling,
    reductions,
    shapes,
    spectral,
    upsampling,
)

FACTORIES = frozenset("arange linspace logspace full zeros ones empty_strided eye scalar_tensor".split())
"""Operators that make tensors out of numbers, in the default type where none is asked for."""

LIKE_ITS_NUMBERS = frozenset({"arange", "full"})
"""Of these the ones that make whole numbers of whole numbers, whatever the default type is."""

EXACT_MAKERS = frozenset("_efficientzerotensor empty empty_permuted zeros_like _to_copy lift_fresh".split())
"""Operators outside of the table that make float64 tensors without computing anything."""
