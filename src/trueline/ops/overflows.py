"""How operators come to give NaN or infinity: what to conclude from their operands, and what usually helps.

``explain`` is told the operator, what came out (NaN or infinity) and its operands, each either as the number that the
call was given at the bad element or as the range of the whole tensor. A row of ``_FAMILIES`` names the operators that
fail in the same way; each family has one small function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trueline.dtypes import DType
from trueline.ops.facts import Kind, facts_of
from trueline.overflows import OverflowKind


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument: ``at`` is its value at the bad element where that is known; the rest describes all of it."""

    path: str
    minimum: float
    maximum: float
    zeros: int = 0
    infinite: int = 0
    nan: int = 0
    at: float | None = None

    @property
    def magnitude(self) -> float:
        """The largest finite magnitude."""
        sizes = [abs(one) for one in (self.minimum, self.maximum) if math.isfinite(one)]
        return max(sizes, default=0.0)

    @property
    def may_be_zero(self) -> bool:
        return self.zeros > 0 if self.at is None else self.at == 0

    @property
    def may_be_negative(self) -> bool:
        return self.minimum < 0 if self.at is None else self.at < 0

    @property
    def may_be_infinite(self) -> bool:
        return self.infinite > 0 if self.at is None else math.isinf(self.at)


def scalar(path: str, value: float) -> Operand:
    """A number that stands among the arguments."""
    infinite = int(math.isinf(value))
    return Operand(path, value, value, int(value == 0), infinite, int(math.isnan(value)), value)


def fills(api: str, arguments: object) -> bool:
    """Whether a call writes an infinity that stands among its arguments."""
    facts = facts_of(api)
    return (facts.kind is Kind.MOVE or facts.name == "index_put") and _holds_infinity(arguments)


def _holds_infinity(tree: object) -> bool:
    if isinstance(tree, dict):
        return "$float" in tree or any(_holds_infinity(value) for value in tree.values())
    return isinstance(tree, list) and any(_holds_infinity(value) for value in tree)


@dataclass(frozen=True, slots=True)
class Failure:
    """What came out of a call. ``operands`` are its floating-point arguments in order; of a backward call the gradient
    that arrived comes last, as ``gradient``."""

    api: str
    backward: bool
    nan: bool
    operands: Sequence[Operand]
    source: DType | None
    """The widest dtype among the operands."""
    result: DType
    gradient: Operand | None = None

    @property
    def any_infinite(self) -> bool:
        return any(one.may_be_infinite for one in self.operands)


Found = tuple[OverflowKind, str]
Family = Callable[[Failure], Found | None]


def explain(failure: Failure) -> Found:
    """What happened and, in a few words, how."""
    name = facts_of(failure.api).name
    if failure.backward:
        return _backward(failure, name)
    family = _FAMILIES.get(name) or _BY_KIND.get(facts_of(failure.api).kind)
    found = family(failure) if family is not None else None
    return found or _otherwise(failure)


def _division(failure: Failure) -> Found | None:
    if len(failure.operands) < 2:
        return _reciprocal(failure)
    above, below = failure.operands[0], failure.operands[1]
    if above.may_be_infinite and below.may_be_infinite and failure.nan:
        return OverflowKind.INFINITY_MINUS_INFINITY, "infinity divided by infinity"
    if below.may_be_zero:
        if failure.nan:
            return OverflowKind.ZERO_BY_ZERO, "zero divided by zero"
        return OverflowKind.DIVISION_BY_ZERO, f"{_value(above)} divided by zero"
    return OverflowKind.PRODUCT, f"{_value(above)} divided by {_value(below)} is too large for {failure.result.name}"


def _reciprocal(failure: Failure) -> Found | None:
    if len(failure.operands) > 1:  # a number divided by a tensor
        return _division(failure)
    below = failure.operands[-1] if failure.operands else None
    if below is not None and below.may_be_zero:
        return OverflowKind.DIVISION_BY_ZERO, "one divided by zero"
    if below is not None and below.may_be_negative and facts_of(failure.api).name == "rsqrt":
        return OverflowKind.OUTSIDE_DOMAIN, f"the square root of {_value(below)}"
    return OverflowKind.PRODUCT, "the reciprocal of a tiny number is too large"


