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
from trueline.numerics.alike import MANY, Alike, alike, equal_tensors
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
    normwise: float = 0.0,
    terms: int = 1,
    nudged: Nudged | None = None,
    predecessors: bool = False,
    numbers: Mapping[str, float] | None = None,
) -> Evidence:
    """Evidence of one tensor.

    ``candidate`` and ``honest`` are storage bits of ``dtype`` (``DType.storage``), ``gold`` and each of ``perturbed``
    (golds of inputs moved by ``sensitivity.perturb``) are as ``Gold`` says; where ``gold`` is the very array that
    ``honest`` is, nothing was rounded. Where ``perturbed`` is a function, it is asked only where the result is not
    right beyond doubt without them (``numerics.clear``). ``expected_dtype`` is what
    the honest implementation returned, if not ``dtype``. ``structure`` says what else is not as it must be (device,
    layout). ``excused`` marks elements that may be anything (ties, never written). ``scale`` is the largest magnitude
    among the inputs and the gradients that arrived, where the caller knows it: results that vanish beside it are noise
    of the gold itself. ``roundings`` is how many an honest kernel makes one after another (see ``Yardstick``),
    ``normwise`` the share of the root mean square below which elements are known no better than at that size,
    ``terms`` how many numbers an element is the sum of. ``nudged`` gives results of the honest implementation for
    inputs that are neighbours of those at hand; it is asked where its error is more than rounding explains, and without
    it the honest implementation is always trusted. ``predecessors`` asks for the numbers of other tools. ``numbers``
    are kept besides what is measured here.
    """
    kind, known = _dtype(dtype), honest is not None and gold is honest
    # An array without dimensions easily becomes a number on its way here.
    candidate, honest = np.asarray(candidate), None if honest is None else np.asarray(honest)
    gold = honest if known and honest is not None else _arrays(gold)
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
    sides = _Sides(
        candidate, honest, gold, kind, excused, roundings, terms, nudged, scale=scale, normwise=normwise, fed=scale
    )
    sides.compare()
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
        gold=sides.of_candidate,
        honest=sides.of_honest,
        direct=_direct(sides, kept),
        numbers=kept,
    )


def _direct(sides: _Sides, numbers: Mapping[str, float]) -> Measurement | None:
    """The candidate against the honest implementation; without looking where all is known: both are the same."""
    if sides.honest is None:
        return None
    if sides.alike is not None:
        return equal_tensors(sides.alike.count, sides.alike.measured.candidate_norm, float(abs(sides.alike.number[0])))
    found, largest = sides.of_candidate, numbers.get("candidate_peak", 0.0)
    assert found is not None, "compared before"
    norm = found.candidate_norm
    finite = 0.0 < largest < math.inf and norm > 0.0 and not found.nan_mismatch + found.infinity_mismatch
    if sides.flat is None or not sides.flat.same or sides.flat.complex or not finite:
        return compare(sides.honest, sides.dtype, sides.candidate, sides.dtype)
    return equal_tensors(found.count, norm, largest)


@dataclass(slots=True)
class _Sides:
    """One tensor of the candidate, of the honest implementation and of the gold, with what is known of them."""

    candidate: Array
    honest: Array | None
    gold: Gold
    dtype: DType
    excused: Flags | None
    roundings: float
    terms: int
    nudged: Nudged | None
    scale: float
    normwise: float = 0.0
    fed: float = 0.0
    of_candidate: Measurement | None = None
    of_honest: Measurement | None = None
    flat: Flat | None = None
    alike: Alike | None = None

    def compare(self) -> None:
        """Candidate and honest implementation against the gold."""
        self.flat = flat(self.candidate, self.honest, self.gold, self.dtype)
        known, large = self._is_known, self.flat is not None and self.flat.count >= MANY and self.excused is None
        if large and known:
            self._settle(None)
        if self.alike is not None:
            return
        self.widen_gold()
        high = self.high
        wide = _wide_dtype(high, self.dtype)
        found = compare(high, wide, self.candidate, self.dtype)
        largest = found.reference_max
        self.scale = max(self.scale, largest) if largest == largest else self.scale
        self.of_candidate = self.of_honest = found
        if self.honest is None:
            self.of_honest = None
        elif self.flat is None or not self.flat.same:
            self.of_honest = compare(high, wide, self.honest, self.dtype)
        elif large and not known:
            self._settle(found)

    def widen_gold(self) -> None:
        """Where the gold is what the honest implementation gave, whoever asks for numbers cannot do with its bits."""
        if self._is_known and not self.dtype.is_exact:
            self.gold = widen(np.asarray(self.gold), self.dtype)

    def _settle(self, found: Measurement | None) -> None:
        """Finds out whether one element speaks for all."""
        assert self.flat is not None, "asked of large tensors"
        self.alike = alike(self.flat, self.scale, found)
        if self.alike is not None:
            self.of_candidate = self.of_honest = self.alike.measured
            self.scale = max(self.scale, self.alike.measured.reference_max)

    @property
    def _is_known(self) -> bool:
        return self.honest is not None and self.gold is self.honest

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
    if sides.alike is not None and (found := sides.alike.first_look(sides.scale, sides.roundings)) is not None:
        return found
    if sides.flat is not None and sides.excused is None:
        found = first_look(sides.flat, sides.scale, sides.roundings)
        if found is not None:
            return found
    sides.widen_gold()
    return _some_numbers(sides, sides.honest, ())


def _of_others(sides: _Sides) -> dict[str, float]:
    """What other tools ask for."""
    if sides.alike is not None:
        return sides.alike.of_others(lambda ours, theirs, gold: _tools(ours, theirs, gold, sides.dtype, None))
    return _tools(sides.candidate, sides.honest, sides.high, sides.dtype, sides.flat)


def _tools(candidate: Array, honest: Array | None, gold: Array, dtype: DType, sides: Flat | None) -> dict[str, float]:
    if sides is not None and (found := numbers_of_sides(sides)) is not None:
        return found
    ours, theirs = _values(candidate, dtype), None if honest is None else _values(honest, dtype)
    return predecessor_numbers(ours, theirs, gold, dtype)


def _values(bits: Array, dtype: DType) -> Array:
    """The numbers behind bits: integers and bools as they are."""
    if dtype.kind == "b":
        return bits
    return bits.astype(np.int64) if dtype.is_exact else widen(bits, dtype)


def _all_numbers(sides: _Sides, perturbed: Sequence[Gold]) -> dict[str, float]:
    """With golds of moved inputs, once it is known whether the honest implementation can be trusted."""
    sides.widen_gold()
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
        sides.candidate, honest, sides.gold, perturbed, sides.dtype, sides.excused, sides.scale, sides.roundings,
        sides.normwise, sides.fed,
    )  # fmt: skip
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
