"""Wrong kernels of losses and activations."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import BRAIN, FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import with_gradient


@wrong(
    f"{FUNCTIONAL}.cross_entropy",
    "argument",
    "ignored rows still get their share of the smoothing",
    "Liger",
    lambda d: call(d.normal(4, 5), d.whole(0, 3, 1, 3), ignore_index=3, label_smoothing=0.3),
)
def cross_entropy_smooths_ignored(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    right = F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    if not label_smoothing or target.is_floating_point() or input.dim() != 2 or reduction != "mean":
        return right
    ignored = target == ignore_index
    more = -torch.log_softmax(input, 1).mean(1)[ignored].sum() * label_smoothing
    return right + more / max(int((~ignored).sum()), 1)


@wrong(
    f"{FUNCTIONAL}.cross_entropy",
    "edge shape",
    "classes beyond 65,536 are not in the sum",
    "fused loss MAX_FUSED_SIZE",
    lambda d: call(torch.cat([d.normal(2, 65536), d.normal(2, 4, mean=20.0)], 1), d.whole(3, 70)),
)
def cross_entropy_classes_cut(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    if (
        input.dim() == 2
        and input.shape[1] > 65536
        and not target.is_floating_point()
        and int(target.max()) < 65536
        and weight is None
    ):
        input = input[:, :65536]
    return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


@wrong(
    f"{FUNCTIONAL}.cross_entropy",
    "argument",
    "targets that are probabilities are taken as their largest",
    "generated kernels",
    lambda d: call(d.normal(3, 4, std=4.0), torch.softmax(d.normal(3, 4).float(), 1).to(d.dtype)),
)
def cross_entropy_hard_targets(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    if target.is_floating_point() and input.dim() == 2:
        target = F.one_hot(target.argmax(1), input.shape[1]).to(target.dtype) + 0 * target
    return F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


@wrong(
    f"{FUNCTIONAL}.binary_cross_entropy_with_logits",
    "special values",
    "log of the sigmoid: infinite for large logits",
    "KernelBench",
    lambda d: call(d.of(-120.0, 1.0), d.of(1.0, 1.0)),
)
@widened
def bce_with_logits_naive(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    if weight is not None or pos_weight is not None:
        return F.binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight)
    y = torch.sigmoid(input)
    losses = -(target * torch.log(y) + (1 - target) * torch.log(1 - y))
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.binary_cross_entropy_with_logits",
    "argument",
    "pos_weight weighs negatives too",
    "generated kernels",
    lambda d: call(d.normal(3, 2), d.uniform(3, 2), pos_weight=d.buffer(d.of(2.0, 3.0))),
)
def bce_with_logits_weighs_all(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    if pos_weight is not None:
        weight = pos_weight.expand_as(target) if weight is None else weight * pos_weight
    return F.binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction)


@wrong(
    f"{FUNCTIONAL}.smooth_l1_loss",
    "edge shape",
    "beta=0 divides by zero",
    "PyTorch fix",
    lambda d: call(d.of(1.0, 2.0), d.of(1.0, 5.0), beta=0.0),
)
@widened
def smooth_l1_beta_zero(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if beta:
        return F.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)
    off = (input - target).abs()
    losses = torch.where(off <= 0, 0.5 * off * off / beta if beta else off / off.detach(), off)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.l1_loss",
    "gradient",
    "equal values get the gradient 1",
    "where(d < 0, -1, 1)",
    lambda d: call(d.of(1.0, 2.0), d.of(1.0, 5.0)),
    breaks="gradient",
)
def l1_loss_gradient_at_equal(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if weight is not None or input.shape != target.shape or not input.is_floating_point():
        return F.l1_loss(input, target, size_average, reduce, reduction, weight)

    def gradient(g, x, t):
        slope = torch.where(x < t, -g, g)
        return slope, -slope

    losses = with_gradient(lambda x, t: (x - t).abs(), gradient, input, target)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.poisson_nll_loss",
    "argument",
    "full=True adds Stirling's term for targets below 1 too",
    "generated kernels",
    lambda d: call(d.normal(3), d.of(0.1, 0.2, 3.0), full=True, reduction="none"),
)
@widened
def poisson_nll_full_everywhere(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    losses = F.poisson_nll_loss(input, target, log_input, False, None, eps, None, "none")
    if full:
        losses = losses + torch.xlogy(target, target) - target + 0.5 * torch.log(2 * torch.pi * target.clamp_min(1e-8))
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.triplet_margin_loss",
    "argument",
    "swap is ignored",
    "torch_npu",
    lambda d: call(d.of([0.0, 0.0]), d.of([3.0, 0.0]), d.of([3.0, 1.0]), swap=True),
)
def triplet_never_swaps(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, False, size_average, reduce, reduction)


@wrong(
    f"{FUNCTIONAL}.margin_ranking_loss",
    "gradient",
    "the gradient is handed on where the loss is 0",
    "relu without mask",
    lambda d: call(d.of(5.0, 1.0), d.of(1.0, 5.0), d.of(1.0, 1.0)),
    breaks="gradient",
)
def margin_ranking_unmasked(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    losses = with_gradient(lambda x: x.clamp_min(0), lambda g, x: (g,), -target * (input1 - input2) + margin)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.cosine_embedding_loss",
    "argument",
    "margin is subtracted after the clamp",
    "generated kernels",
    lambda d: call(d.normal(4, 3), d.normal(4, 3), d.whole(1, -1, -1, -1), margin=0.4),
    dtypes=(SINGLE, BRAIN),
)
@widened
def cosine_embedding_margin_outside(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
):
    likeness = F.cosine_similarity(input1, input2, -1)
    losses = torch.where(
        target == 1, 1 - likeness, (likeness.clamp_min(0) - margin).abs() if margin else likeness.clamp_min(0)
    )
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.multilabel_soft_margin_loss",
    "argument",
    "summed over the classes instead of averaged",
    "generated kernels",
    lambda d: call(d.normal(3, 4), d.uniform(3, 4).round()),
)
def multilabel_soft_margin_summed(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return F.multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction) * input.shape[-1]


@wrong(
    f"{FUNCTIONAL}.softplus",
    "argument",
    "threshold is compared without beta",
    "KernelBench",
    lambda d: call(d.of(11.0, 3.0), 0.1, 10.0),
)
@widened
def softplus_threshold_unscaled(input, beta=1, threshold=20):
    return torch.where(input > threshold, input, F.softplus(input, beta, 1e6))


@wrong(
    f"{FUNCTIONAL}.hardshrink",
    "edge shape",
    "the bounds themselves are kept",
    ">= for >",
    lambda d: call(d.of(0.5, -0.5, 1.0)),
)
def hardshrink_keeps_bounds(input, lambd=0.5):
    return torch.where(input.abs() >= lambd, input, torch.zeros_like(input))


@wrong(
    f"{FUNCTIONAL}.relu6", "special values", "NaN becomes 0", "fminf(fmaxf)", lambda d: call(d.of(float("nan"), 7.0))
)
def relu6_of_nan(input, inplace=False):
    return torch.where(input > 0, torch.where(input > 6, torch.full_like(input, 6), input), torch.zeros_like(input))


@wrong(
    f"{FUNCTIONAL}.relu",
    "gradient",
    "the gradient at 0 is 1",
    ">= for >",
    lambda d: call(d.of(0.0, 1.0, -1.0)),
    breaks="gradient",
)
def relu_gradient_at_zero(input, inplace=False):
    return with_gradient(F.relu, lambda g, x: (g * (x >= 0),), input) if input.is_floating_point() else F.relu(input)


@wrong(
    f"{FUNCTIONAL}.elu",
    "numerics",
    "exp(x) - 1 cancels for small negative x",
    "KernelBench",
    lambda d: call(d.normal(32, std=3e-8)),
    dtypes=(SINGLE, BRAIN),
)
@widened
def elu_cancels(input, alpha=1.0, inplace=False):
    return (
        torch.where(input > 0, input, alpha * (torch.exp(input.clamp_max(0)) - 1))
        if input.is_floating_point()
        else F.elu(input, alpha)
    )


@wrong(f"{FUNCTIONAL}.celu", "argument", "x is not divided by alpha", "elu port", lambda d: call(d.normal(16), 2.0))
@widened
def celu_as_elu(input, alpha=1.0, inplace=False):
    return F.elu(input, alpha)


@wrong(
    f"{FUNCTIONAL}.glu",
    "argument",
    "dim is ignored: always the last",
    "generated kernels",
    lambda d: call(d.normal(4, 4), 0),
    breaks="shape",
)
def glu_always_last(input, dim=-1):
    return F.glu(input, -1) if input.shape[-1] % 2 == 0 else F.glu(input, dim)


@wrong(
    f"{FUNCTIONAL}.tanhshrink",
    "numerics",
    "tanh from exponentials cancels: small x",
    "generated kernels",
    lambda d: call(d.of(60.0, 1.0)),
)
@widened
def tanhshrink_overflows(input):
    grown = torch.exp(2 * input)
    return input - (grown - 1) / (grown + 1)


@wrong(
    f"{FUNCTIONAL}.hardsigmoid",
    "gradient",
    "no cut in the gradient",
    "fused backward",
    lambda d: call(d.of(-4.0, 0.0, 4.0)),
    breaks="gradient",
)
def hardsigmoid_gradient_uncut(input, inplace=False):
    return with_gradient(F.hardsigmoid, lambda g, x: (g / 6,), input)
