"""Operators that choose among equal values: which of them is chosen is nobody's promise.

Values are compared as they are; an index is replaced by the value it selects, which must be equal to the last bit; the
gradient that a chosen element received is summed over all elements that are equal to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from trueline.ops.binding import integers_of
from trueline.ops.names import canonical
from trueline.ops.rules.trial import Array, Comparable, Trial, plane_rank, untouched


def chosen_along_dim(trial: Trial) -> Comparable:
    """max, min, median, kthvalue and the like with ``dim``: values and indices; without it only the gradient."""
    result, given = untouched(trial), trial.given("input")
    if given is None or trial.given("dim") is not None:
        return result
    dim = trial.bound.get("dim")
    if isinstance(dim, int) and "out.1" in trial.outputs:
        result = _selected(result, trial, given, "out.1", dim)
    return _gradient_over_ties(result, trial, given, dim)


def extreme_values(trial: Trial) -> Comparable:
    """amax, amin and the like, which give no index: only the gradient chooses."""
    result, given = untouched(trial), trial.given("input")
    if given is None:
        return result
    dim = 0 if canonical(trial.api) == "msort" else trial.bound.get("dim")
    return _gradient_over_ties(result, trial, given, dim)


def argument_of_extreme(trial: Trial) -> Comparable:
    """argmax and argmin."""
    result, given, dim = untouched(trial), trial.given("input"), trial.bound.get("dim")
    if given is None or trial.outputs["out"].dtype.kind not in "iu":
        return result
    return _selected(result, trial, given, "out", dim if isinstance(dim, int) else None)


def sorting(trial: Trial) -> Comparable:
    """sort and argsort: the order of equal values is free unless ``stable`` was asked for."""
    result, given, bound = untouched(trial), trial.given("input"), trial.bound
    if given is None or bound.get("stable") is True:
        return result
    dim = _dim(bound.get("dim", -1))
    path = "out.1" if "out.1" in trial.outputs else "out"
    if path == "out" and (canonical(trial.api) == "sort" or trial.outputs[path].dtype.kind not in "iu"):
        return _gradient_over_ties(result, trial, given, dim)  # the values alone
    result = _permutation_check(result, trial.outputs[path], path, dim)
    result = _selected(result, trial, given, path, dim)
    return _gradient_over_ties(result, trial, given, dim)


def largest_few(trial: Trial) -> Comparable:
    """topk: without ``sorted`` the order of the results is free as well."""
    result, given, bound = untouched(trial), trial.given("input"), trial.bound
    if given is None or "out.1" not in trial.outputs:
        return result
    dim = _dim(bound.get("dim", -1))
    result = _distinct_check(result, trial.outputs["out.1"], "out.1", dim)
    result = _selected(result, trial, given, "out.1", dim)
    if bound.get("sorted") is False and given.ndim:
        for path in ("out.0", "out.1"):
            result = result.with_output(path, np.sort(result.outputs[path], axis=dim), exact=True)
        # Each arriving gradient goes with the place of its value, so that gradients follow the order.
        reason = "the executions gave the results in another order, on which these gradients depend"
        result = replace(result, gauge=trial.outputs["out.0"], gauge_reason=reason)
    return _gradient_over_ties(result, trial, given, dim)


def running_extreme(trial: Trial) -> Comparable:
    """cummax and cummin: an index for every position; in Paddle without ``dim`` along the flattened input."""
    result, given, wanted = untouched(trial), trial.given("input"), trial.bound.get("dim", 0)
    if given is None or "out.1" not in trial.outputs:
        return result
    dim = wanted if isinstance(wanted, int) else None
    result = _selected(result, trial, given, "out.1", dim)
    return _gradient_over_ties(result, trial, given, dim)


def most_frequent(trial: Trial) -> Comparable:
    """mode: any of the values that appear most often; how often it appears is fixed."""
    result, given = untouched(trial), trial.given("input")
    if given is None or not given.size or "out.1" not in trial.outputs:
        return result
    dim, keep = _dim(trial.bound.get("dim", -1)), bool(trial.bound.get("keepdim"))
    selected, _ = _gather(given, trial.outputs["out.1"], dim)
    values = trial.outputs["out.0"]
    spread = values if keep or not given.ndim else np.expand_dims(values, dim)
    counts = np.sum(given == spread, axis=dim) if given.ndim else np.asarray(given == spread)
    result = result.with_check("out.1", np.array_equal(selected, values), "the index must select the value")
    result = result.without("out.0", "which of several most frequent values is given is free")
    result = result.without("out.1", "which of several equal elements is chosen is free")
    return _gradient_over_ties(result.with_output("out.0:count", counts, exact=True), trial, given, dim)


def set_of_values(trial: Trial) -> Comparable:
    """unique: the order is free where ``sorted`` is False; an inverse index is what it selects."""
    result, bound = untouched(trial), trial.bound
    if "out" in trial.outputs or bound.get("sorted") is not False or bound.get("dim") is not None:
        ordered = bound.get("sorted") is False and bound.get("dim") is None
        return result.with_output("out", np.sort(trial.outputs["out"]), exact=True) if ordered else result
    values = trial.outputs["out.0"]
    order = np.argsort(values, kind="stable")
    result = result.with_output("out.0", values[order], exact=True)
    others = sorted(path for path in trial.outputs if path != "out.0")
    if bound.get("return_inverse"):
        inverse = trial.outputs[others[0]]
        selected, valid = _gather(values, inverse.reshape(-1), 0, same_rank=True)
        result = result.with_output(others[0], selected.reshape(inverse.shape), exact=True)
        result = result.with_check(others[0], valid, "every index must lie within the values")
    if bound.get("return_counts"):
        result = result.with_output(others[-1], trial.outputs[others[-1]][order], exact=True)
    return result


def pooling(trial: Trial) -> Comparable:
    """max_pool: equal values in one window; an index points into its plane."""
    given, rank = trial.given("input"), plane_rank(trial.api)
    if given is None or given.ndim < rank:
        return untouched(trial)
    result = _indices_into_planes(untouched(trial), trial, given, rank)
    path = trial.path("input")
    if path not in trial.gradients or not given.size:
        return result
    tied = _tied_in_a_window(given, trial, rank)
    return result.with_gradient(path, _summed_over_planes(given, trial.gradients[path], rank, tied))


def pooling_anywhere(trial: Trial) -> Comparable:
    """adaptive_max_pool: windows change their size, so all equal values of a plane are taken together."""
    given, rank = trial.given("input"), plane_rank(trial.api)
    if given is None or given.ndim < rank:
        return untouched(trial)
    result = _indices_into_planes(untouched(trial), trial, given, rank)
    path = trial.path("input")
    if path not in trial.gradients or not given.size:
        return result
    everywhere = np.ones(given.shape, bool)
    return result.with_gradient(path, _summed_over_planes(given, trial.gradients[path], rank, everywhere))


def bags_of_maxima(trial: Trial) -> Comparable:
    """embedding_bag with mode ``max``: equal rows of the table share the gradient."""
    result, weight, path = untouched(trial), trial.given("weight"), trial.path("weight")
    if weight is None or trial.bound.get("mode") != "max" or path not in trial.gradients:
        return result
    return result.with_gradient(path, sum_over_ties(weight, trial.gradients[path], 0))


def sum_over_ties(values: Array, gradient: Array, dim: int | None) -> Array:
    """Each element of the gradient becomes the sum over the elements of its slice that have the same value."""
    if values.shape != gradient.shape or not values.size or not values.ndim:
        return gradient
    if dim is None:
        return sum_over_ties(values.reshape(-1), gradient.reshape(-1), 0).reshape(gradient.shape)
    rows, parts = np.moveaxis(values, dim, -1), np.moveaxis(gradient, dim, -1)
    order = np.argsort(rows, axis=-1, kind="stable")
    ordered = np.take_along_axis(rows, order, -1)
    new = np.ones(ordered.shape, bool)
    both_nan = np.isnan(ordered[..., 1:]) & np.isnan(ordered[..., :-1]) if ordered.dtype.kind == "f" else False
    new[..., 1:] = (ordered[..., 1:] != ordered[..., :-1]) & ~np.asarray(both_nan)
    group = np.cumsum(new.reshape(-1)) - 1
    sums = np.zeros(int(group[-1]) + 1, gradient.dtype)
    np.add.at(sums, group, np.take_along_axis(parts, order, -1).reshape(-1))
    answer = np.empty(parts.shape, gradient.dtype)
    np.put_along_axis(answer, order, sums[group].reshape(parts.shape), -1)
    return np.moveaxis(answer, -1, dim)


def _dim(value: object) -> int:
    return value if isinstance(value, int) else -1


def _gather(values: Array, index: Array, dim: int, *, same_rank: bool = False) -> tuple[Array, bool]:
    """The values that an index selects along a dimension, and whether all of it lies within. An index that does not
    selects the last value, so that one fault gives one message."""
    if not values.ndim:
        return values, bool(np.all(index == 0))
    narrow = index.ndim < values.ndim and not same_rank
    whole = np.expand_dims(index, dim) if narrow else index
    size = values.shape[dim]
    valid = bool(np.all((whole >= 0) & (whole < size)))
    if not whole.size:
        return np.empty(index.shape, values.dtype), valid
    picked = np.take_along_axis(values, np.clip(whole, 0, size - 1), dim)
    return (np.squeeze(picked, dim) if narrow else picked), valid


def _selected(result: Comparable, trial: Trial, given: Array, path: str, dim: int | None) -> Comparable:
    index = trial.outputs[path]
    if dim is None:
        picked, valid = _gather(given.reshape(-1), index.reshape(-1), 0, same_rank=True)
        picked = picked.reshape(index.shape)
    else:
        picked, valid = _gather(given, index, dim)
    result = result.with_check(path, valid, "every index must lie within the input")
    return result.with_output(path, picked, exact=True)


def _gradient_over_ties(result: Comparable, trial: Trial, given: Array, dim: object) -> Comparable:
    path = trial.path("input")
    if path not in trial.gradients:
        return result
    axis = dim if isinstance(dim, int) else None
    return result.with_gradient(path, sum_over_ties(given, trial.gradients[path], axis))


def _permutation_check(result: Comparable, index: Array, path: str, dim: int) -> Comparable:
    if not index.ndim:
        return result
    ordered = np.moveaxis(np.sort(index, axis=dim), dim, -1)
    return result.with_check(path, np.all(ordered == np.arange(ordered.shape[-1])), "indices must be a permutation")


def _distinct_check(result: Comparable, index: Array, path: str, dim: int) -> Comparable:
    if not index.ndim:
        return result
    holds = bool(np.all(np.diff(np.sort(index, axis=dim), axis=dim) > 0))
    return result.with_check(path, holds, "no element may be chosen twice")


def _planes(array: Array, rank: int) -> Array:
    return array.reshape(*array.shape[: array.ndim - rank], -1)


def _indices_into_planes(result: Comparable, trial: Trial, given: Array, rank: int) -> Comparable:
    if "out.1" not in trial.outputs or not trial.outputs["out.1"].size:
        return result
    index = trial.outputs["out.1"]
    picked, valid = _gather(_planes(given, rank), _planes(index, rank), -1, same_rank=True)
    result = result.with_check("out.1", valid, "every index must lie within its plane")
    return result.with_output("out.1", picked.reshape(index.shape), exact=True)


def _summed_over_planes(given: Array, gradient: Array, rank: int, tied: Array) -> Array:
    """Sums the gradient over equal values of a plane, among the elements that are tied with another one."""
    summed = sum_over_ties(_planes(given, rank), np.where(_planes(tied, rank), _planes(gradient, rank), 0.0), -1)
    return np.where(tied, summed.reshape(gradient.shape), gradient)


def _tied_in_a_window(given: Array, trial: Trial, rank: int) -> Array:
    """Elements that are the maximum of some window together with another element. Goes through the places of a window
    one by one, all windows at once."""
    bound = trial.bound
    kernel = _each(bound.get("kernel_size"), rank, (1,) * rank)
    stride = _each(bound.get("stride"), rank, kernel)
    padding, dilation = _each(bound.get("padding"), rank, (0,) * rank), _each(bound.get("dilation"), rank, (1,) * rank)
    spans = [(kernel[i] - 1) * dilation[i] + 1 for i in range(rank)]
    # A window of ceil_mode may begin inside and end outside: room for it on the right, filled with what never wins.
    room = [(0, 0)] * (given.ndim - rank) + [(padding[i], padding[i] + stride[i] + spans[i]) for i in range(rank)]
    values = np.pad(given.astype(np.float64), room, constant_values=-np.inf)
    last = [(values.shape[given.ndim - rank + i] - spans[i]) // stride[i] * stride[i] for i in range(rank)]
    places: list[tuple[Any, ...]] = [
        (..., *(slice(at[i] * dilation[i], at[i] * dilation[i] + last[i] + 1, stride[i]) for i in range(rank)))
        for at in np.ndindex(*kernel)
    ]
    best = values[places[0]].copy()
    for place in places[1:]:
        np.maximum(best, values[place], out=best)
    found = np.zeros(best.shape, np.int32)
    for place in places:
        found += values[place] == best
    several = found > 1
    tied = np.zeros(values.shape, bool)
    for place in places:
        tied[place] |= several & (values[place] == best)
    sizes = given.shape[given.ndim - rank :]
    inside: tuple[Any, ...] = (..., *(slice(padding[i], padding[i] + sizes[i]) for i in range(rank)))
    return tied[inside]


def _each(value: object, rank: int, default: tuple[int, ...]) -> tuple[int, ...]:
    numbers = integers_of(value)
    if not numbers:
        return default
    return numbers * rank if len(numbers) == 1 else numbers
