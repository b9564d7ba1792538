"""Operators that draw random numbers, large enough for their distribution to be checked."""

from __future__ import annotations

from trueline.ops.catalogue.language import Row, T, forward, op

_F = "torch.nn.functional."

ROWS: list[Row] = [
    *[
        row
        for probability in (0.1, 0.5, 0.9)
        for row in (
            op(_F + "dropout", T(64, 65), probability, True),
            op(_F + "alpha_dropout", T(64, 65), probability, True),
        )
    ],
    op(_F + "dropout", T(6, 11), 0.5, False),
    op(_F + "dropout", T(6, 11), 0.0),
    op(_F + "dropout", T(6, 11), 1.0),
    op(_F + "dropout", T(48, 50, layout="turned"), 0.3, True),
    op("torch.dropout", T(64, 65), 0.4, True),
    op("torch.native_dropout", T(64, 65), 0.4, True),
    op(_F + "dropout1d", T(24, 30, 7), 0.4, True),
    op(_F + "dropout2d", T(24, 30, 5, 5), 0.4, True),
    op(_F + "dropout3d", T(16, 20, 3, 3, 3), 0.4, True),
    op("torch.feature_dropout", T(24, 30, 5, 5), 0.4, True),
    op(_F + "feature_alpha_dropout", T(24, 30, 5, 5), 0.3, True),
    op(_F + "gumbel_softmax", T(32, 17)),
    op(_F + "gumbel_softmax", T(32, 17), tau=0.3, hard=True, dim=0),
    forward("torch.rand", [64, 65]),
    forward("torch.randn", [64, 65]),
    forward("torch.rand_like", T(64, 65)),
    forward("torch.randn_like", T(64, 65)),
    forward("torch.randint", 3, 12, [64, 65]),
    forward("torch.randint", 12, [64, 65]),
    forward("torch.randint_like", T(64, 65), 2, 11),
    forward("torch.randperm", 500),
    forward("torch.bernoulli", T(64, 65, of="probability")),
    forward("torch.Tensor.bernoulli_", T(64, 65), 0.3),
    forward("torch.bernoulli", T(64, 65), p=0.2),
    forward("torch.poisson", T(64, 65, of="uniform(0.5, 20)")),
    forward("torch.binomial", T(64, 65, of="index(20, 1)"), T(64, 65, of="probability")),
    forward("torch.multinomial", T(6, 20, of="positive"), 8),
    forward("torch.multinomial", T(6, 20, of="positive"), 400, True),
    forward("torch.normal", T(64, 65), T(64, 65, of="positive")),
    forward("torch.normal", 1.5, 0.5, [64, 65]),
    forward("torch.normal", T(64, 65), 2.0),
    forward("torch.Tensor.normal_", T(64, 65), 1.0, 3.0),
    forward("torch.Tensor.uniform_", T(64, 65), -2.0, 5.0),
    forward("torch.Tensor.exponential_", T(64, 65), 2.0),
    forward("torch.Tensor.geometric_", T(64, 65), 0.3),
    forward("torch.Tensor.cauchy_", T(64, 65), 0.5, 2.0),
    forward("torch.Tensor.log_normal_", T(64, 65), 0.5, 0.5),
    forward("torch.Tensor.random_", T(64, 65), 3, 40),
    forward("torch.rrelu", T(64, 65), 0.1, 0.3, True),
]
