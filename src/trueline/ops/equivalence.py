"""Which outputs may honestly differ between two right implementations, why, and what is compared in their place.

``comparable(trial)`` brings one execution into a form that must agree; it is called for the candidate, the honest
implementation and the gold alike. Operators without a row are compared as they are. Each row carries its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical
from trueline.ops.rules import chance, factors, ties, writes
from trueline.ops.rules.trial import Check, Comparable, Trial, same_gauge, untouched


@dataclass(frozen=True, slots=True)
class Rule:
    """How the outputs of some operators are made comparable. ``random`` says that equal seeds on two devices do not
    give equal numbers."""

    name: str
    reason: str
    apply: Callable[[Trial], Comparable]
    operators: tuple[str, ...]
    random: bool = False


def _rule(apply: Callable[[Trial], Comparable], operators: str, reason: str, *, random: bool = False) -> Rule:
    return Rule(apply.__name__, reason, apply, tuple(operators.split()), random)


_TIES = "which of several equal values is chosen is free, and so is which of them receives the gradient"

RULES: tuple[Rule, ...] = (
    _rule(ties.chosen_along_dim, "max min median nanmedian kthvalue", _TIES),
    _rule(ties.extreme_values, "amax amin aminmax msort", "which of several equal values gets the gradient is free"),
    _rule(ties.argument_of_extreme, "argmax argmin", "the index of any of several equal extremes is right"),
    _rule(ties.sorting, "sort argsort", "the order of equal values is free unless a stable sort was asked for"),
    _rule(ties.largest_few, "topk", "which of several equal values is chosen is free; so is the order if not sorted"),
    _rule(ties.running_extreme, "cummax cummin", _TIES),
    _rule(ties.most_frequent, "mode", "any of several equally frequent values is right, with any index of it"),
    _rule(ties.set_of_values, "unique", "without sorting the order of the values is free"),
    _rule(
        ties.pooling,
        "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
        "which of several equal values of a window is chosen is free, and with it where the gradient goes",
    ),
    _rule(
        ties.pooling_anywhere,
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices",
        _TIES,
    ),
    _rule(ties.bags_of_maxima, "embedding_bag", "with mode max, which of several equal rows gets the gradient is free"),
    _rule(chance.dropout, "dropout native_dropout", "which elements are dropped is drawn at random", random=True),
    _rule(
        chance.dropout_of_channels,
        "dropout1d dropout2d dropout3d feature_dropout",
        "which channels are dropped is drawn at random",
        random=True,
    ),
    _rule(
        chance.alpha_dropout,
        "alpha_dropout feature_alpha_dropout",
        "which elements are replaced is drawn at random",
        random=True,
    ),
    _rule(chance.leaky_slopes, "rrelu", "in training the slope of negative elements is drawn at random", random=True),
    _rule(chance.soft_sample, "gumbel_softmax", "adds random noise before the softmax", random=True),
    _rule(
        chance.sample_of_windows,
        "fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices "
        "fractional_max_pool3d_with_indices",
        "the windows are drawn at random",
        random=True,
    ),
    _rule(chance.permutation, "randperm", "any permutation is right", random=True),
    _rule(chance.multinomial, "multinomial", "classes are drawn at random", random=True),
    _rule(chance.bernoulli, "bernoulli", "zeros and ones are drawn at random", random=True),
    _rule(chance.counts, "poisson binomial", "counts are drawn at random", random=True),
    _rule(chance.uniform, "rand rand_like uniform", "evenly distributed random numbers", random=True),
    _rule(chance.normal, "randn randn_like normal", "normally distributed random numbers", random=True),
    _rule(chance.log_normal, "log_normal", "random numbers whose logarithm is normal", random=True),
    _rule(chance.exponential, "exponential", "exponentially distributed random numbers", random=True),
    _rule(chance.geometric, "geometric", "geometrically distributed random numbers", random=True),
    _rule(chance.cauchy, "cauchy", "random numbers of the Cauchy distribution", random=True),
    _rule(chance.integers, "randint randint_like random", "evenly distributed whole numbers", random=True),
    _rule(factors.singular_values, "svd", "singular vectors are fixed up to signs, phases and equal singular values"),
    _rule(factors.symmetric_eigen, "eigh", "eigenvectors are fixed up to signs, phases and equal eigenvalues"),
    _rule(factors.general_eigen, "eig", "eigenvalues come in any order, eigenvectors with any phase"),
    _rule(factors.eigenvalues, "eigvals", "eigenvalues of a general matrix come in any order"),
    _rule(factors.orthogonal_triangular, "qr", "the signs of R's diagonal are free, and Q's columns with them"),
    _rule(factors.pivoted_factors, "lu_factor lu_factor_ex", "pivots of equal size may be taken in any order"),
    _rule(factors.permuted_factors, "lu", "pivots of equal size may be taken in any order"),
    _rule(
        factors.free_basis,
        "svd_lowrank pca_lowrank lobpcg ldl_factor ldl_factor_ex",
        "begins with random vectors or pivots by a rule of its own",
    ),
    _rule(writes.scattered, "scatter", "a place that is written twice may hold either value"),
    _rule(writes.copied_rows, "index_copy", "a place that is written twice may hold either value"),
    _rule(writes.put_values, "put", "a place that is written twice may hold either value"),
    _rule(writes.indexed_values, "index_put", "a place that is written twice may hold either value"),
    _rule(
        writes.unwritten,
        "empty empty_like new_empty empty_strided new_empty_strided empty_permuted",
        "nobody has written the memory that is handed out",
    ),
    _rule(
        writes.dropped_inside,
        "lstm gru rnn_tanh rnn_relu multi_head_attention_forward",
        "with dropout in training, what is dropped between layers or in the weights is drawn at random",
        random=True,
    ),
    _rule(writes.attended, "scaled_dot_product_attention", "a query that may look at no key has no defined average"),
)

_BY_OPERATOR = {operator: rule for rule in RULES for operator in rule.operators}

_UNKNOWN_LAW = Rule(
    "unknown_law", "draws random numbers by a law that no rule knows", chance.unknown_law, (), random=True
)

_RENAMED = {"torch.nn.functional.normalize": "", "torch.nn.init.normal_": "normal", "torch.nn.init.uniform_": "uniform"}
"""APIs whose last name is that of another operator: full name -> operator, empty for none."""


@lru_cache(maxsize=8192)
def rule_for(api: str) -> Rule | None:
    """The rule of an operator; None where its outputs are compared as they are."""
    rule = _BY_OPERATOR.get(_RENAMED.get(api, canonical(api)))
    if rule is None and facts_of(api).kind is Kind.RANDOM:
        return _UNKNOWN_LAW
    return rule


def comparable(trial: Trial) -> Comparable:
    """One execution in the form in which it may be compared, by the rule of its operator if there is one. A rule that
    does not fit what was returned leaves nothing to compare, with the reason."""
    rule = rule_for(trial.api)
    if rule is None:
        return untouched(trial)
    try:
        return rule.apply(trial)
    except (ArithmeticError, LookupError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        reason = f"the rule {rule.name!r} does not fit these results: {type(error).__name__}: {error}"
        return Comparable({}, {}, dropped=dict.fromkeys((*trial.outputs, *trial.gradients), reason))


__all__ = ["RULES", "Check", "Comparable", "Rule", "Trial", "comparable", "rule_for", "same_gauge"]
