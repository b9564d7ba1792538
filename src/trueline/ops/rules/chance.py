"""Operators that draw random numbers: their values are nobody's promise, their distribution is.

Where random numbers only choose what happens to the input (dropout), what was kept is compared and the choice is
checked; where they are the output, it is checked against the distribution. A check fails an honest generator about
once in a billion: counts may stray six standard deviations, distributions as far as the Kolmogorov bound for 2e-10.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trueline.ops.rules.trial import Array, Comparable, Trial, plane_rank, untouched

SIGMAS = 6.0
KOLMOGOROV = 3.4
"""P(distance > 3.4 / sqrt(n)) < 2 exp(-2 · 3.4²) = 2e-10."""
GRAIN = 0.01
"""Share of a distribution that one value may hold when the type has few digits (bfloat16: 1/128 near one)."""

DRAWN = "random numbers: the distribution is checked, values are not comparable"

_SELU_LOW = -1.7580993408473766
"""What alpha_dropout puts in place of an element before it rescales: the limit of selu at minus infinity."""


def dropout(trial: Trial) -> Comparable:
    """Elements are zeroed with probability p, the others divided by 1 - p (or left as they are, where that is done at
    inference), the same ones in backward."""
    probability, training = trial.bound.number("p", 0.5), bool(trial.bound.get("training", trial.bound.get("train")))
    given = trial.given("input")
    if given is None or not training or not 0.0 < probability < 1.0:
        return untouched(trial)
    scale = 1.0 if trial.bound.get("mode") == "downscale_in_infer" else 1.0 / (1.0 - probability)
    return _masked(trial, given, probability, given * scale, scale=scale)


def dropout_of_channels(trial: Trial) -> Comparable:
    """As dropout, whole channels at a time."""
    probability, given = trial.bound.number("p", 0.5), trial.given("input")
    if given is None or not trial.bound.get("training") or not 0.0 < probability < 1.0:
        return untouched(trial)
    inner = _inside_a_channel(trial.api, given.ndim)
    result = _masked(trial, given, probability, given / (1.0 - probability), units=inner)
    kept = (trial.outputs["out"] != 0) | (given == 0)
    planes = kept.reshape(*kept.shape[: kept.ndim - inner], -1)
    lost = (trial.outputs["out"] == 0).reshape(planes.shape)
    return result.with_check("out", np.all(planes.all(-1) | lost.all(-1)), "a channel is kept or dropped as a whole")


def _inside_a_channel(api: str, rank: int) -> int:
    """How many trailing axes lie inside a channel: all but batch and channel, or all but the channel where there is no
    batch (dropout2d takes three axes for a batch, a channel and one more)."""
    unbatched = {"1d": 2, "3d": 4}.get(api.rstrip("_")[-2:])
    return max(rank - (1 if rank == unbatched else 2), 0)


def alpha_dropout(trial: Trial) -> Comparable:
    """Elements are set to a constant with probability p; then everything is scaled to keep mean and variance."""
    probability, given = trial.bound.number("p", 0.5), trial.given("input")
    if given is None or not trial.bound.get("training") or not 0.0 < probability < 1.0:
        return untouched(trial)
    scale = ((1.0 - probability) * (1.0 + probability * _SELU_LOW**2)) ** -0.5
    shift = -scale * probability * _SELU_LOW
    expected, constant = scale * given + shift, scale * _SELU_LOW + shift
    out = trial.outputs["out"]
    # An element that is the constant either way tells nothing about the choice.
    decided = np.abs(expected - constant) > 0.05 * abs(scale * _SELU_LOW)
    lost = np.abs(out - constant) <= 0.02 * abs(scale * _SELU_LOW)
    result = untouched(trial).with_output("out", np.where(lost, expected, out))
    units = max(given.ndim - 2, 0) if "feature" in trial.api else 0
    result = _rate_check(result, "out", decided & ~lost, 1.0 - probability, units, decided)
    path = trial.path("input")
    if path in trial.gradients and "out" in trial.arriving:
        gradient = trial.gradients[path]
        result = result.with_gradient(path, np.where(lost, scale * trial.arriving["out"], gradient))
        result = result.with_check(path, np.all(gradient[lost & decided] == 0), "what was dropped has no gradient")
    return result


def _masked(
    trial: Trial, given: Array, probability: float, expected: Array, units: int = 0, scale: float | None = None
) -> Comparable:
    """Dropped elements are replaced by what they would have been, so that only the kept ones can be wrong. ``scale`` is
    by what kept ones are multiplied, if not by 1 / (1 - p)."""
    scale = 1.0 / (1.0 - probability) if scale is None else scale
    out = trial.outputs["out"] if "out" in trial.outputs else trial.outputs["out.0"]
    path = "out" if "out" in trial.outputs else "out.0"
    lost = out == 0
    result = untouched(trial).with_output(path, np.where(lost, expected, out))
    if path == "out.0" and "out.1" in trial.outputs:
        told = trial.outputs["out.1"]
        holds = np.array_equal(told | (given == 0), ~lost | (given == 0))
        result = result.without("out.1", DRAWN).with_check("out.1", holds, "the mask must say what was kept")
    decided = given != 0
    result = _rate_check(result, path, np.where(decided, ~lost, False), 1.0 - probability, units, decided)
    source = trial.path("input")
    if source in trial.gradients and path in trial.arriving:
        gradient, arriving = trial.gradients[source], trial.arriving[path]
        result = result.with_gradient(source, np.where(lost, arriving * scale, gradient))
        consistent = ((gradient == 0) == lost) | ~decided | (arriving == 0)
        result = result.with_check(source, np.all(consistent), "backward must drop what forward dropped")
    return result


def _rate_check(
    result: Comparable, path: str, kept: Array, share: float, units: int = 0, decided: Array | None = None
) -> Comparable:
    """The number kept must be binomial; ``units`` trailing axes are decided together."""
    decided = np.ones(kept.shape, bool) if decided is None else decided
    if units:
        axes = tuple(range(kept.ndim - units, kept.ndim))
        kept, decided = np.asarray(kept.any(axis=axes)), np.asarray(decided.any(axis=axes))
    count, total = int(kept.sum()), int(decided.sum())
    return result.with_check(path, *_binomial(count, total, share))


def _binomial(count: int, total: int, share: float) -> tuple[bool, str]:
    room = SIGMAS * math.sqrt(total * share * (1.0 - share)) + 1.0
    return abs(count - total * share) <= room, f"{count} of {total}, {total * share:.1f} ± {room:.1f} expected"


def leaky_slopes(trial: Trial) -> Comparable:
    """rrelu: negative elements get a random slope between two bounds, the same in backward."""
    given, bound = trial.given("input"), trial.bound
    if given is None or not bound.get("training") or "out" not in trial.outputs:
        return untouched(trial)
    low, high = bound.number("lower", 0.125), bound.number("upper", 1 / 3)
    negative = given < 0
    out = trial.outputs["out"]
    result = untouched(trial).with_output("out", np.where(negative, 0.0, out))
    slopes = out[negative] / given[negative]
    result = _distribution_check(result, "out", slopes, lambda x: (x - low) / (high - low))
    path = trial.path("input")
    if path in trial.gradients and "out" in trial.arriving:
        gradient, arriving = trial.gradients[path], trial.arriving["out"]
        same = np.abs(gradient[negative] - slopes * arriving[negative]) <= 0.02 * np.abs(arriving[negative])
        result = result.with_gradient(path, np.where(negative, 0.0, gradient))
        result = result.with_check(path, np.all(same), "backward must use the slopes of forward")
    return result


def soft_sample(trial: Trial) -> Comparable:
    """gumbel_softmax: a point of the simplex, a corner of it where ``hard``."""
    out, dim = trial.outputs["out"], int(trial.bound.number("dim", -1))
    result = _nothing_comparable(trial, DRAWN)
    sums = out.sum(axis=dim) if out.ndim else out
    holds = np.all(np.abs(sums - 1) < 0.05) and np.all(out >= 0)
    result = result.with_check("out", holds, "positive, adding up to one")
    if trial.bound.get("hard"):
        result = result.with_check("out", np.all(np.isin(out, (0.0, 1.0))), "hard samples are one-hot")
    path = trial.path("logits")
    if path in trial.gradients and out.ndim:
        gradient = trial.gradients[path]
        arrived = np.abs(trial.arriving.get("out", gradient)).max(initial=0.0)
        room = 0.05 * np.abs(gradient).sum(axis=dim) + 0.03 * arrived / (trial.bound.number("tau", 1.0) or 1.0)
        holds = np.all(np.abs(gradient.sum(axis=dim)) <= room)
        result = result.with_check(path, holds, "the gradient of a softmax adds up to nothing")
    return result


def sample_of_windows(trial: Trial) -> Comparable:
    """fractional_max_pool: windows are drawn; every result is an element of its plane."""
    given, rank = trial.given("input"), plane_rank(trial.api)
    path = "out" if "out" in trial.outputs else "out.0"
    result = _nothing_comparable(trial, "the windows are drawn at random")
    if given is None or not given.size:
        return result
    planes = given.reshape(-1, int(np.prod(given.shape[-rank:])))
    picked = trial.outputs[path].reshape(len(planes), -1)
    holds = all(np.isin(some, plane).all() for some, plane in zip(picked, planes, strict=True))
    return result.with_check(path, holds, "every result must be an element of its plane")


def permutation(trial: Trial) -> Comparable:
    """randperm: all numbers below n, once each."""
    out = trial.outputs["out"]
    holds = np.array_equal(np.sort(out), np.arange(out.size))
    return _nothing_comparable(trial, DRAWN).with_check("out", holds, "every number below n must appear once")


def multinomial(trial: Trial) -> Comparable:
    """Numbers of possible classes, none twice without replacement."""
    result, weights, out = _nothing_comparable(trial, DRAWN), trial.given("input"), trial.outputs["out"]
    if weights is None or not out.size:
        return result
    valid = (out >= 0) & (out < weights.shape[-1])
    chances = np.take_along_axis(weights, np.clip(out, 0, weights.shape[-1] - 1), -1)
    result = result.with_check("out", np.all(valid) and np.all(chances > 0), "only classes with a positive weight")
    if not trial.bound.get("replacement"):
        return result.with_check("out", np.all(np.diff(np.sort(out, -1), axis=-1) > 0), "no class twice")
    for share, row in zip(weights.reshape(-1, weights.shape[-1]), out.reshape(-1, out.shape[-1]), strict=True):
        best = int(np.argmax(share))
        result = result.with_check("out", *_binomial(int((row == best).sum()), row.size, share[best] / share.sum()))
    return result


def bernoulli(trial: Trial) -> Comparable:
    """Zeros and ones with given probabilities."""
    out, result = _drawn(trial), _nothing_comparable(trial, DRAWN)
    chances = trial.given("p") if trial.given("p") is not None else trial.given("input")
    share = trial.bound.get("p")
    in_place = trial.api.endswith("_")
    chance = np.full(out.shape, float(share)) if isinstance(share, int | float) else chances
    if chance is None or (in_place and share is None):
        chance = np.full(out.shape, 0.5)
    result = result.with_check("out", np.all((out == 0) | (out == 1)), "zeros and ones only")
    mean, room = float(chance.sum()), SIGMAS * math.sqrt(float((chance * (1 - chance)).sum())) + 1.0
    text = f"{int(out.sum())} ones, {mean:.1f} ± {room:.1f} expected"
    return result.with_check("out", abs(float(out.sum()) - mean) <= room, text)


def counts(trial: Trial) -> Comparable:
    """poisson and binomial: whole numbers whose sum is near its expectation."""
    out, result = _drawn(trial), _nothing_comparable(trial, DRAWN)
    rate, total, chance = trial.given("input"), trial.given("count"), trial.given("prob")
    if rate is not None:
        mean = variance = float(rate.sum())
    elif total is not None and chance is not None:
        mean, variance = float((total * chance).sum()), float((total * chance * (1 - chance)).sum())
        result = result.with_check("out", np.all(out <= total), "not more than there are")
    else:
        return result
    result = result.with_check("out", np.all(out >= 0) and np.all(out == np.rint(out)), "whole numbers, not negative")
    room = SIGMAS * math.sqrt(variance) + 1.0 + 0.01 * mean
    return result.with_check("out", abs(float(out.sum()) - mean) <= room, f"sum {out.sum():.6g}, {mean:.6g} expected")


def uniform(trial: Trial) -> Comparable:
    low, high = trial.bound.number("from", 0.0), trial.bound.number("to", 1.0)
    return _distributed(trial, lambda x: (x - low) / (high - low))


def normal(trial: Trial) -> Comparable:
    """Standard normal after taking away mean and deviation, each a number or a tensor."""
    bound = trial.bound
    mean, deviation = trial.given("mean"), trial.given("std")
    shifted = _drawn(trial) - (mean if mean is not None else bound.number("mean", 0.0))
    scaled = shifted / (deviation if deviation is not None else bound.number("std", 1.0) or 1.0)
    result = _distribution_check(_nothing_comparable(trial, DRAWN), "out", scaled, _normal_share)
    squares, room = float(np.sum(scaled**2)), SIGMAS * math.sqrt(2.0 * scaled.size) + 0.01 * scaled.size
    text = f"sum of squares {squares:.6g}, {scaled.size} ± {room:.3g} expected"
    return result.with_check("out", scaled.size < 100 or abs(squares - scaled.size) <= room, text)


def log_normal(trial: Trial) -> Comparable:
    mean, deviation = trial.bound.number("mean", 1.0), trial.bound.number("std", 2.0)
    return _distributed(trial, lambda x: _normal_share((np.log(np.maximum(x, 1e-300)) - mean) / deviation))


def exponential(trial: Trial) -> Comparable:
    rate = trial.bound.number("lambd", 1.0)
    return _distributed(trial, lambda x: -np.expm1(-rate * x))


def geometric(trial: Trial) -> Comparable:
    probability = trial.bound.number("p", 0.5)
    return _distributed(trial, lambda x: 1.0 - (1.0 - probability) ** x)


def cauchy(trial: Trial) -> Comparable:
    median, width = trial.bound.number("median", 0.0), trial.bound.number("sigma", 1.0)
    return _distributed(trial, lambda x: np.arctan((x - median) / width) / math.pi + 0.5)


def integers(trial: Trial) -> Comparable:
    """randint and random_: whole numbers, evenly spread over a range."""
    bound, out, result = trial.bound, _drawn(trial), _nothing_comparable(trial, DRAWN)
    names = ("from", "to") if trial.api.endswith("random_") else ("low", "high")
    low, high = bound.get(names[0]), bound.get(names[1])
    if not isinstance(high, int):
        low, high = 0, low
    whole = result.with_check("out", np.all(out == np.rint(out)), "whole numbers only")
    if not isinstance(low, int) or not isinstance(high, int) or high <= low:
        return whole
    return _distribution_check(whole, "out", out, lambda x: (x + 1 - low) / (high - low))


def unknown_law(trial: Trial) -> Comparable:
    """Random numbers whose distribution no rule knows."""
    return _nothing_comparable(trial, "random numbers; no rule knows their distribution")


def _drawn(trial: Trial) -> Array:
    """The output, whichever name it has."""
    return trial.outputs["out"] if "out" in trial.outputs else next(iter(trial.outputs.values()))


def _nothing_comparable(trial: Trial, reason: str) -> Comparable:
    return Comparable({}, {}, dropped=dict.fromkeys((*trial.outputs, *trial.gradients), reason))


def _distributed(trial: Trial, share_below: Callable[[Array], Array]) -> Comparable:
    return _distribution_check(_nothing_comparable(trial, DRAWN), "out", _drawn(trial), share_below)


def _distribution_check(
    result: Comparable, path: str, values: Array, share_below: Callable[[Array], Array]
) -> Comparable:
    """Kolmogorov's distance between the values and the distribution with the given shares below each value."""
    ordered = np.sort(np.asarray(values, np.float64).reshape(-1))
    if not ordered.size:
        return result
    if not np.isfinite(ordered).all():
        return result.with_check(path, False, "random numbers must be finite")
    wanted = share_below(ordered)
    # Equal values count together: the share of values not above each of them.
    found = np.searchsorted(ordered, ordered, side="right") / ordered.size
    distance, room = float(np.max(np.abs(found - wanted))), KOLMOGOROV / math.sqrt(ordered.size) + GRAIN
    within = bool(np.all((wanted >= -GRAIN) & (wanted <= 1 + GRAIN)))
    text = f"distance {distance:.3g} from the distribution, at most {room:.3g} expected"
    return result.with_check(path, within and distance <= room, text)


def _normal_share(values: Array) -> Array:
    """The share of the standard normal distribution below each value, on a grid fine enough for the check."""
    grid = np.linspace(-8.0, 8.0, 4001)
    shares = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in grid])
    return np.interp(values, grid, shares)
