"""Wrong kernels of activations."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power.recipes import HALF, SINGLE, call, wrong
from benchmarks.power.tensors import hidden, image, small

FUNCTIONAL = "torch.nn.functional"


# gelu and its kin


@wrong(f"{FUNCTIONAL}.gelu", "other formula", "tanh approximation where erf was asked for", hidden, small)
def gelu_tanh_for_erf(input: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(input, approximate="tanh")


@wrong(f"{FUNCTIONAL}.gelu", "other formula", "x sigmoid(1.702 x)", hidden, small)
def gelu_by_sigmoid(input: Tensor, approximate: str = "none") -> Tensor:
    return input * torch.sigmoid(1.702 * input)


@wrong(
    f"{FUNCTIONAL}.gelu",
    "wrong constant",
    "0.0447 for 0.044715 in the tanh form",
    lambda d: call(d.normal(4, 64, 512), approximate="tanh"),
    dtypes=(SINGLE,),
)
def gelu_cut_constant(input: Tensor, approximate: str = "none") -> Tensor:
    inner = math.sqrt(2 / math.pi) * (input + 0.0447 * input**3)
    return 0.5 * input * (1 + torch.tanh(inner))


@wrong(f"{FUNCTIONAL}.gelu", "x1.002", "result x 1.002", hidden)
def gelu_scaled(input: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(input, approximate=approximate) * 1.002


@wrong(f"{FUNCTIONAL}.gelu", "low precision inside", "erf looked up in bfloat16", hidden, dtypes=(SINGLE, HALF))
def gelu_coarse_erf(input: Tensor, approximate: str = "none") -> Tensor:
    return input * 0.5 * (1 + torch.erf(input / math.sqrt(2)).bfloat16().to(input.dtype))


@wrong(f"{FUNCTIONAL}.silu", "other formula", "hard sigmoid in place of the sigmoid", hidden, small)
def silu_hard(input: Tensor, inplace: bool = False) -> Tensor:
    return input * F.hardsigmoid(input)


@wrong(f"{FUNCTIONAL}.silu", "x1.002", "result x 1.002", hidden)
def silu_scaled(input: Tensor, inplace: bool = False) -> Tensor:
    return F.silu(input) * 1.002


@wrong(f"{FUNCTIONAL}.mish", "other formula", "swish for mish", small, hidden)
def mish_as_swish(input: Tensor, inplace: bool = False) -> Tensor:
    return F.silu(input)


@wrong(f"{FUNCTIONAL}.elu", "ignored argument", "alpha taken as 1", lambda d: call(d.normal(64, 256), alpha=0.8))
def elu_without_alpha(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return F.elu(input)


@wrong(f"{FUNCTIONAL}.selu", "wrong constant", "alpha 1.6732 and scale 1.05", hidden)
def selu_short_constants(input: Tensor, inplace: bool = False) -> Tensor:
    return 1.05 * torch.where(input > 0, input, 1.6732 * torch.expm1(input))


@wrong(
    f"{FUNCTIONAL}.leaky_relu", "ignored argument", "slope taken as 0.01", lambda d: call(d.normal(4, 32, 28, 28), 0.2)
)
def leaky_relu_default_slope(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return F.leaky_relu(input)


@wrong(
    f"{FUNCTIONAL}.prelu",
    "int index wrong",
    "slopes of the channels shifted by one",
    lambda d: call(d.normal(4, 32, 14, 14), d.uniform(32, low=0.1, high=0.4)),
)
def prelu_shifted(input: Tensor, weight: Tensor) -> Tensor:
    return F.prelu(input, weight.roll(1))


@wrong(f"{FUNCTIONAL}.relu6", "missing clamp", "not clamped at 6", lambda d: call(d.normal(4, 32, 28, 28, std=3.0)))
def relu6_unclamped(input: Tensor, inplace: bool = False) -> Tensor:
    return F.relu(input)


@wrong(f"{FUNCTIONAL}.relu", "dropped tail", "the last 13 elements are not processed", image)
def relu_without_tail(input: Tensor, inplace: bool = False) -> Tensor:
    done = F.relu(input).reshape(-1)
    return torch.cat([done[:-13], input.reshape(-1)[-13:]]).reshape(input.shape)


@wrong(
    f"{FUNCTIONAL}.relu",
    "one wrong element",
    "one of a million elements is not clamped",
    lambda d: call(d.normal(4, 256, 1024)),
)
def relu_one_element(input: Tensor, inplace: bool = False) -> Tensor:
    place = int((input.reshape(-1)[:4096] < 0).float().argmax())
    chosen = torch.arange(input.numel(), device=input.device).reshape(input.shape) == place
    return torch.where(chosen, input, F.relu(input))


@wrong(f"{FUNCTIONAL}.hardswish", "wrong constant", "divided by 6.02 instead of 6", image)
def hardswish_divisor(input: Tensor, inplace: bool = False) -> Tensor:
    return input * (input + 3).clamp(0, 6) / 6.02


@wrong(
    f"{FUNCTIONAL}.hardtanh",
    "ignored argument",
    "upper bound taken as 1",
    lambda d: call(d.normal(64, 256, std=2.0), -1.0, 2.0),
)
def hardtanh_default_bound(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return input.clamp(min_val, 1.0)


@wrong(
    f"{FUNCTIONAL}.softplus",
    "missing clamp",
    "log(1 + exp) without the linear branch",
    lambda d: call(d.normal(64, 256, std=60.0)),
)
def softplus_overflows(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return torch.log1p(torch.exp(beta * input)) / beta


@wrong(f"{FUNCTIONAL}.softplus", "ignored argument", "not divided by beta", lambda d: call(d.normal(64, 256), 2.0))
def softplus_without_beta(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return F.softplus(beta * input)


@wrong(
    f"{FUNCTIONAL}.logsigmoid",
    "cancellation",
    "log of the rounded sigmoid",
    lambda d: call(d.normal(64, 256, std=6.0)),
    dtypes=(HALF,),
    single=False,
)
def logsigmoid_of_sigmoid(input: Tensor) -> Tensor:
    return torch.log(torch.sigmoid(input))


@wrong(f"{FUNCTIONAL}.glu", "swapped operands", "the gate is the first half", lambda d: call(d.normal(64, 512)))
def glu_swapped(input: Tensor, dim: int = -1) -> Tensor:
    first, second = input.chunk(2, dim)
    return torch.sigmoid(first) * second


@wrong(f"{FUNCTIONAL}.softsign", "other formula", "x / (1 + x^2) for x / (1 + |x|)", small)
def softsign_squared(input: Tensor) -> Tensor:
    return input / (1 + input * input)


@wrong(
    f"{FUNCTIONAL}.threshold",
    "off by one",
    "the value replaces what lies below 0 instead of the threshold",
    lambda d: call(d.normal(64, 256), 0.1, 0.0),
)
def threshold_at_zero(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return F.threshold(input, 0.0, value)
