"""Sums, means, products, norms, extremes and running forms of them."""

from __future__ import annotations

from trueline.ops.catalogue.language import B, I, Row, T, Z, dtype, each, forward, op, reduction, without_backward

_INF = float("inf")

SUMS: list[Row] = [
    *reduction(
        "torch.sum torch.mean torch.Tensor.sum torch.Tensor.mean torch.nansum torch.nanmean", extremes=("wide", "large")
    ),
    *reduction("torch.sum torch.mean torch.nansum", of="positive", extremes=("normal nan inf",)),
    *reduction("torch.var torch.std torch.Tensor.var torch.Tensor.std", extremes=("normal shifted(100)", "small")),
    *reduction("torch.var_mean torch.std_mean", extremes=("normal shifted(100)",)),
    *reduction("torch.prod torch.Tensor.prod", of="uniform(0.9, 1.1)", extremes=("normal zeros(0.05)",)),
    op("torch.sum", T(3, 5, 7, 9), dim=[0, 2]),
    op("torch.sum", T(3, 5, 7, 9, layout="channels_last"), dim=[2, 3], keepdim=True),
    op("torch.sum", T(0, 5), dim=0),
    op("torch.sum", T()),
    op("torch.sum", T(64, 64, of="positive"), dtype=dtype("float32")),
    op("torch.sum", T(65536, of="positive")),
    op("torch.sum", T(65536, of="uniform(0.999, 1.001)")),
    op("torch.mean", T(65536, of="uniform(0.999, 1.001)")),
    op("torch.mean", T(3, 5, 7, 9), dim=[-1, -2], keepdim=True),
    op("torch.sum", I(6, 11, of="normal"), dim=1),
    op("torch.sum", B(6, 11)),
    op("torch.prod", I(6, 5, of="nonzero"), dim=1),
    op("torch.prod", T(0, 3), dim=0),
    op("torch.sum", Z(6, 11), dim=1),
    op("torch.mean", Z(6, 11), dim=0),
    op("torch.var", T(6, 11), dim=1, correction=0),
    op("torch.var", T(6, 11), dim=[0, 1], correction=2, keepdim=True),
    op("torch.std", T(6, 11), dim=1, unbiased=False),
    op("torch.var", T(4096, of="uniform(1000, 1001)")),
    op("torch.trace", T(9, 9)),
    op("torch.trace", T(5, 11, layout="turned")),
    op("torch.Tensor.trace", T(7, 7)),
    op("torch.cov", T(4, 50)),
    op("torch.cov", T(3, 20), correction=0),
    op("torch.corrcoef", T(4, 50)),
    *each("torch.trapezoid torch.trapz", T(6, 11)),
    op("torch.trapezoid", T(6, 11), T(6, 11, of="sorted")),
    op("torch.trapezoid", T(6, 11), dx=0.1, dim=0),
    op("torch.cumulative_trapezoid", T(6, 11)),
    op("torch.cumulative_trapezoid", T(6, 11), T(11, of="sorted")),
]

LOGARITHMIC: list[Row] = [
    *reduction(
        "torch.logsumexp torch.special.logsumexp torch.Tensor.logsumexp",
        extremes=("uniform(-500, 500)",),
        whole=False,
    ),
    # The slope at an infinity is a difference of infinities in most formulas, torch's own among them.
    *without_backward(each("torch.logsumexp torch.special.logsumexp", T(16, 33, of="normal inf"), dim=-1)),
    op("torch.logsumexp", T(3, 5, 7), dim=[0, 2]),
    op("torch.logsumexp", T(4, 4096, of="uniform(-1, 1)"), dim=1),
    *[
        row
        for api in ("torch.logcumsumexp", "torch.Tensor.logcumsumexp")
        for row in (op(api, T(6, 11), dim=1), op(api, T(300, 3, of="uniform(-50, 50)"), dim=0))
    ],
]

NORMS: list[Row] = [
    *[
        row
        for order in (0.5, 1, 2, 3, _INF, -_INF)
        for row in (
            op("torch.linalg.vector_norm", T(6, 129), order, dim=1),
            op("torch.norm", T(6, 129), p=order, dim=1, keepdim=True),
        )
    ],
    forward("torch.linalg.vector_norm", T(6, 33, of="normal zeros"), 0, dim=1),
    op("torch.linalg.vector_norm", T(4, 8192)),
    op("torch.linalg.vector_norm", T(32, of="large")),
    op("torch.linalg.vector_norm", T(32, of="tiny")),
    op("torch.linalg.vector_norm", T(6, 11), dtype=dtype("float64")),
    op("torch.linalg.vector_norm", Z(6, 11), dim=0),
    op("torch.norm", T(6, 11)),
    op("torch.norm", T(6, 11), p="fro"),
    op("torch.Tensor.norm", T(6, 11), 2, 1),
    op("torch.Tensor.norm", T(6, 11)),
    *[op("torch.linalg.norm", T(6, 5, of="invertible"), order) for order in (None, "fro", 1, _INF, 2)],
    *[op("torch.linalg.matrix_norm", T(3, 6, 5, of="invertible"), order) for order in ("fro", "nuc", 1, -1, _INF, 2)],
    op("torch.linalg.norm", T(6, 11), dim=1),
    op("torch.nn.functional.normalize", T(6, 129)),
    op("torch.nn.functional.normalize", T(6, 11), p=1.0, dim=0),
    op("torch.nn.functional.normalize", T(6, 11, of="normal zeros(0.9)"), eps=1e-3),
    op("torch.nn.functional.normalize", T(4, 9, of="small"), p=3.0),
    op("torch.renorm", T(6, 11), 2, 0, 1.5),
    op("torch.renorm", T(6, 11), 1, 1, 3.0),
    op("torch.Tensor.renorm", T(6, 11), 2, 0, 1.0),
    op("torch.nn.functional.cosine_similarity", T(6, 129), T(6, 129)),
    op("torch.nn.functional.cosine_similarity", T(6, 11), T(11), dim=-1, eps=1e-6),
    op("torch.nn.functional.cosine_similarity", T(6, 11), T(6, 11), dim=0),
    op("torch.cosine_similarity", T(4, 65), T(4, 65)),
    op("torch.nn.functional.pairwise_distance", T(6, 129), T(6, 129)),
    op("torch.nn.functional.pairwise_distance", T(6, 11), T(6, 11), p=1.0, keepdim=True),
    op("torch.pairwise_distance", T(6, 11), T(6, 11), 3.0),
    *[op("torch.cdist", T(2, 6, 11), T(2, 5, 11), p=order) for order in (0.5, 1.0, 2.0, 3.0, _INF)],
    op("torch.cdist", T(40, 33), T(30, 33), compute_mode="use_mm_for_euclid_dist"),
    op("torch.cdist", T(8, 3), T(8, 3), compute_mode="donot_use_mm_for_euclid_dist"),
    op("torch.nn.functional.pdist", T(9, 11)),
    op("torch.pdist", T(7, 5), 1.0),
]

