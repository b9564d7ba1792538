"""Paddle's losses that torch has not, or has with other parameters. Names are Paddle's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.base import CannotExecute, one_of
from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import reduced


@composite
def cross_entropy(
    input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
    soft_label: bool = False, axis: int = -1, use_softmax: bool = True, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """A label that is ignored loses its loss; where ``ignore_index`` is negative it counts in the mean all the same."""
    one_of("reduction", reduction, "mean", "sum", "none")
    flat = label.ndim == input.ndim - 1
    scores = torch.log_softmax(input, axis) if use_softmax else torch.log(input)
    if not soft_label and label_smoothing == 0:
        loss, weights = _hard(scores, label if flat else label.squeeze(axis), weight, ignore_index, axis)
    else:
        loss, weights = _soft(scores, label, weight, label_smoothing, axis)
    if reduction == "mean":
        every = weight is None and (soft_label or label_smoothing > 0 or ignore_index < 0)
        return loss.mean() if every else loss.sum() / weights.sum()
    return loss.sum() if reduction == "sum" else (loss if flat else loss.unsqueeze(axis))


def _hard(scores: Tensor, label: Tensor, weight: Tensor | None, ignore: int, axis: int) -> tuple[Tensor, Tensor]:
    valid = label != ignore
    index = torch.where(valid, label, 0).long()
    weights = valid.to(scores.dtype) if weight is None else weight[index] * valid
    return -scores.gather(axis, index.unsqueeze(axis)).squeeze(axis) * weights, weights


def _soft(scores: Tensor, label: Tensor, weight: Tensor | None, smoothing: float, axis: int) -> tuple[Tensor, Tensor]:
    classes = scores.shape[axis]
    if label.ndim < scores.ndim:
        label = functional.one_hot(label.long(), classes).movedim(-1, axis)
    target = label.to(scores.dtype)
    target = target * (1 - smoothing) + smoothing / classes if smoothing else target
    loss = -(target * scores).sum(axis)
    weights = torch.ones_like(loss) if weight is None else target.movedim(axis, -1) @ weight
    return loss * weights, weights


@composite
def softmax_with_cross_entropy(
    logits: Tensor, label: Tensor, soft_label: bool = False, ignore_index: int = -100,
    numeric_stable_mode: bool = True, return_softmax: bool = False, axis: int = -1,
) -> Any:  # fmt: skip
    """No gradient flows through the softmax that is returned beside the loss."""
    scores = torch.log_softmax(logits, axis)
    if soft_label:
        loss = -(label * scores).sum(axis, keepdim=True)
    else:
        loss = _hard(scores, label.squeeze(axis), None, ignore_index, axis)[0].unsqueeze(axis)
    return (loss, torch.softmax(logits, axis).detach()) if return_softmax else loss


@composite
def ctc_loss(
    log_probs: Tensor, labels: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int = 0,
    reduction: str = "mean", norm_by_times: bool = False, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Paddle takes scores that are no logarithms of probabilities yet."""
    if norm_by_times:
        raise CannotExecute("norm_by_times divides the gradient without touching the loss; torch has nothing like it")
    loss = functional.ctc_loss(torch.log_softmax(log_probs, -1), labels.long(), input_lengths.long(),
                               label_lengths.long(), blank, "none", zero_infinity)  # fmt: skip
    return (loss / label_lengths).mean() if reduction == "mean" else reduced(loss, reduction)


