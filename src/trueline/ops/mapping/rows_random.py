"""Rows: random numbers. The two frameworks draw different numbers from the same distribution."""

from __future__ import annotations

from typing import Any

from trueline.ops.mapping.rows import Row, row

_PLACE = "name- out! device- requires_grad- pin_memory-"


def _random(name: str, names: str, *examples: str, like: str = "", **rest: Any) -> Row:
    return row(f"paddle.{name}", f"composite.{name.rpartition('.')[2]}", names, *examples,
               like=like or f"torch.{name.rpartition('.')[2]}", **rest)  # fmt: skip


def _in_place(name: str, names: str, *examples: str, **rest: Any) -> tuple[Row, ...]:
    """A method that fills its tensor, and the function of the same name where there is one."""
    homes = ["Tensor."] if name in ("uniform_", "exponential_", "random_") else ["Tensor.", ""]
    return tuple(_random(f"{home}{name}", f"{names} name-", *examples, like=f"torch.Tensor.{name}", **rest)
                 for home in homes)  # fmt: skip


ROWS = (
    _random("rand", f"shape dtype {_PLACE}", "([40, 50])", '((30, 40), "float64")', "([j[1], 30])",
            needs="shape=constant(40)"),
    _random("randn", f"shape dtype {_PLACE}", "([40, 50])", '((30, 40), dtype="float64")'),
    row("paddle.standard_normal", "composite.randn", f"shape dtype {_PLACE}", "([40, 50])", '((30, 40), "float64")',
        like="torch.randn"),
    row("paddle.rand_like", "torch.rand_like", "input name- dtype device- requires_grad-", "(f[40, 50])",
        '(f[40, 50], dtype="float64")'),
    row("paddle.randn_like", "torch.randn_like", "x:input dtype name- device- requires_grad-", "(f[40, 50])",
        '(f[40, 50], "float64")'),
    _random("randint", "low high shape dtype name-", "(0, 9, [40, 50])", "(7, shape=[40, 50])",
            '(-5, 5, (40, 50), "int32")'),
    _random("randint_like", "x low high dtype name-", "(f[40, 50], 0, 9)", "(i[40, 50], 6)",
            '(f[40, 50], -3, 3, "int64")'),
    row("paddle.randperm", "torch.randperm", "n dtype name- out! device- requires_grad- pin_memory-", "(2000)",
        '(2000, "int32")'),
    _random("uniform", "shape dtype min=0.0 max seed- name- out! device- requires_grad-", "([40, 50])",
            '([40, 50], "float64", -2.0, 3.0)', "([40, 50], min=0.25, max=0.5)"),
    _random("normal", "mean std shape name- out!", "(0.0, 1.0, [40, 50])", "(f[2000], 0.5)", "(f[40, 50], f[40, 50])",
            "(1.5, f[2000])", needs="std=positive", constant="mean std"),
    _random("log_normal", "mean std shape name-", "(0.5, 0.25, [40, 50])", "(f[2000], 0.5)", "(f[40, 50], f[40, 50])",
            needs="std=positive(0.1,0.5)", constant="mean std"),
    _random("bernoulli", "x p name-", "(f[40, 50])", "(d[40, 50], 0.25)", needs="x=probability", constant="x"),
    row("paddle.multinomial", "torch.multinomial", "x:input num_samples=1 replacement name- out!",
        "(f[5], 2000, True)", "(f[400, 5])", "(d[400, 5], 3)", needs="x=positive", constant="x"),
    row("paddle.poisson", "torch.poisson", "x:input name-", "(f[40, 50])", "(d[40, 50])", needs="x=positive",
        constant="x"),
    _random("binomial", "count prob name-", "(f[40, 50], f[40, 50])", "(i[40, 50], f[40, 50])",
            needs="count=uniform(1,20) prob=probability", constant="count prob"),
    _random("standard_gamma", "x name-", "(f[40, 50])", "(d[40, 50])", needs="x=positive", constant="x",
            like="torch._standard_gamma"),
    *_in_place("uniform_", "x min max seed-", "(f[40, 50])", "(d[40, 50], -2.0, 3.0)"),
    *_in_place("normal_", "x mean std", "(f[40, 50])", "(d[40, 50], 1.5, 0.5)"),
    *_in_place("log_normal_", "x mean std", "(f[40, 50])", "(f[40, 50], 0.5, 0.25)"),
    *_in_place("bernoulli_", "x p", "(f[40, 50])", "(d[40, 50], 0.25)"),
    *_in_place("exponential_", "x lam", "(f[40, 50])", "(d[40, 50], 2.5)"),
    *_in_place("cauchy_", "x loc scale", "(f[40, 50])", "(d[40, 50], 1.5, 0.5)"),
    *_in_place("geometric_", "x probs", differs=("(f[40, 50], 0.25)", "(d[40, 50], 0.75)"),
               disagreement="Paddle does not round up: what it draws are no integers but exponential variates"),
    row("paddle.Tensor.random_", "composite.random_", "x from_ to generator-", "(f[40, 50], 0, 9)", "(i[40, 50], 7)",
        "(i[40, 50], -5, 5)", "(f[40, 50])", like="torch.Tensor.random_"),
    row("paddle.nn.functional.class_center_sample", "composite.class_center_sample",
        "label num_classes num_samples group-", "(i[40], 20, 6)", "(i[8], 20, 12)", needs="label=index({num_classes})",
        like="torch.randperm"),
)  # fmt: skip
