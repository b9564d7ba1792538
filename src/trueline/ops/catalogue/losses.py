"""Losses of torch.nn.functional with their reductions, weights and targets."""

from __future__ import annotations

from functools import partial

from trueline.ops.catalogue.language import I, Row, T, op

_F = "torch.nn.functional."
_REDUCTIONS = ("mean", "sum", "none")


def _two(name: str, of: str = "normal", target: str = "normal", *, learned: bool = True, **more: float) -> list[Row]:
    """Losses of a prediction and a target of the same shape; ``learned`` where the target has a gradient as well."""
    api, aim = _F + name, partial(T, of=target, grad=learned)
    rows = [op(api, T(16, 33, of=of), aim(16, 33), reduction=how, **more) for how in _REDUCTIONS]
    rows.append(op(api, T(3, 5, 7, of=of, layout="turned"), aim(3, 5, 7), **more))
    rows.append(op(api, T(4096, of=of), aim(4096), **more))
    return rows


def _classification(name: str, of: str) -> list[Row]:
    api = _F + name
    rows = [op(api, T(16, 11, of=of), I(16, of="index(11)"), reduction=how) for how in _REDUCTIONS]
    return [
        *rows,
        op(api, T(16, 11, of=of), I(16, of="labels(11, -100, 0.3)")),
        op(api, T(16, 11, of=of), I(16, of="labels(11, 3, 0.2)"), ignore_index=3),
        op(api, T(16, 11, of=of), I(16, of="index(11)"), T(11, of="positive", grad=False)),
        op(api, T(16, 11, of=of), I(16, of="constant(-100)")),
        op(api, T(4, 7, 5, 6, of="normal" if name == "cross_entropy" else "uniform(-5, 0)"), I(4, 5, 6, of="index(7)")),
        op(api, T(11, of=of), I(of="index(11)")),
        op(api, T(64, 1000, of=of), I(64, of="index(1000)")),
    ]


ROWS: list[Row] = [
    *_two("mse_loss"),
    *_two("l1_loss"),
    *_two("smooth_l1_loss"),
    *_two("smooth_l1_loss", beta=0.3),
    *_two("huber_loss"),
    *_two("huber_loss", delta=0.4),
    *_two("binary_cross_entropy", "probability", "uniform(0, 1)"),
    *_two("binary_cross_entropy_with_logits", "normal", "uniform(0, 1)"),
    *_two("kl_div", "log_probability", "simplex"),
    *_two("kl_div", "log_probability", "log_probability", log_target=True),
    *_two("poisson_nll_loss", "normal", "index(10)"),
    *_two("soft_margin_loss", "normal", "signs", learned=False),
    *_two("hinge_embedding_loss", "positive", "signs"),
    *_two("multilabel_soft_margin_loss", "normal", "uniform(0, 1)"),
    *_classification("cross_entropy", "normal"),
    *_classification("nll_loss", "log_probability"),
    op(_F + "cross_entropy", T(16, 11), I(16, of="labels(11, -100, 0.2)"), label_smoothing=0.1),
    op(_F + "cross_entropy", T(16, 11), T(16, 11, of="simplex")),
    op(_F + "cross_entropy", T(4, 7, 6), T(4, 7, 6, of="simplex_along(1)"), T(7, of="positive", grad=False)),
    op(_F + "cross_entropy", T(16, 11, of="uniform(-60, 60)"), I(16, of="index(11)")),
    op(_F + "cross_entropy", T(0, 11), I(0, of="index(11)"), reduction="sum"),
    op(_F + "binary_cross_entropy", T(9, of="uniform(0, 1) zeros(0.3)"), T(9, of="uniform(0, 1)")),
    op(
        _F + "binary_cross_entropy",
        T(6, 11, of="probability"),
        T(6, 11, of="uniform(0, 1)"),
        T(11, of="positive", grad=False),
    ),
    op(_F + "binary_cross_entropy_with_logits", T(6, 11, of="uniform(-80, 80)"), T(6, 11, of="uniform(0, 1)")),
    op(
        _F + "binary_cross_entropy_with_logits",
        T(6, 11),
        T(6, 11, of="uniform(0, 1)"),
        weight=T(11, of="positive", grad=False),
        pos_weight=T(11, of="positive", grad=False),
    ),
    op(_F + "poisson_nll_loss", T(6, 11, of="positive"), T(6, 11, of="index(10)"), log_input=False, full=True),
    op(_F + "gaussian_nll_loss", T(6, 11), T(6, 11), T(6, 11, of="positive")),
    op(_F + "gaussian_nll_loss", T(6, 11), T(6, 11), T(6, 1, of="positive"), full=True, reduction="sum"),
    op(_F + "kl_div", T(6, 11, of="log_probability"), T(6, 11, of="simplex"), reduction="batchmean"),
    op(_F + "kl_div", T(6, 11, of="log_probability"), T(6, 11, of="simplex zeros(0.2)")),
    op(_F + "hinge_embedding_loss", T(6, 11), T(6, 11, of="signs"), margin=0.5),
    op(_F + "margin_ranking_loss", T(33), T(33), T(33, of="signs"), margin=0.2),
    op(_F + "margin_ranking_loss", T(33), T(33), T(33, of="signs"), reduction="sum"),
    op(_F + "cosine_embedding_loss", T(6, 11), T(6, 11), T(6, of="signs")),
    op(_F + "cosine_embedding_loss", T(6, 11), T(6, 11), T(6, of="signs"), margin=0.3, reduction="none"),
    op(_F + "triplet_margin_loss", T(6, 33), T(6, 33), T(6, 33)),
    op(_F + "triplet_margin_loss", T(6, 33), T(6, 33), T(6, 33), margin=2.0, p=1.0, swap=True, reduction="sum"),
    op(_F + "triplet_margin_with_distance_loss", T(6, 33), T(6, 33), T(6, 33), margin=0.7),
    op(_F + "multi_margin_loss", T(6, 11), I(6, of="index(11)")),
    op(_F + "multi_margin_loss", T(6, 11), I(6, of="index(11)"), p=2, margin=0.5, reduction="none"),
    op(_F + "multilabel_margin_loss", T(6, 11), I(6, 11, of="labels(11, -1, 0.4)")),
    op(_F + "multilabel_margin_loss", T(6, 11), I(6, 11, of="labels(11, -1, 0.4)"), reduction="sum"),
    *[
        op(
            _F + "ctc_loss",
            T(30, 4, 12, of="log_probability"),
            I(4, 8, of="index(12, 1)"),
            I(4, of="lengths(24, 30)"),
            I(4, of="lengths(3, 8)"),
            **more,
        )
        for more in ({}, {"reduction": "sum"}, {"reduction": "none", "zero_infinity": True})
    ],
]