def _added_quotient(failure: Failure) -> Found | None:
    """addcdiv: x + c * a / b."""
    if len(failure.operands) < 3:
        return None
    return _division(Failure(failure.api, False, failure.nan, failure.operands[1:3], failure.source, failure.result))


def _sum_of_two(failure: Failure) -> Found | None:
    infinite = [one for one in failure.operands if one.may_be_infinite]
    if failure.nan and infinite:
        return OverflowKind.INFINITY_MINUS_INFINITY, "infinities of opposite signs were added"
    return OverflowKind.ACCUMULATION, f"the sum is too large for {failure.result.name}"


def _product(failure: Failure) -> Found | None:
    infinite = [one for one in failure.operands if one.may_be_infinite]
    if failure.nan and infinite:
        return OverflowKind.ZERO_TIMES_INFINITY, "zero times infinity"
    values = " x ".join(_value(one) for one in failure.operands[:2])
    return OverflowKind.PRODUCT, f"the product {values} is too large for {failure.result.name}"


def _exponential(failure: Failure) -> Found | None:
    operand = failure.operands[0] if failure.operands else None
    return OverflowKind.EXPONENTIAL, f"the exponential of {_value(operand)} is too large for {failure.result.name}"


def _power(failure: Failure) -> Found | None:
    base = failure.operands[0] if failure.operands else None
    exponent = failure.operands[1] if len(failure.operands) > 1 else None
    if base is not None and exponent is not None:
        whole = exponent.at is not None and float(exponent.at).is_integer()
        if failure.nan and base.may_be_negative and not whole:
            return OverflowKind.OUTSIDE_DOMAIN, f"{_value(base)} to the power of {_value(exponent)}"
        if base.may_be_zero and exponent.may_be_negative:
            return OverflowKind.DIVISION_BY_ZERO, "zero to a negative power"
    return OverflowKind.EXPONENTIAL, f"the power of {_value(base)} is too large for {failure.result.name}"


def _root_or_logarithm(failure: Failure) -> Found | None:
    operand = failure.operands[0] if failure.operands else None
    if failure.nan:
        return OverflowKind.OUTSIDE_DOMAIN, f"{facts_of(failure.api).name} of {_value(operand, low=True)}"
    return OverflowKind.DIVISION_BY_ZERO, f"{facts_of(failure.api).name} at the border of its domain, {_value(operand)}"


def _cast(failure: Failure) -> Found | None:
    source, result = failure.source, failure.result
    if source is None or source.name == result.name:
        return None
    operand = max(failure.operands, key=lambda one: one.magnitude, default=None)
    return OverflowKind.CAST, f"{_value(operand)} in {source.name} is too large for {result.name}"


def _accumulation(failure: Failure) -> Found | None:
    if failure.any_infinite and failure.nan:
        return OverflowKind.INFINITY_MINUS_INFINITY, "infinities of opposite signs, or times zero, were summed"
    if failure.nan and _is_spread(failure.api):
        return OverflowKind.ZERO_BY_ZERO, "the spread of too few elements is zero divided by zero"
    if failure.nan and not _is_large(failure):
        return OverflowKind.ZERO_BY_ZERO, "a mean over no elements"
    return OverflowKind.ACCUMULATION, f"the sum is too large for {failure.result.name}"


def _normalisation(failure: Failure) -> Found | None:
    if failure.any_infinite:
        return OverflowKind.INFINITY_MINUS_INFINITY, "an infinity was normalised"
    if _is_large(failure, share=0.5):
        return OverflowKind.ACCUMULATION, f"the squares of {_value(failure.operands[0])} are too large"
    if failure.nan:
        return OverflowKind.ZERO_BY_ZERO, "elements without any spread were divided by their spread, zero"
    return OverflowKind.DIVISION_BY_ZERO, "something was divided by a spread of zero"


