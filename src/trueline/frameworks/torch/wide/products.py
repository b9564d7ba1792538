"""The product of wide matrices. There is no BLAS for them; ``np.dot`` with the right operand in columns is the fastest
loop that numpy has, some 300 million multiplications a second."""

from __future__ import annotations

import math

import numpy as np

from trueline.frameworks.torch.wide.table import Array

SMALL = 4096
"""Multiplications in a matrix of a batch below which one call for the whole batch is faster."""


def product(left: Array, right: Array) -> Array:
    """As ``np.matmul``."""
    if left.ndim == 2 and right.ndim == 2:
        return np.dot(left, np.asfortranarray(right))
    if left.ndim < 2 or right.ndim < 2 or left.shape[-2] * math.prod(right.shape[-2:]) < SMALL:
        return np.matmul(left, right)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    result = np.empty((*batch, left.shape[-2], right.shape[-1]), np.result_type(left, right))
    spread_left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    spread_right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    for place in np.ndindex(*batch):
        result[place] = np.dot(spread_left[place], np.asfortranarray(spread_right[place]))
    return result
