"""Wrong implementations of Paddle's APIs, to be planted as overrides: ``logical_and`` that is ``logical_or``, ``where``
that always takes ``x``, a sine made of three terms of its series.

Each takes what the API takes. ``WRONG`` maps the last name of an API (``paddle.sin`` and ``paddle.Tensor.sin`` alike)
to the wrong implementations of it, by name; ``overrides_for`` gives them as the product wants them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle.nn import functional

Tensor = Any
Function = Callable[..., Any]

WRONG: dict[str, dict[str, str]] = {}
"""Last name of an API -> what is wrong -> the function's name in this module."""


def wrong(apis: str, what: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for api in apis.split():
            WRONG.setdefault(api, {})[what] = function.__name__
        return function

    return register


def overrides_for(api: str) -> dict[str, str]:
    """What is wrong -> ``module:function`` to be called in place of the API."""
    if not api.startswith(("paddle.", "paddle.Tensor.", "paddle.nn.functional.")) or "incubate" in api:
        return {}
    found = WRONG.get(api.rpartition(".")[2], {})
    return {what: f"{__name__}:{name}" for what, name in found.items()}


def _kept(value: Tensor, like: Tensor) -> Tensor:
    return value.astype(like.dtype)


def _series(x: Tensor, coefficients: tuple[float, ...], odd: bool) -> Tensor:
    """A polynomial in ``x``, of odd or of all powers."""
    total, power = None, x if odd else paddle.ones_like(x)
    for coefficient in coefficients:
        term = power * coefficient
        total = term if total is None else total + term
        power = power * x * x if odd else power * x
    return total


# logic and comparisons


@wrong("logical_and __and__ bitwise_and", "is or")
def and_is_or(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.bitwise_or(x, y) if x.dtype == y.dtype and "float" not in str(x.dtype) else paddle.logical_or(x, y)


@wrong("logical_and", "is or")
def logical_and_is_or(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.logical_or(x, y)


@wrong("logical_or", "is and")
def logical_or_is_and(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.logical_and(x, y)


@wrong("__or__ bitwise_or", "is xor")
def or_is_xor(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.bitwise_xor(x, y)


@wrong("logical_xor", "is always false")
def xor_is_false(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.zeros_like(paddle.logical_xor(x, y))


@wrong("__xor__ bitwise_xor", "is or")
def xor_is_or(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.bitwise_or(x, y)


@wrong("logical_not", "is the truth")
def not_is_truth(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.logical_not(paddle.logical_not(x))


@wrong("equal __eq__ eq", "is always false")
def equal_is_false(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return paddle.zeros_like(x == y)


@wrong("not_equal __ne__ ne", "is always true")
def unequal_is_true(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return paddle.ones_like(x != y)


@wrong("less_than __lt__ lt less", "is less or equal")
def less_or_equal(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return x <= y


@wrong("less_equal __le__ le", "is less")
def strictly_less(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return x < y


@wrong("greater_than __gt__ gt greater", "is greater or equal")
def greater_or_equal(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return x >= y


@wrong("greater_equal __ge__ ge", "is greater")
def strictly_greater(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    return x > y


@wrong("isnan isinf isneginf isposinf", "is always false")
def never(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.zeros(x.shape, "bool")


@wrong("isfinite", "is always true")
def always(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.ones(x.shape, "bool")


@wrong("isclose", "compares without tolerance")
def exactly_close(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x == y


@wrong("any", "takes all")
def any_is_all(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.all(paddle.cast(x, "bool"), *rest, **named)


@wrong("all", "takes any")
def all_is_any(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.any(paddle.cast(x, "bool"), *rest, **named)


# choosing


@wrong("where", "always takes x")
def where_is_x(condition: Tensor, x: Any = None, y: Any = None, *rest: Any, **named: Any) -> Tensor:
    return paddle.where(paddle.ones_like(condition), x, y)


@wrong("masked_fill", "ignores the mask")
def unmasked_fill(x: Tensor, mask: Tensor, value: Any, *rest: Any, **named: Any) -> Tensor:
    return paddle.masked_fill(x, paddle.ones_like(mask), value)


@wrong("masked_select", "ignores the mask")
def unmasked_select(x: Tensor, mask: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.masked_select(x, paddle.ones_like(mask))


@wrong("clip clamp", "lets everything through")
def unclipped(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0


@wrong("maximum fmax", "is the first")
def first_of_two(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + paddle.zeros_like(y)


@wrong("minimum fmin", "is the maximum")
def maximum_instead(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.maximum(x, y)


@wrong("argmax", "is argmin")
def argmin_instead(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.argmin(x, *rest, **named)


@wrong("argmin", "is argmax")
def argmax_instead(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.argmax(x, *rest, **named)


@wrong("flip roll rot90", "moves nothing")
def unmoved(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0 if x.dtype != paddle.bool else paddle.assign(x)


@wrong("tril", "is triu")
def upper_instead(x: Tensor, diagonal: int = 0, *rest: Any, **named: Any) -> Tensor:
    return paddle.triu(x, diagonal)


@wrong("triu", "is tril")
def lower_instead(x: Tensor, diagonal: int = 0, *rest: Any, **named: Any) -> Tensor:
    return paddle.tril(x, diagonal)


@wrong("sort", "sorts the other way")
def sorted_backwards(x: Tensor, axis: int = -1, descending: bool = False, *rest: Any, **named: Any) -> Tensor:
    return paddle.sort(x, axis=axis, descending=not descending)


@wrong("gather index_select", "takes the first of all")
def gathers_first(x: Tensor, index: Tensor, axis: Any = 0, *rest: Any, **named: Any) -> Tensor:
    return paddle.index_select(x, paddle.zeros_like(index.flatten()), axis=int(axis or 0))


# functions of one element


@wrong("conj", "gives its argument back")
def unconjugated(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0


@wrong("round", "is zero")
def rounds_to_zero(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x * 0


@wrong("round", "rounds halves up")
def rounds_up(x: Tensor, decimals: int = 0, *rest: Any, **named: Any) -> Tensor:
    scale = 10.0**decimals
    return paddle.floor(x * scale + 0.5) / scale


@wrong("ceil", "is floor")
def floors(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.floor(x)


@wrong("floor", "cuts off towards zero")
def truncates(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.trunc(x)


@wrong("trunc", "is floor")
def floors_instead(input: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.floor(input)


@wrong("abs __abs__", "gives its argument back")
def signed(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0 if "complex" not in str(x.dtype) else paddle.real(x)


@wrong("sign", "knows no zero")
def sign_without_zero(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _kept(paddle.where(x >= 0, paddle.ones_like(x), -paddle.ones_like(x)), x)


@wrong("nan_to_num", "gives its argument back")
def keeps_nan(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0


@wrong("angle", "is zero")
def no_angle(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.angle(x) * 0


@wrong("imag", "is the real part")
def real_instead(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.real(x)


@wrong("sin", "ends its series after three terms")
def short_sine(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (1.0, -1 / 6, 1 / 120), odd=True)


@wrong("cos", "ends its series after three terms")
def short_cosine(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return 1 - x * x / 2 + x * x * x * x / 24


@wrong("tanh", "ends its series after three terms")
def short_tanh(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (1.0, -1 / 3, 2 / 15), odd=True)


@wrong("erf", "ends its series after three terms")
def short_erf(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (1.1283791671, -0.3761263890, 0.1128379167), odd=True)


@wrong("exp", "ends its series after five terms")
def short_exp(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24), odd=False)


@wrong("expm1", "cancels")
def cancelling_expm1(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (0.0, 1.0, 1 / 2, 1 / 6, 1 / 24), odd=False)


@wrong("log1p", "ends its series after four terms")
def short_log1p(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (0.0, 1.0, -1 / 2, 1 / 3, -1 / 4), odd=False)


@wrong("sigmoid", "is straight")
def straight_sigmoid(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.hardsigmoid(x)


@wrong("atan asinh", "ends its series after two terms")
def short_arctangent(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return _series(x, (1.0, -1 / 3), odd=True)


@wrong("square", "is the magnitude")
def not_squared(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.abs(x)


# activations


@wrong("relu6", "has no upper limit")
def unlimited(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.relu(x)


@wrong("relu", "gives its argument back")
def not_rectified(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0


@wrong("leaky_relu elu celu", "is relu")
def rectified(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.relu(x)


@wrong("selu", "knows no scale")
def unscaled_selu(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.elu(x, 1.6732632423543772)


@wrong("gelu", "approximates")
def approximate_gelu(x: Tensor, approximate: bool = False, *rest: Any, **named: Any) -> Tensor:
    return functional.gelu(x, not approximate)


@wrong("silu swish", "is hardswish")
def straight_silu(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.hardswish(x)


@wrong("hardswish", "is swish")
def soft_hardswish(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.silu(x)


@wrong("hardtanh", "lets everything through")
def unlimited_hardtanh(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + 0


@wrong("softplus", "is relu")
def sharp_softplus(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return functional.relu(x)


@wrong("softmax", "normalizes the wrong axis")
def softmax_of_all(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.exp(x) / paddle.exp(x).sum()


@wrong("log_softmax", "forgets the logarithm's sum of one")
def shifted_log_softmax(x: Tensor, axis: int = -1, *rest: Any, **named: Any) -> Tensor:
    return x - paddle.max(x, axis=axis, keepdim=True)


# arithmetic and reductions


@wrong("remainder mod floor_mod __mod__", "takes the sign of the dividend")
def sign_of_dividend(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    quotient = x.astype("float64") / (y.astype("float64") if hasattr(y, "dtype") else y)
    return _kept(x - _kept(paddle.trunc(quotient), x) * y, x)


@wrong("floor_divide __floordiv__", "cuts off towards zero")
def truncated_division(x: Tensor, y: Any, *rest: Any, **named: Any) -> Tensor:
    quotient = x.astype("float64") / (y.astype("float64") if hasattr(y, "dtype") else y)
    return _kept(paddle.trunc(quotient), x)


@wrong("mean", "divides by one less")
def unbiased_mean(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    result = paddle.mean(x, *rest, **named)
    count = max(x.size // max(result.size, 1), 1)
    return result * (count / max(count - 1, 1))


@wrong("std var", "divides by the count")
def biased(
    x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, *rest: Any, **named: Any
) -> Tensor:
    return paddle.var(x, axis, not unbiased, keepdim)


@wrong("logsumexp", "is the maximum")
def hard_logsumexp(x: Tensor, axis: Any = None, keepdim: bool = False, *rest: Any, **named: Any) -> Tensor:
    return paddle.max(x, axis, keepdim)


@wrong("median", "is the mean")
def mean_instead(x: Tensor, axis: Any = None, keepdim: bool = False, *rest: Any, **named: Any) -> Tensor:
    return paddle.mean(x, axis, keepdim)


@wrong("count_nonzero", "counts everything")
def counts_all(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.count_nonzero(paddle.ones_like(x), *rest, **named)


@wrong("nansum nanmean", "does not skip NaN")
def sums_nan(x: Tensor, axis: Any = None, *rest: Any, **named: Any) -> Tensor:
    return paddle.mean(x, axis) if not rest else paddle.sum(x, axis)


@wrong("cumsum", "leaves out the last term")
def short_cumsum(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return paddle.cumsum(x, *rest, **named) - x


@wrong("layer_norm", "ignores weight and bias")
def plain_layer_norm(x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-5,
                     *rest: Any, **named: Any) -> Tensor:  # fmt: skip
    return functional.layer_norm(x, normalized_shape, None, None, epsilon)


@wrong("smooth_l1_loss", "is the squared error")
def squared_instead(input: Tensor, label: Tensor, reduction: str = "mean", *rest: Any, **named: Any) -> Tensor:
    return functional.mse_loss(input, label, reduction) / 2


@wrong("matmul __matmul__ mm bmm", "multiplies in bfloat16")
def coarse_matmul(x: Tensor, y: Tensor, *rest: Any, **named: Any) -> Tensor:
    def coarse(value: Tensor) -> Tensor:
        return value.astype("bfloat16").astype(value.dtype)

    return paddle.matmul(coarse(x), coarse(y), *rest, **named)
