"""The numbers of a floating-point tensor against its gold: peak, spread, bias, NaN and infinity, jumps.

``evidence`` says what each number means; ``yardstick`` says what the errors are measured with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.numerics.cpu import widen
from trueline.numerics.fallback import CHUNK, component_of
from trueline.numerics.jumps import Jumps, settle_jumps
from trueline.numerics.sensitivity import PERTURBATIONS
from trueline.numerics.yardstick import Doubles, Elements, Flags, Looked, Pools, Yardstick, sample_grid, units

Array = NDArray[Any]
Gold = Array | tuple[Array, Array]
"""float64 (complex128) numbers, or a pair high + low of them where float64 itself is judged. For exact dtypes their
storage."""

_HARDLY_A_DIGIT = 256.0
"""Roundings of the gold beside which a gold of this size has hardly a digit left."""
_KEPT = 1 << 21
"""Components up to which everything about the elements is kept in memory between the two passes."""
_ACCUMULATION = 2.0**-24
"""Half the epsilon of float32, the narrowest type in which sums are made."""
_NOTHING_FOUND = {
    **dict.fromkeys(("peak", "peak_ulp", "peak_explained", "peak_gold", "peak_candidate", "compared"), 0.0),
    **dict.fromkeys(("spread", "honest_spread"), 0.0),
    **dict.fromkeys(("bias", "bias_consistency", "bias_values", "honest_bias"), 0.0),
    **dict.fromkeys(("nan_wrong", "infinity_wrong", "jumps", "flips", "honest_flips", "excused"), 0.0),
    **dict.fromkeys(("peak_at", "not_finite_at", "flip_at"), -1.0),
}


class FloatNumbers:
    """The numbers of a floating-point tensor, made in chunks that stay in the cache."""

    def __init__(
        self,
        candidate: Array,
        honest: Array | None,
        gold: Gold,
        perturbed: Sequence[Gold],
        dtype: DType,
        excused: Flags | None,
        scale: float,
        roundings: float = 1.0,
        normwise: float = 0.0,
    ) -> None:
        self._dtype = component_of(dtype)
        self._complex = dtype.is_complex
        self._candidate = self._storage(candidate)
        self._honest = None if honest is None else self._storage(honest)
        self._gold = self._pair(gold)
        self._perturbed = [self._pair(one) for one in perturbed]
        self._excused = None if excused is None else np.repeat(excused.reshape(-1), 2 if self._complex else 1)
        self._shape = (*candidate.shape, 2) if self._complex else candidate.shape
        self._size = self._candidate.size
        gold_epsilon = 2.0**-52 if self._gold[1] is None else 2.0**-63
        self._noise = scale * gold_epsilon * _HARDLY_A_DIGIT
        self._coarser = self._dtype.epsilon / gold_epsilon
        self._overflow = self._dtype.largest + math.ldexp(self._dtype.epsilon / 2, self._dtype.exponent_max)
        # Where the exact result vanishes, the rounding of what was summed is left, in float32 at best.
        top = _largest_finite(self._gold[0])
        summed = top if top < self._overflow else scale
        self._left_over = summed * _ACCUMULATION if self._dtype.digits <= 24 else 0.0
        self._floor = normwise * _root_mean_square(self._gold[0], self._overflow) * self._dtype.epsilon
        golds = [high for high, _ in (self._gold, *self._perturbed)]
        self._overflows = not all(_largest(high) < self._overflow for high in golds)
        self._found = dict(_NOTHING_FOUND)
        self._roundings = roundings

    def _storage(self, array: Array) -> Array:
        flat = np.ascontiguousarray(array).reshape(-1)
        return flat.view(self._dtype.storage) if self._complex else flat

    def _pair(self, gold: Gold) -> tuple[Doubles, Doubles | None]:
        high, low = gold if isinstance(gold, tuple) else (gold, None)
        return self._wide(high), None if low is None else self._wide(low)

    def _wide(self, array: Array) -> Doubles:
        if self._complex:
            return np.ascontiguousarray(array, np.complex128).reshape(-1).view(np.float64)
        return np.ascontiguousarray(array, np.float64).reshape(-1)

    def numbers(self) -> dict[str, float]:
        pools = Pools.empty()
        chunks = [slice(start, start + CHUNK) for start in range(0, self._size, CHUNK)]
        keeping = self._size <= _KEPT
        kept: list[Elements] = []
        for chunk in chunks:
            elements = self._elements(chunk, count=True)
            pools.add(elements)
            if keeping:
                kept.append(elements)
        found = self._found
        yardstick = Yardstick(pools, self._roundings)
        squares = honest_squares = compared = 0.0
        for number, chunk in enumerate(chunks):
            elements = kept[number] if keeping else self._elements(chunk)
            looked = yardstick.look(elements)
            self._look_for_peak(looked, elements, chunk.start)
            squares, honest_squares = squares + looked.squares, honest_squares + looked.honest_squares
            compared += looked.compared
        count = max(compared, 1.0)
        found["compared"] = compared
        found["spread"], found["honest_spread"] = math.sqrt(squares / count), math.sqrt(honest_squares / count)
        if self._excused is not None:
            found["excused"] = float(np.count_nonzero(self._excused))
        if compared:
            self._look_for_bias(yardstick, kept[0] if len(kept) == 1 else None)
        return found

    def _elements(self, chosen: Any, *, count: bool = False) -> Elements:
        """The elements of a part of the tensor; with ``count`` what is not finite, and what jumps, is counted."""
        high, low = self._gold
        gold = high[chosen]
        candidate = widen(self._candidate[chosen], self._dtype)
        honest = gold if self._honest is None else widen(self._honest[chosen], self._dtype)
        lost = 0.0 if low is None else low[chosen]
        beyond = self._beyond(gold, candidate, honest)
        if beyond is not None:
            gold = np.where(beyond, honest, gold)
        error = (candidate - gold) - lost
        honest_error = (honest - gold) - lost if self._honest is not None else np.zeros_like(gold)
        magnitude = np.abs(gold)
        if self._complex:  # kernels of complex numbers are accurate in their modulus
            pairs = magnitude.reshape(-1, 2)
            magnitude = np.repeat(np.maximum(pairs[:, 0], pairs[:, 1]), 2)
        unit = units(magnitude, self._dtype)
        if self._left_over:
            np.maximum(unit, self._left_over, out=unit, where=magnitude <= self._noise)
        if self._floor:
            np.maximum(unit, self._floor, out=unit)
        moves = self._moves(chosen, gold, lost, beyond)
        response = _response(moves, unit)
        noise = self._excuse_noise(magnitude, response)
        finite = math.isfinite(float(error.sum()) + float(honest_error.sum()) + float(response.sum()))
        compared = np.ones(gold.shape, bool) if finite else np.isfinite(error)
        if self._excused is not None:
            compared &= ~self._excused[chosen]
        elements = Elements(gold, error, honest_error, response, unit, compared, response > 0.0)
        if not finite:
            self._settle_not_finite(elements, candidate, honest, chosen, count=count)
        if self._excused is not None:
            for column in (elements.error, elements.honest_error, elements.response):
                column[~elements.compared] = 0.0
        if len(moves) == PERTURBATIONS:
            jumps = settle_jumps(elements, moves, self._dtype, noise)
            if count and jumps is not None:
                self._count_jumps(jumps, chosen.start)
        return elements

    def _beyond(self, gold: Doubles, candidate: Doubles, honest: Doubles) -> Flags | None:
        """Where the gold is beyond the range of the dtype, but not the honest result, the dtype's own range is part of
        what is computed (its largest number stands for infinity, say): there the honest result is the gold."""
        if self._honest is None or not self._overflows:
            return None
        return np.asarray(~(np.abs(gold) < self._overflow) & np.isfinite(honest) & np.isfinite(candidate))

    def _moves(self, chosen: Any, gold: Doubles, lost: Any, beyond: Flags | None) -> list[Doubles]:
        """How far each of the perturbed golds is from the gold."""
        moves = []
        for high, low in self._perturbed:
            other = high[chosen]
            moved = (other - gold) + ((0.0 if low is None else low[chosen]) - lost)
            if self._overflows:  # beyond the range of the dtype there is one place only
                outside = ~(np.abs(other) < self._overflow) & np.isfinite(other)
                moved[outside] = (np.copysign(self._overflow, other) - gold)[outside]
            if beyond is not None:
                moved[beyond & ~(np.abs(other) < self._overflow)] = 0.0
            moves.append(moved)
        return moves

    def _excuse_noise(self, magnitude: Doubles, response: Doubles) -> Flags | None:
        """Where the gold is but the rounding error of its own computation, the same in this dtype is as good. Says
        where that is."""
        vanishing = magnitude <= self._noise
        if not vanishing.any():
            return None
        noise = vanishing & (response > magnitude / 8) & (response <= self._noise)
        response[noise] = np.maximum(response[noise], magnitude[noise]) * self._coarser
        return np.asarray(noise)

    def _settle_not_finite(
        self, elements: Elements, candidate: Doubles, honest: Doubles, chosen: Any, *, count: bool
    ) -> None:
        """Decides about elements with NaN or infinity on some side, and takes them out of the comparison of values.

        What the gold says after rounding to the dtype must be there, unless moving the inputs changes it, the honest
        implementation disagrees with the gold as well, or the gold is so near the largest number that rounding may
        decide; in the last case infinity is measured as the first number beyond the range.
        """
        gold = elements.gold
        rounded = np.where(np.abs(gold) >= self._overflow, np.copysign(np.inf, gold), gold)
        known = _alike(candidate, honest) if self._honest is not None else np.zeros(gold.shape, bool)
        near = np.isinf(candidate) & np.isfinite(gold) & (np.abs(gold) > self._overflow / 2) & (candidate * gold > 0)
        near &= ~known
        beyond = np.copysign(np.ldexp(1.0, self._dtype.exponent_max + 1), gold)  # infinity itself for float64
        inside = near & np.isfinite(rounded)
        elements.error[inside] = (beyond - gold)[inside]
        elements.error[near & ~inside] = 0.0
        alike = _alike(candidate, rounded) | near | (np.isfinite(candidate) & np.isfinite(gold))
        moved = ~np.isfinite(elements.response) & np.isfinite(gold)
        wrong = ~(alike | known | moved)
        if self._excused is not None:
            wrong &= ~self._excused[chosen]
            elements.compared &= ~self._excused[chosen]
        if count and wrong.any():
            one_nan = np.isnan(candidate) | np.isnan(gold)
            self._found["nan_wrong"] += float(np.count_nonzero(wrong & one_nan))
            self._found["infinity_wrong"] += float(np.count_nonzero(wrong & ~one_nan))
            if self._found["not_finite_at"] < 0:
                self._found["not_finite_at"] = float(chosen.start + wrong.argmax())
        elements.compared |= near
        elements.compared &= np.isfinite(elements.error) & ~moved
        elements.honest_error[~np.isfinite(elements.honest_error)] = 0.0
        elements.response[~np.isfinite(elements.response)] = 0.0
        elements.error[~elements.compared] = 0.0
        elements.gold = np.where(np.isfinite(gold), gold, 0.0)
        elements.unit = np.where(np.isfinite(gold), elements.unit, 1.0)

    def _look_for_peak(self, looked: Looked, elements: Elements, start: int) -> None:
        ratios, explained = looked.peak, looked.explained
        at = int(ratios.argmax()) if ratios.size else 0
        if ratios.size and ratios[at] > self._found["peak"]:
            gold, error = float(elements.gold[at]), float(elements.error[at])
            self._found.update(
                peak=float(ratios[at]),
                peak_at=float((start + at) // 2 if self._complex else start + at),
                peak_ulp=error / float(elements.unit[at]),
                peak_explained=float(explained[at]),
                peak_gold=gold,
                peak_candidate=float(widen(self._candidate[start + at : start + at + 1], self._dtype)[0]),
            )

    def _count_jumps(self, jumps: Jumps, start: int) -> None:
        self._found["jumps"] += float(jumps.count)
        self._found["flips"] += float(jumps.flips.size)
        self._found["honest_flips"] += float(jumps.honest_flips)
        if jumps.flips.size and self._found["flip_at"] < 0:
            at = start + int(jumps.flips[0])
            self._found["flip_at"] = float(at // 2 if self._complex else at)

    def _look_for_bias(self, yardstick: Yardstick, kept: Elements | None) -> None:
        grid = sample_grid(self._shape)
        if kept is not None and all(one.step == 1 for one in grid):
            elements, shape = kept, self._shape
        else:
            positions = _positions(self._shape, grid)
            shape, chosen = positions.shape, positions.reshape(-1)
            elements = kept.at(chosen) if kept is not None else self._elements(chosen)
        bias = yardstick.bias(elements, shape)
        self._found.update(
            bias=bias.size,
            bias_consistency=bias.consistency,
            bias_values=float(bias.values),
            honest_bias=bias.honest_size,
        )


def _positions(shape: tuple[int, ...], grid: tuple[slice, ...]) -> NDArray[np.int64]:
    """The flat indices of the elements that the slices choose."""
    positions = np.zeros((1,) * len(shape), np.int64)
    stride = 1
    for axis in reversed(range(len(shape))):
        along = np.arange(0, shape[axis], grid[axis].step, dtype=np.int64) * stride
        positions = positions + along.reshape([-1 if other == axis else 1 for other in range(len(shape))])
        stride *= shape[axis]
    return positions


def _largest(values: Doubles) -> float:
    """The largest magnitude; NaN where there is one."""
    return float(np.maximum(values.max(initial=0.0), -values.min(initial=0.0)))


def _root_mean_square(values: Doubles, overflow: float) -> float:
    """Of those that the dtype holds, without overflow on the way."""
    held = values[np.abs(values) < overflow]
    top = _largest(held) if held.size else 0.0
    return top * math.sqrt(float(np.mean(np.square(held / top)))) if top else 0.0


def _largest_finite(values: Doubles) -> float:
    largest = _largest(values)
    if math.isfinite(largest):
        return largest
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _response(moves: list[Doubles], unit: Doubles) -> Doubles:
    """How far the gold moves with its inputs: the root mean square of the moves by a whole rounding."""
    if not moves:
        return np.zeros_like(unit)
    whole = moves[:2] if len(moves) == PERTURBATIONS else moves
    total = np.zeros_like(unit)
    for one in whole:
        moved = one / unit
        moved *= moved
        total += moved
    total /= len(whole)
    return np.asarray(np.sqrt(total, out=total) * unit)


def _alike(first: Doubles, second: Doubles) -> Flags:
    """Both NaN, or the same infinity; False where either is finite."""
    return np.asarray((np.isnan(first) & np.isnan(second)) | (np.isinf(first) & (first == second)))
