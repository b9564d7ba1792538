"""Wide loss functions with their backward operators."""

from __future__ import annotations

import numpy as np

from trueline.frameworks.torch.wide.elementwise import sigmoid, softplus_one
from trueline.frameworks.torch.wide.table import REAL, Array, add_at, entry, folded

NONE, MEAN, SUM = 0, 1, 2
"""How a loss is reduced, as aten counts."""


def reduced(loss: Array, reduction: int) -> Array:
    if reduction == NONE:
        return loss
    total = np.asarray(loss.sum())
    return total / REAL(loss.size) if reduction == MEAN else total


def _share(grad_output: Array, size: int, reduction: int) -> Array:
    return grad_output / REAL(size) if reduction == MEAN else grad_output


@entry("mse_loss")
def mse_loss(self: Array, target: Array, reduction: int = MEAN) -> Array:
    return reduced((self - target) ** 2, reduction)


@entry("mse_loss_backward")
def mse_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int) -> Array:
    off = self - target
    return 2 * off * _share(grad_output, off.size, reduction)


@entry("smooth_l1_loss")
def smooth_l1_loss(self: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    off = np.abs(self - target)
    small = off * off / (2 * REAL(beta)) if beta else off
    return reduced(np.where(off < beta, small, off - REAL(beta) / 2), reduction)


@entry("smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int, beta: float) -> Array:
    off = self - target
    slope = np.where(np.abs(off) < beta, off / REAL(beta), np.sign(off))
    return slope * _share(grad_output, off.size, reduction)


@entry("huber_loss")
def huber_loss(self: Array, target: Array, reduction: int = MEAN, delta: float = 1.0) -> Array:
    off = np.abs(self - target)
    return reduced(np.where(off <= delta, off * off / 2, delta * (off - REAL(delta) / 2)), reduction)


@entry("huber_loss_backward")
def huber_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int, delta: float) -> Array:
    off = self - target
    slope = np.where(np.abs(off) <= delta, off, np.sign(off) * delta)
    return slope * _share(grad_output, off.size, reduction)


@entry("binary_cross_entropy")
def binary_cross_entropy(self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN) -> Array:
    log_yes, log_no = np.maximum(np.log(self), -100), np.maximum(np.log1p(-self), -100)
    loss = (target - 1) * log_no - target * log_yes
    return reduced(loss if weight is None else loss * weight, reduction)


BCE_FLOOR = 1e-12
"""Torch keeps the denominator of this gradient above it."""


@entry("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    slope = (self - target) / np.maximum((1 - self) * self, BCE_FLOOR)
    slope = slope if weight is None else slope * weight
    return slope * _share(grad_output, self.size, reduction)


@entry("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None, reduction: int = MEAN
) -> Array:
    positive = 1 if pos_weight is None else pos_weight
    loss = target * positive * softplus_one(-self) + (1 - target) * softplus_one(self)
    return reduced(loss if weight is None else loss * weight, reduction)


@entry("soft_margin_loss")
def soft_margin_loss(self: Array, target: Array, reduction: int = MEAN) -> Array:
    return reduced(softplus_one(-self * target), reduction)


@entry("soft_margin_loss_backward")
def soft_margin_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int) -> Array:
    return -target * sigmoid(-target * self) * _share(grad_output, self.size, reduction)


def _nll_pieces(self: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array, Array]:
    """Classes on the last axis: the index of each, its weight (zero where ignored), and its loss."""
    ignored = target == ignore_index
    index = np.where(ignored, 0, target)
    share = np.where(ignored, 0, REAL(1) if weight is None else weight[index])
    picked = np.take_along_axis(self, index[..., None], axis=-1)[..., 0]
    return index, share, np.where(ignored, 0, -picked * share)


@entry("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    scores = np.moveaxis(self, 1, -1) if self.ndim > 1 else self
    _, share, loss = _nll_pieces(scores, target, weight, ignore_index)
    total = np.asarray(share.sum()).astype(REAL)
    if reduction == NONE:
        return loss, np.zeros((), REAL)
    return np.asarray(loss.sum()) / (total if reduction == MEAN else 1), total


@entry("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    scores = np.moveaxis(self, 1, -1) if self.ndim > 1 else self
    index, share, _ = _nll_pieces(scores, target, weight, ignore_index)
    gradient = np.zeros(scores.shape, self.dtype)
    slope = -share * (grad_output / total_weight if reduction == MEAN else grad_output)
    slope = np.where(target == ignore_index, 0, slope)
    np.put_along_axis(gradient, index[..., None], slope[..., None], axis=-1)
    return np.moveaxis(gradient, -1, 1) if self.ndim > 1 else gradient


def _margins(self: Array, target: Array, margin: float) -> tuple[Array, Array]:
    rows = np.atleast_2d(self)
    index = np.asarray(target).reshape(-1, 1)
    gap = margin - np.take_along_axis(rows, index, axis=1) + rows
    own = np.arange(rows.shape[1])[None] == index
    return np.where(own, 0, np.maximum(gap, 0)), own


@entry("multi_margin_loss")
def multi_margin_loss(
    self: Array, target: Array, p: int = 1, margin: float = 1, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    gap, _ = _margins(self, target, margin)
    loss = (gap**p).sum(axis=1) / REAL(gap.shape[1])
    loss = loss if weight is None else loss * weight[np.asarray(target).reshape(-1)]
    return reduced(loss.reshape(np.shape(target)), reduction)


@entry("multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    p: int,
    margin: float,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    gap, own = _margins(self, target, margin)
    slope = np.where(gap > 0, p * gap ** (p - 1), 0) / REAL(gap.shape[1])
    slope = slope if weight is None else slope * weight[np.asarray(target).reshape(-1)][:, None]
    slope = np.where(own, -slope.sum(axis=1, keepdims=True), slope)
    arriving = _share(grad_output, gap.shape[0], reduction)
    return (slope * (arriving.reshape(-1, 1) if arriving.ndim else arriving)).reshape(self.shape)


@entry("multilabel_margin_loss_forward")
def multilabel_margin_loss(self: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    pairs, labelled = _label_pairs(self, target)
    loss = pairs.sum(axis=(1, 2)) / REAL(pairs.shape[2])
    return reduced(loss.reshape(self.shape[:-1]), reduction), labelled.reshape(self.shape).astype(REAL)


def _label_pairs(self: Array, target: Array) -> tuple[Array, Array]:
    """For each row, label and other class, by how much the label fails to win; and which classes are labels."""
    rows, labels = np.atleast_2d(self), np.atleast_2d(target)
    ended = np.cumsum(labels < 0, axis=1) > 0
    labelled = np.zeros(rows.shape, bool)
    for row, label in zip(*np.nonzero(~ended), strict=True):
        labelled[row, labels[row, label]] = True
    index = np.where(ended, 0, labels)
    gap = 1 - np.take_along_axis(rows, index, axis=1)[:, :, None] + rows[:, None, :]
    wanted = ~ended[:, :, None] & ~labelled[:, None, :]
    return np.where(wanted, np.maximum(gap, 0), 0), labelled


@entry("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    grad_output: Array, self: Array, target: Array, reduction: int, is_target: Array
) -> Array:
    pairs, _ = _label_pairs(self, target)
    labels = np.atleast_2d(target)
    active = (pairs > 0).astype(REAL) / REAL(pairs.shape[2])
    gradient = active.sum(axis=1)
    rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)
    add_at(gradient, (rows, np.where(labels < 0, 0, labels)), -active.sum(axis=2))
    arriving = _share(grad_output, len(labels), reduction)
    return (gradient * (arriving.reshape(-1, 1) if arriving.ndim else arriving)).reshape(self.shape)


@entry("_euclidean_dist")
def euclidean_distance(x1: Array, x2: Array) -> Array:
    return _pairwise(x1, x2, 2.0)


@entry("_cdist_forward")
def cdist(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    return _pairwise(x1, x2, p)


def _pairwise(x1: Array, x2: Array, p: float) -> Array:
    off = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 0:
        return (off != 0).sum(axis=-1).astype(REAL)
    if p == float("inf"):
        return off.max(axis=-1, initial=0)
    return np.power(np.power(off, REAL(p)).sum(axis=-1), 1 / REAL(p)) if p != 2 else np.sqrt((off * off).sum(axis=-1))


def _distance_slope(off: Array, distance: Array, p: float) -> Array:
    """The derivative of a p-norm distance by each coordinate's difference; zero where points coincide."""
    if p == 0:
        return np.zeros_like(off)
    if p == 1:
        return np.sign(off)
    if p == float("inf"):
        return np.sign(off) * (np.abs(off) == distance)
    below = np.where(distance == 0, 1, distance)
    slope = np.sign(off) * np.power(np.abs(off), REAL(p) - 1) / np.power(below, REAL(p) - 1)
    return np.where((distance == 0) | (off == 0), 0, slope)


@entry("_cdist_backward")
def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, cdist: Array) -> Array:
    off = x1[..., :, None, :] - x2[..., None, :, :]
    slope = _distance_slope(off, cdist[..., None], p)
    return folded((grad[..., None] * slope).sum(axis=-2), x1.shape)


@entry("_pdist_forward")
def pdist(self: Array, p: float = 2) -> Array:
    first, second = np.triu_indices(self.shape[0], 1)
    return _pairwise(self[first][:, None], self[second][:, None], p).reshape(-1)


@entry("_pdist_backward")
def pdist_backward(grad: Array, self: Array, p: float, pdist: Array) -> Array:
    first, second = np.triu_indices(self.shape[0], 1)
    slope = _distance_slope(self[first] - self[second], pdist[:, None], p) * grad[:, None]
    result = np.zeros_like(self)
    add_at(result, first, slope)
    add_at(result, second, -slope)
    return result