def _softmax(failure: Failure) -> Found | None:
    if failure.any_infinite:
        return OverflowKind.INFINITY_MINUS_INFINITY, "a whole row is infinite, so that nothing is left to normalise"
    return OverflowKind.EXPONENTIAL, "the exponentials overflowed"


def _loss(failure: Failure) -> Found | None:
    if failure.any_infinite:
        kind = OverflowKind.INFINITY_MINUS_INFINITY if failure.nan else OverflowKind.DIVISION_BY_ZERO
        return kind, "the loss was given infinite values"
    if failure.nan and any(one.may_be_negative for one in failure.operands) and _is_log_loss(failure.api):
        return OverflowKind.OUTSIDE_DOMAIN, "the logarithm of a negative number"
    if any(one.may_be_zero for one in failure.operands) and _is_log_loss(failure.api):
        return OverflowKind.DIVISION_BY_ZERO, "the logarithm of zero"
    if failure.nan:
        return OverflowKind.ZERO_BY_ZERO, "the mean over no elements: every target is ignored"
    return OverflowKind.ACCUMULATION, f"the sum is too large for {failure.result.name}"


def _otherwise(failure: Failure) -> Found:
    if failure.any_infinite and failure.nan:
        return OverflowKind.INFINITY_MINUS_INFINITY, "it was given infinities"
    if _is_large(failure):
        return OverflowKind.ACCUMULATION, f"the result is too large for {failure.result.name}"
    return OverflowKind.UNKNOWN, "nothing in its inputs explains it"


def _backward(failure: Failure, name: str) -> Found:
    """The gradient of an operator: what its derivative divides by or multiplies with."""
    gradient, at_zero = failure.gradient, any(one.may_be_zero for one in failure.operands)
    if failure.nan and name in _LENGTHS and at_zero:
        return OverflowKind.ZERO_BY_ZERO, f"a length of zero has no direction: the slope of {name} there is 0/0"
    if gradient is not None and name in _STEEP and at_zero:
        if failure.nan and (gradient.at == 0 if gradient.at is not None else gradient.zeros):
            return OverflowKind.ZERO_BY_ZERO, f"the slope of {name} at zero is infinite, and the gradient there is zero"
        return OverflowKind.DIVISION_BY_ZERO, f"the slope of {name} at zero is infinite"
    if failure.any_infinite and failure.nan:
        return OverflowKind.ZERO_TIMES_INFINITY, "a gradient of zero times an infinity of the forward call"
    if failure.nan and facts_of(failure.api).kind is Kind.NORMALIZATION:
        return OverflowKind.ZERO_BY_ZERO, "elements without any spread were divided by their spread, zero"
    kind = facts_of(failure.api).kind
    if kind in (Kind.PRODUCT, Kind.SINGULAR, Kind.EXPONENTIAL, Kind.SMOOTH, Kind.SELECT):
        return OverflowKind.PRODUCT, f"the gradient times the slope is too large for {failure.result.name}"
    return OverflowKind.ACCUMULATION, f"the sum of gradients is too large for {failure.result.name}"


def _is_large(failure: Failure, share: float = 0.25) -> bool:
    """Whether the operands come near the limit of what came out: sums and products of them may cross it."""
    limit = float(failure.result.exponent_max)
    return any(one.magnitude > 0 and math.log2(one.magnitude) > share * limit for one in failure.operands)


def _is_spread(api: str) -> bool:
    return facts_of(api).name in ("var", "std", "var_mean", "std_mean", "cov", "corrcoef")


def _is_log_loss(api: str) -> bool:
    return facts_of(api).name in ("binary_cross_entropy", "kl_div", "poisson_nll_loss", "gaussian_nll_loss")


def _value(operand: Operand | None, *, low: bool = False) -> str:
    if operand is None:
        return "something"
    if operand.at is not None:
        return f"{operand.at:.4g}"
    return f"a number down to {operand.minimum:.4g}" if low else f"a number up to {operand.magnitude:.4g}"


