"""Wrong kernels of normalisations, softmax and dropout-like layers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power.recipes import ALL, BRAIN, HALF, SINGLE, Arguments, Draw, call, unfelt, wrong

FUNCTIONAL = "torch.nn.functional"
LAYER, BATCH, GROUP = f"{FUNCTIONAL}.layer_norm", f"{FUNCTIONAL}.batch_norm", f"{FUNCTIONAL}.group_norm"
RMS, INSTANCE = f"{FUNCTIONAL}.rms_norm", f"{FUNCTIONAL}.instance_norm"
SOFTMAX, LOG_SOFTMAX = f"{FUNCTIONAL}.softmax", f"{FUNCTIONAL}.log_softmax"


def hidden(d: Draw) -> Arguments:
    return call(d.normal(4, 32, 256), [256], d.gain(256), d.normal(256, std=0.1))


def shifted(d: Draw) -> Arguments:
    """A hidden state whose features have an offset, as residual streams do."""
    return call(d.normal(4, 32, 256, mean=6.0), [256], d.gain(256), d.normal(256, std=0.1))


def faint(d: Draw) -> Arguments:
    """Small activations, where epsilon counts."""
    return call(d.normal(4, 32, 256, std=0.02), [256], d.gain(256), d.normal(256, std=0.1))


def root_mean(d: Draw) -> Arguments:
    return call(d.normal(4, 32, 256), [256], d.gain(256), 1e-6)


def training(d: Draw) -> Arguments:
    return call(
        d.normal(8, 16, 14, 14),
        d.buffer(d.normal(16, std=0.1)),
        d.buffer(d.uniform(16, low=0.5, high=1.5)),
        d.gain(16),
        d.normal(16, std=0.1),
        True,
    )


def inference(d: Draw) -> Arguments:
    return call(*training(d).args[:5], False)


def groups(d: Draw) -> Arguments:
    return call(d.normal(4, 32, 14, 14), 8, d.gain(32), d.normal(32, std=0.1))


def uneven_groups(d: Draw) -> Arguments:
    """Channels of different sizes, so that it counts which belong together."""
    return call(d.normal(4, 32, 14, 14) * d.uniform(1, 32, 1, 1, low=0.2, high=3.0), 8, d.gain(32), d.normal(32))


def scores(d: Draw) -> Arguments:
    return call(d.normal(2, 4, 64, 64, std=2.0), dim=-1)


def logits(d: Draw) -> Arguments:
    return call(d.normal(32, 1000, std=3.0), dim=-1)


def normalized(value: Tensor, dims: tuple[int, ...], eps: float, unbiased: bool = False) -> Tensor:
    mean = value.mean(dims, keepdim=True)
    variance = value.var(dims, unbiased=unbiased, keepdim=True)
    return (value - mean) * torch.rsqrt(variance + eps)


def affine(value: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    value = value * weight if weight is not None else value
    return value + bias if bias is not None else value


# layer norm


@wrong(LAYER, "wrong denominator", "variance divided by n - 1", hidden)
def layer_norm_unbiased(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return affine(normalized(input, (-1,), eps, unbiased=True), weight, bias)


@wrong(LAYER, "ignored argument", "epsilon 1e-5 where 1e-3 was asked for", lambda d: call(*faint(d).args, 1e-3))
def layer_norm_default_eps(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(input, shape, weight, bias)


@wrong(LAYER, "wrong constant", "epsilon 1e-12 for 1e-5", faint)
def layer_norm_tiny_eps(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(input, shape, weight, bias, 1e-12)


@wrong(LAYER, "cancellation", "mean of squares minus square of the mean in bfloat16", shifted)
def layer_norm_one_pass_bf16(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    mean = input.mean(-1, keepdim=True).to(BRAIN)
    square = (input * input).mean(-1, keepdim=True).to(BRAIN)
    variance = (square - mean * mean).to(input.dtype).clamp_min(0)
    return affine((input - mean.to(input.dtype)) * torch.rsqrt(variance + eps), weight, bias)


@wrong(LAYER, "ignored argument", "bias not added", hidden)
def layer_norm_without_bias(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(input, shape, weight, unfelt(bias), eps)


@wrong(LAYER, "dropped tail", "statistics of all but the last 8 features", hidden, shifted)
def layer_norm_partial_mean(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    seen = input[..., :-8]
    mean, variance = seen.mean(-1, keepdim=True), seen.var(-1, unbiased=False, keepdim=True)
    return affine((input - mean) * torch.rsqrt(variance + eps), weight, bias)


@wrong(LAYER, "x1.002", "result x 1.002", hidden)
def layer_norm_scaled(
    input: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(input, shape, weight, bias, eps) * 1.002


# rms norm


@wrong(RMS, "ignored argument", "weight not applied", root_mean)
def rms_norm_without_weight(
    input: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    return F.rms_norm(input, shape, unfelt(weight) + 1, eps)


@wrong(
    RMS,
    "missing epsilon",
    "epsilon outside of the root",
    lambda d: call(d.normal(4, 32, 256, std=0.01), [256], d.gain(256), 1e-5),
)
def rms_norm_outer_eps(input: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    root = torch.sqrt((input * input).mean(-1, keepdim=True)) + (eps or 0.0)
    return affine(input / root, weight, None)


@wrong(
    RMS,
    "fp16 overflow in intermediate",
    "squares in float16",
    lambda d: call(d.normal(4, 32, 256, std=100.0), [256], d.gain(256), 1e-6),
    dtypes=(HALF,),
    single=False,
)
def rms_norm_overflows(input: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    mean = (input * input).mean(-1, keepdim=True)
    return affine(input * torch.rsqrt(mean + (eps or 0.0)), weight, None)


@wrong(
    RMS, "other formula", "centred, as layer norm is", lambda d: call(d.normal(4, 32, 256, mean=0.3), [256], None, 1e-6)
)
def rms_norm_centred(input: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    return affine(normalized(input, (-1,), eps or 0.0), weight, None)


@wrong(
    RMS,
    "low precision inside",
    "the normalised value is rounded to bfloat16 before the weight",
    root_mean,
    dtypes=(SINGLE, HALF),
)
def rms_norm_rounded(input: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    return affine(F.rms_norm(input, shape, None, eps).to(BRAIN).to(input.dtype), weight, None)


# batch, group and instance norm


@wrong(
    BATCH,
    "wrong denominator",
    "normalised with the unbiased variance",
    lambda d: call(
        d.normal(4, 16, 3, 3),
        d.buffer(d.normal(16, std=0.1)),
        d.buffer(d.uniform(16, low=0.5, high=1.5)),
        d.gain(16),
        d.normal(16),
        True,
    ),
)
def batch_norm_unbiased(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    # The running statistics are updated rightly: only the output is wrong.
    F.batch_norm(input.detach(), mean, var, weight.detach(), bias.detach(), training)
    return affine(normalized(input, (0, 2, 3), 1e-5, unbiased=True), weight.view(1, -1, 1, 1), bias.view(1, -1, 1, 1))


@wrong(BATCH, "ignored argument", "statistics of the batch where the running ones were asked for", inference)
def batch_norm_trains(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    return F.batch_norm(input, None, None, weight, bias, True)


@wrong(BATCH, "wrong constant", "epsilon 1e-3 for 1e-5", inference)
def batch_norm_eps(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    return F.batch_norm(input, mean, var, weight, bias, training, eps=1e-3)


@wrong(BATCH, "int index wrong", "statistics of the channels shifted by one", inference)
def batch_norm_shifted(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    return F.batch_norm(input, mean.roll(1), var.roll(1), weight, bias, training)


@wrong(BATCH, "stale state", "running statistics not updated", training, single=False)
def batch_norm_stale(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    return F.batch_norm(input, mean.clone(), var.clone(), weight, bias, training)


@wrong(GROUP, "wrong groups", "4 groups for 8", uneven_groups)
def group_norm_fewer(input: Tensor, count: int, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.group_norm(input, count // 2, weight, bias, eps)


@wrong(GROUP, "wrong groups", "neighbouring channels instead of blocks", uneven_groups)
def group_norm_interleaved(input: Tensor, count: int, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    batch, channels, *space = input.shape
    apart = input.reshape(batch, channels // count, count, *space).transpose(1, 2).reshape(input.shape)
    done = F.group_norm(apart, count, None, None, eps)
    done = done.reshape(batch, count, channels // count, *space).transpose(1, 2).reshape(input.shape)
    return affine(done, weight.view(1, -1, 1, 1), bias.view(1, -1, 1, 1))


@wrong(GROUP, "x1.002", "result x 1.002", groups)
def group_norm_scaled(input: Tensor, count: int, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.group_norm(input, count, weight, bias, eps) * 1.002


@wrong(INSTANCE, "wrong denominator", "variance divided by n - 1", lambda d: call(d.normal(4, 8, 10, 10)))
def instance_norm_unbiased(input: Tensor) -> Tensor:
    return normalized(input, (2, 3), 1e-5, unbiased=True)


@wrong(
    f"{FUNCTIONAL}.local_response_norm",
    "ignored argument",
    "k taken as 0",
    lambda d: call(d.normal(2, 16, 8, 8), 5),
    dtypes=(SINGLE,),
)
def local_response_norm_without_k(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    return F.local_response_norm(input, size, alpha, beta, 0.0)


@wrong(f"{FUNCTIONAL}.normalize", "other formula", "1-norm for 2-norm", lambda d: call(d.normal(64, 128), dim=-1))
def normalize_one_norm(input: Tensor, p: float = 2.0, dim: int = 1) -> Tensor:
    return F.normalize(input, 1.0, dim)


@wrong(
    f"{FUNCTIONAL}.normalize",
    "low-precision accumulation",
    "the squares are summed in bfloat16",
    lambda d: call(d.normal(64, 512), dim=-1),
    dtypes=(SINGLE, HALF),
)
def normalize_bf16_norm(input: Tensor, p: float = 2.0, dim: int = 1) -> Tensor:
    square = (input * input).reshape(*input.shape[:-1], -1, 8).sum(-1).to(BRAIN)
    return input / torch.sqrt(square.sum(-1, keepdim=True, dtype=BRAIN).to(input.dtype))


@wrong(
    "torch.nn.functional.cosine_similarity",
    "missing scale",
    "only divided by one of the norms",
    lambda d: call(d.normal(64, 128), d.normal(64, 128)),
)
def cosine_similarity_one_norm(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    return (F.normalize(x1, dim=dim) * x2).sum(dim)


# softmax


@wrong(
    SOFTMAX, "missing max-subtraction", "exponentials overflow", lambda d: call(d.normal(64, 128, mean=100.0), dim=-1)
)
def softmax_unshifted(input: Tensor, dim: int) -> Tensor:
    grown = torch.exp(input)
    return grown / grown.sum(dim, keepdim=True)


@wrong(SOFTMAX, "wrong dimension", "over the second last dimension", scores)
def softmax_other_dimension(input: Tensor, dim: int) -> Tensor:
    return torch.softmax(input, dim - 1)


@wrong(
    SOFTMAX,
    "low-precision accumulation",
    "the exponentials are summed in bfloat16 by eights",
    scores,
    lambda d: call(d.normal(32, 1000, std=2.0), dim=-1),
)
def softmax_bf16_sum(input: Tensor, dim: int) -> Tensor:
    grown = torch.exp(input - input.amax(dim, keepdim=True))
    parts = grown.reshape(*grown.shape[:-1], -1, 8).sum(-1).to(BRAIN)
    total = torch.zeros_like(parts[..., :1])
    for column in parts.split(1, -1):
        total = total + column
    return grown / total.to(input.dtype)


@wrong(SOFTMAX, "dropped tail", "the last column is left out of the sum", scores)
def softmax_without_last(input: Tensor, dim: int) -> Tensor:
    grown = torch.exp(input - input.amax(dim, keepdim=True))
    return grown / grown[..., :-1].sum(dim, keepdim=True)


@wrong(SOFTMAX, "x1.002", "temperature 1.002", scores)
def softmax_temperature(input: Tensor, dim: int) -> Tensor:
    return torch.softmax(input / 1.002, dim)


@wrong(SOFTMAX, "truncated series", "exponential by a polynomial of degree 3", scores)
def softmax_series(input: Tensor, dim: int) -> Tensor:
    power = (input - input.amax(dim, keepdim=True)) * 1.4426950408889634
    whole = torch.floor(power)
    rest = (power - whole) * 0.6931471805599453
    grown = (1 + rest + rest * rest / 2 + rest**3 / 6) * torch.exp2(whole)
    return grown / grown.sum(dim, keepdim=True)


@wrong(LOG_SOFTMAX, "cancellation", "log of the rounded softmax", logits, dtypes=(HALF,), single=False)
def log_softmax_of_softmax(input: Tensor, dim: int) -> Tensor:
    return torch.log(torch.softmax(input, dim))


@wrong(
    LOG_SOFTMAX, "low precision inside", "the sum of exponentials is rounded to bfloat16", logits, dtypes=(SINGLE, HALF)
)
def log_softmax_bf16_sum(input: Tensor, dim: int) -> Tensor:
    largest = input.amax(dim, keepdim=True)
    total = torch.exp(input - largest).sum(dim, keepdim=True)
    return input - largest - torch.log(total).to(BRAIN).to(input.dtype)


@wrong(LOG_SOFTMAX, "off by one", "the sum counts the last class twice", logits)
def log_softmax_counts_twice(input: Tensor, dim: int) -> Tensor:
    again = torch.cat([input, input[..., -1:]], dim)
    return input - torch.logsumexp(again, dim, keepdim=True)


@wrong("torch.nn.functional.softmin", "sign", "softmax for softmin", scores)
def softmin_as_softmax(input: Tensor, dim: int) -> Tensor:
    return torch.softmax(input, dim)


@wrong(
    f"{FUNCTIONAL}.dropout",
    "missing scale",
    "what is kept is not scaled up",
    lambda d: call(d.normal(64, 512), p=0.1, training=True),
    dtypes=ALL,
    single=False,
)
def dropout_unscaled(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    return F.dropout(input, p, training) * (1 - p)


@wrong(
    f"{FUNCTIONAL}.dropout",
    "wrong constant",
    "drops 15 % where 10 % was asked for",
    lambda d: call(d.normal(64, 512), p=0.1, training=True),
    single=False,
)
def dropout_more(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    kept = torch.rand(input.shape, device=input.device) >= 0.15
    return input * kept / (1 - p)