@composite
def rnnt_loss(
    input: Tensor, label: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int = 0,
    fastemit_lambda: float = 0.001, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The forward sums of the transducer over logarithms of probabilities, which Paddle on the CPU takes as they are;
    ``fastemit_lambda`` would change the gradient alone."""
    if fastemit_lambda != 0:
        raise CannotExecute("fastemit_lambda changes the gradient without touching the loss; only 0 has a counterpart")
    losses = []
    for grid, target, times, length in zip(input, label, input_lengths.tolist(), label_lengths.tolist(), strict=True):
        silent = grid[:times, :, blank]
        emitted = grid[:times, :length].gather(2, target[:length].long().expand(times, -1).unsqueeze(2)).squeeze(2)
        alpha = torch.cat([silent.new_zeros(1), emitted[0].cumsum(0)])
        for time in range(1, times):
            stayed = alpha + silent[time - 1, : length + 1]
            row = [stayed[0]]
            for place in range(length):
                row.append(torch.logaddexp(stayed[place + 1], row[-1] + emitted[time, place]))
            alpha = torch.stack(row)
        losses.append(-(alpha[length] + silent[times - 1, length]))
    return reduced(torch.stack(losses), reduction)


@composite
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, label: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Paddle adds 1e-11 to the squares of both norms, torch 1e-12."""
    squares = [(one * one).sum(-1) + 1e-11 for one in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / torch.sqrt(squares[0] * squares[1])
    return reduced(torch.where(label == 1, 1 - cosine, (cosine - margin).clamp(min=0)), reduction)


@composite
def margin_ranking_loss(
    input: Tensor, other: Tensor, label: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Paddle's label may have to be stretched to the shape of the inputs."""
    input, other, label = torch.broadcast_tensors(input, other, label)
    return functional.margin_ranking_loss(input, other, label, margin, reduction=reduction)


@composite
def dice_loss(input: Tensor, label: Tensor, epsilon: float = 1e-5) -> Tensor:
    target = functional.one_hot(label.squeeze(-1).long(), input.shape[-1]).to(input.dtype)
    dims = list(range(1, input.ndim))
    return (1 - 2 * (input * target).sum(dims) / (input.sum(dims) + target.sum(dims) + epsilon)).mean()


@composite
def log_loss(input: Tensor, label: Tensor, epsilon: float = 1e-4) -> Tensor:
    return -label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon)


@composite
def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Tensor:
    same = (labels.reshape(-1, 1) == labels.reshape(1, -1)).to(anchor.dtype)
    target = same / same.sum(1, keepdim=True)
    size = (anchor.square().sum(1).mean() + positive.square().sum(1).mean()) * 0.25 * l2_reg
    entropy = -(target * torch.log_softmax(anchor @ positive.T, -1)).sum(1, keepdim=True)
    return size + (target * entropy).sum(0).mean()


@composite
def sigmoid_focal_loss(
    logit: Tensor, label: Tensor, normalizer: Tensor | None = None, alpha: float = 0.25, gamma: float = 2.0,
    reduction: str = "sum",
) -> Tensor:  # fmt: skip
    chance = torch.sigmoid(logit)
    hit = chance * label + (1 - chance) * (1 - label)
    loss = functional.binary_cross_entropy_with_logits(logit, label, reduction="none")
    loss = (alpha * label + (1 - alpha) * (1 - label)) * (1 - hit).pow(gamma) * loss
    return reduced(loss if normalizer is None else loss / normalizer, reduction)


@composite
def smooth_l1_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", delta: float = 1.0, is_huber: bool = True
) -> Tensor:
    kind = torch.promote_types(input.dtype, label.dtype)
    loss = functional.huber_loss(input.to(kind), label.to(kind), reduction="none", delta=delta)
    return reduced(loss if is_huber else loss / delta, reduction)


@composite
def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    return (input - label).square()


@composite
def hsigmoid_loss(
    input: Tensor, label: Tensor, num_classes: int, weight: Tensor, bias: Tensor | None = None,
    path_table: Tensor | None = None, path_code: Tensor | None = None, is_sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of the logistic losses along the way from the root of a tree to a class; by default the complete binary
    tree, in which the nodes above class ``c`` are the leading bits of ``c + num_classes``."""
    losses = []
    for row, place in enumerate(label.reshape(-1).tolist()):
        if path_table is None or path_code is None:
            leaf = int(place) + num_classes
            levels = range(leaf.bit_length() - 1)
            nodes = [(leaf >> (level + 1)) - 1 for level in levels]
            turns = [(leaf >> level) & 1 for level in levels]
        else:
            kept = path_table[row] >= 0
            nodes, turns = path_table[row][kept].tolist(), path_code[row][kept].tolist()
        scores = weight[nodes] @ input[row]
        scores = scores if bias is None else scores + bias.reshape(-1)[nodes]
        losses.append((functional.softplus(scores) - scores * scores.new_tensor(turns)).sum())
    return torch.stack(losses).unsqueeze(1)


@composite
def adaptive_log_softmax_with_loss(
    input: Tensor, label: Tensor, head_weight: Tensor, tail_weights: Any, cutoffs: Any, head_bias: Any = None
) -> Any:
    head = input @ head_weight if head_bias is None else input @ head_weight + head_bias
    scores = torch.log_softmax(head, 1)
    first = scores.gather(1, label.clamp(max=int(cutoffs[0]) - 1).unsqueeze(1).long()).squeeze(1)
    output = torch.where(label < cutoffs[0], first, 0.0)
    for place, (narrow, wide) in enumerate(tail_weights):
        low, high = int(cutoffs[place]), int(cutoffs[place + 1])
        inner = torch.log_softmax(input @ narrow @ wide, 1)
        relative = (label - low).clamp(0, high - low - 1).unsqueeze(1).long()
        found = scores[:, int(cutoffs[0]) + place] + inner.gather(1, relative).squeeze(1)
        output = torch.where((label >= low) & (label < high), found, output)
    return output, -output.mean()


@composite
def identity_loss(x: Tensor, reduction: Any = "none") -> Tensor:
    """The reduction may be a word or its number."""
    return reduced(x, {0: "sum", 1: "mean", 2: "none"}.get(reduction, reduction))