_STEEP = frozenset("sqrt rsqrt log log2 log10 div reciprocal pow addcdiv acos asin float_power".split())
"""Operators whose slope is infinite at zero."""
_LENGTHS = frozenset("norm hypot cdist dist".split())
"""Operators whose slope is an argument by the length."""

_FAMILIES: Mapping[str, Family] = {
    name: family
    for family, names in (
        (_division, "div true_divide floor_divide remainder fmod"),
        (_reciprocal, "reciprocal rsqrt"),
        (_added_quotient, "addcdiv"),
        (_sum_of_two, "add sub lerp scale"),
        (_product, "mul square outer addcmul ldexp"),
        (_exponential, "exp exp2 expm1 cosh sinh logaddexp"),
        (_power, "pow float_power prod cumprod"),
        (
            _root_or_logarithm,
            "log log2 log10 log1p sqrt asin acos atanh acosh logit lgamma digamma erfinv xlogy",
        ),
        (_cast, "to"),
        (_softmax, "softmax log_softmax softmin logsumexp gumbel_softmax scaled_dot_product_attention"),
        (
            _loss,
            "cross_entropy nll_loss binary_cross_entropy kl_div poisson_nll_loss gaussian_nll_loss mse_loss l1_loss"
            " smooth_l1_loss huber_loss binary_cross_entropy_with_logits ctc_loss",
        ),
    )
    for name in names.split()
}
_BY_KIND: Mapping[Kind, Family] = {
    Kind.MOVE: _cast,
    Kind.SUM: _sum_of_two,
    Kind.PRODUCT: _product,
    Kind.CONTRACTION: _accumulation,
    Kind.REDUCTION: _accumulation,
    Kind.NORMALIZATION: _normalisation,
    Kind.EXPONENTIAL: _exponential,
    Kind.COLLECTIVE: _accumulation,
}

ADVICE: Mapping[OverflowKind, str] = {
    OverflowKind.ZERO_BY_ZERO: "add a small epsilon to the divisor, or leave out what is zero with where() before "
    "dividing, not after: the gradient of a hidden 0/0 is NaN as well",
    OverflowKind.DIVISION_BY_ZERO: "clamp the divisor, or the argument of the logarithm, away from zero",
    OverflowKind.INFINITY_MINUS_INFINITY: "keep at least one finite element in every row: mask with a large negative "
    "number of the dtype instead of -inf, or leave out rows that are masked wholly",
    OverflowKind.ZERO_TIMES_INFINITY: "select with where() instead of multiplying with a mask of zeros",
    OverflowKind.EXPONENTIAL: "subtract the maximum before exponentiating (logsumexp, log_softmax), clamp the "
    "argument, or keep this call in float32",
    OverflowKind.OUTSIDE_DOMAIN: "clamp the argument to the domain; a variance computed as a difference may be "
    "slightly negative",
    OverflowKind.CAST: "keep this tensor in float32 or bfloat16, or scale it before the cast",
    OverflowKind.ACCUMULATION: "accumulate in float32 (keep this call out of autocast), scale the inputs down, or take "
    "the mean instead of the sum",
    OverflowKind.PRODUCT: "scale the factors down or keep this call in float32",
    OverflowKind.UNINITIALISED: "write all of the tensor before it is read: zeros() instead of empty()",
    OverflowKind.INPUT: "look at the batch: it was bad before the first call saw it",
    OverflowKind.GRADIENT_SCALED: "use a smaller loss scale (init_scale), or let the scaler skip the step and halve it",
    OverflowKind.PARAMETER: "the fault lies before the first recorded step: load an earlier checkpoint, or watch from "
    "the beginning",
    OverflowKind.FILLED: "the program wrote this value itself and nothing absorbed it: look at what uses it",
    OverflowKind.RECEIVED: "look at the ranks that sent it",
    OverflowKind.UNKNOWN: "check this call alone: trueline check RUN",
}
"""What usually helps, by what happened."""
