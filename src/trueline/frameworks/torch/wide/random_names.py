"""Operators that draw random numbers: torch draws them in float64 from its own generator, so that the wide program sees
the numbers that the float64 program sees; only what is computed from them is wide."""

from __future__ import annotations

RANDOM = frozenset(
    "rand randn randint rand_like randn_like randint_like randperm bernoulli.default bernoulli.p poisson multinomial "
    "normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor normal.float_float binomial _standard_gamma "
    "_sample_dirichlet bernoulli_ uniform_ normal_ exponential_ geometric_ cauchy_ log_normal_ random_".split()
)
"""By the name of the operator, or name.overload."""
