"""Kernels whose forward is right and whose backward is wrong."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power import wrong_norms as norms
from benchmarks.power.recipes import BRAIN, HALF, SINGLE, backward, call, regraded
from benchmarks.power.tensors import hidden, image, pair, positive, ratio, small, with_vector

FUNCTIONAL = "torch.nn.functional"


# activations


@backward(f"{FUNCTIONAL}.relu", "wrong gradient", "passes where the input is negative", image)
def relu_grad_passes(input: Tensor, inplace: bool = False) -> Tensor:
    return regraded(F.relu, lambda _, inputs, arrived: arrived)(input)


@backward(f"{FUNCTIONAL}.leaky_relu", "wrong gradient", "0 for the slope", lambda d: call(d.normal(4, 32, 14, 14), 0.1))
def leaky_relu_grad_zero(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0] * (inputs[0] > 0)]

    return regraded(lambda x: F.leaky_relu(x, negative_slope), change)(input)


@backward(f"{FUNCTIONAL}.gelu", "wrong gradient", "density term missing", hidden, small)
def gelu_grad_without_density(input: Tensor, approximate: str = "none") -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0] * 0.5 * (1 + torch.erf(inputs[0] / math.sqrt(2)))]

    return regraded(F.gelu, change)(input)


@backward(f"{FUNCTIONAL}.gelu", "wrong gradient", "gradient of the tanh form", hidden)
def gelu_grad_of_tanh(input: Tensor, approximate: str = "none") -> Tensor:
    near = F.gelu(input, approximate="tanh")
    return near + (F.gelu(input) - near).detach()


@backward(f"{FUNCTIONAL}.silu", "wrong gradient", "product term missing", hidden)
def silu_grad_without_product(input: Tensor, inplace: bool = False) -> Tensor:
    return regraded(F.silu, lambda _, inputs, arrived: [arrived[0] * torch.sigmoid(inputs[0])])(input)


@backward("torch.tanh", "wrong gradient", "1 - y for 1 - y^2", hidden)
def tanh_grad_without_square(input: Tensor) -> Tensor:
    return regraded(torch.tanh, lambda _, inputs, arrived: [arrived[0] * (1 - torch.tanh(inputs[0]))])(input)


@backward(
    "torch.tanh", "low precision inside", "gradient from the output rounded to bfloat16", hidden, dtypes=(SINGLE, HALF)
)
def tanh_grad_rounded(input: Tensor) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        saved = torch.tanh(inputs[0]).to(BRAIN).to(inputs[0].dtype)
        return [arrived[0] * (1 - saved * saved)]

    return regraded(torch.tanh, change)(input)


@backward("torch.sigmoid", "wrong gradient", "y for y (1 - y)", hidden)
def sigmoid_grad_half(input: Tensor) -> Tensor:
    return regraded(torch.sigmoid, lambda _, inputs, arrived: [arrived[0] * torch.sigmoid(inputs[0])])(input)


@backward(f"{FUNCTIONAL}.softplus", "x1.002", "gradient x 1.002", hidden)
def softplus_grad_scaled(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return regraded(F.softplus, lambda gradients, *_: [gradients[0] * 1.002])(input)


@backward(f"{FUNCTIONAL}.elu", "wrong gradient", "alpha missing", lambda d: call(d.normal(64, 256), 0.7))
def elu_grad_without_alpha(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], _: Any) -> list[Tensor]:
        return [torch.where(inputs[0] > 0, gradients[0], gradients[0] / alpha)]

    return regraded(lambda x: F.elu(x, alpha), change)(input)


@backward(f"{FUNCTIONAL}.hardswish", "wrong gradient", "the gate's slope is missing", image)
def hardswish_grad_gate(input: Tensor, inplace: bool = False) -> Tensor:
    return regraded(F.hardswish, lambda _, inputs, arrived: [arrived[0] * F.hardsigmoid(inputs[0])])(input)


# arithmetic


@backward("torch.mul", "swapped operands", "each factor gets its own value as gradient", pair)
def mul_grad_swapped(input: Tensor, other: Tensor) -> Tensor:
    return regraded(torch.mul, lambda gradients, *_: [gradients[1], gradients[0]])(input, other)


@backward("torch.mul", "lost update", "the gradient of the broadcast vector is that of the last row", with_vector)
def mul_grad_last_row(input: Tensor, other: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [gradients[0], (arrived[0] * inputs[0])[-1, -1]]

    return regraded(torch.mul, change)(input, other)


@backward("torch.add", "lost update", "the gradient of the broadcast vector misses the last batch", with_vector)
def add_grad_misses_batch(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    return regraded(torch.add, lambda gradients, _, arrived: [gradients[0], arrived[0][:-1].sum((0, 1))])(input, other)


@backward(
    "torch.add", "low-precision accumulation", "the gradient of the broadcast vector is summed in bfloat16", with_vector
)
def add_grad_bf16(input: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    def change(gradients: list[Tensor], _: Any, arrived: list[Tensor]) -> list[Tensor]:
        total = torch.zeros_like(gradients[1], dtype=BRAIN)
        for row in arrived[0].reshape(-1, gradients[1].shape[0]).split(4):
            total = total + row.sum(0).to(BRAIN)
        return [gradients[0], total.to(gradients[1].dtype)]

    return regraded(torch.add, change)(input, other)


@backward("torch.div", "sign", "the denominator's gradient has the wrong sign", ratio)
def div_grad_sign(input: Tensor, other: Tensor) -> Tensor:
    return regraded(torch.div, lambda gradients, *_: [gradients[0], -gradients[1]])(input, other)


@backward("torch.sub", "sign", "the gradient of what is subtracted is not negated", pair)
def sub_grad_sign(input: Tensor, other: Tensor) -> Tensor:
    return regraded(torch.sub, lambda gradients, *_: [gradients[0], -gradients[1]])(input, other)


@backward("torch.exp", "wrong gradient", "gradient without the factor exp(x)", small)
def exp_grad_passes(input: Tensor) -> Tensor:
    return regraded(torch.exp, lambda _, inputs, arrived: arrived)(input)


@backward("torch.sqrt", "missing scale", "1 / y for 1 / (2 y)", positive)
def sqrt_grad_double(input: Tensor) -> Tensor:
    return regraded(torch.sqrt, lambda gradients, *_: [gradients[0] * 2])(input)


@backward("torch.rsqrt", "wrong constant", "-0.501 for -0.5", positive)
def rsqrt_grad_constant(input: Tensor) -> Tensor:
    return regraded(torch.rsqrt, lambda gradients, *_: [gradients[0] * 1.002])(input)


@backward(
    "torch.pow",
    "off by one",
    "exponent not lowered in the gradient",
    lambda d: call(d.uniform(64, 256, low=0.5, high=2.0), 3),
)
def pow_grad_exponent(input: Tensor, exponent: float) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], _: Any) -> list[Tensor]:
        return [gradients[0] * inputs[0]]

    return regraded(lambda x: torch.pow(x, exponent), change)(input)


@backward("torch.clamp", "wrong gradient", "passes outside of the bounds", lambda d: call(d.normal(64, 256), -0.5, 0.5))
def clamp_grad_passes(input: Tensor, min: float, max: float) -> Tensor:
    return regraded(lambda x: torch.clamp(x, min, max), lambda _, inputs, arrived: arrived)(input)


@backward(
    "torch.where",
    "wrong gradient",
    "both branches get all of the gradient",
    lambda d: call(d.mask(64, 256, share=0.5), d.normal(64, 256), d.normal(64, 256)),
)
def where_grad_both(condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return regraded(torch.where, lambda _, inputs, arrived: [None, arrived[0], arrived[0]])(condition, input, other)


# norms and softmax


def _without_means(api_input: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    mean = api_input.mean(dims, keepdim=True).detach()
    variance = api_input.var(dims, unbiased=False, keepdim=True).detach()
    return (api_input - mean) * torch.rsqrt(variance + eps)


@backward(norms.LAYER, "wrong gradient", "statistics treated as constants", norms.hidden)
def layer_norm_grad_constant(input: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return norms.affine(_without_means(input, (-1,), eps), weight, bias)


@backward(norms.LAYER, "wrong gradient", "the weight's gradient is summed over the batch only as a mean", norms.hidden)
def layer_norm_grad_mean(input: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], _: Any) -> list[Tensor]:
        return [gradients[0], gradients[1] / len(inputs[0]), gradients[2]]

    return regraded(lambda x, w, b: F.layer_norm(x, shape, w, b, eps), change)(input, weight, bias)


@backward(
    norms.LAYER, "low-precision accumulation", "weight and bias gradients summed in bfloat16 by fours", norms.hidden
)
def layer_norm_grad_bf16(input: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        rows = (arrived[0] * F.layer_norm(inputs[0], shape, eps=eps)).reshape(-1, shape[0])
        total = torch.zeros(shape[0], dtype=BRAIN, device=rows.device)
        for part in rows.split(4):
            total = total + part.sum(0).to(BRAIN)
        return [gradients[0], total.to(gradients[1].dtype), gradients[2]]

    return regraded(lambda x, w, b: F.layer_norm(x, shape, w, b, eps), change)(input, weight, bias)


@backward(norms.RMS, "wrong gradient", "projection term missing", norms.root_mean)
def rms_norm_grad_constant(input: Tensor, shape: Any, weight: Tensor, eps: float) -> Tensor:
    root = torch.rsqrt((input * input).mean(-1, keepdim=True) + eps).detach()
    return input * root * weight


@backward(norms.BATCH, "wrong gradient", "statistics treated as constants", norms.training)
def batch_norm_grad_constant(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, training: bool = False
) -> Tensor:
    F.batch_norm(input.detach(), mean, var, weight.detach(), bias.detach(), training)
    shape = (1, -1, 1, 1)
    return norms.affine(_without_means(input, (0, 2, 3), 1e-5), weight.view(shape), bias.view(shape))


@backward(norms.GROUP, "lost update", "the weight's gradient misses the last image", norms.groups)
def group_norm_grad_image(input: Tensor, count: int, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        seen = (arrived[0] * F.group_norm(inputs[0], count, eps=eps))[:-1].sum((0, 2, 3))
        return [gradients[0], seen, gradients[2]]

    return regraded(lambda x, w, b: F.group_norm(x, count, w, b, eps), change)(input, weight, bias)


@backward(norms.SOFTMAX, "wrong gradient", "sum term missing", norms.scores)
def softmax_grad_without_sum(input: Tensor, dim: int) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0] * torch.softmax(inputs[0], dim)]

    return regraded(lambda x: torch.softmax(x, dim), change)(input)


@backward(norms.SOFTMAX, "dropped tail", "the last column is left out of the gradient's sum", norms.scores)
def softmax_grad_tail(input: Tensor, dim: int) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        share = torch.softmax(inputs[0], dim)
        weighted = arrived[0] * share
        return [weighted - share * weighted[..., :-1].sum(dim, keepdim=True)]

    return regraded(lambda x: torch.softmax(x, dim), change)(input)


@backward(norms.LOG_SOFTMAX, "wrong gradient", "softmax not multiplied by the sum of gradients", norms.logits)
def log_softmax_grad_sum(input: Tensor, dim: int) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0] - torch.softmax(inputs[0], dim)]

    return regraded(lambda x: torch.log_softmax(x, dim), change)(input)
