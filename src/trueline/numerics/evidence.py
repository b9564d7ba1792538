"""One output or gradient of a case, measured: the candidate and an honest implementation against the gold.

``Evidence.numbers`` holds, besides what the caller adds:

For floating-point tensors, of which complex ones count as their parts:

    peak                 the largest error of an element over what ``yardstick`` explains there
    peak_at              its index in the flattened tensor
    peak_ulp             its error in units in the last place of the gold, signed
    peak_explained       what is explained there, in the same units
    peak_gold            its gold
    peak_candidate       what the candidate gave
    spread               root mean square of error over expected error, over all elements
    honest_spread        the same of the honest implementation
    bias                 mean error away from zero, over expected error, beyond that of rounding the gold
    bias_consistency     how many standard errors that is, at the least
    bias_values          how many different golds it rests on
    honest_bias          the bias of the honest implementation
    honest_excess        only where the honest implementation is not trusted, and the gold, rounded, takes its place:
                         how many times what rounding explains it is off, in the same way for neighbouring inputs
    compared             elements whose values were compared
    nan_wrong            NaN on one side only, where neither rounding nor the honest implementation is an excuse
    infinity_wrong       the same for infinities, signs included
    not_finite_at        where the first of these is

For exact types:

    wrong                elements that differ from the gold where nothing is an excuse
    wrong_at             the first of them
    honest_wrong         elements where the honest implementation differs from the gold
    compared             elements that were compared

For both:

    jumps                elements that jump when the inputs move by one rounding: they may be on either side
    flips                jumps where the candidate is not on the side of the gold
    flip_at              the first of them
    honest_flips         the same of the honest implementation
    excused              elements that the caller excused
    unmoved              1.0 where the result was so near its gold that golds of moved inputs were not asked for; then
                         nothing is known of jumps
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trueline.cases import Evidence
from trueline.dtypes import DTYPES, DType, dtype_named
from trueline.numerics.clear import is_clear, is_within_rounding
from trueline.numerics.cpu import compare, widen
from trueline.numerics.floats import Array, FloatNumbers, Gold
from trueline.numerics.looks import Flat, first_look, flat
from trueline.numerics.narrow import narrow
from trueline.numerics.predecessor_sums import numbers_of_sides
from trueline.numerics.predecessors import predecessor_numbers
from trueline.numerics.trust import Nudged, excess_of
from trueline.numerics.yardstick import Flags
from trueline.records import Measurement


def measure(
    part: str,
    path: str,
    candidate: Array,
    honest: Array | None,
    gold: Gold,
    perturbed: Sequence[Gold] | Callable[[], Sequence[Gold]] = (),
    *,
    dtype: str | DType,
    expected_dtype: str | DType | None = None,
    structure: str = "",
    excused: Flags | None = None,
    scale: float = 0.0,
    roundings: float = 1.0,
    terms: int = 1,
    nudged: Nudged | None = None,
    predecessors: bool = False,
    numbers: Mapping[str, float] | None = None,
) -> Evidence:
    """Evidence of one tensor.

    ``candidate`` and ``honest`` are storage bits of ``dtype`` (``DType.storage``), ``gold`` and each of ``perturbed``
    (golds of inputs moved by ``sensitivity.perturb``) are as ``Gold`` says. Where ``perturbed`` is a function, it is
    asked only where the result is not right beyond doubt without them (``numerics.clear``). ``expected_dtype`` is what
    the honest implementation returned, if not ``dtype``. ``structure`` says what else is not as it must be (device,
    layout). ``excused`` marks elements that may be anything (ties, never written). ``scale`` is the largest magnitude
    among the inputs and the gradients that arrived, where the caller knows it: results that vanish beside it are noise
    of the gold itself. ``roundings`` is how many an honest kernel makes one after another (see ``Yardstick``),
    ``terms`` how many numbers an element is the sum of. ``nudged`` gives results of the honest implementation for
    inputs that are neighbours of those at hand; it is asked where its error is more than rounding explains, and without
    it the honest implementation is always trusted. ``predecessors`` asks for the numbers of other tools. ``numbers``
    are kept besides what is measured here.
    """
    kind = _dtype(dtype)
    # An array without dimensions easily becomes a number on its way here.
    candidate, honest, gold = np.asarray(candidate), None if honest is None else np.asarray(honest), _arrays(gold)
    high = gold[0] if isinstance(gold, tuple) else gold
    problems = [structure] if structure else []
    if expected_dtype is not None and _dtype(expected_dtype).name != kind.name:
        problems.append(f"dtype {kind.name} instead of {_dtype(expected_dtype).name}")
    if candidate.shape != high.shape:
        problems.append(f"shape {_shape(candidate.shape)} instead of {_shape(high.shape)}")
    kept = dict(numbers or {})
    if problems:
        text = "; ".join(problems)
        return Evidence(part, path, kind.name, candidate.shape, text, exact=kind.is_exact, numbers=kept)
    if excused is not None and excused.all() and excused.size:
        text = "every element may be anything"
        return Evidence(part, path, kind.name, candidate.shape, note=text, exact=kind.is_exact, numbers=kept)
    if honest is not None and honest.shape != candidate.shape:
        honest = None
    wide = _wide_dtype(high, kind)
    against_gold = compare(high, wide, candidate, kind)
    flattened = flat(candidate, honest, gold, kind)
    of_honest = None if honest is None else against_gold
    if honest is not None and (flattened is None or not flattened.same):
        of_honest = compare(high, wide, honest, kind)
    sides = _Sides(candidate, honest, gold, kind, excused, of_honest, roundings, terms, nudged, flattened)
    largest = against_gold.reference_max
    sides.scale = max(scale, largest) if largest == largest else scale
    if predecessors:
        kept.update(_of_others(sides))
    with np.errstate(all="ignore"):
        kept.update(_numbers(sides, perturbed))
    return Evidence(
        part,
        path,
        kind.name,
        candidate.shape,
        exact=kind.is_exact,
        gold=against_gold,
        honest=of_honest,
        direct=_direct(sides, against_gold, kept),
        numbers=kept,
    )


def _direct(sides: _Sides, against_gold: Measurement, numbers: Mapping[str, float]) -> Measurement | None:
    """The candidate against the honest implementation; without looking where all is known: both are the same."""
    if sides.honest is None:
        return None
    norm, largest = against_gold.candidate_norm, numbers.get("candidate_peak", 0.0)
    finite = 0.0 < largest < math.inf and norm > 0.0 and not against_gold.nan_mismatch + against_gold.infinity_mismatch
    if sides.flat is None or not sides.flat.same or sides.flat.complex or not finite:
        return compare(sides.honest, sides.dtype, sides.candidate, sides.dtype)
    count = against_gold.count
    return Measurement(
        count, count, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0), 0, 0, -1, math.nan,
        math.nan, norm, norm, largest,
    )  # fmt: skip


@dataclass(slots=True)
class _Sides:
    """One tensor of the candidate, of the honest implementation and of the gold, with what is known of them."""

    candidate: Array
    honest: Array | None
    gold: Gold
    dtype: DType
    excused: Flags | None
    of_honest: Measurement | None
    roundings: float
    terms: int
    nudged: Nudged | None
    flat: Flat | None
    scale: float = 0.0

    @property
    def high(self) -> Array:
        return self.gold[0] if isinstance(self.gold, tuple) else self.gold

    @property
    def in_doubt(self) -> Measurement | None:
        """The honest implementation against the gold, where it may be found not to be trusted."""
        return None if self.nudged is None or self.excused is not None else self.of_honest


def _numbers(sides: _Sides, perturbed: Sequence[Gold] | Callable[[], Sequence[Gold]]) -> dict[str, float]:
    if not callable(perturbed):
        return _all_numbers(sides, perturbed)
    found = sides.in_doubt
    if sides.dtype.is_exact or found is None or is_within_rounding(found, sides.dtype, sides.scale, sides.terms):
        numbers = _first_numbers(sides)
        if is_clear(numbers, sides.dtype):
            return {**numbers, "unmoved": 1.0}
    return _all_numbers(sides, perturbed())


def _first_numbers(sides: _Sides) -> dict[str, float]:
    """Without golds of moved inputs."""
    if sides.flat is not None and sides.excused is None:
        found = first_look(sides.flat, sides.scale, sides.roundings)
        if found is not None:
            return found
    return _some_numbers(sides, sides.honest, ())


def _of_others(sides: _Sides) -> dict[str, float]:
    """What other tools ask for."""
    if sides.flat is not None and (found := numbers_of_sides(sides.flat)) is not None:
        return found
    candidate, honest = (None if one is None else _values(one, sides.dtype) for one in (sides.candidate, sides.honest))
    assert candidate is not None
    return predecessor_numbers(candidate, honest, sides.high, sides.dtype)


def _values(bits: Array, dtype: DType) -> Array:
    """The numbers behind bits: integers and bools as they are."""
    if dtype.kind == "b":
        return bits
    return bits.astype(np.int64) if dtype.is_exact else widen(bits, dtype)


def _all_numbers(sides: _Sides, perturbed: Sequence[Gold]) -> dict[str, float]:
    """With golds of moved inputs, once it is known whether the honest implementation can be trusted."""
    golds = [_arrays(one) for one in perturbed]
    same = [one for one in golds if (one[0] if isinstance(one, tuple) else one).shape == sides.high.shape]
    kind, honest, found = sides.dtype, sides.honest, sides.in_doubt
    if not kind.is_exact and honest is not None and found is not None and sides.nudged is not None:
        excess = excess_of(
            honest, found, sides.high, same, kind, scale=sides.scale, terms=sides.terms, nudged=sides.nudged
        )
        if excess:
            return {"honest_excess": excess, **_some_numbers(sides, narrow(sides.high, kind), same)}
    return _some_numbers(sides, honest, same)


def _some_numbers(sides: _Sides, honest: Array | None, perturbed: Sequence[Gold]) -> dict[str, float]:
    if sides.dtype.is_exact:
        return _exact_numbers(sides.candidate, honest, sides.gold, perturbed, sides.excused)
    measured = FloatNumbers(
        sides.candidate, honest, sides.gold, perturbed, sides.dtype, sides.excused, sides.scale, sides.roundings
    )
    return measured.numbers()


def _arrays(gold: Gold) -> Gold:
    return (np.asarray(gold[0]), np.asarray(gold[1])) if isinstance(gold, tuple) else np.asarray(gold)


def _dtype(dtype: str | DType) -> DType:
    return dtype if isinstance(dtype, DType) else dtype_named(dtype)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _wide_dtype(high: Array, dtype: DType) -> DType:
    if dtype.is_exact and high.dtype == np.dtype(dtype.storage):
        return dtype
    return DTYPES["complex128" if dtype.is_complex else "float64"]


def _exact_numbers(
    candidate: Array, honest: Array | None, gold: Gold, perturbed: Sequence[Gold], excused: Flags | None
) -> dict[str, float]:
    high = gold[0] if isinstance(gold, tuple) else gold
    jumps = np.zeros(high.shape, bool)
    for one in perturbed:
        jumps |= (one[0] if isinstance(one, tuple) else one) != high
    differs = candidate != high
    honest_differs = np.zeros(high.shape, bool) if honest is None else honest != high
    # Where honest arithmetic of this dtype comes to the same other answer, the answer is not wrong.
    wrong = differs & ~jumps if honest is None else differs & ~jumps & (candidate != honest)
    flips = differs & jumps
    if excused is not None:
        wrong, flips = wrong & ~excused, flips & ~excused
    return {
        "compared": float(high.size - (0 if excused is None else np.count_nonzero(excused))),
        "wrong": float(np.count_nonzero(wrong)),
        "wrong_at": _first(wrong),
        "honest_wrong": float(np.count_nonzero(honest_differs & ~jumps)),
        "jumps": float(np.count_nonzero(jumps)),
        "flips": float(np.count_nonzero(flips)),
        "flip_at": _first(flips),
        "honest_flips": float(np.count_nonzero(honest_differs & jumps)),
        "excused": 0.0 if excused is None else float(np.count_nonzero(excused)),
    }


def _first(flags: Flags) -> float:
    return float(flags.argmax()) if flags.any() else -1.0
