"""The tolerances that a comparison would pass, whatever they are, in a handful of numbers.

``allclose`` asks whether ``error <= atol + rtol * size`` holds for every element. Only the corners of the upper hull of
the points (size, error) can decide that, for any rtol and atol that are not negative, and there are few of them. So the
corners are kept, and the question can be asked later with any tolerances, without the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Corner = tuple[float, float]
"""(size, error), with sizes and errors both growing from corner to corner."""

MOST_CORNERS = 48
"""More than this only artificial data has; then those are kept that decide for an even choice of rtol."""
_MANY = 4096
"""So many points would take too long one by one."""


def corners_of(size: Doubles, error: Doubles, known: Iterable[Corner] = ()) -> list[Corner]:
    """The corners of the points given and those known before. All numbers are finite and not negative."""
    sizes = [corner[0] for corner in known]
    errors = [corner[1] for corner in known]
    at = int(error.argmax()) if error.size else 0
    if error.size and error[at] > 0.0:
        sizes.append(float(size[at]))
        errors.append(float(error[at]))
        with np.errstate(divide="ignore", invalid="ignore"):
            steepest = int(np.where(error > 0.0, error / size, 0.0).argmax())
        sizes.append(float(size[steepest]))
        errors.append(float(error[steepest]))
        chain = _chain(sizes, errors)
        outside = _outside(size, error, chain)
        if outside.any():
            return _chain([*sizes, *size[outside].tolist()], [*errors, *error[outside].tolist()])
        return chain
    return _chain(sizes, errors)


def needed_atol(corners: Iterable[Corner], rtol: float) -> float:
    """The smallest atol with which ``error <= atol + rtol * size`` holds everywhere."""
    return max((error - rtol * size for size, error in corners), default=0.0)


def to_numbers(corners: Iterable[Corner], name: str) -> dict[str, float]:
    """The corners as numbers with names: ``<name>_size_0``, ``<name>_error_0``, and so on."""
    numbers: dict[str, float] = {}
    for position, (size, error) in enumerate(corners):
        numbers[f"{name}_size_{position}"] = size
        numbers[f"{name}_error_{position}"] = error
    return numbers


def from_numbers(numbers: Mapping[str, float], name: str) -> list[Corner]:
    """What ``to_numbers`` wrote."""
    corners: list[Corner] = []
    while (size := numbers.get(f"{name}_size_{len(corners)}")) is not None:
        corners.append((size, numbers[f"{name}_error_{len(corners)}"]))
    return corners


def _outside(size: Doubles, error: Doubles, chain: list[Corner]) -> NDArray[np.bool_]:
    """Which points lie above the chain, which begins in the origin and goes on flat behind its last corner."""
    bound: Any = np.full(size.shape, chain[-1][1])
    before = (0.0, 0.0)
    for corner in chain:
        width = corner[0] - before[0]
        if width > 0.0:
            slope = (corner[1] - before[1]) / width
            np.minimum(bound, before[1] + slope * (size - before[0]), out=bound)
        before = corner
    above: NDArray[np.bool_] = error > bound
    return above


def _chain(sizes: list[float], errors: list[float]) -> list[Corner]:
    """The corners of the upper hull of some points and the origin, up to the largest error."""
    order = sorted(zip(sizes, errors, strict=True), key=lambda corner: (corner[0], -corner[1]))
    rising: list[Corner] = []
    for corner in order:  # what has no larger error than a smaller one before it decides nothing
        if corner[1] > (rising[-1][1] if rising else 0.0):
            rising.append(corner)
    if len(rising) > _MANY:
        rising = _thinned(rising)
    chain: list[Corner] = [(0.0, 0.0)]
    for corner in rising:
        while len(chain) > 1 and _left_turn(chain[-2], chain[-1], corner):
            chain.pop()
        chain.append(corner)
    found = chain[1:]
    return found if len(found) <= MOST_CORNERS else _thinned(found)


def _left_turn(first: Corner, middle: Corner, last: Corner) -> bool:
    """Whether ``middle`` lies on or below the line from ``first`` to ``last``."""
    rise = (middle[1] - first[1]) * (last[0] - first[0])
    return rise <= (last[1] - first[1]) * (middle[0] - first[0])


def _thinned(corners: list[Corner]) -> list[Corner]:
    points = np.array(corners)
    steps = np.diff(points, axis=0)
    slopes = steps[:, 1] / np.maximum(steps[:, 0], np.finfo(float).tiny)
    chosen_slopes = np.geomspace(max(slopes.min(), 1e-30), min(slopes.max(), 1e30), MOST_CORNERS - 1)
    chosen = np.unique((points[:, 1] - chosen_slopes[:, None] * points[:, 0]).argmax(axis=1))
    kept = {*chosen.tolist(), len(corners) - 1}
    return [corners[position] for position in sorted(kept)]
