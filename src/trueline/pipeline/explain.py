"""Says in words how two sets of numbers that should be alike are related, where a known mistake relates them.

Each hypothesis makes, of what is right, what the mistake would have made of it; the first that comes near enough to
what was made is told. Nothing is decided here: a verdict stands whether or not it can be explained.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trueline.pipeline.gold import error_of

Doubles = np.ndarray[Any, np.dtype[np.float64]]

_NEAR = 1e-3
"""Of a difference that a hypothesis must leave at most."""
_FLOOR = 1e-5
_CHANNELS = (3, 4)
"""Numbers of channels that pictures have."""


def how_related(made: Doubles, right: Doubles) -> str:
    """In which known way ``made`` came from ``right``; empty where none fits."""
    if made.shape != right.shape:
        return _by_shape(made, right)
    if not np.isfinite(right).all() or not right.size:
        return ""
    if not np.isfinite(made).all():
        return ""
    before = error_of(made, right).spread
    limit = max(_NEAR * min(before, 1.0), _FLOOR)
    with np.errstate(all="ignore"):
        for text, guess in _guesses(made, right):
            if guess.shape != made.shape or not np.isfinite(guess).all():
                continue
            if error_of(made, guess).spread <= limit < before:
                return text
    return ""


def _by_shape(made: Doubles, right: Doubles) -> str:
    if sorted(made.shape) != sorted(right.shape):
        if made.size == right.size:
            return "the same number of elements in another shape"
        return ""
    for axes in itertools.permutations(range(right.ndim)):
        turned = np.transpose(right, axes)
        if turned.shape == made.shape and error_of(made, turned).spread <= _FLOOR:
            return f"its axes are those of the reference in the order {axes}"
    return "its axes are in another order"


def _guesses(made: Doubles, right: Doubles) -> Iterator[tuple[str, Doubles]]:
    yield from _rearranged(made, right)
    yield from _activated(right)
    yield from _per_sample(made, right)
    yield from _scaled(made, right)


def _rearranged(made: Doubles, right: Doubles) -> Iterator[tuple[str, Doubles]]:
    for first, second in itertools.combinations(range(right.ndim), 2):
        if right.shape[first] == right.shape[second]:
            yield f"axes {first} and {second} are swapped", np.swapaxes(right, first, second)
    for axis in range(right.ndim):
        name = "the samples are" if axis == 0 else "the channels are" if _is_channel(right, axis) else f"axis {axis} is"
        yield f"{name} in reverse order", np.flip(right, axis)
    if made.ndim > 1 and len(made) > 1:
        yield "every sample gives what the first one should", np.broadcast_to(right[:1], right.shape)


def _is_channel(array: Doubles, axis: int) -> bool:
    return array.ndim > 2 and array.shape[axis] in _CHANNELS and axis in (1, array.ndim - 1)


def _activated(right: Doubles) -> Iterator[tuple[str, Doubles]]:
    if right.ndim < 1 or right.shape[-1] < 2:
        return
    functions: tuple[tuple[str, Callable[[Doubles], Doubles]], ...] = (
        ("a softmax was applied once more", _softmax),
        ("a logarithm of a softmax was applied once more", lambda values: np.log(_softmax(values))),
        ("a sigmoid was applied once more", lambda values: 1.0 / (1.0 + np.exp(-values))),
        ("a ReLU was applied once more", lambda values: np.maximum(values, 0.0)),
        ("a tanh was applied once more", np.tanh),
    )
    for text, function in functions:
        yield text, function(right)
    if (right > 0.0).all() and np.allclose(right.sum(-1), 1.0, atol=1e-4):
        logarithms = np.log(right)
        yield "a softmax was left out", logarithms - logarithms.mean(-1, keepdims=True)


def _softmax(values: Doubles) -> Doubles:
    powers = np.exp(values - values.max(-1, keepdims=True))
    made: Doubles = powers / powers.sum(-1, keepdims=True)
    return made


def _per_sample(made: Doubles, right: Doubles) -> Iterator[tuple[str, Doubles]]:
    """What is added to every sample alike."""
    if made.ndim < 2 or len(made) < 3:
        return
    shift = (made - right).mean(axis=0, keepdims=True)
    yield "it differs by the same vector for every sample: a bias is missing, or one too many", right + shift


def _scaled(made: Doubles, right: Doubles) -> Iterator[tuple[str, Doubles]]:
    if made.size < 16:
        return
    factor, shift = _line(right.reshape(-1), made.reshape(-1))
    yield f"it is {factor:.6g} times the right one, plus {shift:.6g}", factor * right + shift
    if right.ndim < 3:
        return
    for axis in (1, right.ndim - 1):
        if not _is_channel(right, axis):
            continue
        others = np.moveaxis(right, axis, 0).reshape(right.shape[axis], -1)
        mine = np.moveaxis(made, axis, 0).reshape(right.shape[axis], -1)
        lines = [_line(one, other) for one, other in zip(others, mine, strict=True)]
        shape = [1] * right.ndim
        shape[axis] = right.shape[axis]
        factors = np.array([line[0] for line in lines]).reshape(shape)
        shifts = np.array([line[1] for line in lines]).reshape(shape)
        text = ", ".join(f"{factor:.4g}·x{shift:+.4g}" for factor, shift in lines)
        yield f"each channel is scaled and shifted by itself ({text}): another normalisation", factors * right + shifts
        for order in itertools.permutations(range(right.shape[axis])):
            turned = np.take(right, order, axis=axis)
            yield f"the channels are in the order {order}", turned


def _line(given: Doubles, made: Doubles) -> tuple[float, float]:
    """Factor and shift of the straight line through the points, by least squares."""
    middle = given - given.mean()
    size = float(np.dot(middle, middle))
    factor = float(np.dot(middle, made - made.mean())) / size if size > 0.0 else 0.0
    return factor, float(made.mean() - factor * given.mean())
