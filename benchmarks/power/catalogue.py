"""All wrong kernels: the modules that hold them, imported once."""

from __future__ import annotations

from benchmarks.power import (  # noqa: F401
    wrong_activations,
    wrong_elementwise,
    wrong_gradients,
    wrong_gradients_layers,
    wrong_losses,
    wrong_norms,
    wrong_places,
    wrong_products,
    wrong_reductions,
)
from benchmarks.power.recipes import REGISTRY, Wrong


def wrong_kernels() -> list[Wrong]:
    """Every wrong kernel, in the order in which they are written down."""
    return list(REGISTRY.values())
