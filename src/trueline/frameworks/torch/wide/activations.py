"""Wide activation functions and their backward operators."""

from __future__ import annotations

import numpy as np

from trueline.frameworks.torch.wide import special as special
from trueline.frameworks.torch.wide.elementwise import sigmoid, softplus_one
from trueline.frameworks.torch.wide.table import PI, REAL, Array, Number, entry

TANH_GELU_CUBIC = REAL("0.044715")
"""The coefficient of the tanh approximation of gelu, by its definition."""
TANH_GELU_SCALE = np.sqrt(2 / PI)


@entry("relu")
def relu(self: Array) -> Array:
    return np.where(np.isnan(self), self, np.maximum(self, 0))


@entry("threshold")
def threshold(self: Array, threshold: Number, value: Number) -> Array:
    return np.where(self <= threshold, value, self).astype(self.dtype)


@entry("threshold_backward")
def threshold_backward(grad_output: Array, self: Array, threshold: Number) -> Array:
    return np.where(self <= threshold, 0, grad_output)


@entry("leaky_relu")
def leaky_relu(self: Array, negative_slope: Number = 0.01) -> Array:
    return np.where(self > 0, self, self * negative_slope)


@entry("leaky_relu_backward")
def leaky_relu_backward(grad_output: Array, self: Array, negative_slope: Number, self_is_result: bool) -> Array:
    return np.where(self > 0, grad_output, grad_output * negative_slope)


@entry("_prelu_kernel")
def prelu(self: Array, weight: Array) -> Array:
    return np.where(self > 0, self, weight * self)


@entry("_prelu_kernel_backward")
def prelu_backward(grad_output: Array, self: Array, weight: Array) -> tuple[Array, Array]:
    positive = self > 0
    return np.where(positive, grad_output, weight * grad_output), np.where(positive, 0, self * grad_output)


@entry("gelu")
def gelu(self: Array, approximate: str = "none") -> Array:
    if approximate == "none":
        return self * special.ndtr(self)
    inner = TANH_GELU_SCALE * (self + TANH_GELU_CUBIC * self**3)
    return self * sigmoid(2 * inner)


@entry("gelu_backward")
def gelu_backward(grad_output: Array, self: Array, approximate: str = "none") -> Array:
    if approximate == "none":
        return grad_output * (special.ndtr(self) + self * special.normal_density(self))
    inner = TANH_GELU_SCALE * (self + TANH_GELU_CUBIC * self**3)
    slope = TANH_GELU_SCALE * (1 + 3 * TANH_GELU_CUBIC * self * self)
    half = sigmoid(2 * inner)
    return grad_output * (half + 2 * self * half * sigmoid(-2 * inner) * slope)


@entry("silu")
def silu(self: Array) -> Array:
    return self * sigmoid(self)


@entry("silu_backward")
def silu_backward(grad_output: Array, self: Array) -> Array:
    half = sigmoid(self)
    return grad_output * half * (1 + self * sigmoid(-self))


@entry("mish")
def mish(self: Array) -> Array:
    return self * np.tanh(softplus_one(self))


@entry("sigmoid_backward")
def sigmoid_backward(grad_output: Array, output: Array) -> Array:
    return grad_output * np.conj((1 - output) * output)


@entry("tanh_backward")
def tanh_backward(grad_output: Array, output: Array) -> Array:
    return grad_output * np.conj((1 - output) * (1 + output))


@entry("logit_backward")
def logit_backward(grad_output: Array, self: Array, eps: float | None = None) -> Array:
    slope = grad_output / (self * (1 - self))
    if eps is None:
        return np.where((self < 0) | (self > 1), np.nan, slope)
    return np.where((self < eps) | (self > 1 - REAL(eps)), 0, slope)


@entry("softplus")
def softplus(self: Array, beta: Number = 1, threshold: Number = 20) -> Array:
    scaled = self * beta
    return np.where(scaled > threshold, self, softplus_one(scaled) / beta)


