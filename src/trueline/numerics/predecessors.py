"""The numbers that the standards of other tools ask for, and that a ``Measurement`` does not hold.

Every tool has its own way to divide by what may be zero, to tell small values from normal ones and to count, and these
ways are part of its verdicts, so they are followed here to the letter. The numbers are taken for every tensor, so that
a stored result can be judged by any standard later. NaN and Inf go through the formulas as they do in the tools: what
becomes NaN there is NaN here.

Three tensors are laid side by side: the **candidate**, an **honest** implementation in the same dtype, and the
**bench**: the gold, rounded to the type in which these tools compute their benchmark (float32 for types of 16 bits or
fewer, else float64). ``r`` is ``error / (|reference| + eps)``, where eps is the machine epsilon of the bench (of the
honest tensor in ``direct_``), 2**-8 for bfloat16.

    bench_max_abs                 largest |candidate - bench|
    bench_peak, candidate_peak, honest_peak          largest magnitudes
    bench_zeros, candidate_zeros, honest_zeros       numbers of zeros
    bench_unequal                 share of elements with candidate != bench
    bench_within_hundredth, bench_within_thousandth, bench_within_ten_thousandth
                                  shares of elements with r < 1e-2, 1e-3, 1e-4
    direct_...                    the same of the candidate against the honest tensor: max_abs, unequal, within_...
    direct_bits_differ            number of elements that differ in value or in the sign of a zero
    direct_both_nan               number of elements that are NaN on both sides
    direct_size_N, direct_error_N corners for any rtol and atol (see ``envelope``), over what is finite on both sides
    apex_small_share              PaddleAPEX, candidate against bench: share of the small values that are off by more
    apex_rmse, apex_max_rel, apex_mean_rel           than their limit; errors of the other finite values;
    apex_balance                  |elements above - elements below| / elements
    apex_honest_...               the same five of the honest tensor against the bench
    msprobe_..., msprobe_honest_...                  the same ten by msprobe's limits of small values
    msprobe_ulp_max, msprobe_ulp_mean, msprobe_ulp_share    msprobe's ULP error, and the share above its limit
    msprobe_honest_ulp_max, ...                      the same of the honest tensor
    msprobe_absolute_not_finite, msprobe_absolute_relative, msprobe_absolute_small
                                  shares of the not finite, normal and small values outside msprobe's thresholds

Names of a tool are there for the dtypes that the tool knows. Exact types have zeros, unequal,
bits_differ and, where something differs, corners; complex ones the ``direct_`` numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType, dtype_named
from trueline.numerics.envelope import Corner, corners_of, to_numbers

Array = NDArray[Any]
BLOCK = 1 << 15
"""Elements at a time, few enough to stay in the cache."""

_BFLOAT16_EPSILON = 2.0**-8
SHARES = (("within_hundredth", 1e-2), ("within_thousandth", 1e-3), ("within_ten_thousandth", 1e-4))
METRICS = ("small_share", "rmse", "max_rel", "mean_rel", "balance")


@dataclass(frozen=True, slots=True)
class SmallValues:
    """Magnitudes up to ``size`` are small, and wrong where they are off by more than ``error``."""

    size: float
    error: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What the tools say of one dtype. ``storage`` is the numpy type as which its values reach their formulas."""

    storage: str
    bench: str
    bench_epsilon: float
    direct_epsilon: float
    tables: tuple[tuple[str, SmallValues], ...] = ()
    absolute_rtol: float = 0.0
    absolute_error: float = 0.0
    largest: float = 0.0
    digits: int = 0
    exponent_min: int = 0
    ulp_limit: float = 1.0


_EPSILON32, _EPSILON64 = 2.0**-23, 2.0**-52
_APEX16, _APEX32 = SmallValues(1e-3, 1e-5), SmallValues(1e-6, 1e-9)
_MSPROBE16, _MSPROBE32 = SmallValues(2.0**-10, 1e-16), SmallValues(2.0**-20, 2.0**-30)

