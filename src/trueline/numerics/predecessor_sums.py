"""The numbers of other tools (``predecessors``) from the sums of the C extension, for tensors of finite numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.numerics.envelope import to_numbers
from trueline.numerics.looks import Flat, direct_corners, tool_sums
from trueline.numerics.predecessors import METRICS, RULES, SHARES, Rules, SmallValues

Array = NDArray[Any]
_TOOLS = ("apex", "msprobe")


def numbers_of_sides(sides: Flat) -> dict[str, float] | None:
    """The numbers of ``predecessor_numbers`` for flat tensors; None where only numpy can make them."""
    rules = RULES.get(sides.dtype.name)
    if rules is None or sides.dtype.name == "float16" or sides.complex:
        return None
    raw = tool_sums(sides, _table_of(sides.dtype.name))
    return None if raw is None else _numbers_of_sums(raw, sides, rules)


@cache
def _table_of(dtype: str) -> Array:
    """The rules of a dtype as the C extension reads them."""
    rules = RULES[dtype]
    tables = dict(rules.tables)
    limits = [tables.get(tool, SmallValues(-1.0, 0.0)) for tool in _TOOLS]
    head = (rules.bench == "<f4", rules.storage == "<f4", rules.bench_epsilon, rules.direct_epsilon, rules.digits,
            rules.exponent_min, rules.ulp_limit, rules.absolute_rtol, rules.absolute_error)  # fmt: skip
    return np.array([*head, *(one.size for one in limits), *(one.error for one in limits)], np.float64)


def _numbers_of_sums(raw: Sequence[float], sides: Flat, rules: Rules) -> dict[str, float]:
    """The names of what ``sum_up`` of the C extension adds up, in its order."""
    count = sides.count
    stream = iter(raw)
    take = partial(next, stream)
    found = {"bench_peak": take(), "bench_zeros": take(), "bench_unequal": take() / count, "bench_max_abs": take()}
    found |= {f"bench_{name}": take() / count for name, _ in SHARES}
    direct = {"direct_max_abs": take(), "direct_unequal": take() / count, "direct_bits_differ": take()}
    direct |= {f"direct_{name}": take() / count for name, _ in SHARES}
    absolute_small, absolute_relative = take(), take()
    for side in ("", "honest_"):
        if side and sides.honest is None:
            break
        if not (side and sides.same):
            peak, zeros, above, below, ulp_max, ulp, ulp_share = (take() for _ in range(7))
            tools = [[take() for _ in range(6)] for _ in _TOOLS]
        found |= {f"{side or 'candidate_'}peak": peak, f"{side or 'candidate_'}zeros": zeros}
        if not rules.digits:
            continue
        for tool, (small, wrong, normal, squares, relative, max_rel) in zip(_TOOLS, tools, strict=True):
            values = (
                wrong / small if small else 0.0,
                math.sqrt(squares / count * (count / (normal + 0.0001) + 0.0001)),
                max_rel,
                relative / normal if normal else 0.0,
                abs(above - below) / count,
            )
            found |= {f"{tool}_{side}{name}": value for name, value in zip(METRICS, values, strict=True)}
        found |= {f"msprobe_{side}ulp_max": ulp_max, f"msprobe_{side}ulp_mean": ulp / count}
        found[f"msprobe_{side}ulp_share"] = ulp_share / count
        if not side:
            small, _, normal = tools[1][:3]
            found["msprobe_absolute_not_finite"] = 0.0
            found["msprobe_absolute_relative"] = absolute_relative / normal if normal else 0.0
            found["msprobe_absolute_small"] = absolute_small / small if small else 0.0
    if sides.honest is None:
        return found
    if sides.same:
        direct = {"direct_max_abs": 0.0, "direct_unequal": 0.0, "direct_bits_differ": 0.0}
        direct |= {f"direct_{name}": 1.0 for name, _ in SHARES}
    found |= direct | {"direct_both_nan": 0.0}
    if direct["direct_max_abs"]:
        found |= to_numbers(direct_corners(sides), "direct")
    return found
