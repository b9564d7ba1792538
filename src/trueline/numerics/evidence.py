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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trueline.cases import Evidence
from trueline.dtypes import DTYPES, DType, dtype_named
from trueline.numerics.cpu import compare
from trueline.numerics.floats import Array, FloatNumbers, Gold
from trueline.numerics.narrow import narrow
from trueline.numerics.trust import Nudged, excess_of
from trueline.numerics.yardstick import Flags


def measure(
    part: str,
    path: str,
    candidate: Array,
    honest: Array | None,
    gold: Gold,
    perturbed: Sequence[Gold] = (),
    *,
    dtype: str | DType,
    expected_dtype: str | DType | None = None,
    structure: str = "",
    excused: Flags | None = None,
    scale: float = 0.0,
    roundings: float = 1.0,
    terms: int = 1,
    nudged: Nudged | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Evidence:
    """Evidence of one tensor.

    ``candidate`` and ``honest`` are storage bits of ``dtype`` (``DType.storage``), ``gold`` and each of ``perturbed``
    (golds of inputs moved by ``sensitivity.perturb``) are as ``Gold`` says. ``expected_dtype`` is what the honest
    implementation returned, if not ``dtype``. ``structure`` says what else is not as it must be (device, layout).
    ``excused`` marks elements that may be anything (ties, never written). ``scale`` is the largest magnitude among the
    inputs and the gradients that arrived, where the caller knows it: results that vanish beside it are noise of the
    gold itself. ``roundings`` is how many an honest kernel makes one after another (see ``Yardstick``), ``terms``
    how many numbers an element is the sum of. ``nudged`` gives results of the honest implementation for inputs that
    are neighbours of those at hand; it is asked where its error is more than rounding explains, and without it the
    honest implementation is always trusted. ``numbers`` are kept besides what is measured here.
    """
    kind = _dtype(dtype)
    # An array without dimensions easily becomes a number on its way here.
    candidate, honest, gold = np.asarray(candidate), None if honest is None else np.asarray(honest), _arrays(gold)
    perturbed = [_arrays(one) for one in perturbed]
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
    same = [one for one in perturbed if (one[0] if isinstance(one, tuple) else one).shape == high.shape]
    wide = _wide_dtype(high, kind)
    against_gold = compare(high, wide, candidate, kind)
    of_honest = compare(high, wide, honest, kind) if honest is not None else None
    with np.errstate(all="ignore"):
        if kind.is_exact:
            kept.update(_exact_numbers(candidate, honest, gold, same, excused))
        else:
            scale = float(np.nanmax([scale, against_gold.reference_max]))
            trusted = honest
            if honest is not None and of_honest is not None and nudged is not None and excused is None:
                excess = excess_of(honest, of_honest, high, same, kind, scale=scale, terms=terms, nudged=nudged)
                if excess:
                    kept["honest_excess"], trusted = excess, narrow(high, kind)
            kept.update(FloatNumbers(candidate, trusted, gold, same, kind, excused, scale, roundings).numbers())
    return Evidence(
        part,
        path,
        kind.name,
        candidate.shape,
        exact=kind.is_exact,
        gold=against_gold,
        honest=of_honest,
        direct=compare(honest, kind, candidate, kind) if honest is not None else None,
        numbers=kept,
    )


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