RULES: dict[str, Rules] = {
    "float16": Rules(
        "<f2", "<f4", _EPSILON32, 2.0**-10, (("apex", _APEX16), ("msprobe", _MSPROBE16)),
        2.0**-10, 2.0**-16, 65504.0, 10, -14,
    ),
    "bfloat16": Rules(
        "<f4", "<f4", _BFLOAT16_EPSILON, _BFLOAT16_EPSILON, (("apex", _APEX16), ("msprobe", _MSPROBE16)),
        2.0**-8, 1e-16, 3.3895313892515355e38, 7, -126,
    ),
    "float32": Rules(
        "<f4", "<f8", _EPSILON64, _EPSILON32, (("apex", _APEX32), ("msprobe", _MSPROBE32)),
        2.0**-20, 2.0**-30, float(np.finfo(np.float32).max), 23, -126, 32.0,
    ),
    "float64": Rules("<f8", "<f8", _EPSILON64, _EPSILON64),
}  # fmt: skip
_FLOAT8 = Rules("<f8", "<f4", _EPSILON32, _EPSILON32)


def predecessor_numbers(
    candidate: Array, honest: Array | None, gold: Array | None, dtype: DType | str
) -> dict[str, float]:
    """The numbers above for one tensor of ``dtype``. The arrays hold numbers, not storage bits (``widen`` makes them);
    those that do not exist are None and give no numbers. All have the same shape."""
    kind = dtype if isinstance(dtype, DType) else dtype_named(dtype)
    count = candidate.size
    if count == 0:
        return {}
    with np.errstate(all="ignore"):
        if not kind.is_float:
            return _exact_or_complex(candidate, honest, gold, complex_=kind.is_complex)
        rules = RULES.get(kind.name, _FLOAT8)
        if honest is not None and np.array_equal(candidate, honest) and np.isfinite(candidate).all():
            return _same(candidate, honest, gold, rules)
        sums = _Sums()
        for one, other, truth in _blocks(candidate, honest, gold):
            _add_block(sums, one, other, truth, rules)
        return sums.numbers(count, rules)


def _same(candidate: Array, honest: Array, gold: Array | None, rules: Rules) -> dict[str, float]:
    """The numbers where candidate and honest tensor are equal and finite: half of the work, for the usual case."""
    sums = _Sums()
    for one, _, truth in _blocks(candidate, None, gold):
        _add_block(sums, one, None, truth, rules)
    found = sums.numbers(candidate.size, rules)
    for name in list(found):
        tool, _, rest = name.partition("_")
        if tool in ("apex", "msprobe") and not rest.startswith("absolute"):
            found[f"{tool}_honest_{rest}"] = found[name]
    found |= {"honest_peak": found["candidate_peak"], "honest_zeros": found["candidate_zeros"]}
    found |= {"direct_max_abs": 0.0, "direct_unequal": 0.0, "direct_both_nan": 0.0}
    found |= {f"direct_{name}": 1.0 for name, _ in SHARES}
    found["direct_bits_differ"] = float(np.count_nonzero(np.signbit(candidate) != np.signbit(honest)))
    return found


def _blocks(*arrays: Array | None) -> Iterator[tuple[Any, ...]]:
    flat = [None if array is None else np.asarray(array, dtype=np.float64).reshape(-1) for array in arrays]
    first = flat[0]
    assert first is not None, "there is always a candidate"
    if first.size <= BLOCK:
        yield tuple(flat)
        return
    for start in range(0, first.size, BLOCK):
        yield tuple(None if array is None else array[start : start + BLOCK] for array in flat)


