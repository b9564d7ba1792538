"""Wrong kernels of losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power.recipes import BRAIN, HALF, SINGLE, Arguments, Draw, call, wrong

FUNCTIONAL = "torch.nn.functional"
CROSS, NLL = f"{FUNCTIONAL}.cross_entropy", f"{FUNCTIONAL}.nll_loss"
BCE, BCE_LOGITS = f"{FUNCTIONAL}.binary_cross_entropy", f"{FUNCTIONAL}.binary_cross_entropy_with_logits"


def classes(d: Draw) -> Arguments:
    return call(d.normal(128, 100), d.integers(128, high=100))


def padded(d: Draw) -> Arguments:
    labels = d.integers(128, high=100)
    return call(d.normal(128, 100), torch.where(d.mask(128, share=0.15), -100, labels))


def segmented(d: Draw) -> Arguments:
    return call(d.normal(2, 21, 16, 16), d.integers(2, 16, 16, high=21))


def two(d: Draw) -> Arguments:
    return call(d.normal(64, 64), d.normal(64, 64))


def binary(d: Draw) -> Arguments:
    return call(d.normal(64, 32), d.mask(64, 32, share=0.3).to(d.dtype))


def probabilities(d: Draw) -> Arguments:
    return call(d.uniform(64, 32, low=0.02, high=0.98), d.mask(64, 32, share=0.3).to(d.dtype))


def triple(d: Draw) -> Arguments:
    return call(d.normal(64, 32), d.normal(64, 32), d.normal(64, 32))


@wrong(CROSS, "ignored argument", "label smoothing ignored", lambda d: call(*classes(d).args, label_smoothing=0.1))
def cross_entropy_unsmoothed(input: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(input, target)


@wrong(CROSS, "wrong denominator", "ignored labels counted in the mean", padded)
def cross_entropy_counts_ignored(input: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(input, target, reduction="sum") / len(target)


@wrong(CROSS, "ignored argument", "ignore_index ignored: the label counts as class 0", padded)
def cross_entropy_keeps_ignored(input: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(input, target.clamp_min(0))


@wrong(
    CROSS,
    "ignored argument",
    "class weights ignored",
    lambda d: call(*classes(d).args, d.buffer(d.uniform(100, low=0.3, high=2.0))),
)
def cross_entropy_unweighted(input: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return F.cross_entropy(input, target)


@wrong(CROSS, "low precision inside", "log softmax in bfloat16", classes, segmented, dtypes=(SINGLE, HALF))
def cross_entropy_bf16(input: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(torch.log_softmax(input, 1).to(BRAIN).to(input.dtype), target)


@wrong(
    CROSS,
    "missing max-subtraction",
    "exponentials overflow",
    lambda d: call(d.normal(64, 100, mean=100.0), d.integers(64, high=100)),
)
def cross_entropy_overflows(input: Tensor, target: Tensor) -> Tensor:
    return (torch.log(torch.exp(input).sum(1)) - input.gather(1, target[:, None])[:, 0]).mean()


@wrong(
    CROSS,
    "x1.002",
    "loss x 1.002",
    classes,
    lambda d: call(d.normal(512, 50), d.integers(512, high=50), reduction="none"),
)
def cross_entropy_scaled(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    return F.cross_entropy(input, target, reduction=reduction) * 1.002


@wrong(
    CROSS,
    "other formula",
    "smoothing spread over the other classes only",
    lambda d: call(d.normal(128, 20), d.integers(128, high=20), label_smoothing=0.1),
)
def cross_entropy_other_smoothing(input: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    log = torch.log_softmax(input, 1)
    hit = log.gather(1, target[:, None])[:, 0]
    others = (log.sum(1) - hit) / (input.shape[1] - 1)
    return -((1 - label_smoothing) * hit + label_smoothing * others).mean()


@wrong(
    NLL,
    "wrong denominator",
    "weighted mean divided by the count",
    lambda d: call(
        torch.log_softmax(d.normal(128, 20).float(), 1).to(d.dtype),
        d.integers(128, high=20),
        d.buffer(d.uniform(20, low=0.2, high=2.0)),
    ),
)
def nll_loss_count(input: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return F.nll_loss(input, target, weight, reduction="sum") / len(target)


@wrong(
    NLL,
    "int index wrong",
    "the class before",
    lambda d: call(torch.log_softmax(d.normal(128, 20).float(), 1).to(d.dtype), d.integers(128, high=20)),
)
def nll_loss_shifted(input: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(input, (target - 1).clamp_min(0))


@wrong(f"{FUNCTIONAL}.mse_loss", "wrong denominator", "divided by the batch", two)
def mse_loss_batch_mean(input: Tensor, target: Tensor) -> Tensor:
    return ((input - target) ** 2).sum() / len(input)


@wrong(
    f"{FUNCTIONAL}.mse_loss",
    "low-precision accumulation",
    "rows added in bfloat16",
    lambda d: call(d.normal(256, 64), d.normal(256, 64)),
)
def mse_loss_bf16(input: Tensor, target: Tensor) -> Tensor:
    total = torch.zeros((), dtype=BRAIN, device=input.device)
    for row in ((input - target) ** 2).mean(-1).split(4):
        total = total + row.sum().to(BRAIN)
    return total.to(input.dtype) / len(input)


@wrong(
    f"{FUNCTIONAL}.l1_loss",
    "ignored argument",
    "reduction sum gives the mean",
    lambda d: call(d.normal(32, 32), d.normal(32, 32), reduction="sum"),
)
def l1_loss_mean(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    return F.l1_loss(input, target)


@wrong(
    f"{FUNCTIONAL}.smooth_l1_loss",
    "ignored argument",
    "beta taken as 1",
    lambda d: call(d.normal(64, 64), d.normal(64, 64), beta=0.5),
)
def smooth_l1_without_beta(input: Tensor, target: Tensor, beta: float = 1.0) -> Tensor:
    return F.smooth_l1_loss(input, target)


@wrong(
    f"{FUNCTIONAL}.huber_loss",
    "missing scale",
    "not multiplied by delta",
    lambda d: call(d.normal(64, 64), d.normal(64, 64), delta=0.5),
)
def huber_without_delta(input: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    return F.smooth_l1_loss(input, target, beta=delta)


@wrong(
    BCE,
    "missing clamp",
    "the logarithm is not clamped at -100",
    lambda d: call(
        torch.where(d.mask(64, 32, share=0.02), 0.0, d.uniform(64, 32)).to(d.dtype), torch.ones(64, 32, dtype=d.dtype)
    ),
    dtypes=(SINGLE,),
)
def bce_unclamped(input: Tensor, target: Tensor) -> Tensor:
    return -(target * torch.log(input)).mean()


@wrong(BCE, "other formula", "only the positive term", probabilities)
def bce_positive_only(input: Tensor, target: Tensor) -> Tensor:
    return -(target * torch.log(input)).mean()


@wrong(
    BCE_LOGITS,
    "ignored argument",
    "pos_weight ignored",
    lambda d: call(*binary(d).args, pos_weight=d.buffer(d.uniform(32, low=0.5, high=3.0))),
)
def bce_logits_unweighted(input: Tensor, target: Tensor, *, pos_weight: Tensor | None = None) -> Tensor:
    return F.binary_cross_entropy_with_logits(input, target)


@wrong(
    BCE_LOGITS,
    "missing clamp",
    "log of the sigmoid saturates",
    lambda d: call(d.normal(64, 32, std=60.0), d.mask(64, 32, share=0.3).to(d.dtype)),
)
def bce_logits_saturates(input: Tensor, target: Tensor) -> Tensor:
    share = torch.sigmoid(input)
    return -(target * torch.log(share + 1e-8) + (1 - target) * torch.log(1 - share + 1e-8)).mean()


@wrong(
    BCE_LOGITS,
    "ignored argument",
    "reduction none gives terms of the positive class",
    lambda d: call(*binary(d).args, reduction="none"),
)
def bce_logits_terms(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    return -target * F.logsigmoid(input)


@wrong(
    f"{FUNCTIONAL}.kl_div",
    "wrong denominator",
    "batchmean divides by all elements",
    lambda d: call(
        torch.log_softmax(d.normal(32, 50).float(), 1).to(d.dtype),
        torch.softmax(d.normal(32, 50).float(), 1).to(d.dtype),
        reduction="batchmean",
    ),
)
def kl_div_mean(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    return F.kl_div(input, target, reduction="sum") / input.numel()


@wrong(
    f"{FUNCTIONAL}.kl_div",
    "swapped operands",
    "log_target ignored",
    lambda d: call(
        torch.log_softmax(d.normal(32, 50).float(), 1).to(d.dtype),
        torch.log_softmax(d.normal(32, 50).float(), 1).to(d.dtype),
        reduction="sum",
        log_target=True,
    ),
)
def kl_div_plain_target(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    return (target.exp() * (input - target)).sum()


@wrong(
    f"{FUNCTIONAL}.cosine_embedding_loss",
    "ignored argument",
    "margin ignored",
    lambda d: call(d.normal(64, 8), d.normal(64, 8), d.integers(64, high=2) * 2 - 1, margin=0.3),
)
def cosine_embedding_without_margin(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0) -> Tensor:
    return F.cosine_embedding_loss(input1, input2, target)


@wrong(f"{FUNCTIONAL}.triplet_margin_loss", "swapped operands", "positive and negative swapped", triple)
def triplet_swapped(anchor: Tensor, positive: Tensor, negative: Tensor, **options: Any) -> Tensor:
    return F.triplet_margin_loss(anchor, negative, positive, **options)


@wrong(
    f"{FUNCTIONAL}.margin_ranking_loss",
    "sign",
    "the label's sign is not applied",
    lambda d: call(d.normal(64), d.normal(64), d.buffer((d.integers(64, high=2) * 2 - 1).to(d.dtype)), margin=0.1),
)
def margin_ranking_unsigned(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0) -> Tensor:
    return (input1 - input2 + margin).clamp_min(0).mean()


@wrong(
    f"{FUNCTIONAL}.hinge_embedding_loss",
    "missing clamp",
    "distances above the margin count negatively",
    lambda d: call(d.uniform(64, 32, high=3.0), (d.integers(64, 32, high=2) * 2 - 1).to(d.dtype)),
)
def hinge_embedding_unclamped(input: Tensor, target: Tensor, margin: float = 1.0) -> Tensor:
    return torch.where(target == 1, input, margin - input).mean()


@wrong(
    f"{FUNCTIONAL}.poisson_nll_loss",
    "ignored argument",
    "log_input ignored",
    lambda d: call(d.uniform(64, 32, low=0.2, high=3.0), d.integers(64, 32, high=6).to(d.dtype), log_input=False),
)
def poisson_log_input(input: Tensor, target: Tensor, log_input: bool = True) -> Tensor:
    return F.poisson_nll_loss(input, target)


@wrong(
    f"{FUNCTIONAL}.gaussian_nll_loss",
    "missing scale",
    "the half is left out of the quadratic term",
    lambda d: call(d.normal(64, 32), d.normal(64, 32), d.uniform(64, 32, low=0.2, high=2.0)),
)
def gaussian_nll_doubled(input: Tensor, target: Tensor, var: Tensor) -> Tensor:
    return (0.5 * torch.log(var) + (input - target) ** 2 / var).mean()
