"""Evidence in few bytes: what a million cases send to the coordinator and leave in a ledger.

Nearly all that is measured of a right result is zero, or one, or said three times; so only what is not is written. An
Evidence is a list ``[part, path, dtype, shape, others, gold, honest, direct, numbers]``:

    others        {structure, note, exact}, those that say something; 0 for none
    gold ...      null; 1 for the same as gold; or [count, mask, values...]: the bits of mask are the fields of a
                  Measurement that are not as for equal tensors, the values are theirs
    numbers       [known, given, values..., {name: value}]: two hexadecimal masks over ``NAMES``, the numbers that there
                  are and those of them that are not zero, whose values follow; last the numbers that have no place in
                  ``NAMES``, if any

Floats that JSON cannot say are strings. ``NAMES`` and the fields only ever grow at their end: ledgers hold masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from trueline.cases import Evidence
from trueline.records import Measurement

NAMES: tuple[str, ...] = tuple(
    """
    candidate_peak bench_peak bench_max_abs apex_max_rel msprobe_max_rel msprobe_ulp_max candidate_zeros bench_zeros
    bench_unequal bench_within_hundredth bench_within_thousandth bench_within_ten_thousandth msprobe_ulp_share
    apex_small_share apex_rmse apex_mean_rel apex_balance msprobe_small_share msprobe_rmse msprobe_mean_rel
    msprobe_balance msprobe_ulp_mean msprobe_absolute_not_finite msprobe_absolute_relative msprobe_absolute_small
    apex_honest_max_rel msprobe_honest_max_rel msprobe_honest_ulp_max msprobe_honest_ulp_share apex_honest_small_share
    apex_honest_rmse apex_honest_mean_rel apex_honest_balance msprobe_honest_small_share msprobe_honest_rmse
    msprobe_honest_mean_rel msprobe_honest_balance msprobe_honest_ulp_mean honest_peak honest_zeros direct_max_abs
    direct_unequal direct_both_nan direct_within_hundredth direct_within_thousandth direct_within_ten_thousandth
    direct_bits_differ peak peak_ulp peak_explained peak_gold peak_candidate compared spread honest_spread bias
    bias_consistency bias_values honest_bias nan_wrong infinity_wrong jumps flips honest_flips excused peak_at
    not_finite_at flip_at wrong wrong_at honest_wrong honest_excess rounding_limit tf32_cudnn tf32_matmul
    apex_unequal apex_honest_unequal unmoved decided
    """.split()
)
_PLACES = {name: 1 << place for place, name in enumerate(NAMES)}

_FIELDS = (
    "equal", "cosine", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "normalized", "bias", "max_ulp",
    "mean_ulp", "within", "nan_mismatch", "infinity_mismatch", "worst", "worst_reference", "worst_candidate",
    "reference_norm", "candidate_norm", "reference_max",
)  # fmt: skip
_USUAL = (
    None, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0), 0, 0, -1, math.nan, math.nan, 0.0,
    0.0, 0.0,
)  # fmt: skip
"""What a Measurement of equal tensors says, field by field; ``equal`` is its count."""
_fields_of = attrgetter(*_FIELDS)
_FIELD_BITS = tuple(1 << place for place in range(len(_FIELDS)))
_SAME = 1


def evidence_to_list(evidence: Evidence) -> list[Any]:
    """Plain JSON, see above."""
    others = {name: value for name in ("structure", "note", "exact") if (value := getattr(evidence, name))}
    gold = None if evidence.gold is None else _measurement_out(evidence.gold)
    rest = [
        _SAME if one is evidence.gold and one is not None else None if one is None else _measurement_out(one)
        for one in (evidence.honest, evidence.direct)
    ]
    return [
        evidence.part, evidence.path, evidence.dtype, [int(size) for size in evidence.shape], others or 0, gold,
        *(_SAME if one is not None and one == gold else one for one in rest), _numbers_out(evidence.numbers),
    ]  # fmt: skip


def evidence_from_list(content: Sequence[Any]) -> Evidence:
    part, path, dtype, shape, others, first, second, third, numbers = content
    gold = None if first is None else _measurement_in(first)
    honest = gold if second == _SAME else None if second is None else _measurement_in(second)
    direct = gold if third == _SAME else None if third is None else _measurement_in(third)
    found = Evidence(
        part, path, dtype, tuple(shape), gold=gold, honest=honest, direct=direct, numbers=_numbers_in(numbers)
    )
    return found if not others else Evidence(part, path, dtype, found.shape, gold=gold, honest=honest, direct=direct,
                                             numbers=found.numbers, **others)  # fmt: skip


def _measurement_out(found: Measurement) -> list[Any]:
    count, mask, values = int(found.count), 0, []
    for bit, value, usual in zip(_FIELD_BITS, _fields_of(found), _USUAL, strict=True):
        if value == (count if usual is None else usual) or (usual != usual and value != value):
            continue
        mask |= bit
        values.append([_said(item) for item in value] if isinstance(value, tuple) else _said(value))
    return [count, mask, *values]


def _measurement_in(content: Sequence[Any]) -> Measurement:
    count, mask = content[0], content[1]
    fields: list[Any] = list(_USUAL)
    fields[0] = count
    for place, value in zip(_bits(mask), content[2:], strict=True):
        if isinstance(value, list):
            fields[place] = tuple(float(item) if isinstance(item, str) else item for item in value)
        else:
            fields[place] = float(value) if isinstance(value, str) else value
    return Measurement(count, *fields)


def _numbers_out(numbers: Mapping[str, float]) -> list[Any]:
    known, bits, others = _layout(tuple(numbers))
    pairs = zip(bits, numbers.values(), strict=True)
    given = sorted([(bit, _said(float(value))) for bit, value in pairs if value and bit])
    content = [known, f"{sum([bit for bit, _ in given]):x}", *[value for _, value in given]]
    return [*content, {name: _said(float(numbers[name])) for name in others}] if others else content


def _layout(names: tuple[str, ...]) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """The mask of these numbers, the bit of each, 0 for those that have no place, and which these are."""
    found = _known_layouts.get(names)
    if found is None:
        bits = tuple(_PLACES.get(name, 0) for name in names)
        others = tuple(name for name, bit in zip(names, bits, strict=True) if not bit)
        found = _known_layouts[names] = (f"{sum(bits):x}", bits, others)
        _bound(_known_layouts)
    return found


def _numbers_in(content: Sequence[Any]) -> dict[str, float]:
    known, given, *values = content
    unknown = values.pop() if values and isinstance(values[-1], dict) else {}
    found = _zeros(known).copy()
    for name, value in zip(_names(given), values, strict=True):
        found[name] = float(value)
    for name, value in unknown.items():
        found[name] = float(value)
    return found


def _said(value: Any) -> Any:
    """A number in what JSON knows; those of numpy become Python's."""
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value
    if not isinstance(value, float):
        return _said(value.item())
    return float(value) if math.isfinite(value) else str(float(value))


def _bits(mask: int) -> tuple[int, ...]:
    found = _known_bits.get(mask)
    if found is None:
        found = tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
        _known_bits[mask] = found
        _bound(_known_bits)
    return found


def _names(mask: str) -> tuple[str, ...]:
    found = _known_names.get(mask)
    if found is None:
        found = _known_names[mask] = tuple(NAMES[place] for place in _bits(int(mask, 16)))
        _bound(_known_names)
    return found


def _zeros(mask: str) -> dict[str, float]:
    found = _known_zeros.get(mask)
    if found is None:
        found = _known_zeros[mask] = dict.fromkeys(_names(mask), 0.0)
        _bound(_known_zeros)
    return found


_MOST_KNOWN = 4096
_known_bits: dict[int, tuple[int, ...]] = {}
_known_layouts: dict[tuple[str, ...], tuple[str, tuple[int, ...], tuple[str, ...]]] = {}
_known_names: dict[str, tuple[str, ...]] = {}
_known_zeros: dict[str, dict[str, float]] = {}


def _bound(known: dict[Any, Any]) -> None:
    """Masks repeat; should they not, memory stays bounded all the same."""
    if len(known) > _MOST_KNOWN:
        known.clear()