class _Sums:
    """What adds up over blocks: totals, largest values (NaN wins), corners."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.corners: list[Corner] = []

    def add(self, name: str, value: Any) -> None:
        self.totals[name] = self.totals.get(name, 0.0) + float(value)

    def peak(self, name: str, value: Any) -> None:
        known = self.peaks.get(name)
        self.peaks[name] = float(value if known is None or (not value <= known and known == known) else known)

    def numbers(self, count: int, rules: Rules) -> dict[str, float]:
        found = dict(self.peaks)
        for name, total in self.totals.items():
            if name.startswith("_"):
                continue
            found[name] = total / count if name.endswith(("_unequal", "_share")) or "_within_" in name else total
        for side in ("", "honest_"):
            for tool, _ in rules.tables:
                prefix = f"{tool}_{side}"
                if f"_{prefix}normal" in self.totals:
                    found |= self._metrics(prefix, side, count)
            if f"_{side}ulp" in self.totals:
                found[f"msprobe_{side}ulp_mean"] = self.totals[f"_{side}ulp"] / count
        found |= self._absolute()
        return found | to_numbers(self.corners, "direct")

    def _metrics(self, prefix: str, side: str, count: int) -> dict[str, float]:
        """The five metrics of the benchmark comparison, with the small terms that their code adds to the RMSE."""
        small, wrong = self.totals[f"_{prefix}small"], self.totals[f"_{prefix}small_wrong"]
        normal = self.totals[f"_{prefix}normal"]
        mean_square = self.totals[f"_{prefix}squares"] / count * (count / (normal + 0.0001) + 0.0001)
        values = (
            wrong / small if small else 0.0,
            float(np.sqrt(mean_square)),
            self.peaks.get(f"{prefix}max_rel", 0.0),
            self.totals[f"_{prefix}relative"] / normal if normal else 0.0,
            abs(self.totals[f"_{side}above"] - self.totals[f"_{side}below"]) / count,
        )
        return {f"{prefix}{name}": value for name, value in zip(METRICS, values, strict=True)}

    def _absolute(self) -> dict[str, float]:
        found = {}
        for name in ("not_finite", "relative", "small"):
            if (of := self.totals.get(f"_absolute_{name}_of")) is not None:
                found[f"msprobe_absolute_{name}"] = self.totals[f"_absolute_{name}"] / of if of else 0.0
        return found


def _add_block(sums: _Sums, candidate: Array, honest: Array | None, gold: Array | None, rules: Rules) -> None:
    sums.peak("candidate_peak", np.abs(candidate).max())
    sums.add("candidate_zeros", candidate.size - np.count_nonzero(candidate))
    if honest is not None:
        sums.peak("honest_peak", np.abs(honest).max())
        sums.add("honest_zeros", honest.size - np.count_nonzero(honest))
        _add_direct(sums, candidate, honest, rules.direct_epsilon)
    if gold is None:
        return
    bench = gold if rules.bench == "<f8" else gold.astype(rules.bench).astype(np.float64)
    rounded = bench if rules.storage == rules.bench else bench.astype(rules.storage).astype(np.float64)
    size = np.abs(bench)
    sums.peak("bench_peak", size.max())
    sums.add("bench_zeros", bench.size - np.count_nonzero(bench))
    sums.add("bench_unequal", np.count_nonzero(candidate != bench))
    error = np.abs(candidate - bench)
    relative = error / (size + rules.bench_epsilon)
    sums.peak("bench_max_abs", error.max())
    for name, limit in SHARES:
        sums.add(f"bench_{name}", np.count_nonzero(relative < limit))
    bench_side = _Bench(bench, rounded, size, _units(size, rules) if rules.digits else size)
    _add_side(sums, "", candidate, error, relative, bench_side, rules)
    if honest is not None and (rules.digits or rules is _FLOAT8):
        error = np.abs(honest - bench)
        _add_side(sums, "honest_", honest, error, error / (size + rules.bench_epsilon), bench_side, rules)


@dataclass(frozen=True, slots=True)
class _Bench:
    """The bench in its own precision, rounded to the precision of the device, its magnitudes, and how many units in the
    last place are one."""

    values: Array
    rounded: Array
    size: Array
    units: Array


def _add_side(
    sums: _Sums, side: str, values: Array, error: Array, relative: Array, bench: _Bench, rules: Rules
) -> None:
    """The numbers of msprobe and PaddleAPEX for the candidate (``side`` empty) or the honest tensor."""
    if rules is _FLOAT8:
        _add_ulp(sums, side, _ulp_of_float8(values, bench.values), 1.0)
        return
    if not rules.digits:
        return
    finite: Array | None = np.isfinite(values) & np.isfinite(bench.rounded)
    if finite is not None and finite.all():
        finite = None
    above = values - bench.rounded
    sums.add(f"_{side}above", np.count_nonzero(above > 0.0))
    sums.add(f"_{side}below", np.count_nonzero(above < 0.0))
    for tool, limits in rules.tables:
        small, normal = _split(bench.size, limits.size, finite)
        prefix = f"{tool}_{side}"
        _add_metrics(sums, prefix, error, relative, small, normal, limits.error)
        if tool == "msprobe" and not side:
            _add_absolute(sums, error, relative, small, normal, rules)
            _add_not_finite(sums, values, bench, finite, rules)
    _add_ulp(sums, side, error * bench.units, rules.ulp_limit)


def _split(size: Array, limit: float, finite: Array | None) -> tuple[Array | None, Array | None]:
    """Masks of the small and of the normal values among the finite ones; None for none small and for all normal."""
    small = size <= limit
    if finite is not None:
        small &= finite
    if not small.any():
        return None, finite
    return small, ~small if finite is None else finite & ~small


def _add_metrics(
    sums: _Sums, prefix: str, error: Array, relative: Array, small: Array | None, normal: Array | None, limit: float
) -> None:
    if small is None:
        sums.add(f"_{prefix}small", 0)
        sums.add(f"_{prefix}small_wrong", 0)
    else:
        sums.add(f"_{prefix}small", np.count_nonzero(small))
        sums.add(f"_{prefix}small_wrong", np.count_nonzero(error[small] > limit))
    if normal is not None:
        error, relative = error[normal], relative[normal]
    sums.add(f"_{prefix}normal", error.size)
    sums.add(f"_{prefix}squares", np.square(error).sum())
    sums.add(f"_{prefix}relative", relative.sum())
    sums.peak(f"{prefix}max_rel", relative.max(initial=0.0))


def _add_absolute(
    sums: _Sums, error: Array, relative: Array, small: Array | None, normal: Array | None, rules: Rules
) -> None:
    if small is None:
        sums.add("_absolute_small_of", 0)
        sums.add("_absolute_small", 0)
    else:
        sums.add("_absolute_small_of", np.count_nonzero(small))
        sums.add("_absolute_small", np.count_nonzero(error[small] > rules.absolute_error))
    if normal is not None:
        relative = relative[normal]
    sums.add("_absolute_relative_of", relative.size)
    sums.add("_absolute_relative", np.count_nonzero(relative > rules.absolute_rtol))


def _add_not_finite(sums: _Sums, values: Array, bench: _Bench, finite: Array | None, rules: Rules) -> None:
    """Where one side is not finite, both must be NaN or, cut to the range of the dtype, within the tolerance."""
    if finite is None:
        sums.add("_absolute_not_finite_of", 0)
        sums.add("_absolute_not_finite", 0)
        return
    here = ~finite
    one, other = values[here], bench.rounded[here]
    cut = np.clip(one, -rules.largest, rules.largest) - np.clip(other, -rules.largest, rules.largest)
    cut = np.abs(cut.astype(rules.storage))  # where opposite infinities overflow again
    fine = cut / (bench.size[here] + rules.bench_epsilon) <= rules.absolute_rtol
    fine |= np.isnan(one) & np.isnan(other)
    sums.add("_absolute_not_finite_of", one.size)
    sums.add("_absolute_not_finite", one.size - np.count_nonzero(fine))


def _add_ulp(sums: _Sums, side: str, units: Array, limit: float) -> None:
    sums.peak(f"msprobe_{side}ulp_max", units.max())
    sums.add(f"_{side}ulp", units.sum())
    sums.add(f"msprobe_{side}ulp_share", np.count_nonzero(units > limit))


def _units(size: Array, rules: Rules) -> Array:
    """What msprobe multiplies an error with to have it in units in the last place of the bench, made from the bits of
    the exponent. Zero counts as having the exponent of 1.0, there and therefore here; of a type of 16 bits it is a
    float32, in which those of the smallest numbers overflow; infinity has none."""
    exponent = (size.view(np.int64) >> 52) - 1023
    np.maximum(exponent, rules.exponent_min, out=exponent)
    units = ((rules.digits + 1023 - exponent) << 52).view(np.float64)
    if rules.bench == "<f4" and rules.digits - rules.exponent_min > 127:
        units[exponent < rules.digits - 127] = np.inf
    units[size == 0.0] = 2.0**rules.digits
    units[np.isinf(size)] = np.nan
    return np.asarray(units)


def _ulp_of_float8(values: Array, bench: Array) -> Array:
    """msprobe's error of eight-bit floats, in units that grow with the distance from 1.0. It keeps its sign there, so
    that results that are too small never count; and therefore here."""
    exponent = np.maximum(np.log2(np.abs(bench) + 2.0**-1000), -22.0)
    whole = np.floor(exponent)
    width = np.select([np.abs(whole) <= 3, np.abs(whole) <= 7, np.abs(whole) <= 15], [3, 2, 1], 0)
    units = (values - bench) * np.exp2(width - whole)
    logarithm = np.log2(np.abs(values) + 2.0**-1000)
    steps = np.where(values >= 0, logarithm, -logarithm) - np.where(bench >= 0, exponent, -exponent)
    return np.asarray(np.where(width == 0, steps, units))


def _add_direct(sums: _Sums, candidate: Array, honest: Array, epsilon: float) -> None:
    size = np.abs(honest)
    error = np.abs(candidate - honest)
    relative = error / (size + epsilon)
    sums.peak("direct_max_abs", error.max())
    for name, limit in SHARES:
        sums.add(f"direct_{name}", np.count_nonzero(relative < limit))
    _add_differences(sums, candidate, honest)
    finite = np.isfinite(error) & np.isfinite(size)
    if not finite.all():
        size, error = size[finite], error[finite]
    sums.corners = corners_of(size, error, sums.corners)


def _add_differences(sums: _Sums, candidate: Array, honest: Array) -> None:
    equal = candidate == honest
    sums.add("direct_unequal", candidate.size - np.count_nonzero(equal))
    both_nan = np.isnan(candidate) & np.isnan(honest)
    sums.add("direct_both_nan", np.count_nonzero(both_nan))
    equal &= np.signbit(candidate.real) == np.signbit(honest.real)
    if np.iscomplexobj(candidate):
        equal &= np.signbit(candidate.imag) == np.signbit(honest.imag)
    sums.add("direct_bits_differ", candidate.size - np.count_nonzero(equal | both_nan))


def _exact_or_complex(
    candidate: Array, honest: Array | None, gold: Array | None, *, complex_: bool
) -> dict[str, float]:
    count = candidate.size
    found: dict[str, float] = {"candidate_zeros": float(count - np.count_nonzero(candidate))}
    if honest is not None:
        found["honest_zeros"] = float(count - np.count_nonzero(honest))
    if gold is not None:
        found["bench_zeros"] = float(count - np.count_nonzero(gold))
        found["bench_unequal"] = np.count_nonzero(candidate != gold) / count
    if honest is None:
        return found
    if not complex_:
        unequal = np.count_nonzero(candidate != honest)
        found |= {"direct_unequal": unequal / count, "direct_bits_differ": float(unequal)}
        return found | (_exact_corners(candidate, honest) if unequal else {})
    sums = _Sums()
    one, other = candidate.reshape(-1), honest.reshape(-1)
    for start in range(0, count, BLOCK):
        _add_direct(sums, one[start : start + BLOCK], other[start : start + BLOCK], 0.0)
    return found | sums.numbers(count, _FLOAT8)


def _exact_corners(candidate: Array, honest: Array) -> dict[str, float]:
    corners: list[Corner] = []
    for one, other, _ in _blocks(candidate, honest, None):
        corners = corners_of(np.abs(other), np.abs(one - other), corners)
    return to_numbers(corners, "direct")