@entry("softplus_backward")
def softplus_backward(grad_output: Array, self: Array, beta: Number, threshold: Number) -> Array:
    scaled = self * beta
    return np.where(scaled > threshold, grad_output, grad_output * sigmoid(scaled))


@entry("log_sigmoid_forward")
def log_sigmoid(self: Array) -> tuple[Array, Array]:
    return -softplus_one(-self), np.exp(-np.abs(self))


@entry("log_sigmoid_backward")
def log_sigmoid_backward(grad_output: Array, self: Array, buffer: Array) -> Array:
    return grad_output * sigmoid(-self)


@entry("elu")
def elu(self: Array, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Array:
    inner = _inner(self, alpha, input_scale)
    return np.where(self > 0, self * scale, np.expm1(inner) * alpha * scale)


def _inner(self: Array, alpha: Number, input_scale: Number) -> Array:
    """What elu exponentiates. Celu is elu with the reciprocal of alpha, which torch rounds; we divide."""
    reciprocal = alpha not in (0, 1) and 1 / alpha == input_scale
    return self / alpha if reciprocal else self * input_scale


@entry("elu_backward")
def elu_backward(
    grad_output: Array, alpha: Number, scale: Number, input_scale: Number, is_result: bool, self_or_result: Array
) -> Array:
    if is_result:
        below = _inner(self_or_result + REAL(alpha) * REAL(scale), alpha, input_scale)
    else:
        below = _inner(np.exp(_inner(self_or_result, alpha, input_scale)) * alpha * scale, alpha, input_scale)
    return np.where(self_or_result > 0, grad_output * scale, grad_output * below)


@entry("celu")
def celu(self: Array, alpha: Number = 1.0) -> Array:
    return np.where(self > 0, self, alpha * np.expm1(self / alpha))


@entry("hardtanh")
def hardtanh(self: Array, min_val: Number = -1, max_val: Number = 1) -> Array:
    return np.minimum(np.maximum(self, min_val), max_val)


@entry("hardtanh_backward")
def hardtanh_backward(grad_output: Array, self: Array, min_val: Number, max_val: Number) -> Array:
    return np.where((self <= min_val) | (self >= max_val), 0, grad_output)


@entry("hardsigmoid")
def hardsigmoid(self: Array) -> Array:
    return np.minimum(np.maximum(self + 3, 0), 6) / REAL(6)


@entry("hardsigmoid_backward")
def hardsigmoid_backward(grad_output: Array, self: Array) -> Array:
    return np.where((self > -3) & (self < 3), grad_output / REAL(6), 0)


@entry("hardswish")
def hardswish(self: Array) -> Array:
    return self * hardsigmoid(self)


@entry("hardswish_backward")
def hardswish_backward(grad_output: Array, self: Array) -> Array:
    inside = grad_output * (self / 3 + REAL("0.5"))
    return np.where(self <= -3, 0, np.where(self < 3, inside, grad_output))


@entry("hardshrink")
def hardshrink(self: Array, lambd: Number = 0.5) -> Array:
    return np.where((self >= -lambd) & (self <= lambd), 0, self)


@entry("hardshrink_backward", "softshrink_backward")
def shrink_backward(grad_out: Array, self: Array, lambd: Number) -> Array:
    return np.where((self >= -lambd) & (self <= lambd), 0, grad_out)


@entry("softshrink")
def softshrink(self: Array, lambd: Number = 0.5) -> Array:
    return np.where(self > lambd, self - lambd, np.where(self < -lambd, self + lambd, self * 0))


@entry("glu")
def glu(self: Array, dim: int = -1) -> Array:
    first, second = np.split(self, 2, axis=dim)
    return first * sigmoid(second)


@entry("glu_backward")
def glu_backward(grad_output: Array, self: Array, dim: int) -> Array:
    first, second = np.split(self, 2, axis=dim)
    gate = sigmoid(second)
    return np.concatenate([grad_output * gate, grad_output * first * gate * sigmoid(-second)], axis=dim)


@entry("native_dropout_backward")
def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    return grad_output * mask * scale
