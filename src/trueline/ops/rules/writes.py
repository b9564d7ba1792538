"""Operators that write to places given by indices, where a place may be given twice, and memory nobody has written.

Without accumulation any one of the values written to a place may stay. Such places are checked to hold one of them and
then set to zero, so that the others are compared as they are.
"""

from __future__ import annotations

import numpy as np

from trueline.ops.rules.trial import Array, Comparable, Trial, untouched

UNWRITTEN = "memory that nobody has written yet"


def scattered(trial: Trial) -> Comparable:
    """scatter with ``src``."""
    given, index, source, bound = trial.given("input"), trial.given("index"), trial.given("src"), trial.bound
    if given is None or index is None or source is None or not given.ndim or bound.get("reduce"):
        return untouched(trial)
    numbers = np.arange(given.size).reshape(given.shape)
    dim = int(bound.number("dim")) % given.ndim
    where = [np.arange(size).reshape([-1 if axis == at else 1 for at in range(index.ndim)])
             for axis, size in enumerate(index.shape)]  # fmt: skip
    where[dim] = index
    values = source[tuple(slice(0, size) for size in index.shape)]
    return _settle(trial, numbers[tuple(where)], values)


def copied_rows(trial: Trial) -> Comparable:
    """index_copy."""
    given, index, source = trial.given("input"), trial.given("index"), trial.given("source")
    if given is None or index is None or source is None or not given.ndim:
        return untouched(trial)
    dim = int(trial.bound.number("dim")) % given.ndim
    numbers = np.take(np.arange(given.size).reshape(given.shape), index.reshape(-1), axis=dim)
    return _settle(trial, numbers, np.broadcast_to(source, numbers.shape))


def put_values(trial: Trial) -> Comparable:
    """put without ``accumulate``: places counted through the whole tensor."""
    given, index, source = trial.given("input"), trial.given("index"), trial.given("source")
    if given is None or index is None or source is None or trial.bound.get("accumulate"):
        return untouched(trial)
    return _settle(trial, index % max(given.size, 1), source.reshape(index.shape))


def indexed_values(trial: Trial) -> Comparable:
    """index_put and ``x[index] = value`` without ``accumulate``, where all indices are tensors."""
    given, values, bound = trial.given("input"), trial.given("values"), trial.bound
    indices, base = bound.get("indices"), bound.paths.get("indices", "args.1")
    indices = indices.get("$tuple", indices) if isinstance(indices, dict) else indices
    if given is None or values is None or bound.get("accumulate"):
        return untouched(trial)
    if isinstance(indices, list):
        where = [trial.inputs.get(f"{base}.{place}") for place in range(len(indices))]
    else:
        where = [trial.inputs.get(base)]
    if not where or any(index is None for index in where):
        return untouched(trial)
    numbers = np.arange(given.size).reshape(given.shape)[tuple(index for index in where if index is not None)]
    return _settle(trial, numbers, np.broadcast_to(values, numbers.shape))


def _settle(trial: Trial, places: Array, values: Array) -> Comparable:
    """Places written more than once must hold one of the values written to them."""
    flat, written = places.reshape(-1), values.reshape(-1)
    result, given = untouched(trial), trial.given("input")
    if given is None or not flat.size:
        return result
    times = np.zeros(given.size, np.int64)
    np.add.at(times, flat, 1)
    contested = times > 1
    if not contested.any():
        return result
    for path, out in trial.outputs.items():
        if out.size != given.size:
            continue
        held = np.zeros(given.size, bool)
        # A written value may have been rounded to the type of the destination on its way.
        near = np.abs(out.reshape(-1)[flat] - written) <= 0.01 * np.abs(written)
        np.logical_or.at(held, flat, near | (np.isnan(out.reshape(-1)[flat]) & np.isnan(written)))
        settled = np.where(contested & held, 0, out.reshape(-1)).reshape(out.shape)
        result = result.with_output(path, settled)
        text = f"{int((contested & ~held).sum())} of {int(contested.sum())} places written twice hold neither value"
        result = result.with_check(path, not (contested & ~held).any(), text)
    return result


def unwritten(trial: Trial) -> Comparable:
    """empty and the like: dtype, shape and device are all that is promised."""
    return Comparable({}, {}, dropped=dict.fromkeys((*trial.outputs, *trial.gradients), UNWRITTEN))


def dropped_inside(trial: Trial) -> Comparable:
    """Recurrent layers and attention blocks that drop some of what they compute inside, where nothing shows it."""
    bound = trial.bound
    chance, training = bound.get("dropout", bound.get("dropout_p")), bound.get("train", bound.get("training"))
    if not isinstance(chance, float):  # of a packed sequence: batch sizes stand second and move the rest on
        chance, training = training, bound.get("bidirectional")
    if not isinstance(chance, float) or chance == 0.0 or not training:
        return untouched(trial)
    reason = "drops some of what it computes inside at random"
    return Comparable({}, {}, dropped=dict.fromkeys((*trial.outputs, *trial.gradients), reason))


def attended(trial: Trial) -> Comparable:
    """A query that may look at no key has no defined average: NaN by the formula, zero by most kernels."""
    result, mask, query = untouched(trial), trial.given("attn_mask"), trial.given("query")
    if trial.bound.number("dropout_p") > 0:
        reason = "attention weights are dropped at random"
        return Comparable({}, {}, dropped=dict.fromkeys((*trial.outputs, *trial.gradients), reason))
    if mask is None or query is None or "out" not in trial.outputs:
        return result
    closed = ~mask if mask.dtype == bool else np.isneginf(mask)
    blind = np.broadcast_to(closed.all(-1), query.shape[:-1])[..., None]
    out = trial.outputs["out"]
    fine = bool(np.all(np.isnan(out) | (out == 0) | ~blind))
    result = result.with_output("out", np.where(blind, 0.0, out))
    result = result.with_check("out", fine, "a query that may look at no key gives zero or NaN")
    path = trial.path("query")
    if path in trial.gradients:
        result = result.with_gradient(path, np.where(blind, 0.0, trial.gradients[path]))
    return result
