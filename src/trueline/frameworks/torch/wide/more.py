"""Wide operators that fit nowhere else: shuffles, unique, bags of embeddings, segments, CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.shapes import as_strided
from trueline.frameworks.torch.wide.table import REAL, Array, add_at, entry


@entry("pixel_shuffle")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    *leading, channels, height, width = self.shape
    r = upscale_factor
    split = self.reshape(*leading, channels // (r * r), r, r, height, width)
    n = len(leading)
    moved = split.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*leading, channels // (r * r), height * r, width * r)


@entry("pixel_unshuffle")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    *leading, channels, height, width = self.shape
    r = downscale_factor
    split = self.reshape(*leading, channels, height // r, r, width // r, r)
    n = len(leading)
    moved = split.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return moved.reshape(*leading, channels * r * r, height // r, width // r)


@entry("channel_shuffle")
def channel_shuffle(self: Array, groups: int) -> Array:
    batch, channels, *rest = self.shape
    return self.reshape(batch, groups, channels // groups, *rest).swapaxes(1, 2).reshape(self.shape)


@entry("narrow_copy")
def narrow_copy(self: Array, dim: int, start: int, length: int) -> Array:
    return np.take(self, np.arange(start, start + length), axis=dim)


@entry("allclose")
def allclose(self: Array, other: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(np.allclose(self, other, rtol, atol, equal_nan))


@entry("as_strided_scatter")
def as_strided_scatter(
    self: Array, src: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    result = self.copy()
    as_strided(result, size, stride, storage_offset)[...] = src
    return result


@entry("_unique2")
def unique(
    self: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, Array, Array]:
    values, inverse, counts = np.unique(self, return_inverse=True, return_counts=True)
    empty = np.zeros(0, np.int64)
    return (
        values,
        inverse.reshape(self.shape) if return_inverse or return_counts else empty,
        counts if return_counts else empty,
    )


@entry("unique_dim")
def unique_dim(
    self: Array, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, Array, Array]:
    values, inverse, counts = np.unique(self, return_inverse=True, return_counts=True, axis=dim)
    empty = np.zeros(0, np.int64)
    return values, inverse.reshape(-1) if return_inverse else empty, counts if return_counts else empty


@entry("unique_consecutive")
def unique_consecutive(
    self: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Array, Array, Array]:
    rows = self.reshape(-1) if dim is None else np.moveaxis(self, dim, 0)
    changed = np.ones(len(rows), bool)
    changed[1:] = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    inverse = np.cumsum(changed) - 1
    kept = rows[changed]
    empty = np.zeros(0, np.int64)
    return (
        kept if dim is None else np.moveaxis(kept, 0, dim),
        (inverse.reshape(self.shape) if dim is None else inverse) if return_inverse else empty,
        np.bincount(inverse, minlength=len(kept)) if return_counts else empty,
    )


@entry("_unsafe_masked_index")
def unsafe_masked_index(self: Array, mask: Array, indices: Sequence[Array | None], fill: Any) -> Array:
    places = tuple(
        slice(None) if one is None else np.clip(one, 0, size - 1)
        for one, size in zip(indices, self.shape, strict=False)
    )
    return np.where(mask, self[places], np.asarray(fill).astype(self.dtype))


@entry("_unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put(self: Array, mask: Array, indices: Sequence[Array | None], values: Array) -> Array:
    places = tuple(
        slice(None) if one is None else np.clip(one, -size, size - 1)
        for one, size in zip(indices, self.shape, strict=False)
    )
    result = self.copy()
    add_at(result, places, np.where(mask, values, 0))
    return result


BAG_SUM, BAG_MEAN, BAG_MAX = 0, 1, 2


def _bags(indices: Array, offsets: Array, include_last: bool) -> tuple[Array, int]:
    """The number of the bag of each index, and how many bags there are."""
    count = len(offsets) - 1 if include_last else len(offsets)
    starts = offsets[:count]
    return np.searchsorted(starts, np.arange(len(indices)), side="right") - 1, count


@entry("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = BAG_SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, Array, Array, Array]:
    bag, count = _bags(indices, offsets, include_last_offset)
    kept = indices != padding_idx
    rows = weight[indices] if per_sample_weights is None else weight[indices] * per_sample_weights[:, None]
    sizes = np.bincount(bag[kept], minlength=count)
    result = np.zeros((count, weight.shape[1]), weight.dtype)
    largest = np.zeros((0,), np.int64)
    if mode == BAG_MAX:
        largest = np.full(result.shape, -1, np.int64)
        for number in range(count):
            chosen = np.nonzero((bag == number) & kept)[0]
            if len(chosen):
                best = chosen[np.argmax(rows[chosen], axis=0)]
                largest[number] = indices[best]
                result[number] = rows[best, np.arange(weight.shape[1])]
    else:
        add_at(result, bag[kept], rows[kept])
        if mode == BAG_MEAN:
            result = result / np.maximum(sizes, 1)[:, None].astype(REAL)
    return result, bag.astype(indices.dtype), sizes.astype(indices.dtype), largest.astype(indices.dtype)


def _embedding_bag_backward(
    grad: Array,
    indices: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Array | None,
    padding_idx: int = -1,
) -> Array:
    result = np.zeros((num_weights, grad.shape[1]), grad.dtype)
    if mode == BAG_MAX:
        rows, columns = np.nonzero(maximum_indices >= 0)
        add_at(result, (maximum_indices[rows, columns], columns), grad[rows, columns])
        return result
    kept = indices != padding_idx
    rows = grad[offset2bag]
    if mode == BAG_MEAN:
        rows = rows / np.maximum(bag_size, 1)[offset2bag][:, None].astype(REAL)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if scale_grad_by_freq:
        rows = rows / np.bincount(indices, minlength=num_weights)[indices][:, None].astype(REAL)
    add_at(result, indices[kept], rows[kept])
    return result


@entry("_embedding_bag_backward")
def embedding_bag_backward(
    grad: Array,
    indices: Array,
    offsets: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Array | None,
    padding_idx: int = -1,
) -> Array:
    bag = offset2bag if len(offset2bag) == len(indices) else _bags(indices, offsets, False)[0]
    return _embedding_bag_backward(
        grad, indices, bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
        padding_idx,
    )  # fmt: skip


@entry("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(
    grad: Array, weight: Array, indices: Array, offsets: Array, offset2bag: Array, mode: int, padding_idx: int = -1
) -> Array:
    return np.where(indices == padding_idx, 0, (grad[offset2bag] * weight[indices]).sum(axis=1))


def _extended(labels: Array, blank: int) -> Array:
    """The labels of one sample with blanks around them."""
    result = np.full(2 * len(labels) + 1, blank, np.int64)
    result[1::2] = labels
    return result


def _samples(targets: Array, lengths: Sequence[int]) -> list[Array]:
    if targets.ndim == 2:
        return [row[:length] for row, length in zip(targets, lengths, strict=True)]
    ends = np.cumsum(lengths)
    return [targets[int(end) - length : int(end)] for end, length in zip(ends, lengths, strict=True)]


def _alphas(scores: Array, path: Array) -> Array:
    """The forward variables of CTC in logarithms: time by place on the path. Backwards, with both turned round, they
    are its backward variables."""
    steps, places = len(scores), len(path)
    alpha = np.full((steps, places), -np.inf, REAL)
    alpha[0, :2] = scores[0, path[:2]]
    skips = np.zeros(places, bool)
    skips[2:] = path[2:] != path[:-2]
    for time in range(1, steps):
        before = alpha[time - 1]
        one = np.concatenate([[REAL("-inf")], before[:-1]])
        two = np.where(skips, np.concatenate([[REAL("-inf")] * 2, before[:-2]])[:places], -np.inf)
        alpha[time] = np.logaddexp(np.logaddexp(before, one), two) + scores[time, path]
    return alpha


def _lengths(values: Any) -> list[int]:
    return [int(one) for one in np.asarray(values).reshape(-1)]


@entry("_ctc_loss")
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Array, Array]:
    inputs, wanted = _lengths(input_lengths), _lengths(target_lengths)
    width = 2 * max(wanted, default=0) + 1
    losses = np.zeros(len(wanted), REAL)
    alphas = np.full((len(wanted), log_probs.shape[0], width), -np.inf, REAL)
    for number, labels in enumerate(_samples(targets, wanted)):
        path = _extended(labels, blank)
        if inputs[number] == 0:
            losses[number] = 0 if len(labels) == 0 else np.inf
            continue
        alpha = _alphas(log_probs[: inputs[number], number], path)
        alphas[number, : len(alpha), : len(path)] = alpha
        losses[number] = -np.logaddexp.reduce(alpha[-1, -2:])
    return losses, alphas


@entry("_ctc_loss_backward")
def ctc_loss_backward(
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Any,
    target_lengths: Any,
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """As torch defines it: the gradient for inputs that are themselves a log_softmax."""
    inputs, wanted = _lengths(input_lengths), _lengths(target_lengths)
    result = np.zeros(log_probs.shape, REAL)
    for number, labels in enumerate(_samples(targets, wanted)):
        loss = neg_log_likelihood[number]
        if inputs[number] == 0 or (zero_infinity and np.isposinf(loss)):
            continue
        scores, path = log_probs[: inputs[number], number], _extended(labels, blank)
        beta = np.flip(_alphas(np.flip(scores, 0), path[::-1]), (0, 1))
        joint = log_alpha[number, : len(scores), : len(path)] + beta
        share = np.full(scores.shape, -np.inf, REAL)
        for place, label in enumerate(path):
            share[:, label] = np.logaddexp(share[:, label], joint[:, place])
        result[: len(scores), number] = (np.exp(scores) - np.exp(share + loss - scores)) * grad[number]
    return result
