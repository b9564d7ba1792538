"""Wrong kernels of losses and activations."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import with_gradient


@wrong(
    f"{FUNCTIONAL}.cross_entropy",
    "gradient",
    "reduction='none' hands on the mean of what arrives",
    "Liger issue 968",
    lambda d: call(d.normal(4, 5), d.whole(0, 3, 1, 2), reduction="none"),
    breaks="gradient",
)
def cross_entropy_none_gradient(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    right = F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    if reduction != "none" or right.numel() < 2:
        return right
    return with_gradient(torch.clone, lambda g, x: (g.mean().expand_as(g),), right)


@wrong(
    f"{FUNCTIONAL}.nll_loss",
    "argument",
    "only -100 is ignored, whatever ignore_index says",
    "generated kernels",
    lambda d: call(d.normal(4, 5), d.whole(0, 3, 1, 3), ignore_index=3),
)
def nll_loss_own_ignore_index(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    return F.nll_loss(
        input, target, weight, size_average, ignore_index if ignore_index < 0 else -100, reduce, reduction
    )


@wrong(
    f"{FUNCTIONAL}.kl_div",
    "special values",
    "a target of 0 gives NaN",
    "t (log t - x)",
    lambda d: call(d.normal(2, 3), d.of([0.0, 0.5, 0.5], [1.0, 0.0, 0.0]), reduction="sum"),
)
@widened
def kl_div_of_zero(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if log_target or input.numel() == 0:
        return F.kl_div(input, target, size_average, reduce, reduction, log_target=log_target)
    losses = target * (torch.log(target) - input)
    if reduction == "none":
        return losses
    return (
        losses.sum() / (input.shape[0] if input.dim() else 1)
        if reduction == "batchmean"
        else losses.sum()
        if reduction == "sum"
        else losses.mean()
    )


@wrong(
    f"{FUNCTIONAL}.kl_div",
    "argument",
    "log_target is ignored",
    "Liger PR 262",
    lambda d: call(
        d.normal(2, 3), torch.log_softmax(d.normal(2, 3).float(), 1).to(d.dtype), reduction="none", log_target=True
    ),
)
def kl_div_forgets_log_target(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    return F.kl_div(input, target, size_average, reduce, reduction)


@wrong(
    f"{FUNCTIONAL}.binary_cross_entropy",
    "special values",
    "logarithms are not bounded at -100: infinite loss",
    "generated kernels",
    lambda d: call(d.of(0.0, 0.5), d.of(1.0, 1.0), reduction="none"),
)
@widened
def bce_unbounded(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    losses = -(torch.xlogy(target, input) + torch.xlogy(1 - target, 1 - input))
    losses = losses if weight is None else losses * weight
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@wrong(
    f"{FUNCTIONAL}.multi_margin_loss",
    "argument",
    "p=2 does not square",
    "generated kernels",
    lambda d: call(d.normal(3, 4, std=3.0), d.whole(0, 1, 2), 2),
    dtypes=(SINGLE,),
)
def multi_margin_never_squares(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    return F.multi_margin_loss(input, target, 1, margin, weight, size_average, reduce, reduction)


@wrong(
    f"{FUNCTIONAL}.hinge_embedding_loss",
    "argument",
    "margin is ignored",
    "generated kernels",
    lambda d: call(d.of(0.5, 2.0), d.of(-1.0, 1.0), 3.0),
)
def hinge_embedding_margin_one(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return F.hinge_embedding_loss(input, target, 1.0, size_average, reduce, reduction)


@wrong(
    f"{FUNCTIONAL}.softshrink",
    "special values",
    "NaN becomes 0",
    "nested selects",
    lambda d: call(d.of(float("nan"), 1.0)),
)
def softshrink_of_nan(input, lambd=0.5):
    zero = torch.zeros_like(input)
    return torch.where(input > lambd, input - lambd, torch.where(input < -lambd, input + lambd, zero))


@wrong(
    f"{FUNCTIONAL}.prelu",
    "broadcast",
    "the weights run along the last dimension",
    "generated kernels",
    lambda d: call(d.normal(2, 3, 3), d.uniform(3)),
)
def prelu_last_dimension(input, weight):
    if weight.numel() == 1 or input.dim() < 3 or input.shape[-1] != weight.numel():
        return F.prelu(input, weight)
    return torch.where(input > 0, input, weight * input)


@wrong(
    f"{FUNCTIONAL}.rrelu",
    "argument",
    "without training the slope is the lower one",
    "generated kernels",
    lambda d: call(d.normal(16), 0.1, 0.5),
)
def rrelu_lower_slope(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    return F.rrelu(input, lower, upper, True) if training else F.leaky_relu(input, lower)