EXTREMES: list[Row] = [
    *reduction("torch.amax torch.amin torch.Tensor.amax", of="normal", extremes=("normal nan", "normal ties(3)")),
    *[
        row
        for name in ("max", "min", "median", "nanmedian")
        for row in (
            op(f"torch.{name}", T(24, 37)),
            op(f"torch.{name}", T(6, 11), dim=1),
            op(f"torch.{name}", T(6, 11, 5), dim=1, keepdim=True),
            op(f"torch.{name}", T(6, 40, of="normal ties(4)"), dim=1),
            op(f"torch.{name}", T(6, 40, of="normal nan(0.1)"), dim=1),
            op(f"torch.{name}", T(12, 10, layout="turned"), dim=0),
            op(f"torch.{name}", T(), dim=0),
            op(f"torch.{name}", I(6, 11, of="normal"), dim=1),
            op(f"torch.Tensor.{name}", T(6, 11), 1),
        )
    ],
    op("torch.max", T(6, 11), T(6, 11)),
    op("torch.min", T(6, 11), T(11)),
    *[
        row
        for name in ("argmax", "argmin")
        for row in (
            forward(f"torch.{name}", T(24, 37)),
            forward(f"torch.{name}", T(6, 11), dim=1),
            forward(f"torch.{name}", T(6, 40, of="normal ties(4)"), dim=1, keepdim=True),
            forward(f"torch.{name}", T(6, 40, of="normal nan(0.1)"), dim=1),
            forward(f"torch.{name}", I(6, 11, of="normal"), dim=0),
            forward(f"torch.Tensor.{name}", T(6, 11), -1),
        )
    ],
    op("torch.aminmax", T(6, 11), dim=1),
    op("torch.aminmax", T(6, 11)),
    *[
        row
        for name in ("quantile", "nanquantile")
        for row in (
            op(f"torch.{name}", T(6, 41), 0.3, dim=1),
            op(f"torch.{name}", T(6, 41), T(3, of="probability", grad=False), dim=1),
            op(f"torch.{name}", T(6, 41), 0.5, dim=0, keepdim=True, interpolation="nearest"),
            op(f"torch.{name}", T(41), 0.9, interpolation="lower"),
        )
    ],
    op("torch.mode", T(6, 30, of="normal ties(4)"), dim=1),
    op("torch.mode", I(6, 30, of="index(5)")),
    op("torch.mode", T(6, 11), dim=0, keepdim=True),
    op("torch.kthvalue", T(6, 41), 7, dim=1),
    op("torch.kthvalue", T(6, 41, of="normal ties(5)"), 20),
    op("torch.kthvalue", T(9, 6), 3, dim=0, keepdim=True),
]

RUNNING: list[Row] = [
    *[
        row
        for name in ("cumsum", "cumprod")
        for of in ("uniform(0.95, 1.05)",)
        for row in (
            op(f"torch.{name}", T(6, 11, of=of), dim=1),
            op(f"torch.{name}", T(400, 3, of=of), dim=0),
            op(f"torch.{name}", T(12, 10, of=of, layout="turned"), dim=-1),
            op(f"torch.{name}", T(6, 11, of="normal zeros(0.1)"), dim=1),
            op(f"torch.{name}", T(), dim=0),
            op(f"torch.{name}", I(6, 5, of="nonzero"), dim=1),
            op(f"torch.Tensor.{name}", T(6, 11), 1),
            op(f"torch.Tensor.{name}_", T(6, 11, of=of), 1),
        )
    ],
    op("torch.cumsum", T(2, 16384, of="positive"), dim=1),
    *[
        row
        for name in ("cummax", "cummin")
        for row in (
            op(f"torch.{name}", T(6, 11), dim=1),
            op(f"torch.{name}", T(6, 40, of="normal ties(4)"), dim=1),
            op(f"torch.{name}", T(40, 3, of="normal nan(0.05)"), dim=0),
        )
    ],
    op("torch.diff", T(6, 11)),
    op("torch.diff", T(6, 11), n=2, dim=0),
    op("torch.diff", T(6, 11), prepend=T(6, 2), append=T(6, 1)),
    op("torch.gradient", T(11)),
    op("torch.gradient", T(6, 11), spacing=0.5, dim=1, edge_order=2),
]

ROWS = [*SUMS, *LOGARITHMIC, *NORMS, *EXTREMES, *RUNNING]
